"""Name resolution of a statement: the states that it reads, and their tables."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any, Literal, Protocol, TypeAlias

import pyarrow as pa
import pyarrow.dataset as pads

from omnigraph_compiler import Catalog, EdgeType, NodeType
from omnigraph_compiler.diagnostics import did_you_mean
from omnigraph_sql.binding.context import BindContext
from omnigraph_sql.errors import NotFound, OmnigraphError
from omnigraph_sql.foreign.model import ForeignRead, ForeignSource
from omnigraph_sql.foreign.registry import SCHEMA as FOREIGN
from omnigraph_sql.foreign.registry import ForeignTables
from omnigraph_sql.manifest.journal import Commit
from omnigraph_sql.manifest.relations import DEFAULT_SCHEMA, Relation, relations, schemas
from omnigraph_sql.manifest.snapshot import Entry, Snapshot
from omnigraph_sql.manifest.table_rules import TableRules
from omnigraph_sql.manifest.tags import Tag
from omnigraph_sql.result import Result
from omnigraph_sql.runtime.execution import Execution
from omnigraph_sql.runtime.limits import RunLimits, run_limits
from omnigraph_sql.sql.refs import CATALOG, CatalogPin, SchemaRef, StateRef, parse_schema_ref
from omnigraph_sql.storage.columns import arrow_type
from omnigraph_sql.storage.tables import TableStorage
from omnigraph_sql.table_keys import TableKey

Kind: TypeAlias = Literal["node", "edge", "table", "view", "foreign"]
GRAPH_SCHEMA = "graph"
"""The schema of a pinned catalog that shows the types, and maybe nothing else."""
ADDRESSED = "\x1frows"
"""Behind the name of a relational table: its rows with their ids and addresses. No table has a name with this character."""
ADDRESSES = (pa.field("_rowid", pa.uint64()), pa.field("_rowaddr", pa.uint64()))
_FILE_NAME = re.compile(
    r".*\.(csv|tsv|parquet|pq|json|jsonl|ndjson|arrow|feather|db|duckdb|gz|zst)|[^ ]*[/\\][^ ]*|\w+://.*", re.I
)


class HistoryRows(Protocol):
    """The versions of the rows of a type."""

    @property
    def schema(self) -> pa.Schema:
        """The columns."""

    def batches(self, columns: Sequence[str], entity_id: str | None = None) -> Iterator[pa.RecordBatch]:
        """Return some columns, of all rows or of one."""


class SqlSource(Protocol):
    """A graph as SQL statements need it."""

    @property
    def catalog(self) -> Catalog:
        """The accepted schema."""

    @property
    def storage(self) -> TableStorage:
        """The storage of the tables."""

    @property
    def foreign(self) -> ForeignTables:
        """The foreign tables of the handle."""

    @property
    def pin(self) -> CatalogPin | None:
        """What a pinned session shows as its catalog; None if the names of schemas are states."""

    def state(self, ref: StateRef) -> Snapshot:
        """Return the current snapshot of a reference."""

    def confirm(self) -> None:
        """Raise if the graph was removed or replaced by another one."""

    def branches(self) -> list[str]:
        """Return the names of the branches."""

    def tags(self) -> list[Tag]:
        """Return the tags of the graph, by name."""

    def commits(self, branch: str) -> list[Commit]:
        """Return the history of a branch, newest first."""

    def changes(self, start: Snapshot, end: Snapshot) -> pa.Table:
        """Return the differences between two states."""

    def merge_conflicts(self, theirs: Snapshot, ours: Snapshot, *, of_all_types: bool) -> pa.Table:
        """Return the conflicts that merging one branch into another would meet; with columns of all types if desired."""

    def history_of(self, type_: NodeType | EdgeType, snapshot: Snapshot) -> HistoryRows:
        """Return the versions of the rows of a type that led to a state."""

    def named(self, query: str) -> tuple[str, str | None]:
        """Return the text of a `.gq` query, given by its name or as a text, and its name in that text."""

    def query(
        self, text: str, name: str | None, params: Mapping[str, Any], snapshot: Snapshot, allowed: RunLimits
    ) -> Result:
        """Run a `.gq` query."""

    def scope(self, snapshot: Snapshot) -> BindContext:
        """Return the binding context of a state, for traversals."""

    def note(self, ref: StateRef, key: str) -> None:
        """Note that a statement reads a table."""

    @property
    def staged_rows(self) -> Mapping[str, pads.Dataset]:
        """Rows that are about to be written, by names that no table has."""


@dataclass(frozen=True, kw_only=True)
class ResolvedTable:
    """A table that a name was resolved to."""

    name: str
    kind: Kind
    type: NodeType | EdgeType | None = None
    """The type, for the table of a type."""
    entry: Entry | None = None
    """The stored table; None for a view, a foreign table, and a type without a table in this state."""
    relation: Relation | None = None
    """The relation, for a relational table or view."""
    foreign: ForeignSource | None = None
    """The source, for a foreign table."""
    staged: pads.Dataset | None = None
    """Rows that are about to be written."""
    is_addressed: bool = False
    """True if rows come with their ids and addresses."""

    @property
    def key(self) -> str:
        if self.type is not None:
            return TableKey.of_type(self.type)
        assert self.relation is not None
        return self.relation.table_key


class NameResolver:
    """Resolves the names of one statement. Each state is looked up once, so that the statement reads it consistently."""

    database = CATALOG
    """The name of the catalog in sessions of this package."""
    namespace = ""
    """Distinguishes the schemas of the views of another kind of catalog from those of the session."""

    def __init__(
        self,
        source: SqlSource,
        default_state: StateRef,
        params: Mapping[str, Any] | None = None,
        snapshots: dict[StateRef, Snapshot] | None = None,
    ) -> None:
        self.source = source
        self.default_state = default_state
        self.params = params or {}
        """The values of the statement's parameters."""
        self._failure: OmnigraphError | None = None
        self.reading = ForeignRead()
        """The reads of foreign tables by the statement."""
        self.execution: Execution | None = None
        """The run of the statement; None in a session of the caller."""
        self.growth: tuple[int, bool] = 1, False
        """How many times longer values of the statement may get, and whether it reads relations."""
        self._snapshots = {} if snapshots is None else snapshots
        self._tables: dict[SchemaRef, dict[str, ResolvedTable]] = {}
        self._branches: list[str] | None = None

    def query_table(self, text: str, name: str | None, params: Mapping[str, Any], snapshot: Snapshot) -> pa.Table:
        """Run a `.gq` query within the remaining limits of the statement, and return its rows."""
        execution = self.execution
        if execution is None:
            return self.source.query(text, name, params, snapshot, run_limits()).to_arrow()
        execution.check_cancelled()
        allowed = RunLimits(execution.clock.remaining, execution.limits.memory)
        batches: list[pa.RecordBatch] = []
        with self.source.query(text, name, params, snapshot, allowed) as result:
            for batch in result:
                execution.hold(batch.nbytes)
                execution.check_cancelled()
                batches.append(batch)
            return pa.Table.from_batches(batches, schema=result.schema)

    def inside(self, place: SchemaRef, definition: Mapping[str, Any]) -> NameResolver:
        """Return a resolver of the same states for the names in a view, which mean what they meant where it was made."""
        resolver: NameResolver
        if definition.get("catalog") is None:
            resolver = NameResolver(self.source, place.ref, self.params, self._snapshots)
        else:
            pin = CatalogPin(database=definition["catalog"], schema=place.schema or DEFAULT_SCHEMA)
            resolver = PinnedResolver(self.source, place.ref, self.params, self._snapshots, pin=pin)
        resolver._branches, resolver.reading, resolver.execution = self._branches, self.reading, self.execution
        resolver.namespace = self._namespace_of(resolver)
        return resolver

    def _namespace_of(self, inner: NameResolver) -> str:
        return self.namespace if type(inner) is NameResolver else f"\x1f{inner.default_state} "

    # The default schema

    @property
    def default_place(self) -> SchemaRef:
        """The schema of names without one."""
        return SchemaRef(self.default_state)

    @property
    def default_schema(self) -> str:
        """The name of that schema."""
        return str(self.default_state)

    def schema_text(self, place: SchemaRef) -> str:
        """Return the name of a schema."""
        return str(place.ref) if place.schema is None else f"{place.ref}:{place.schema}"

    def fail(self, reason: OmnigraphError) -> None:
        """Record an error for `reason`, without its traceback, which would keep the objects of its frames alive."""
        self._failure = reason.with_traceback(None)
        reason.__context__ = reason.__cause__ = None

    def reason(self) -> OmnigraphError | None:
        """Return the last recorded error, once: engines pass on only the text of an exception."""
        failure, self._failure = self._failure, None
        return failure

    def branches(self) -> list[str]:
        """Return the names of the branches."""
        if self._branches is None:
            self._branches = self.source.branches()
        return self._branches

    def snapshot(self, ref: StateRef | None = None) -> Snapshot:
        """Return the snapshot of a state, by default of the statement's default state."""
        state = self.default_state if ref is None else ref
        if state not in self._snapshots:
            self._snapshots[state] = self.source.state(state)
        return self._snapshots[state]

    def schema_names(self) -> list[str]:
        """Return the schemas: branches, the default state, its relational schemas, and the schema of foreign tables."""
        own = [str(self.default_state), *(name for name in schemas(self.snapshot()) if name != DEFAULT_SCHEMA)]
        foreign = [FOREIGN] if self.source.foreign.names() else []
        return list(dict.fromkeys([*self.branches(), *own, *foreign]))

    def tag_schemas(self) -> list[str]:
        """Return the schemas that the tags are."""
        return [str(StateRef(commit=tag.name)) for tag in self.source.tags()]

    def place(self, name: str) -> SchemaRef:
        """Resolve a schema name; a branch takes precedence over a relational schema of the same name."""
        try:
            place = parse_schema_ref(name)
            existing = schemas(self.snapshot(place.ref))
        except OmnigraphError as error:
            if name in (*schemas(self.snapshot()), FOREIGN):
                return SchemaRef(self.default_state, name)
            if isinstance(error, NotFound) and error.what == "branch":
                raise unknown_name("schema", name, [*self.schema_names(), *self.tag_schemas()]) from None
            raise
        if place.schema is not None and place.schema not in existing:
            raise unknown_name("schema", place.schema, existing)
        return place

    def tables(self, place: SchemaRef) -> dict[str, ResolvedTable]:
        """Return the tables of a schema by name: relational tables and views and, without a relational schema, all types.

        For equal names, a node type takes precedence over an edge type, and a type over a relational table.
        """
        snapshot = self.snapshot(place.ref)
        if place == SchemaRef(self.default_state, FOREIGN) and FOREIGN not in schemas(snapshot):
            return self._foreign_tables()
        if place not in self._tables:
            self._tables[place] = self._stored(place, snapshot)
        return self._tables[place]

    def _stored(self, place: SchemaRef, snapshot: Snapshot) -> dict[str, ResolvedTable]:
        tables = _relational_tables(snapshot, place.schema or DEFAULT_SCHEMA)
        if place.schema is None:
            tables |= self._types(snapshot)
        return dict(sorted(tables.items()))

    def _types(self, snapshot: Snapshot) -> dict[str, ResolvedTable]:
        """Return the tables of all types by name; a node type takes precedence over an edge type."""
        types: list[NodeType | EdgeType] = [*self.source.catalog.edges.values(), *self.source.catalog.nodes.values()]
        return {type_.name: _of_type(type_.name, type_, snapshot) for type_ in types}

    def find(self, place: SchemaRef, name: str) -> ResolvedTable:
        """Resolve a table name. `node:T` and `edge:E` name types; case matters only if names differ in nothing else."""
        table = self._resolved(place, name)
        if table.foreign is None and table.staged is None:
            self.source.note(place.ref, table.key)
        return table

    def _resolved(self, place: SchemaRef, name: str) -> ResolvedTable:
        if name in self.source.staged_rows:
            return ResolvedTable(name=name, kind="table", staged=self.source.staged_rows[name])
        if name.endswith(ADDRESSED):
            table = self._resolved(place, name.removesuffix(ADDRESSED))
            return replace(table, is_addressed=table.entry is not None and table.relation is not None)
        tables = self.tables(place)
        if name in tables:
            return tables[name]
        kind, colon, type_name = name.partition(":")
        if colon and kind in ("node", "edge"):
            types: Mapping[str, NodeType | EdgeType] = getattr(self.source.catalog, f"{kind}s")
            if type_name in types:
                return _of_type(name, types[type_name], self.snapshot(place.ref))
        matches = [table for table_name, table in tables.items() if table_name.lower() == name.lower()]
        if len(matches) == 1:
            return matches[0]
        foreign = self.source.foreign.get(name) if place == self.default_place else None
        if foreign is not None:
            return ResolvedTable(name=foreign.name, kind="foreign", foreign=foreign)
        raise unknown_name("table", name, self.reachable(place), self._state_hint(name, place))

    def _state_hint(self, name: str, place: SchemaRef) -> str | None:
        """Return a hint for a name such as `T@branch`, which should be written with the state as a schema."""
        table, at, ref = name.partition("@")
        if not (at and table and ref):
            return _file_hint(name)
        # A number is taken for a version of the current branch.
        state = f"{place.ref.branch}@{ref}" if ref.isdigit() else _closest(ref, self.branches())
        return f'write "{state}"."{_closest(table, self.tables(place))}" for the table of another branch or version'

    def reachable(self, place: SchemaRef) -> dict[str, ResolvedTable]:
        """Return the tables of a schema and, for the default one, the foreign tables that need no schema name there."""
        tables = self.tables(place)
        if place != self.default_place:
            return tables
        taken = {name.lower() for name in tables}
        return tables | {name: table for name, table in self._foreign_tables().items() if name.lower() not in taken}

    def _foreign_tables(self) -> dict[str, ResolvedTable]:
        foreign = self.source.foreign
        sources = ((name, foreign.get(name)) for name in foreign.names())
        return {name: ResolvedTable(name=name, kind="foreign", foreign=source) for name, source in sources}

    def columns(self, table: ResolvedTable) -> pa.Schema:
        """Return the columns of a table in SQL."""
        if table.type is not None:
            return type_columns(table.type)
        if table.foreign is not None:
            return table.foreign.schema
        if table.staged is not None:
            return table.staged.schema
        assert table.entry is not None
        columns = plain_type(self.source.storage.schema(self.opened(table.entry)()))
        return pa.schema([*columns, *ADDRESSES]) if table.is_addressed else columns

    def rules(self, table: ResolvedTable) -> TableRules:
        """Return the constraints, defaults and comments of a relational table; nothing for others."""
        if table.entry is None or table.relation is None:
            return TableRules()
        return TableRules.of(self.source.storage.schema(self.opened(table.entry)()))

    def require(self, place: SchemaRef, table: ResolvedTable) -> None:
        """Raise if a cleanup has removed a table of a past state, even if the statement reads none of its rows."""
        if table.entry is not None and self.snapshot(place.ref).is_past:
            self.opened(table.entry)()

    def confirm(self) -> None:
        """Raise if the graph of a session of the caller was removed or replaced.

        Such a session may outlive its graph. Statements of this package check the graph when they start.
        """
        if self.execution is None:
            self.source.confirm()

    def opened(self, entry: Entry) -> Callable[[], Any]:
        """Return a function that opens a table."""
        storage = self.source.storage

        def opened() -> Any:
            try:
                self.confirm()
                return storage.open(entry)
            except OmnigraphError as error:
                self.fail(error)  # engines pass on only the text of an exception
                raise

        return opened


