"""Foreign tables as views of a DuckDB connection."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa

from omnigraph_sql.errors import BadRequest, Internal
from omnigraph_sql.foreign.arrow_data import ArrowTable
from omnigraph_sql.foreign.duckdb_files import DuckDbTable
from omnigraph_sql.foreign.files import FileTable
from omnigraph_sql.foreign.model import ForeignRead, ForeignSource
from omnigraph_sql.foreign.sql_source import RemoteDatabaseTable, source_errors
from omnigraph_sql.foreign.types import duckdb_type
from omnigraph_sql.sqltext.identifiers import quoted
from omnigraph_sql.sqltext.remote_select import remote_select, text_literal

_ALIAS = "_omnigraph_file_"
_numbers = count(1)


def expose(table: ForeignSource, connection: Any, schema: str, name: str, reading: ForeignRead) -> None:
    """Create a view for a foreign table in a schema of a connection's current database."""
    match table:
        case FileTable():
            _expose_files(table, connection, schema, name, reading)
        case ArrowTable():
            create_object_view(connection, schema, name, table.data)
        case DuckDbTable() if Path(table.database.shown).is_file():
            _expose_duckdb_table(table, connection, schema, name)
        case RemoteDatabaseTable():  # includes a missing DuckDB file: the error is raised when it is read
            create_object_view(connection, schema, name, table.dataset(reading))
        case _:
            raise Internal(f"DuckDB has no reader for a foreign table of the kind {table.kind}")


def _expose_files(table: FileTable, connection: Any, schema: str, name: str, reading: ForeignRead) -> None:
    reading.files[table.name] = table
    error = table.error_for_files(table.location.files())
    if error is not None:
        create_object_view(connection, schema, name, table.unreadable(error, reading))
        return
    rows = f"SELECT {_selected(table.schema)} FROM {_file_scan(table)}"
    if reading.is_session:
        # Files may change between statements: each statement reads an empty table first, which raises if they did.
        checked = create_object(connection, schema, name, table.check())
        rows = f"SELECT {_selected(table.schema)} FROM {checked} UNION ALL {rows}"
    create_view(connection, schema, name, table.schema, rows)


def _file_scan(table: FileTable) -> str:
    path = text_literal(table.location.for_duckdb())
    if table.location.format == "parquet":
        return f"read_parquet({path}, union_by_name := true)"
    columns = ", ".join(f"{text_literal(column.name)}: {text_literal(duckdb_type(column.type))}" for column in table.schema)
    header = "true" if table.csv.header else "false"
    return (
        f"read_csv({path}, auto_detect := false, columns := {{{columns}}}, header := {header}, "
        f"delim := {text_literal(table.csv.delimiter)}, quote := '\"', escape := '\"', nullstr := '')"
    )


def _selected(schema: pa.Schema) -> str:
    return ", ".join(quoted(name) for name in schema.names)


def _expose_duckdb_table(table: DuckDbTable, connection: Any, schema: str, name: str) -> None:
    """Create a view over a file of DuckDB, which is attached to the connection."""
    with source_errors(table.name, table.database):
        attached = replace(table.table, catalog=_attach(connection, table.database.shown))
        select = remote_select(attached, table.schema.names, None, None).sql
        create_view(connection, schema, name, table.schema, select)


def _attach(connection: Any, path: str) -> str:
    """Attach a file unless it is attached already, and return its database name. DuckDB attaches a file only once."""
    row = connection.execute("SELECT database_name FROM duckdb_databases() WHERE path = $1", [path]).fetchone()
    if row is not None:
        return str(row[0])
    alias = f"{_ALIAS}{next(_numbers)}"
    connection.execute(f"ATTACH {text_literal(path)} AS {quoted(alias)} (READ_ONLY)")
    return alias


def detach_files(connection: Any) -> None:
    """Detach the files that a connection reads, so that other processes can write to them."""
    for (name,) in connection.execute("SELECT database_name FROM duckdb_databases()").fetchall():
        if name.startswith(_ALIAS):
            connection.execute(f"DETACH {quoted(name)}")


def create_view(connection: Any, schema: str, name: str, columns: pa.Schema, select: str) -> None:
    """Create a view over the rows of a query."""
    _check_columns(name, columns)
    connection.execute(f"CREATE OR REPLACE VIEW {quoted(schema, name)} AS {select}")


def create_object_view(connection: Any, schema: str, name: str, data: Any) -> None:
    """Create a view over Arrow data or a dataset; the connection keeps a reference to it."""
    create_view(connection, schema, name, data.schema, f"SELECT * FROM {create_object(connection, schema, name, data)}")


def create_object(connection: Any, schema: str, name: str, data: Any) -> str:
    """Register Arrow data or a dataset for a view of this name; return its name in SQL."""
    _check_columns(name, data.schema)
    # Registered objects have no schema, so the name contains it. An object that was registered before is released.
    registered = f"omnigraph foreign {schema!r} {name!r}"
    connection.register(registered, data)
    return quoted("temp", "main", registered)


def _check_columns(name: str, columns: pa.Schema) -> None:
    """Raise if two names differ only in case: DuckDB ignores case, and would silently read the wrong column."""
    by_lower_case: dict[str, str] = {}
    for column in columns.names:
        other = by_lower_case.setdefault(column.lower(), column)
        if other != column:
            text = f"DuckDB cannot tell the columns `{other}` and `{column}` of the foreign table `{name}` apart"
            raise BadRequest(text, hint="use the engine datafusion, or rename one of them at the source")
