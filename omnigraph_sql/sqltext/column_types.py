"""Types of columns as SQL writes them, and as tables keep them. They are the same on every engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pyarrow as pa
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from omnigraph_sql.errors import BadRequest

_KIND = exp.DType
_DECIMAL: Final = (18, 3)
"""Precision and scale of a decimal without them."""
_SIMPLE: Final[Mapping[exp.DType, pa.DataType]] = {
    _KIND.BOOLEAN: pa.bool_(),
    _KIND.TINYINT: pa.int8(),
    _KIND.SMALLINT: pa.int16(),
    _KIND.INT: pa.int32(),
    _KIND.BIGINT: pa.int64(),
    _KIND.UTINYINT: pa.uint8(),
    _KIND.USMALLINT: pa.uint16(),
    _KIND.UINT: pa.uint32(),
    _KIND.UBIGINT: pa.uint64(),
    _KIND.INT128: pa.decimal128(38, 0),
    _KIND.FLOAT: pa.float32(),
    _KIND.DOUBLE: pa.float64(),
    _KIND.VARCHAR: pa.string(),
    _KIND.CHAR: pa.string(),
    _KIND.BPCHAR: pa.string(),
    _KIND.NCHAR: pa.string(),
    _KIND.NVARCHAR: pa.string(),
    _KIND.TEXT: pa.string(),
    _KIND.UUID: pa.string(),
    _KIND.JSON: pa.string(),
    _KIND.JSONB: pa.string(),
    _KIND.VARBINARY: pa.binary(),
    _KIND.BINARY: pa.binary(),
    _KIND.BLOB: pa.binary(),
    _KIND.DATE: pa.date32(),
    _KIND.TIME: pa.time64("us"),
    _KIND.TIMESTAMP: pa.timestamp("us"),
    _KIND.TIMESTAMPNTZ: pa.timestamp("us"),
    _KIND.DATETIME: pa.timestamp("us"),
    _KIND.TIMESTAMP_S: pa.timestamp("us"),
    _KIND.TIMESTAMP_MS: pa.timestamp("us"),
    _KIND.TIMESTAMP_NS: pa.timestamp("us"),
    _KIND.TIMESTAMPTZ: pa.timestamp("us", "UTC"),
    _KIND.TIMESTAMPLTZ: pa.timestamp("us", "UTC"),
}
_MOST_DIGITS: Final = 38


def column_type(text: str) -> pa.DataType:
    """The type that a table keeps for a type of SQL. Raises if there is none.

    >>> str(column_type("decimal(10, 2)")), str(column_type("varchar(20)")), str(column_type("bigint[]"))
    ('decimal128(10, 2)', 'string', 'list<item: int64>')
    """
    try:
        kind = sqlglot.parse_one(text, read="duckdb", into=exp.DataType)
    except (SqlglotError, RecursionError):
        kind = None
    if not isinstance(kind, exp.DataType):
        raise BadRequest(f"`{text}` is no type", hint="use for example INTEGER, DOUBLE, DECIMAL(18, 2), VARCHAR or DATE")
    return _converted(kind, text)


def _converted(kind: exp.DataType, text: str) -> pa.DataType:
    simple = _SIMPLE.get(kind.this)
    if simple is not None:
        return simple
    match kind.this:
        case _KIND.DECIMAL:
            return _decimal(kind, text)
        case _KIND.ARRAY | _KIND.LIST:
            member = pa.field("item", _converted(kind.expressions[0], text))
            sizes = kind.args.get("values") or ()
            return pa.list_(member, int(sizes[0].name)) if sizes else pa.list_(member)
        case _KIND.STRUCT:
            return pa.struct([_member(part, text) for part in kind.expressions])
        case _KIND.MAP:
            key, value = (_converted(part, text) for part in kind.expressions)
            return pa.map_(key, value)
    hints = {
        _KIND.INTERVAL: "keep a number of days or seconds",
        _KIND.ENUM: "use VARCHAR with a CHECK",
        _KIND.SERIAL: "use BIGINT, and compute the numbers in the query",
        _KIND.BIGSERIAL: "use BIGINT, and compute the numbers in the query",
    }
    hint = hints.get(kind.this, "use for example INTEGER, DOUBLE, DECIMAL(18, 2), VARCHAR, DATE or TIMESTAMP")
    raise BadRequest(f"a table cannot keep the type `{text}`", hint=hint)


def _decimal(kind: exp.DataType, text: str) -> pa.DataType:
    numbers = [int(parameter.name) for parameter in kind.expressions]
    precision, scale = (*numbers, 0)[:2] if numbers else _DECIMAL
    if not 1 <= precision <= _MOST_DIGITS or not 0 <= scale <= precision:
        raise BadRequest(f"a table cannot keep the type `{text}`", hint="a decimal has at most 38 digits")
    return pa.decimal128(precision, scale)


def _member(part: exp.Expression, text: str) -> pa.Field:
    if not isinstance(part, exp.ColumnDef) or part.kind is None:
        raise BadRequest(f"`{text}` is no type", hint="write STRUCT(NAME TYPE, …)")
    return pa.field(part.name, _converted(part.kind, text))
