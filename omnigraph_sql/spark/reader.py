"""Readers of table versions, in groups of fragments, and of queries. All tasks of a job read one snapshot."""

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
from omnigraph_sql.engines.spark.error_codec import encoded_errors
from omnigraph_sql.errors import BadRequest, Storage
from omnigraph_sql.graph import Graph, connect
from omnigraph_sql.manifest.coordinator import public_name
from omnigraph_sql.manifest.snapshot import Entry, Snapshot
from omnigraph_sql.spark.filters import condition
from omnigraph_sql.spark.options import ReadOptions
from omnigraph_sql.spark.types import spark_batch, spark_schema
from omnigraph_sql.storage.columns import table_schema
from omnigraph_sql.storage.fragments import fragment_infos, scan_fragments
from omnigraph_sql.storage.handles import SnapshotHandle
from omnigraph_sql.storage.inline_commits import open_storage
from omnigraph_sql.storage.roots import resolve_root
from omnigraph_sql.storage.tables import TableStorage
from omnigraph_sql.store.graph_store import GraphStore
from omnigraph_sql.store.lifecycle import open_graph
from omnigraph_sql.table_keys import TableKey
from omnigraph_sql.writes.readers import type_named

_SLICE_ROWS = 16_384


class FragmentTask(InputPartition):
    """The fragments of a table that one task reads."""

    def __init__(self, ids: Sequence[int]) -> None:
        super().__init__(None)
        self.ids = tuple(ids)


def read_schema(options: ReadOptions) -> pa.Schema:
    """Return the columns of a read, with types of Spark."""
    store = open_graph(options.uri, read_only=True)
    snapshot = snapshot_of(store, options)
    if options.query is not None:
        with connect(options.uri, read_only=True) as graph:
            return spark_schema(graph.result_schema(options.query, options.query_name, options.params))
    type_ = type_named(store.catalog, options.type or "")
    schema = table_schema(type_)
    if options.filter is not None:
        _check_filter(store, store.storage.open(snapshot.entry(TableKey.of_type(type_))), options.filter)
    for name in options.columns or ():
        if name not in schema.names:
            hint = did_you_mean(name, schema.names) or f"there are {', '.join(schema.names)}"
            raise BadRequest(f"{options.type} has no column `{name}`", hint=hint)
    return spark_schema(schema, options.columns)


def reader_of(options: ReadOptions, columns: StructType) -> DataSourceReader:
    """Return the reader of a job, pinned to one snapshot."""
    schema = to_arrow_schema(columns, timezone="UTC")
    store = open_graph(options.uri, read_only=True)
    snapshot = snapshot_of(store, options)
    if options.query is not None:
        return QueryReader(options, snapshot.commit_id, schema)
    type_ = type_named(store.catalog, options.type or "")
    stored = table_schema(type_)
    _check_columns(options, columns, stored)
    entry = snapshot.entry(TableKey.of_type(type_))
    handle = store.storage.open(entry)
    sizes = ((fragment.id, fragment.live) for fragment in fragment_infos(handle, "id"))
    groups = _groups(sizes, options.partition_rows)
    reader_class = PushdownReader if options.pushdown else TableReader
    return reader_class(options.uri, entry, schema, stored, groups, options.filter)


def _check_columns(options: ReadOptions, columns: StructType, stored: pa.Schema) -> None:
    """Raise if the schema of the DataFrame, declared or inferred earlier, does not match the type."""
    for field in columns:
        if field.name not in stored.names:
            near = did_you_mean(field.name, stored.names)
            hint = near or "leave .schema(…) out; if the schema of the graph has changed, make the DataFrame again"
            raise BadRequest(f"{options.type} has no column `{field.name}`", hint=hint)
        kind = from_arrow_schema(spark_schema(stored, [field.name]))[0].dataType.simpleString()
        wanted = field.dataType.simpleString()
        if wanted != kind:
            text = f"the column `{field.name}` of {options.type} is {kind} in Spark, and was requested as {wanted}"
            raise BadRequest(text, hint="leave .schema(…) out and cast the column of the DataFrame")