class PinnedResolver(NameResolver):
    """Resolves the names of a pinned session: the schemas are relational, and each of them shows the types as well.

    Names are compared without case. A relational table takes precedence over a type of its name, which `graph` shows.
    """

    def __init__(
        self,
        source: SqlSource,
        default_state: StateRef,
        params: Mapping[str, Any] | None = None,
        snapshots: dict[StateRef, Snapshot] | None = None,
        *,
        pin: CatalogPin,
    ) -> None:
        super().__init__(source, default_state, params, snapshots)
        self.database = pin.database
        self._default_schema = pin.schema

    def _namespace_of(self, inner: NameResolver) -> str:
        if type(inner) is NameResolver:
            return "\x1f"
        return self.namespace if inner.default_state == self.default_state else f"\x1f{inner.default_state} "

    @property
    def default_place(self) -> SchemaRef:
        """The schema of names without one."""
        return self.place(self._default_schema)

    @property
    def default_schema(self) -> str:
        """The name of that schema."""
        return self._default_schema

    def schema_text(self, place: SchemaRef) -> str:
        """Return the name of a schema."""
        return place.schema or DEFAULT_SCHEMA

    def schema_names(self) -> list[str]:
        """Return the relational schemas, the schema of the types, and that of foreign tables."""
        foreign = [FOREIGN] if self.source.foreign.names() else []
        return list(dict.fromkeys([*schemas(self.snapshot()), GRAPH_SCHEMA, *foreign]))

    def tag_schemas(self) -> list[str]:
        """Return nothing: no schema is a tag."""
        return []

    def place(self, name: str) -> SchemaRef:
        """Resolve a schema name without its case."""
        for known in self.schema_names():
            if known.lower() == name.lower():
                return SchemaRef(self.default_state, None if known == DEFAULT_SCHEMA else known)
        if name.lower() == self._default_schema.lower():
            return SchemaRef(self.default_state, self._default_schema)  # it may be created later
        raise unknown_name("schema", name, self.schema_names())

    def _stored(self, place: SchemaRef, snapshot: Snapshot) -> dict[str, ResolvedTable]:
        own = _relational_tables(snapshot, place.schema or DEFAULT_SCHEMA)
        taken = {name.lower() for name in own}
        types = {name: table for name, table in self._types(snapshot).items() if name.lower() not in taken}
        return dict(sorted((own | types).items()))

    def _state_hint(self, name: str, place: SchemaRef) -> str | None:  # noqa: ARG002
        return _file_hint(name)


