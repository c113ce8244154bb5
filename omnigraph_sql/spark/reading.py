"""Readers: the fragments of one version of a table, in groups, or the rows of a query. All tasks of a job see one state."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from functools import lru_cache
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from omnigraph_compiler.diagnostics import did_you_mean
from omnigraph_sql.engines.spark.failures import carrying
from omnigraph_sql.errors import BadRequest, Storage
from omnigraph_sql.graph import Graph, connect
from omnigraph_sql.manifest.coordinator import public_name
from omnigraph_sql.manifest.snapshot import Entry, Snapshot
from omnigraph_sql.spark.filters import condition
from omnigraph_sql.spark.options import ReadOptions
from omnigraph_sql.spark.types import shown, shown_schema
from omnigraph_sql.storage.columns import table_key, table_schema
from omnigraph_sql.storage.fragments import fragments, scan_fragments
from omnigraph_sql.storage.handles import SnapshotHandle
from omnigraph_sql.storage.residual import open_storage
from omnigraph_sql.storage.roots import resolve_root
from omnigraph_sql.storage.tables import TableStorage
from omnigraph_sql.writes.engine import Engine
from omnigraph_sql.writes.lifecycle import open_graph
from omnigraph_sql.writes.reading import type_named
from omnigraph_sql.writes.staging import open_entry

_PIECE_ROWS = 16_384


class Group(InputPartition):
    """What one task reads: some fragments of a table."""

    def __init__(self, ids: Sequence[int]) -> None:
        super().__init__(None)
        self.ids = tuple(ids)


def read_schema(options: ReadOptions) -> pa.Schema:
    """The columns that a read gives, as Spark sees them."""
    engine = open_graph(options.uri, read_only=True)
    snapshot = snapshot_of(engine, options)
    if options.query is not None:
        with connect(options.uri, read_only=True) as graph:
            return shown_schema(graph.result_schema(options.query, options.query_name, options.params))
    type_ = type_named(engine.catalog, options.type or "")
    schema = table_schema(type_)
    if options.filter is not None:
        _check_filter(engine, open_entry(engine, snapshot.entry(table_key(type_))), options.filter)
    for name in options.columns or ():
        if name not in schema.names:
            hint = did_you_mean(name, schema.names) or f"there are {', '.join(schema.names)}"
            raise BadRequest(f"{options.type} has no column `{name}`", hint=hint)
    return shown_schema(schema, options.columns)


def reader_of(options: ReadOptions, columns: StructType) -> DataSourceReader:
    """The reader of a job; from here on its state is pinned."""
    schema = to_arrow_schema(columns, timezone="UTC")
    engine = open_graph(options.uri, read_only=True)
    snapshot = snapshot_of(engine, options)
    if options.query is not None:
        return QueryReader(options, snapshot.commit_id, schema)
    type_ = type_named(engine.catalog, options.type or "")
    stored = table_schema(type_)
    _check_columns(options, columns, stored)
    entry = snapshot.entry(table_key(type_))
    handle = open_entry(engine, entry)
    groups = _groups(((each.id, each.live) for each in fragments(handle, "id")), options.partition_rows)
    made = PushingReader if options.pushdown else TableReader
    return made(options.uri, entry, schema, stored, groups, options.filter)


def _check_columns(options: ReadOptions, columns: StructType, stored: pa.Schema) -> None:
    """Raise if the schema that a DataFrame was given, or found when it was made, is not that of the type."""
    for field in columns:
        if field.name not in stored.names:
            near = did_you_mean(field.name, stored.names)
            hint = near or "leave .schema(…) out; if the schema of the graph has changed, make the DataFrame again"
            raise BadRequest(f"{options.type} has no column `{field.name}`", hint=hint)
        kind = from_arrow_schema(shown_schema(stored, [field.name]))[0].dataType.simpleString()
        wanted = field.dataType.simpleString()
        if wanted != kind:
            text = f"the column `{field.name}` of {options.type} is {kind} in Spark, and is asked for as {wanted}"
            raise BadRequest(text, hint="leave .schema(…) out and cast the column of the DataFrame")


def _check_filter(engine: Engine, handle: SnapshotHandle, filter: str) -> None:
    """Raise if a condition cannot be answered, or is more than one: Lance reads to its end, and no further than that."""
    try:
        engine.storage.scan(handle, ["id"], f"make_array({filter}\n)[1] AND FALSE", limit=1).read_all()
        engine.storage.scan(handle, ["id"], filter, limit=1).read_all()
    except Storage as error:
        hint = "write it as in SQL, over the columns of the type: age >= 30 AND name LIKE 'A%'"
        raise BadRequest(f"the option `filter` cannot be read: {filter}", hint=hint) from error


def snapshot_of(engine: Engine, options: ReadOptions) -> Snapshot:
    """The state that a read is about."""
    if options.commit is not None:
        return engine.coordinator.at_commit(options.commit)
    branch = public_name(options.branch)
    if options.version is None:
        return engine.coordinator.fresh(branch)
    return engine.coordinator.at_version(branch, options.version)


def _groups(sizes: Iterable[tuple[int, int]], most: int) -> list[Group]:
    groups: list[Group] = []
    held: list[int] = []
    rows = 0
    for number, live in sizes:
        if held and rows + live > most:
            groups.append(Group(held))
            held, rows = [], 0
        held.append(number)
        rows += live
    return [*groups, Group(held)] if held else groups


class TableReader(DataSourceReader):
    """Reads groups of fragments of one version of a table."""

    def __init__(
        self, uri: str, entry: Entry, schema: pa.Schema, stored: pa.Schema, groups: list[Group], filter: str | None
    ) -> None:
        self._uri = uri
        self._entry = asdict(entry)
        self._schema = schema
        self._stored = stored
        self._groups = groups
        self._conditions: list[str] = [] if filter is None else [filter]

    def partitions(self) -> Sequence[InputPartition]:
        """One for each group of fragments."""
        return list(self._groups)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a group."""
        if not isinstance(partition, Group):  # Spark's own, for a table without rows
            return
        with carrying():
            yield from self._read(partition)

    def _read(self, partition: Group) -> Iterator[pa.RecordBatch]:
        entry = Entry(**self._entry)
        handle = storage_at(self._uri).open_at(entry.path, entry.branch, entry.version, entry.transaction_uuid)
        filter = " AND ".join(f"({each}\n)" for each in self._conditions) or None  # one may end with a comment
        for batch in scan_fragments(handle, partition.ids, self._schema.names, filter):
            yield from _cut(shown(batch, self._schema))


