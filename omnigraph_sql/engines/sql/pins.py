"""The states of a graph that a statement reads, and the tables that each shows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Literal, Protocol, TypeAlias

import pyarrow as pa

from omnigraph_compiler import Catalog, EdgeType, NodeType
from omnigraph_compiler.diagnostics import did_you_mean
from omnigraph_sql.engines.foreign.model import Foreign, Reading
from omnigraph_sql.engines.foreign.registry import SCHEMA as FOREIGN
from omnigraph_sql.engines.foreign.registry import ForeignTables
from omnigraph_sql.engines.scope import Scope
from omnigraph_sql.engines.sql.names import Place, Ref, parse_place
from omnigraph_sql.errors import NotFound, OmnigraphError
from omnigraph_sql.manifest.journal import Commit
from omnigraph_sql.manifest.relations import DEFAULT_SCHEMA, Relation, relations, schemas
from omnigraph_sql.manifest.snapshot import Entry, Snapshot
from omnigraph_sql.result import Result
from omnigraph_sql.storage.columns import arrow_type, table_key
from omnigraph_sql.storage.tables import TableStorage

Kind: TypeAlias = Literal["node", "edge", "table", "view", "foreign"]


class Source(Protocol):
    """What SQL needs of a graph."""

    @property
    def catalog(self) -> Catalog:
        """The accepted schema."""

    @property
    def storage(self) -> TableStorage:
        """Where the tables are."""

    @property
    def foreign(self) -> ForeignTables:
        """The foreign tables of the handle."""

    def state(self, ref: Ref) -> Snapshot:
        """What a ref shows now."""

    def branches(self) -> list[str]:
        """The names of the branches."""

    def commits(self, branch: str) -> list[Commit]:
        """The history of a branch, newest first."""

    def changes(self, start: Snapshot, end: Snapshot) -> pa.Table:
        """What differs between two states."""

    def named(self, query: str) -> tuple[str, str | None]:
        """The text of a `.gq` query that was given by name or as a text, and its name in that text."""

    def query(self, text: str, name: str | None, params: Mapping[str, Any], snapshot: Snapshot) -> Result:
        """The rows of a `.gq` query."""

    def scope(self, snapshot: Snapshot) -> Scope:
        """What is known of a state besides its tables: adjacencies and ids."""


@dataclass(frozen=True)
class Shown:
    """A table that a place shows."""

    name: str
    kind: Kind
    type: NodeType | EdgeType | None
    """Of a graph's table."""
    entry: Entry | None
    """None for a view, for a type that has no table there, and for a foreign table."""
    relation: Relation | None = None
    """Of a relational table or view."""
    foreign: Foreign | None = None
    """Of a foreign table."""

    @property
    def key(self) -> str:
        if self.type is not None:
            return table_key(self.type)
        assert self.relation is not None
        return self.relation.table_key