def resolver_of(
    source: SqlSource,
    default_state: StateRef,
    params: Mapping[str, Any] | None = None,
    snapshots: dict[StateRef, Snapshot] | None = None,
) -> NameResolver:
    """Return a resolver for statements of the sessions of a source."""
    if source.pin is None:
        return NameResolver(source, default_state, params, snapshots)
    return PinnedResolver(source, default_state, params, snapshots, pin=source.pin)


def type_columns(type_: NodeType | EdgeType) -> pa.Schema:
    """Return the columns of a type: `id` (and `src`, `dst`), then its properties; a Blob is binary."""
    names = ("id", "src", "dst") if isinstance(type_, EdgeType) else ("id",)
    fields = [pa.field(name, pa.string(), nullable=False) for name in names]
    fields += [pa.field(name, arrow_type(prop.type), prop.type.nullable) for name, prop in type_.properties.items()]
    return pa.schema(fields)


def plain_type(schema: pa.Schema) -> pa.Schema:
    """Return the columns of a stored table without extension types and metadata; a Blob is binary."""
    kinds = [pa.large_binary() if isinstance(kind, pa.BaseExtensionType) else kind for kind in schema.types]
    return pa.schema([pa.field(field.name, kind, field.nullable) for field, kind in zip(schema, kinds, strict=True)])


