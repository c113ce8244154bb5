"""The row mapper of pipelines: DuckDB turns batches of raw rows into batches of typed table rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

import duckdb
import pyarrow as pa

from omnigraph_sql.engines.duckdb.connections import Connection
from omnigraph_sql.errors import BadRequest, OmnigraphError
from omnigraph_sql.ingest.files import LINE
from omnigraph_sql.runtime.limits import run_limits
from omnigraph_sql.sqltext.row_mapping import RAW_ROWS, ROW_HINT, json_columns_sql

_RAW = "raw_input"
_ROWS = 1 << 16
_OF_ROW = re.compile(r"\b(Conversion|Invalid Input|Out of Range) Error")
"""Errors about a value in a row. An error that passed through Arrow has lost its DuckDB class."""


@contextmanager
def mapped_batches(
    sql: str, raw: pa.RecordBatchReader, prepare: Callable[[str], str] | None = None
) -> Iterator[pa.RecordBatchReader]:
    """Run a statement of `mapped_sql` over raw rows, and return a reader of its rows.

    `prepare` takes the name of the relation of raw rows and returns a query over it, which the statement reads instead of
    the raw rows. The raw rows are streamed.
    """
    connection = Connection(run_limits().memory)
    failures: list[OmnigraphError] = []
    try:
        duck = connection.duck
        duck.execute("SET TimeZone = 'UTC'")
        guarded = pa.RecordBatchReader.from_batches(raw.schema, _recording(raw, failures))
        if prepare is None:
            duck.register(RAW_ROWS, guarded)
        else:
            duck.register(_RAW, guarded)
            duck.execute(f'CREATE TEMP VIEW "{RAW_ROWS}" AS {prepare(_RAW)}')
        with _translated_errors(failures):
            reader = connection.reader = duck.sql(sql).to_arrow_reader(_ROWS)
        yield pa.RecordBatchReader.from_batches(reader.schema, _batches(reader, failures))
    finally:
        connection.close()


def json_batches(raw: Iterable[pa.RecordBatch], columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Extract columns from raw rows of JSON lines, batch by batch, in the calling thread."""
    connection = Connection(run_limits().memory)
    text = json_columns_sql(columns, LINE, _RAW)
    try:
        duck = connection.duck
        duck.execute("SET threads = 1")
        for batch in raw:
            duck.register(_RAW, pa.Table.from_batches([batch]))
            with _translated_errors([]):
                rows = duck.sql(text).to_arrow_table()
            yield from rows.combine_chunks().to_batches()
    finally:
        connection.close()


def mapped_schema(sql: str, raw: pa.Schema, prepare: Callable[[str], str] | None = None) -> pa.Schema:
    """Return the columns of a statement without reading rows. Raises if the statement is invalid."""
    with mapped_batches(sql, pa.RecordBatchReader.from_batches(raw, []), prepare) as rows:
        return rows.schema


def _batches(reader: pa.RecordBatchReader, failures: list[OmnigraphError]) -> Iterator[pa.RecordBatch]:
    while True:
        with _translated_errors(failures):
            batch = next(reader, None)
        if batch is None:
            return
        yield batch


def _recording(raw: pa.RecordBatchReader, failures: list[OmnigraphError]) -> Iterator[pa.RecordBatch]:
    """Yield the batches, and record the error of a read, because DuckDB passes on only its text."""
    try:
        yield from raw
    except OmnigraphError as error:
        failures.append(error)
        raise


@contextmanager
def _translated_errors(failures: list[OmnigraphError]) -> Iterator[None]:
    """Raise the recorded error, or a `BadRequest` for an error of DuckDB."""
    try:
        yield
    except (duckdb.Error, OSError, pa.ArrowException) as error:
        if failures:
            raise failures[0] from None
        text = str(error).strip().splitlines()[0]
        raise BadRequest(f"the mapping fails: {text}", hint=ROW_HINT if _OF_ROW.search(text) else None) from error