def _check_filter(store: GraphStore, handle: SnapshotHandle, filter: str) -> None:
    """Raise if a filter is not one valid condition: Lance stops after the first and ignores the rest."""
    try:
        store.storage.scan(handle, ["id"], f"make_array({filter}\n)[1] AND FALSE", limit=1).read_all()
        store.storage.scan(handle, ["id"], filter, limit=1).read_all()
    except Storage as error:
        hint = "write it as in SQL, over the columns of the type: age >= 30 AND name LIKE 'A%'"
        raise BadRequest(f"the option `filter` cannot be read: {filter}", hint=hint) from error


def snapshot_of(store: GraphStore, options: ReadOptions) -> Snapshot:
    """Return the snapshot that a read is on."""
    if options.commit is not None:
        return store.coordinator.at_name(options.commit)
    branch = public_name(options.branch)
    if options.version is None:
        return store.coordinator.fresh(branch)
    return store.coordinator.at_version(branch, options.version)


def _groups(sizes: Iterable[tuple[int, int]], most: int) -> list[FragmentTask]:
    """Group neighbouring fragments, given as numbers with their rows, into tasks of at most so many rows."""
    groups: list[FragmentTask] = []
    group: list[int] = []
    rows = 0
    for number, live in sizes:
        if group and rows + live > most:
            groups.append(FragmentTask(group))
            group, rows = [], 0
        group.append(number)
        rows += live
    return [*groups, FragmentTask(group)] if group else groups


class TableReader(DataSourceReader):
    """Reads groups of fragments of one version of a table."""

    def __init__(
        self, uri: str, entry: Entry, schema: pa.Schema, stored: pa.Schema, groups: list[FragmentTask], filter: str | None
    ) -> None:
        self._uri = uri
        self._entry = asdict(entry)
        self._schema = schema
        self._stored = stored
        self._groups = groups
        self._conditions: list[str] = [] if filter is None else [filter]

    def partitions(self) -> Sequence[InputPartition]:
        """Return one partition for each group of fragments."""
        return list(self._groups)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a group."""
        if not isinstance(partition, FragmentTask):  # Spark's own, for a table without rows
            return
        with encoded_errors():
            yield from self._read(partition)

    def _read(self, partition: FragmentTask) -> Iterator[pa.RecordBatch]:
        entry = Entry(**self._entry)
        handle = storage_at(self._uri).open(entry)
        # A condition may end with a comment, so the bracket is on a new line.
        filter = " AND ".join(f"({condition}\n)" for condition in self._conditions) or None
        for batch in scan_fragments(handle, partition.ids, self._schema.names, filter):
            yield from _slices(spark_batch(batch, self._schema))


def _slices(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield slices small enough for the processor's cache, so that Java works on one while the next is sent."""
    for start in range(0, batch.num_rows, _SLICE_ROWS):
        yield batch.slice(start, _SLICE_ROWS)


class PushdownReader(TableReader):
    """A reader that Spark pushes filters down to.

    Spark stores the reader, with the filters of one query, in the DataFrame. A later query over the same DataFrame without
    filters would read with those of the earlier one. So this reader is for DataFrames that are used once, and is opt-in.
    """

    def pushFilters(self, filters: list[Any]) -> Iterator[Any]:  # noqa: N802 (Spark's name)
        """Take the filters that the table can evaluate; yield the others to Spark."""
        for filter in filters:
            pushed = condition(filter, self._stored)
            if pushed is None:
                yield filter
            else:
                self._conditions.append(pushed)


class QueryReader(DataSourceReader):
    """Runs a `.gq` query in one task."""

    def __init__(self, options: ReadOptions, commit: str, schema: pa.Schema) -> None:
        self._options = options
        self._commit = commit
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        """Return one partition: the query runs once."""
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:  # noqa: ARG002 (there is one)
        """Yield the rows of the query."""
        with encoded_errors():
            yield from self._read()

    def _read(self) -> Iterator[pa.RecordBatch]:
        graph = graph_at(self._options.uri)
        with graph.query(
            self._options.query or "", self._options.query_name, self._options.params, snapshot=self._commit
        ) as result:
            for batch in result:
                yield spark_batch(batch, self._schema)


@lru_cache(maxsize=8)
def storage_at(uri: str) -> TableStorage:
    """Return the storage of a graph, cached for the many groups that a worker reads."""
    return open_storage(resolve_root(uri))[0]


@lru_cache(maxsize=8)
def graph_at(uri: str) -> Graph:
    """Return an open graph, cached for the queries of a worker."""
    return connect(uri, read_only=True)