def has_blobs(table: ResolvedTable) -> bool:
    """True if a table has a Blob column."""
    return table.type is not None and any(prop.type.is_blob for prop in table.type.properties.values())


def unknown_name(what: str, name: str, candidates: Iterable[str], hint: str | None = None) -> NotFound:
    """Return the error for an unknown name."""
    names = sorted(candidates)
    listed = ", ".join(f"`{candidate}`" for candidate in names[:8]) + (", …" if len(names) > 8 else "")
    advice = did_you_mean(name, names) or (f"there are {listed}" if names else f"there is no {what} at all")
    return NotFound(f"there is no {what} `{name}`", what=what, name=name, hint=hint or advice)


def _file_hint(name: str) -> str | None:
    """Return a hint for the name of a file or address; None for other names."""
    if not _FILE_NAME.fullmatch(name):
        return None
    return f"statements read no files by name: register it with Graph.register('NAME', {name!r}), or in omnigraph.yaml"


def _closest(name: str, names: Iterable[str]) -> str:
    """Return the existing name closest to a name, or the name itself."""
    folded = {existing.lower(): existing for existing in names}
    return next((folded[match] for match in get_close_matches(name.lower()[:80], folded, n=1)), name)


def _relational_tables(snapshot: Snapshot, schema: str) -> dict[str, ResolvedTable]:
    """Return the tables and views of a relational schema."""
    return {
        relation.name: ResolvedTable(
            name=relation.name,
            kind=relation.kind,
            entry=snapshot.entries.get(relation.table_key),
            relation=relation,
        )
        for relation in relations(snapshot, schema)
    }


def _of_type(name: str, type_: NodeType | EdgeType, snapshot: Snapshot) -> ResolvedTable:
    kind: Kind = "edge" if isinstance(type_, EdgeType) else "node"
    return ResolvedTable(name=name, kind=kind, type=type_, entry=snapshot.entries.get(TableKey.of_type(type_)))
