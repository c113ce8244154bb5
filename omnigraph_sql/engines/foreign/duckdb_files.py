"""Tables in files of DuckDB."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

from omnigraph_sql.engines.foreign.model import Reading
from omnigraph_sql.engines.foreign.remote import Remote, reported
from omnigraph_sql.engines.foreign.views import create_view
from omnigraph_sql.errors import Configuration, NotFound
from omnigraph_sql.planner.remote import (
    Compares,
    RemoteColumn,
    RemoteTable,
    quoted,
    remote_select,
    text_literal,
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
_ALIAS = "_omnigraph_file_"
_numbers = count(1)


def is_duckdb(path: Path) -> bool:
    """Whether a file is a database of DuckDB, by its first bytes."""
    if not path.is_file():
        return path.suffix.lower() in SUFFIXES
    with path.open("rb") as file:
        return file.read(12)[8:] == _MAGIC


class DuckDbFile:
    """A file, opened read-only for each scan."""

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
        """Names and types of the columns of a table or view."""
        with self._connection() as connection:
            found: list[tuple[str, str]] = connection.execute(_COLUMNS, [schema, table]).fetchall()
            return found

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
        # Another process writes to the file, or it is gone; both may pass.
        return isinstance(error, _driver().IOException)


@dataclass(frozen=True)
class _Session:
    """A connection for one statement."""

    connection: Any

    def run(self, sql: str) -> Any:
        return self.connection.sql(sql).to_arrow_reader(_BATCH_ROWS)

    def cancel(self) -> None:
        self.connection.interrupt()


class DuckDbTable(Remote):
    """A table in a file of DuckDB."""

    def expose(self, connection: Any, schema: str, name: str, reading: Reading) -> None:
        """DuckDB reads its own files without help."""
        if not Path(self.database.shown).is_file():
            super().expose(connection, schema, name, reading)  # who reads it is told
            return
        with reported(self.name, self.database):
            alias = _attached(connection, self.database.shown)
            attached = replace(self.table, catalog=alias)
            create_view(connection, schema, name, self.schema, remote_select(attached, self.schema.names, None, None).sql)


def open_duckdb(name: str, path: Path, schema: str, table: str) -> DuckDbTable:
    """A table of a DuckDB file, with the columns it has now."""
    database = DuckDbFile(path.expanduser().absolute())
    if not database.path.is_file():
        raise NotFound(f"there is no file `{database.path}`", what="file", name=str(path), hint="look at the path")
    with reported(name, database):
        found = database.columns(schema, table)
        if not found:
            text = f"there is no table `{schema}.{table}` in {database.shown}"
            raise NotFound(text, what="table", name=f"{schema}.{table}", hint='write table="SCHEMA.TABLE"')
        described = RemoteTable("duckdb", schema, table, tuple(_mapped(*column) for column in found))
        columns = [column.name for column in described.columns]
        with database.session() as session:
            kinds = session.run(remote_select(described, columns, None, 0).sql).schema
    return DuckDbTable(name, database, described, kinds)


def _mapped(name: str, kind: str) -> RemoteColumn:
    """How a column travels. What Arrow has no type for is cast to text over there."""
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


def _attached(connection: Any, path: str) -> str:
    """The name of a file in a connection. A file can be attached once only."""
    found = connection.execute("SELECT database_name FROM duckdb_databases() WHERE path = $1", [path]).fetchone()
    if found is not None:
        return str(found[0])
    alias = f"{_ALIAS}{next(_numbers)}"
    connection.execute(f"ATTACH {text_literal(path)} AS {quoted(alias)} (READ_ONLY)")
    return alias


def detach_files(connection: Any) -> None:
    """Let go of the files that a connection reads: others may want to write to them."""
    for (name,) in connection.execute("SELECT database_name FROM duckdb_databases()").fetchall():
        if name.startswith(_ALIAS):
            connection.execute(f"DETACH {quoted(name)}")


def _driver() -> Any:
    try:
        import duckdb
    except ImportError:
        text = "files of DuckDB need the package duckdb"
        raise Configuration(text, what="duckdb", hint='run pip install "omnigraph-sql[duckdb]"') from None
    return duckdb
