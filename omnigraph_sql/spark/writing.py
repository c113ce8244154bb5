"""Writers: tasks write parts of a load, and the driver publishes them once all of them are there."""

from __future__ import annotations

import hashlib
import json
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
from omnigraph_sql.engines.spark.failures import carrying
from omnigraph_sql.errors import BadRequest
from omnigraph_sql.spark.checkpoints import query_of
from omnigraph_sql.spark.options import StreamOptions, WriteOptions
from omnigraph_sql.storage.columns import table_key
from omnigraph_sql.writes.engine import Engine
from omnigraph_sql.writes.lifecycle import open_graph
from omnigraph_sql.writes.operation import Provenance
from omnigraph_sql.writes.parts import Part
from omnigraph_sql.writes.reading import type_named
from omnigraph_sql.writes.remote import (
    abort_table,
    begin_table,
    check_unpublished,
    discard_remote,
    find_published,
    finish_table,
    forget_tables,
    publish_remote,
)
from omnigraph_sql.writes.remote_rows import write_rows
from omnigraph_sql.writes.remote_table import SOURCE_COLUMN, RemoteTable


@dataclass
class Written(WriterCommitMessage):
    """What a task tells the driver."""

    part: Part


class TableWriter(DataSourceArrowWriter):
    """Writes one table. With a `load_id` it waits to be published together with others; without one it is published here."""

    def __init__(self, options: WriteOptions, columns: StructType) -> None:
        engine = open_graph(options.uri)
        self._uri = options.uri
        self._source_column = options.source_column
        self._publishes = options.load_id is None
        self._provenance = Provenance("Load", options.actor, options.message, options.idempotency_key)
        if options.load_id is not None:
            check_unpublished(engine, options.load_id, options.branch)
        self._table = begin_table(
            engine,
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
        return Written(write_task(self._uri, self._table, rows))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """On the driver, after all tasks have succeeded."""
        with carrying():
            self._commit(messages)

    def _commit(self, messages: list[WriterCommitMessage | None]) -> None:
        engine = open_graph(self._uri)
        finish_table(engine, self._table, _parts(messages))
        if self._publishes:
            try:
                publish_remote(engine, self._table.load_id, self._provenance)
            except BaseException:
                discard_remote(engine, self._table.load_id)
                raise

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:  # noqa: ARG002 (tasks have noted what they wrote)
        """On the driver: some task has failed for good."""
        abort_table(open_graph(self._uri), self._table, whole=self._publishes)


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes the batches of a stream, each as one commit. A batch that was published before is not published again.

    Spark makes one of these for the tasks of every batch, and others for what is done when they are ready. They find each
    other by the id of the load, which is that of the query and its table; its batches follow one another.
    """

    def __init__(self, options: StreamOptions, columns: StructType) -> None:
        self._uri = options.uri
        self._provenance = Provenance("Load", options.actor, options.message)
        engine = open_graph(options.uri)
        self._query = _query(engine, options)
        self._table = begin_table(
            engine,
            f"stream-{self._query}",
            options.type,
            _columns(columns, None),
            mode=options.mode,
            branch=options.branch,
        )

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """In a task: check and write the rows of a partition."""
        return Written(write_task(self._uri, self._table, iterator))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 (Spark's name)
        """On the driver, after all tasks of a batch have succeeded."""
        with carrying():
            self._commit(messages, batchId)

    def _commit(self, messages: list[WriterCommitMessage | None], batch_id: int) -> None:
        engine = open_graph(self._uri)
        key = f"spark:{self._query}:{batch_id}"
        if find_published(engine, self._table.branch, key) is not None:
            discard_remote(engine, self._table.load_id)
            return
        # A driver that was killed may have left what it did not publish.
        forget_tables(engine, self._table.load_id)
        finish_table(engine, self._table, _parts(messages))
        given = self._provenance
        message = given.message or f"batch {batch_id} of a stream"
        try:
            publish_remote(engine, self._table.load_id, Provenance("Load", given.actor, message, key))
        except BaseException:
            discard_remote(engine, self._table.load_id)
            raise

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803
        """On the driver: some task has failed for good."""
        discard_remote(open_graph(self._uri), self._table.load_id)


def write_task(uri: str, table: RemoteTable, rows: Iterable[pa.RecordBatch]) -> Part:
    """The work of a task."""
    context = TaskContext.get()
    number = 0 if context is None else context.partitionId()
    with carrying():
        return write_rows(engine_at(uri, table.schema_hash), table, rows, number)


@lru_cache(maxsize=8)
def engine_at(uri: str, schema_hash: str) -> Engine:  # noqa: ARG001 (another schema is another graph)
    """A graph that a worker of Spark writes parts for. It is not opened for writing: that would recover what others left."""
    return open_graph(uri, read_only=True)


def _query(engine: Engine, options: StreamOptions) -> str:
    """What is written to a table of a branch by one streaming query, in short."""
    name = ["named", options.query_id] if options.query_id else ["checkpoint", query_of(options.checkpoint)]
    key = table_key(type_named(engine.catalog, options.type))
    text = json.dumps([engine.coordinator.require(options.branch), key, *name])
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


def _parts(messages: Iterable[Any]) -> list[Part]:
    return [message.part for message in messages if message is not None]
