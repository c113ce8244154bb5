"""Mappings run by DuckDB: batches of raw rows in, batches of table rows out."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

import duckdb
import pyarrow as pa

from omnigraph_sql.engines.duckdb_connections import Connection
from omnigraph_sql.engines.ingest.files import LINE
from omnigraph_sql.engines.limits import limits
from omnigraph_sql.errors import BadRequest, OmnigraphError
from omnigraph_sql.planner.mapping import RAW_ROWS, ROW_HINT, json_columns_sql

_RAW = "raw_input"
_ROWS = 1 << 16
_OF_ROW = re.compile(r"\b(Conversion|Invalid Input|Out of Range) Error")
"""What a value that an expression cannot take is called. Errors that come through Arrow have no class of DuckDB's."""


@contextmanager
def mapped_batches(
    sql: str, raw: pa.RecordBatchReader, prepare: Callable[[str], str] | None = None
) -> Iterator[pa.RecordBatchReader]:
    """The rows that a statement of `mapped_sql` gives for raw ones.

    `prepare` makes a query over the relation of a given name that gives what the statement reads; without it the statement
    reads the raw rows as they are. Rows are read while they are wanted, and kept only as far as the statement needs it.
    """
    connection = Connection(limits().memory)
    failures: list[OmnigraphError] = []
    try:
        duck = connection.duck
        duck.execute("SET TimeZone = 'UTC'")
        guarded = pa.RecordBatchReader.from_batches(raw.schema, _remembering(raw, failures))
        if prepare is None:
            duck.register(RAW_ROWS, guarded)
        else:
            duck.register(_RAW, guarded)
            duck.execute(f'CREATE TEMP VIEW "{RAW_ROWS}" AS {prepare(_RAW)}')
        with _told(failures):
            reader = connection.reader = duck.sql(sql).to_arrow_reader(_ROWS)
        yield pa.RecordBatchReader.from_batches(reader.schema, _batches(reader, failures))
    finally:
        connection.close()


def json_batches(raw: Iterable[pa.RecordBatch], columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Raw rows of lines of JSON with the columns that were asked for. One batch after the other, by this thread alone."""
    connection = Connection(limits().memory)
    text = json_columns_sql(columns, LINE, _RAW)
    try:
        duck = connection.duck
        duck.execute("SET threads = 1")
        for batch in raw:
            duck.register(_RAW, pa.Table.from_batches([batch]))
            with _told([]):
                found = duck.sql(text).to_arrow_table()
            yield from found.combine_chunks().to_batches()
    finally:
        connection.close()


def mapped_schema(sql: str, raw: pa.Schema, prepare: Callable[[str], str] | None = None) -> pa.Schema:
    """The columns that a statement gives; raises if it cannot be understood. No rows are read."""
    with mapped_batches(sql, pa.RecordBatchReader.from_batches(raw, []), prepare) as rows:
        return rows.schema


def _batches(reader: pa.RecordBatchReader, failures: list[OmnigraphError]) -> Iterator[pa.RecordBatch]:
    while True:
        with _told(failures):
            batch = next(reader, None)
        if batch is None:
            return
        yield batch


def _remembering(raw: pa.RecordBatchReader, failures: list[OmnigraphError]) -> Iterator[pa.RecordBatch]:
    """The batches; what reading them raises is remembered, because DuckDB passes on only its text."""
    try:
        yield from raw
    except OmnigraphError as error:
        failures.append(error)
        raise


@contextmanager
def _told(failures: list[OmnigraphError]) -> Iterator[None]:
    """What DuckDB raises becomes an error of our family."""
    try:
        yield
    except (duckdb.Error, OSError, pa.ArrowException) as error:
        if failures:
            raise failures[0] from None
        text = str(error).strip().splitlines()[0]
        raise BadRequest(f"the mapping fails: {text}", hint=ROW_HINT if _OF_ROW.search(text) else None) from error
