"""The context of a statement that writes: what it sees, how the engine computes for it, and the tables that it names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from omnigraph_sql.embeddings.handle import Embeddings
from omnigraph_sql.errors import BadRequest, NotFound
from omnigraph_sql.graph.sessions import SqlSessions
from omnigraph_sql.graph.staged_rows import StagedRows
from omnigraph_sql.manifest.relations import DEFAULT_SCHEMA
from omnigraph_sql.manifest.snapshot import Snapshot
from omnigraph_sql.manifest.table_rules import SqlText, TableRules
from omnigraph_sql.result import Result
from omnigraph_sql.runtime.limits import run_limits
from omnigraph_sql.sql.refs import CatalogPin, SchemaRef, StateRef
from omnigraph_sql.sql.resolver import ADDRESSED, NameResolver, ResolvedTable
from omnigraph_sql.sqltext.identifiers import quoted
from omnigraph_sql.sqltext.user_sql import translated_sql
from omnigraph_sql.sqltext.write_statements import QualifiedName
from omnigraph_sql.store.graph_store import GraphStore
from omnigraph_sql.writes.checks.pending_graph import TableRows
from omnigraph_sql.writes.transactions import WriteTransaction


@dataclass(frozen=True)
class TableLocation:
    """A relational schema of the branch of the transaction, and a name in it, of a table that exists or not."""

    schema: str
    name: str
    place: SchemaRef
    schema_text: str
    """The name of the schema in the statements of the session."""

    @property
    def text(self) -> str:
        """The name for messages."""
        return self.name if self.schema == DEFAULT_SCHEMA else f"{self.schema}.{self.name}"

    def sql(self, suffix: str = "") -> str:
        """The name in SQL."""
        return quoted(self.schema_text, self.name + suffix)


@dataclass(frozen=True)
class WriteTarget:
    """A table that takes rows."""

    location: TableLocation
    table: ResolvedTable
    schema: pa.Schema
    """Its columns, for a relational table with its rules."""

    @property
    def table_key(self) -> str:
        return self.table.key

    @property
    def rules(self) -> TableRules:
        """The rules of a relational table."""
        return TableRules.of(self.schema)

    def sql(self) -> str:
        """Its name in SQL; rows of a relational table come with their addresses."""
        return self.location.sql() if self.table.type is not None else self.location.sql(ADDRESSED)

    def column(self, name: str) -> str:
        """The column of a name, whose case does not matter unless columns differ by nothing else."""
        return column_named(self.schema.names, name, self.location.text)


def column_named(names: list[str], name: str, table: str) -> str:
    """One of the columns of a table by its name."""
    if name in names:
        return name
    matches = [column for column in names if column.lower() == name.lower()]
    if len(matches) == 1:
        return matches[0]
    from omnigraph_compiler.diagnostics import did_you_mean

    hint = did_you_mean(name, names) or f"the columns are {', '.join(names[:20])}"
    raise BadRequest(f"`{table}` has no column `{name}`", hint=hint)


def _check_catalog(name: QualifiedName, resolver: NameResolver) -> None:
    database = resolver.database
    if len(name) == 3 and name[0].lower() != database.lower():
        raise NotFound(f"there is no catalog `{name[0]}`", what="catalog", name=name[0], hint=f"it is `{database}`")


@dataclass(frozen=True)
class KnownKeys:
    """The values of the unique columns of a table."""

    changes: int
    """`WriteTransaction.changes_of` when they were read."""
    values: Mapping[tuple[str, ...], set[tuple[Any, ...]]]
    """By the columns of each key."""


@dataclass(frozen=True, kw_only=True)
class StatementContext:
    """What a statement runs on."""

    store: GraphStore
    writes: WriteTransaction
    open_sessions: Callable[[], SqlSessions]
    """Gives sessions that show what the transaction sees now."""
    engine: str
    params: Mapping[str, Any]
    embeddings: Embeddings | None
    reads: set[str]
    """The keys of the tables that statements have read so far."""
    targets: dict[QualifiedName, tuple[int, WriteTarget]]
    """Tables that take rows, each with the version of the transaction in which it was looked up."""
    keys: dict[str, KnownKeys]
    """The keys of tables into which literals are inserted."""
    pin: CatalogPin | None = None
    """The catalog that the names belong to, for pinned sessions."""

    def note_reads(self) -> None:
        """Tell the transaction what was read."""
        self.writes.note_reads(self.reads)

    @contextmanager
    def collected_reads(self) -> Iterator[set[str]]:
        """Collect the keys of the tables that are read in a block."""
        before = set(self.reads)
        self.reads.clear()
        collected: set[str] = set()
        try:
            yield collected
        finally:
            collected |= self.reads
            self.reads.update(before)

    @property
    def state(self) -> StateRef:
        """The state that the statement sees."""
        return StateRef(self.writes.branch)

    @property
    def sessions(self) -> SqlSessions:
        """Sessions that show what the statement sees."""
        return self.open_sessions()

    @property
    def snapshot(self) -> Snapshot:
        """The tables that the statement sees."""
        return self.writes.snapshot()

    # What the engine computes

    def run(self, text: str) -> Result:
        """Run a query; parameters that it does not mention are for other parts of the statement."""
        result = self.sessions.sql(text, self.params, self.state, self.engine, run_limits(), ignore_unknown=True)
        self.note_reads()
        return result

    def batches(self, text: str) -> pa.RecordBatchReader:
        """The rows of a query."""
        result = self.run(text)
        return pa.RecordBatchReader.from_batches(result.schema, iter(result))

    @contextmanager
    def staged(self, rows: TableRows) -> Iterator[str]:
        """Show the engine rows that are about to be written; gives their name in SQL."""
        name = f"\x1fstaged {len(self.sessions.staged_rows)}"
        self.sessions.staged_rows[name] = StagedRows(rows)
        try:
            yield quoted(self.resolver().default_schema, name)
        finally:
            del self.sessions.staged_rows[name]

    def translated(self, expression: SqlText) -> str:
        """An expression in the dialect of the engine."""
        if expression.dialect == self.engine:
            return expression.sql
        text = translated_sql(f"SELECT {expression.sql}", expression.dialect, self.engine)
        return text[len("SELECT ") :]

    # Names

    def resolver(self) -> NameResolver:
        """A resolver of the present names."""
        return self.sessions.resolver(self.state)

    def location(self, name: QualifiedName, resolver: NameResolver) -> TableLocation:
        """The place that a name means. Raises for other branches and earlier states."""
        _check_catalog(name, resolver)
        place = resolver.default_place if len(name) == 1 else resolver.place(name[-2])
        if place.ref != self.state:
            is_branch = place.ref.version is None and place.ref.commit is None
            where = f"`{place.ref}` is {'another branch' if is_branch else 'a past state'}"
            hint = "leave the schema away, or begin the script with USE BRANCH"
            raise BadRequest(f"{where}, and the statement writes to `{self.writes.branch}`", hint=hint)
        return TableLocation(place.schema or DEFAULT_SCHEMA, name[-1], place, resolver.schema_text(place))

    def existing(self, name: QualifiedName) -> tuple[TableLocation, ResolvedTable]:
        """A table or view that exists, under its own name."""
        resolver = self.resolver()
        location = self.location(name, resolver)
        table = resolver.find(location.place, location.name)
        if table.foreign is not None:
            hint = "write to its source; the graph only reads it"
            raise BadRequest(f"`{table.name}` is a foreign table, which nothing can change here", hint=hint)
        if table.staged is not None:
            raise NotFound("there is no such table", what="table", name=location.text)
        return replace(location, name=table.name), table

    def target(self, name: QualifiedName, *, may_wait: bool = False) -> WriteTarget:
        """A table that takes rows. With `may_wait`, rows of earlier inserts may still be missing in it."""
        if not may_wait:
            self.writes.flush()
        version, target = self.targets.get(name, (None, None))
        if target is None or version != self.writes.version:
            target = self._target(name)
            self.targets[name] = self.writes.version, target
        return target

    def _target(self, name: QualifiedName) -> WriteTarget:
        location, table = self.existing(name)
        if table.kind == "view":
            raise BadRequest(f"`{location.text}` is a view and takes no rows", hint="write to the tables that it reads")
        if table.type is not None:
            return WriteTarget(location, table, self.resolver().columns(table))
        assert table.entry is not None
        storage = self.store.storage
        return WriteTarget(location, table, storage.schema(storage.open(table.entry)))