class Pins:
    """The states that a statement reads, each looked up once: whoever writes meanwhile is not seen by a part of it."""

    def __init__(
        self,
        source: Source,
        own: Ref,
        params: Mapping[str, Any] | None = None,
        known: dict[Ref, Snapshot] | None = None,
    ) -> None:
        self.source = source
        self.own = own
        self.params = params or {}
        """What was given for the parameters of the statement."""
        self._failure: OmnigraphError | None = None
        self.reading = Reading()
        """What the statement does with foreign tables."""
        self._known = {} if known is None else known
        self._tables: dict[Place, dict[str, Shown]] = {}
        self._branches: list[str] | None = None

    def at(self, ref: Ref) -> Pins:
        """The same states, seen from another one."""
        found = Pins(self.source, ref, self.params, self._known)
        found._branches, found.reading = self._branches, self.reading
        return found

    def fail(self, reason: OmnigraphError) -> None:
        """Remember why something is not found or fails. Where that was noticed would keep everything around it alive."""
        self._failure = reason.with_traceback(None)
        reason.__context__ = reason.__cause__ = None

    def reason(self) -> OmnigraphError | None:
        """Why the last name was not found, or the last function failed: an engine only says that it did."""
        found, self._failure = self._failure, None
        return found

    def branches(self) -> list[str]:
        """The names of the branches."""
        if self._branches is None:
            self._branches = self.source.branches()
        return self._branches

    def snapshot(self, ref: Ref | None = None) -> Snapshot:
        """A state of the graph; that of the statement by default."""
        wanted = self.own if ref is None else ref
        if wanted not in self._known:
            self._known[wanted] = self.source.state(wanted)
        return self._known[wanted]

    def schema_names(self) -> list[str]:
        """Branches, the statement's own state, the relational schemas there, and that of the foreign tables."""
        own = [str(self.own), *(name for name in schemas(self.snapshot()) if name != DEFAULT_SCHEMA)]
        foreign = [FOREIGN] if self.source.foreign.names() else []
        return list(dict.fromkeys([*self.branches(), *own, *foreign]))

    def place(self, name: str) -> Place:
        """What a schema name means; a branch comes before a relational schema of the same name."""
        try:
            place = parse_place(name)
            known = schemas(self.snapshot(place.ref))
        except OmnigraphError as error:
            if name in (*schemas(self.snapshot()), FOREIGN):
                return Place(self.own, name)
            if isinstance(error, NotFound) and error.what == "branch":
                raise unknown("schema", name, self.schema_names()) from None
            raise
        if place.schema is not None and place.schema not in known:
            raise unknown("schema", place.schema, known)
        return place

    def tables(self, place: Place) -> dict[str, Shown]:
        """What a place shows, by name: its relational tables and views and, without a schema, all types.

        Where a node and an edge type share a name it is the node's, and a type comes before a relational table.
        """
        snapshot = self.snapshot(place.ref)
        if place == Place(self.own, FOREIGN) and FOREIGN not in schemas(snapshot):
            return self._foreign()
        if place not in self._tables:
            self._tables[place] = self._stored(place, snapshot)
        return self._tables[place]

    def _stored(self, place: Place, snapshot: Snapshot) -> dict[str, Shown]:
        schema = place.schema or DEFAULT_SCHEMA
        found = {
            each.name: Shown(each.name, each.kind, None, snapshot.entries.get(each.table_key), each)
            for each in relations(snapshot)
            if each.schema == schema
        }
        if place.schema is None:
            for type_ in _types(self.source.catalog):
                found[type_.name] = _of_type(type_.name, type_, snapshot)
        return dict(sorted(found.items()))

    def find(self, place: Place, name: str) -> Shown:
        """The table of a name. `node:T` and `edge:E` always work; case matters only where names differ by nothing else."""
        tables = self.tables(place)
        if name in tables:
            return tables[name]
        kind, colon, type_name = name.partition(":")
        if colon and kind in ("node", "edge"):
            types: Mapping[str, NodeType | EdgeType] = getattr(self.source.catalog, f"{kind}s")
            if type_name in types:
                return _of_type(name, types[type_name], self.snapshot(place.ref))
        alike = [each for known, each in tables.items() if known.lower() == name.lower()]
        if len(alike) == 1:
            return alike[0]
        foreign = self.source.foreign.get(name) if place == Place(self.own) else None
        if foreign is not None:
            return Shown(foreign.name, "foreign", None, None, foreign=foreign)
        raise unknown("table", name, self.reachable(place), self._elsewhere(name, place))

    def _elsewhere(self, name: str, place: Place) -> str | None:
        """How to write what looks as if it named a table of another state."""
        table, at, ref = name.partition("@")
        if not (at and table and ref):
            return None
        # Many write the number of a version of the branch they are on.
        state = f"{place.ref.branch}@{ref}" if ref.isdigit() else _closest(ref, self.branches())
        return f'write "{state}"."{_closest(table, self.tables(place))}" for the table of another branch or version'

    def reachable(self, place: Place) -> dict[str, Shown]:
        """What a place shows, and the foreign tables that are found there by their names alone."""
        shown = self.tables(place)
        if place != Place(self.own):
            return shown
        taken = {name.lower() for name in shown}
        return shown | {name: each for name, each in self._foreign().items() if name.lower() not in taken}

    def _foreign(self) -> dict[str, Shown]:
        foreign = self.source.foreign
        found = ((name, foreign.get(name)) for name in foreign.names())
        return {name: Shown(name, "foreign", None, None, foreign=each) for name, each in found}

    def columns(self, shown: Shown) -> pa.Schema:
        """The columns of a table as SQL sees them."""
        if shown.type is not None:
            return type_columns(shown.type)
        if shown.foreign is not None:
            return shown.foreign.schema
        assert shown.entry is not None
        return plain(self.source.storage.schema(self.opened(shown.entry)()))

    def opened(self, entry: Entry) -> Callable[[], Any]:
        """Opens a table."""
        storage = self.source.storage
        return lambda: storage.open_at(entry.path, entry.branch, entry.version, entry.transaction_uuid)


def type_columns(type_: NodeType | EdgeType) -> pa.Schema:
    """The columns of a type: `id` (and `src`, `dst`), then its properties; a Blob is bytes."""
    names = ("id", "src", "dst") if isinstance(type_, EdgeType) else ("id",)
    fields = [pa.field(name, pa.string(), nullable=False) for name in names]
    fields += [pa.field(name, arrow_type(prop.type), prop.type.nullable) for name, prop in type_.properties.items()]
    return pa.schema(fields)


def plain(schema: pa.Schema) -> pa.Schema:
    """The columns of a stored table, without what its format adds; a Blob is bytes."""
    kinds = [pa.large_binary() if isinstance(each.type, pa.BaseExtensionType) else each.type for each in schema]
    return pa.schema([pa.field(each.name, kind, each.nullable) for each, kind in zip(schema, kinds, strict=True)])


def has_blobs(shown: Shown) -> bool:
    """Whether a table has a column of bytes that are stored apart."""
    return shown.type is not None and any(prop.type.is_blob for prop in shown.type.properties.values())


def unknown(what: str, name: str, known: Iterable[str], hint: str | None = None) -> NotFound:
    """The error of a name that nothing has."""
    names = sorted(known)
    listed = ", ".join(f"`{each}`" for each in names[:8]) + (", …" if len(names) > 8 else "")
    found = hint or did_you_mean(name, names) or (f"there are {listed}" if names else f"there is no {what} at all")
    return NotFound(f"there is no {what} `{name}`", what=what, name=name, hint=found)


def _closest(name: str, known: Iterable[str]) -> str:
    """The known name that was probably meant, or the same again."""
    folded = {each.lower(): each for each in known}
    return next((folded[each] for each in get_close_matches(name.lower()[:80], folded, n=1)), name)


def _types(catalog: Catalog) -> list[NodeType | EdgeType]:
    return [*catalog.edges.values(), *catalog.nodes.values()]


def _of_type(name: str, type_: NodeType | EdgeType, snapshot: Snapshot) -> Shown:
    kind: Kind = "edge" if isinstance(type_, EdgeType) else "node"
    return Shown(name, kind, type_, snapshot.entries.get(table_key(type_)))