def _cut(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Pieces that Java works on while they are in the caches of the processor, and the next ones are on their way."""
    for start in range(0, batch.num_rows, _PIECE_ROWS):
        yield batch.slice(start, _PIECE_ROWS)


class PushingReader(TableReader):
    """One that Spark hands conditions to.

    Spark keeps what a reader made of the conditions of one query with the DataFrame, and a later query over it that has none
    to hand over reads with those of the earlier one. So this is for frames that are used once, and has to be asked for.
    """

    def pushFilters(self, filters: list[Any]) -> Iterator[Any]:  # noqa: N802 (Spark's name)
        """Take the conditions that the table can answer; those that come back are Spark's."""
        for each in filters:
            found = condition(each, self._stored)
            if found is None:
                yield each
            else:
                self._conditions.append(found)


class QueryReader(DataSourceReader):
    """Runs a `.gq` query in one task."""

    def __init__(self, options: ReadOptions, commit: str, schema: pa.Schema) -> None:
        self._options = options
        self._commit = commit
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        """One: the query is run once."""
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:  # noqa: ARG002 (there is one)
        """The rows of the query."""
        with carrying():
            yield from self._read()

    def _read(self) -> Iterator[pa.RecordBatch]:
        graph = graph_at(self._options.uri)
        with graph.query(
            self._options.query or "", self._options.query_name, self._options.params, snapshot=self._commit
        ) as result:
            for batch in result:
                yield shown(batch, self._schema)


@lru_cache(maxsize=8)
def storage_at(uri: str) -> TableStorage:
    """The tables of a graph; a worker of Spark reads many groups of them."""
    return open_storage(resolve_root(uri))[0]


@lru_cache(maxsize=8)
def graph_at(uri: str) -> Graph:
    """A graph that a worker of Spark asks more than once."""
    return connect(uri, read_only=True)
