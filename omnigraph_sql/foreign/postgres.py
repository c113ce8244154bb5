"""Tables of a Postgres database, over ADBC."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import pyarrow as pa

from omnigraph_sql.errors import Configuration, NotFound
from omnigraph_sql.foreign.addresses import Address, address
from omnigraph_sql.foreign.sql_source import RemoteDatabaseTable, source_errors
from omnigraph_sql.sqltext.remote_select import Compares, RemoteColumn, RemoteTableRef

DEFAULT_SCHEMA = "public"
_CONNECT_SECONDS = 15
_BATCH_BYTES = 1 << 20
"""The approximate size of a batch: small, so that a reader that stops early has not waited for many unused rows."""
# One round trip. Literals need standard strings; read-only transactions also stop functions in views from writing.
_SETTINGS = """SELECT set_config('client_encoding', 'UTF8', false), set_config('TimeZone', 'UTC', false),
set_config('standard_conforming_strings', 'on', false), set_config('default_transaction_read_only', 'on', false)"""
_COLUMNS = """
SELECT a.attname, coalesce(b.typname, t.typname), coalesce(b.typtype, t.typtype)::text, e.typname,
    coalesce(b.typnamespace, t.typnamespace) = 'pg_catalog'::regnamespace,
    CASE WHEN t.typtype = 'd' THEN t.typtypmod ELSE a.atttypmod END, coalesce(l.collisdeterministic, true),
    current_setting('server_encoding') = 'UTF8'
FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
LEFT JOIN pg_catalog.pg_type b ON t.typtype = 'd' AND b.oid = t.typbasetype
LEFT JOIN pg_catalog.pg_type e ON e.oid = coalesce(b.typelem, t.typelem) AND coalesce(b.typcategory, t.typcategory) = 'A'
LEFT JOIN pg_catalog.pg_collation l ON l.oid = a.attcollation
WHERE n.nspname = $1 AND c.relname = $2 AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
ORDER BY a.attnum"""
_PLAIN: dict[str, tuple[pa.DataType, Compares]] = {
    "bool": (pa.bool_(), Compares.BOOLEANS),
    "int2": (pa.int16(), Compares.INTEGERS),
    "int4": (pa.int32(), Compares.INTEGERS),
    "int8": (pa.int64(), Compares.INTEGERS),
    "float4": (pa.float32(), Compares.SINGLES),
    "float8": (pa.float64(), Compares.DOUBLES),
    "text": (pa.string(), Compares.TEXTS),
    "varchar": (pa.string(), Compares.TEXTS),
    "date": (pa.date32(), Compares.DATES),
    "timestamp": (pa.timestamp("us"), Compares.TIMESTAMPS),
    "timestamptz": (pa.timestamp("us", "UTC"), Compares.INSTANTS),
    "time": (pa.time64("us"), Compares.NOTHING),
    "bytea": (pa.binary(), Compares.NOTHING),
}
_LOST = re.compile(r"connection|server closed|could not receive|could not send", re.IGNORECASE)
_AS_TEXT = {"bpchar": Compares.PADDED, "uuid": Compares.UUIDS}


class Postgres:
    """A Postgres database, with a new connection for each scan."""

    kind = "postgres"
    # The driver counts from 1970 and Postgres from 2000, so the values that represent infinity overflow.
    infinities: ClassVar[dict[str, tuple[int, int]]] = {
        "timestamp": (-9222425352054775809, -9222425352054775808),
        "date": (-2147472692, -2147472691),
    }

    def __init__(self, place: Address) -> None:
        self._address = place

    @property
    def shown(self) -> str:
        return self._address.shown

    @contextmanager
    def session(self) -> Iterator[_Session]:
        with self._cursor() as cursor:
            yield _Session(cursor)

    def columns(self, schema: str, table: str) -> list[_CatalogColumn]:
        """Return the columns of a table from the catalog of the database."""
        with self._cursor() as cursor:
            cursor.execute(_COLUMNS, (schema, table))
            names = [field.name for field in fields(_CatalogColumn)]
            return [_CatalogColumn(**dict(zip(names, row, strict=True))) for row in cursor.fetchall()]

    @contextmanager
    def _cursor(self) -> Iterator[Any]:
        driver = _driver()
        options = {"adbc.postgresql.batch_size_hint_bytes": str(_BATCH_BYTES)}
        with driver.connect(_with_timeout(self._address.uri), autocommit=True) as connection:
            with connection.cursor() as cursor:
                cursor.execute(_SETTINGS)
            with connection.cursor(adbc_stmt_kwargs=options) as cursor:
                yield cursor

    def reason(self, error: Exception) -> str | None:
        if not isinstance(error, _driver().Error | OSError | pa.ArrowException):  # the last two are raised while rows arrive
            return None
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        return self._address.redacted("; ".join(lines[:2]))

    def is_down(self, error: Exception) -> bool:
        state = (getattr(error, "sqlstate", None) or "").strip("\0")
        # Class 57 is operator intervention, such as a shutdown.
        return state[:2] in ("08", "57") if state else _LOST.search(str(error)) is not None


@dataclass(frozen=True)
class _Session:
    """A connection for one statement."""

    cursor: Any

    def run(self, sql: str) -> Any:
        self.cursor.execute(sql)
        return self.cursor.fetch_record_batch()

    def cancel(self) -> None:
        with suppress(_driver().Error):  # the statement may have ended
            self.cursor.adbc_cancel()


@dataclass(frozen=True, kw_only=True)
class _CatalogColumn:
    """A column in the catalog; a domain appears as its base type. The fields are in the order of `_COLUMNS`."""

    name: str
    type: str
    category: str
    element: str | None
    is_builtin: bool
    modifier: int
    is_deterministic: bool
    is_unicode: bool


def open_postgres(name: str, uri: str, schema: str, table: str) -> RemoteDatabaseTable:
    """Open a table of a Postgres database with its current columns."""
    database = Postgres(address(uri))
    with source_errors(name, database):
        columns = database.columns(schema, table)
    if not columns:
        text = f"there is no table `{schema}.{table}` in {database.shown}"
        hint = 'write table="SCHEMA.TABLE"; the user must be allowed to see it'
        raise NotFound(text, what="table", name=f"{schema}.{table}", hint=hint)
    mapped = [_mapped(column) for column in columns]
    remote = RemoteTableRef("postgres", schema, table, tuple(column for column, _ in mapped))
    return RemoteDatabaseTable(name, database, remote, pa.schema([pa.field(column.name, kind) for column, kind in mapped]))


def _mapped(column: _CatalogColumn) -> tuple[RemoteColumn, pa.DataType]:
    """Return how a column is selected, and its Arrow type: Postgres casts a type that Arrow lacks to text."""
    if column.category == "e":
        return RemoteColumn(column.name, Compares.LABELS, "text"), pa.string()
    if column.category == "c":
        return RemoteColumn(column.name, Compares.NOT_EVEN_NULL, "text"), pa.string()
    if column.is_builtin and column.type in _PLAIN:
        kind, compares = _PLAIN[column.type]
        return RemoteColumn(column.name, _texts(column, compares)), kind
    if column.is_builtin and column.type == "numeric":
        return _numeric(column)
    if column.is_builtin and column.element in _PLAIN:
        return RemoteColumn(column.name, Compares.NOTHING, array_of=column.element), pa.list_(_PLAIN[column.element][0])
    compares = _texts(column, _AS_TEXT.get(column.type, Compares.NOTHING) if column.is_builtin else Compares.NOTHING)
    return RemoteColumn(column.name, compares, "text"), pa.string()


def _texts(column: _CatalogColumn, compares: Compares) -> Compares:
    """Disable the push-down of text comparisons if the collation equates different texts, or the encoding is not UTF-8."""
    is_plain = column.is_deterministic and column.is_unicode
    return compares if is_plain or compares not in (Compares.TEXTS, Compares.PADDED) else Compares.NOTHING


def _numeric(column: _CatalogColumn) -> tuple[RemoteColumn, pa.DataType]:
    """Select a decimal if its declared precision is supported by every engine, else a text."""
    precision, scale = (column.modifier - 4) >> 16, (column.modifier - 4) & 0x7FF
    if column.modifier < 4 or not scale <= precision <= 38:
        return RemoteColumn(column.name, Compares.NOTHING, "text"), pa.string()
    return RemoteColumn(column.name, Compares.DECIMALS, "text"), pa.decimal128(precision, scale)


def _with_timeout(uri: str) -> str:
    """Add a connection timeout to an address without one: the driver's default is minutes."""
    if "connect_timeout=" in uri or "PGCONNECT_TIMEOUT" in os.environ:
        return uri
    return f"{uri}{'&' if '?' in uri else '?'}connect_timeout={_CONNECT_SECONDS}"


def _driver() -> Any:
    try:
        from adbc_driver_postgresql import dbapi
    except ImportError:
        text = "tables of Postgres need the package adbc-driver-postgresql"
        raise Configuration(text, what="postgres", hint='run pip install "omnigraph-sql[postgres]"') from None
    # The package installs a handler of Ctrl-C after which a wait for another thread is not interrupted any more.
    if hasattr(signal, "siginterrupt"):
        signal.siginterrupt(signal.SIGINT, True)
    return dbapi
