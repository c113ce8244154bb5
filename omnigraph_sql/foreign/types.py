"""Names of column types: in options and settings, and in DuckDB."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from omnigraph_compiler.diagnostics import did_you_mean
from omnigraph_sql.arguments import mapping, shown
from omnigraph_sql.errors import BadRequest

_NAMED: dict[str, pa.DataType] = {
    "bool": pa.bool_(),
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "uint8": pa.uint8(),
    "uint16": pa.uint16(),
    "uint32": pa.uint32(),
    "uint64": pa.uint64(),
    "float32": pa.float32(),
    "float64": pa.float64(),
    "string": pa.string(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
}
_DECIMAL = re.compile(r"decimal\(\s*(\d{1,2})\s*,\s*(\d{1,2})\s*\)")
_DUCKDB: dict[pa.DataType, str] = {
    pa.bool_(): "BOOLEAN",
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INTEGER",
    pa.int64(): "BIGINT",
    pa.uint8(): "UTINYINT",
    pa.uint16(): "USMALLINT",
    pa.uint32(): "UINTEGER",
    pa.uint64(): "UBIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.string(): "VARCHAR",
    pa.large_string(): "VARCHAR",
    pa.string_view(): "VARCHAR",
    pa.date32(): "DATE",
    pa.timestamp("s"): "TIMESTAMP_S",
    pa.timestamp("ms"): "TIMESTAMP_MS",
    pa.timestamp("us"): "TIMESTAMP",
    pa.timestamp("ns"): "TIMESTAMP_NS",
}


def parse_type(kind: Any) -> pa.DataType:
    """Return an Arrow type, or parse the name of one.

    >>> parse_type("decimal(10, 2)"), parse_type("date")
    (Decimal128Type(decimal128(10, 2)), DataType(date32[day]))
    """
    if isinstance(kind, pa.DataType):
        return kind
    named = _NAMED.get(kind) if isinstance(kind, str) else None
    if named is not None:
        return named
    decimal = _DECIMAL.fullmatch(kind) if isinstance(kind, str) else None
    if decimal is not None and 0 < int(decimal[1]) <= 38:
        return pa.decimal128(int(decimal[1]), int(decimal[2]))
    close = did_you_mean(kind, _NAMED) if isinstance(kind, str) else None
    hint = close or f"write {', '.join(_NAMED)} or decimal(PRECISION, SCALE)"
    raise BadRequest(f"`{shown(kind)}` is no type of a column", hint=hint)


def parse_types(types: Any) -> dict[str, pa.DataType]:
    """Parse the types of columns, given as a mapping or a schema."""
    if isinstance(types, pa.Schema):
        return dict(zip(types.names, types.types, strict=True))
    if isinstance(types, Mapping):
        return {name: parse_type(type_) for name, type_ in mapping("types", types).items()}
    raise BadRequest("the types of columns are not understood", hint='give {"COLUMN": "TYPE"} or a pyarrow.Schema')


def duckdb_type(kind: pa.DataType) -> str:
    """Return DuckDB's name of the type of a CSV column."""
    if pa.types.is_decimal128(kind):
        return f"DECIMAL({kind.precision}, {kind.scale})"
    if kind not in _DUCKDB:
        raise BadRequest(f"DuckDB reads no column of type {kind} from CSV", hint="give the column another type with types=")
    return _DUCKDB[kind]
