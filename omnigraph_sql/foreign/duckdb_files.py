"""Tables in files of DuckDB."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from omnigraph_sql.errors import Configuration, NotFound
from omnigraph_sql.foreign.sql_source import RemoteDatabaseTable, source_errors
from omnigraph_sql.sqltext.remote_select import (
    Compares,
    RemoteColumn,
    RemoteTableRef,
    remote_select,
)

DEFAULT_SCHEMA = "main"
SUFFIXES = (".duckdb", ".ddb")
_MAGIC = b"DUCK"
_BATCH_ROWS = 8192
_COLUMNS = """SELECT column_name, data_type FROM duckdb_columns()
WHERE database_name = current_database() AND schema_name = $1 AND table_name = $2 ORDER BY column_index"""
_COMPARES = {
    "BOOLEAN": Compares.BOOLEANS,
    "TINYINT": Compares.INTEGERS,
    "SMALLINT": Compares.INTEGERS,
    "INTEGER": Compares.INTEGERS,
    "BIGINT": Compares.INTEGERS,
    "UTINYINT": Compares.INTEGERS,
    "USMALLINT": Compares.INTEGERS,
    "UINTEGER": Compares.INTEGERS,
    "UBIGINT": Compares.INTEGERS,
    "FLOAT": Compares.SINGLES,
    "DOUBLE": Compares.DOUBLES,
    "VARCHAR": Compares.COLLATED,
    "DATE": Compares.DATES,
    "TIMESTAMP": Compares.TIMESTAMPS,
    "TIMESTAMP WITH TIME ZONE": Compares.INSTANTS,
}
_PLAIN = {"BLOB", "TIME", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS", "INTERVAL"}
_NESTED = ("STRUCT(", "MAP(")


def is_duckdb(path: Path) -> bool:
    """True if a file is a DuckDB database, by its first bytes, or by its suffix if there is no such file."""
    if not path.is_file():
        return path.suffix.lower() in SUFFIXES
    with path.open("rb") as file:
        return file.read(12)[8:] == _MAGIC


class DuckDbFile:
    """A DuckDB file, opened read-only for each scan."""

    kind = "duckdb"
    infinities: ClassVar[dict[str, tuple[int, int]]] = {
        "timestamp": (-(2**63) + 1, 2**63 - 1),
        "date": (-(2**31) + 1, 2**31 - 1),
    }

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def shown(self) -> str:
        return str(self.path)

    @contextmanager
    def session(self) -> Iterator[_Session]:
        with self._connection() as connection:
            yield _Session(connection)

    def columns(self, schema: str, table: str) -> list[tuple[str, str]]:
        """Return the names and types of the columns of a table or view."""
        with self._connection() as connection:
            columns: list[tuple[str, str]] = connection.execute(_COLUMNS, [schema, table]).fetchall()
            return columns

    @contextmanager
    def _connection(self) -> Iterator[Any]:
        connection = _driver().connect(str(self.path), read_only=True)
        try:
            connection.execute("SET TimeZone = 'UTC'")
            yield connection
        finally:
            connection.close()

    def reason(self, error: Exception) -> str | None:
        return str(error).strip().splitlines()[0] if isinstance(error, _driver().Error) else None

    def is_down(self, error: Exception) -> bool:
        # Another process writes to the file, or the file is missing; a retry may succeed.
        return isinstance(error, _driver().IOException)


@dataclass(frozen=True)
class _Session:
    """A connection for one statement."""

    connection: Any

    def run(self, sql: str) -> Any:
        return self.connection.sql(sql).to_arrow_reader(_BATCH_ROWS)

    def cancel(self) -> None:
        self.connection.interrupt()


class DuckDbTable(RemoteDatabaseTable):
    """A table in a file of DuckDB."""


def open_duckdb(name: str, path: Path, schema: str, table: str) -> DuckDbTable:
    """Open a table of a DuckDB file with its current columns."""
    database = DuckDbFile(path.expanduser().absolute())
    if not database.path.is_file():
        raise NotFound(f"there is no file `{database.path}`", what="file", name=str(path), hint="look at the path")
    with source_errors(name, database):
        columns = database.columns(schema, table)
        if not columns:
            text = f"there is no table `{schema}.{table}` in {database.shown}"
            raise NotFound(text, what="table", name=f"{schema}.{table}", hint='write table="SCHEMA.TABLE"')
        remote = RemoteTableRef("duckdb", schema, table, tuple(_mapped(*column) for column in columns))
        names = [column.name for column in remote.columns]
        with database.session() as session:
            arrow_schema = session.run(remote_select(remote, names, None, 0).sql).schema
    return DuckDbTable(name, database, remote, arrow_schema)


def _mapped(name: str, kind: str) -> RemoteColumn:
    """Return how a column is selected: DuckDB casts a type that Arrow lacks to text."""
    if kind in _COMPARES:
        return RemoteColumn(name, _COMPARES[kind])
    if kind in _PLAIN or kind.endswith("]") or kind.startswith(_NESTED):
        return RemoteColumn(name, Compares.NOTHING)
    if kind.startswith("DECIMAL("):
        return RemoteColumn(name, Compares.DECIMALS)
    if kind in ("HUGEINT", "UHUGEINT"):
        return RemoteColumn(name, Compares.DECIMALS, "decimal(38, 0)")
    if kind.startswith("ENUM("):
        return RemoteColumn(name, Compares.LABELS, "text")
    return RemoteColumn(name, Compares.UUIDS if kind == "UUID" else Compares.NOTHING, "text")


def _driver() -> Any:
    try:
        import duckdb
    except ImportError:
        text = "files of DuckDB need the package duckdb"
        raise Configuration(text, what="duckdb", hint='run pip install "omnigraph-sql[duckdb]"') from None
    return duckdb
