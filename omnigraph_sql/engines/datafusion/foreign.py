"""Foreign tables in sessions of DataFusion."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import pyarrow as pa
from datafusion import SessionContext

from omnigraph_sql.engines.datafusion.foreign_files import FileTableFactory
from omnigraph_sql.engines.datafusion.foreign_provider import as_provider
from omnigraph_sql.engines.datafusion.off_thread import run_off_thread
from omnigraph_sql.errors import Internal
from omnigraph_sql.foreign.arrow_data import ArrowTable
from omnigraph_sql.foreign.files import FileTable
from omnigraph_sql.foreign.locations import CsvOptions, Location
from omnigraph_sql.foreign.model import ForeignRead, ForeignSource
from omnigraph_sql.foreign.sql_source import RemoteDatabaseTable

_MEMORY_TABLE = "rows"
_memory_tables: WeakKeyDictionary[ArrowTable, Any] = WeakKeyDictionary()
_readers: WeakKeyDictionary[FileTable, FileTableFactory] = WeakKeyDictionary()


def infer_schema(location: Location, csv: CsvOptions, files: Sequence[Path]) -> pa.Schema:
    """Infer the columns of files with DataFusion's readers."""
    return FileTableFactory(location, csv).schema(files)


def provider_of(table: ForeignSource, reading: ForeignRead) -> Any:
    """Return the DataFusion table provider of a foreign table."""
    match table:
        case FileTable():
            return _file_provider(table, reading)
        case ArrowTable():
            return _memory_provider(table)
        case RemoteDatabaseTable():
            reading.is_remote = True
            return as_provider(table.dataset(reading), table.name)
    raise Internal(f"DataFusion has no reader for a foreign table of the kind {table.kind}")


def _file_provider(table: FileTable, reading: ForeignRead) -> Any:
    reading.files[table.name] = table
    files = table.location.files()
    error = table.error_for_files(files)
    if error is not None:
        return as_provider(table.unreadable(error, reading), table.name)
    return run_off_thread(lambda: _reader_of(table).table(files, table.schema, is_own_session=reading.is_own_session))


def _reader_of(table: FileTable) -> FileTableFactory:
    reader = _readers.get(table)
    if reader is None:
        reader = _readers[table] = FileTableFactory(table.location, table.csv)
    return reader


def _memory_provider(table: ArrowTable) -> Any:
    provider = _memory_tables.get(table)
    if provider is None:
        provider = _memory_tables[table] = run_off_thread(lambda: _register_rows(table))
    return provider


def _register_rows(table: ArrowTable) -> Any:
    context = SessionContext()
    batches = table.data.to_batches() or [pa.RecordBatch.from_pylist([], schema=table.schema)]
    context.register_record_batches(_MEMORY_TABLE, [batches])
    return context.table_provider(_MEMORY_TABLE)
