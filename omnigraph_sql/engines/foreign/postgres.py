"""Tables of a Postgres database, over ADBC."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from omnigraph_sql.engines.foreign.addresses import Address, address
from omnigraph_sql.engines.foreign.remote import Remote, reported
from omnigraph_sql.errors import Configuration, NotFound
from omnigraph_sql.planner.remote import Compares, RemoteColumn, RemoteTable

DEFAULT_SCHEMA = "public"
_CONNECT_SECONDS = 15
_BATCH_BYTES = 1 << 20
"""Rows come in batches of about so many bytes: whoever stops early should not have waited for many more."""
# One round trip. Literals are written for standard strings; nothing may be changed by a function in a view either.
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
    """A database. A connection is made for each scan, and closed after it."""

    kind = "postgres"
    # The driver counts from 1970, Postgres from 2000: what stands for infinity runs over.
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

    def columns(self, schema: str, table: str) -> list[_Found]:
        """What the catalog of the database says about the columns of a table."""
        with self._cursor() as cursor:
            cursor.execute(_COLUMNS, (schema, table))
            return [_Found(*row) for row in cursor.fetchall()]

    @contextmanager
    def _cursor(self) -> Iterator[Any]:
        driver = _driver()
        options = {"adbc.postgresql.batch_size_hint_bytes": str(_BATCH_BYTES)}
        with driver.connect(_patient(self._address.uri), autocommit=True) as connection:
            with connection.cursor() as cursor:
                cursor.execute(_SETTINGS)
            with connection.cursor(adbc_stmt_kwargs=options) as cursor:
                yield cursor

    def reason(self, error: Exception) -> str | None:
        if not isinstance(error, _driver().Error | OSError | pa.ArrowException):  # the latter two while rows arrive
            return None
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        return self._address.redacted("; ".join(lines[:2]))

    def is_down(self, error: Exception) -> bool:
        state = (getattr(error, "sqlstate", None) or "").strip("\0")
        # Class 57 is an operator's doing, as a shutdown.
        return state[:2] in ("08", "57") if state else _LOST.search(str(error)) is not None


@dataclass(frozen=True)
class _Session:
    """A connection for one statement."""

    cursor: Any

    def run(self, sql: str) -> Any:
        self.cursor.execute(sql)
        return self.cursor.fetch_record_batch()

    def cancel(self) -> None:
        with suppress(_driver().Error):  # there may be nothing to cancel any more
            self.cursor.adbc_cancel()


@dataclass(frozen=True)
class _Found:
    """A column as the catalog has it; a domain is what it is based on."""

    name: str
    type: str
    category: str
    element: str | None
    is_builtin: bool
    modifier: int
    is_deterministic: bool
    is_unicode: bool


def open_postgres(name: str, uri: str, schema: str, table: str) -> Remote:
    """A table of a Postgres database, with the columns it has now."""
    database = Postgres(address(uri))
    with reported(name, database):
        found = database.columns(schema, table)
    if not found:
        text = f"there is no table `{schema}.{table}` in {database.shown}"
        hint = 'write table="SCHEMA.TABLE"; the user must be allowed to see it'
        raise NotFound(text, what="table", name=f"{schema}.{table}", hint=hint)
    mapped = [_mapped(column) for column in found]
    described = RemoteTable("postgres", schema, table, tuple(column for column, _ in mapped))
    return Remote(name, database, described, pa.schema([pa.field(column.name, kind) for column, kind in mapped]))


def _mapped(found: _Found) -> tuple[RemoteColumn, pa.DataType]:
    """How a column travels. What Arrow has no type for is cast to text over there."""
    if found.category == "e":
        return RemoteColumn(found.name, Compares.LABELS, "text"), pa.string()
    if found.category == "c":
        return RemoteColumn(found.name, Compares.NOT_EVEN_NULL, "text"), pa.string()
    if found.is_builtin and found.type in _PLAIN:
        kind, compares = _PLAIN[found.type]
        return RemoteColumn(found.name, _texts(found, compares)), kind
    if found.is_builtin and found.type == "numeric":
        return _numeric(found)
    if found.is_builtin and found.element in _PLAIN:
        return RemoteColumn(found.name, Compares.NOTHING, array_of=found.element), pa.list_(_PLAIN[found.element][0])
    compares = _texts(found, _AS_TEXT.get(found.type, Compares.NOTHING) if found.is_builtin else Compares.NOTHING)
    return RemoteColumn(found.name, compares, "text"), pa.string()


def _texts(found: _Found, compares: Compares) -> Compares:
    """Texts compare as here unless a collation takes different ones for equal, or the database cannot hold them all."""
    is_plain = found.is_deterministic and found.is_unicode
    return compares if is_plain or compares not in (Compares.TEXTS, Compares.PADDED) else Compares.NOTHING


def _numeric(found: _Found) -> tuple[RemoteColumn, pa.DataType]:
    """A decimal number where a size was declared that every engine has; else a text."""
    precision, scale = (found.modifier - 4) >> 16, (found.modifier - 4) & 0x7FF
    if found.modifier < 4 or not scale <= precision <= 38:
        return RemoteColumn(found.name, Compares.NOTHING, "text"), pa.string()
    return RemoteColumn(found.name, Compares.DECIMALS, "text"), pa.decimal128(precision, scale)


def _patient(uri: str) -> str:
    """An address with a limit to the time that connecting takes, unless it has one: the driver would wait for minutes."""
    if "connect_timeout=" in uri or "PGCONNECT_TIMEOUT" in os.environ:
        return uri
    return f"{uri}{'&' if '?' in uri else '?'}connect_timeout={_CONNECT_SECONDS}"


def _driver() -> Any:
    try:
        from adbc_driver_postgresql import dbapi
    except ImportError:
        text = "tables of Postgres need the package adbc-driver-postgresql"
        raise Configuration(text, what="postgres", hint='run pip install "omnigraph-sql[postgres]"') from None
    # With the package comes a way to handle Ctrl-C after which it wakes nobody who waits for another thread.
    if hasattr(signal, "siginterrupt"):
        signal.siginterrupt(signal.SIGINT, True)
    return dbapi
