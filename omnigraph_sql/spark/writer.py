"""Writers: tasks write parts of a load, and the driver publishes them after all tasks have succeeded."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from omnigraph_sql import ulid
from omnigraph_sql.engines.spark.error_codec import encoded_errors
from omnigraph_sql.errors import BadRequest
from omnigraph_sql.spark.checkpoints import query_of
from omnigraph_sql.spark.options import StreamOptions, WriteOptions
from omnigraph_sql.store.graph_store import GraphStore
from omnigraph_sql.store.lifecycle import open_graph
from omnigraph_sql.table_keys import TableKey
from omnigraph_sql.writes.distributed.load import (
    abort_table,
    begin_table,
    check_unpublished,
    discard_remote,
    find_published,
    finish_table,
    forget_tables,
    publish_remote,
)
from omnigraph_sql.writes.distributed.parts import LoadPart
from omnigraph_sql.writes.distributed.table import SOURCE_COLUMN, DistributedTable
from omnigraph_sql.writes.distributed.task import write_rows
from omnigraph_sql.writes.load.loads import reported_result, warn_of
from omnigraph_sql.writes.load.rejects import Rejects
from omnigraph_sql.writes.operation import Provenance
from omnigraph_sql.writes.readers import type_named


@dataclass
class PartMessage(WriterCommitMessage):
    """The message of a task to the driver: the part that it wrote."""

    part: LoadPart


class TableWriter(DataSourceArrowWriter):
    """Writes one table. Without a `load_id` the writer also publishes it."""

    def __init__(self, options: WriteOptions, columns: StructType) -> None:
        store = open_graph(options.uri)
        self._uri = options.uri
        self._source_column = options.source_column
        self._publishes = options.load_id is None
        self._provenance = Provenance("Load", options.actor, options.message, options.idempotency_key)
        if options.load_id is not None:
            check_unpublished(store, options.load_id, options.branch)
        self._table = begin_table(
            store,
            options.load_id or ulid.new(),
            options.type,
            _columns(columns, options.source_column),
            mode=options.mode,
            branch=options.branch,
            collects=options.collects,
            origins=options.origins,
            is_text=options.is_text,
        )

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """In a task: check and write the rows of a partition."""
        rows = iterator if self._source_column is None else _renamed(iterator, self._source_column)
        return PartMessage(write_task(self._uri, self._table, rows))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """On the driver, after all tasks have succeeded."""
        with encoded_errors():
            self._commit(messages)

    def _commit(self, messages: list[WriterCommitMessage | None]) -> None:
        store = open_graph(self._uri)
        finish_table(store, self._table, _parts(messages))
        if self._publishes:
            try:
                warn_of(publish_remote(store, self._table.load_id, self._provenance).warnings)
            except BaseException:
                discard_remote(store, self._table.load_id)
                raise

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:  # noqa: ARG002 (tasks have noted what they wrote)
        """On the driver: remove the parts after a task has failed for good."""
        abort_table(open_graph(self._uri), self._table, whole=self._publishes)


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes the batches of a stream, each as one commit. A batch that was published before is not published again.

    Spark creates one writer for the tasks of each batch, and another for its commit. Both derive the id of the load from the
    query and the table, so they work on the same load. The batches of a query run one after another.
    """

    def __init__(self, options: StreamOptions, columns: StructType) -> None:
        self._uri = options.uri
        self._provenance = Provenance("Load", options.actor, options.message)
        self._rejects, self._max_rejects = options.rejects, options.max_rejects
        store = open_graph(options.uri)
        self._query = _query(store, options)
        self._table = begin_table(
            store,
            f"stream-{self._query}",
            options.type,
            _columns(columns, None),
            mode=options.mode,
            branch=options.branch,
            collects=options.max_rejects is not None,
        )

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """In a task: check and write the rows of a partition."""
        return PartMessage(write_task(self._uri, self._table, iterator))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 (Spark's name)
        """On the driver, after all tasks of a batch have succeeded."""
        with encoded_errors():
            self._commit(messages, batchId)

    def _commit(self, messages: list[WriterCommitMessage | None], batch_id: int) -> None:
        store = open_graph(self._uri)
        key = f"spark:{self._query}:{batch_id}"
        if find_published(store, self._table.branch, key) is not None:
            discard_remote(store, self._table.load_id)
            return
        # A killed driver may have left unpublished tables.
        forget_tables(store, self._table.load_id)
        finish_table(store, self._table, _parts(messages))
        message = self._provenance.message or f"batch {batch_id} of a stream"
        try:
            self._publish(store, Provenance("Load", self._provenance.actor, message, key), batch_id)
        except BaseException:
            discard_remote(store, self._table.load_id)
            raise

    def _publish(self, store: GraphStore, provenance: Provenance, batch_id: int) -> None:
        """Publish a batch; with `max_rejects`, leave out and report its faulty rows."""
        if self._max_rejects is None:
            warn_of(publish_remote(store, self._table.load_id, provenance).warnings)
            return
        report = None
        if self._rejects is not None:
            os.makedirs(self._rejects, exist_ok=True)
            report = os.path.join(self._rejects, f"batch-{batch_id}.jsonl")
        rejects = Rejects(report, self._max_rejects)
        with rejects.delivered():
            result = publish_remote(store, self._table.load_id, provenance, rejects)
            if rejects.count == 0:
                rejects.discard()  # a batch without faulty rows has no report
        reported_result(result, rejects)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803
        """On the driver: discard the load after a task has failed for good."""
        discard_remote(open_graph(self._uri), self._table.load_id)


def write_task(uri: str, table: DistributedTable, rows: Iterable[pa.RecordBatch]) -> LoadPart:
    """Write the rows of a task as a part of the load."""
    context = TaskContext.get()
    number = 0 if context is None else context.partitionId()
    with encoded_errors():
        return write_rows(store_at(uri, table.schema_hash), table, rows, number)


@lru_cache(maxsize=8)
def store_at(uri: str, schema_hash: str) -> GraphStore:  # noqa: ARG001 (another schema is another graph)
    """Return the store that a worker writes parts for. It is read-only: opening it for writing would run recovery."""
    return open_graph(uri, read_only=True)


def _query(store: GraphStore, options: StreamOptions) -> str:
    """Return a hash that identifies a streaming query, with the branch and table that it writes."""
    name = ["named", options.query_id] if options.query_id else ["checkpoint", query_of(options.checkpoint)]
    key = TableKey.of_type(type_named(store.catalog, options.type))
    text = json.dumps([store.coordinator.require(options.branch), key, *name])
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def _columns(columns: StructType, source_column: str | None) -> pa.Schema:
    names = columns.fieldNames()
    if len({name.lower() for name in names}) < len(names):
        raise BadRequest("two columns have the same name", hint="rename one of them")
    if source_column is not None and source_column not in names:
        raise BadRequest(f"there is no column `{source_column}`", hint="`source_column` names a column of the DataFrame")
    schema: pa.Schema = to_arrow_schema(columns, timezone="UTC")
    return pa.schema([field.with_name(SOURCE_COLUMN) if field.name == source_column else field for field in schema])


def _renamed(batches: Iterable[pa.RecordBatch], source_column: str) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        names = [SOURCE_COLUMN if name == source_column else name for name in batch.schema.names]
        yield batch.rename_columns(names)


def _parts(messages: Iterable[Any]) -> list[LoadPart]:
    return [message.part for message in messages if message is not None]
