"""Values of mutations: from bound parameters and literals to what a column stores."""

from __future__ import annotations

import base64
import binascii
import datetime
import math
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from omnigraph_compiler import EdgeType, NodeType, PropType, ir
from omnigraph_compiler.types import FLOATS, INTEGER_RANGES, INTEGERS
from omnigraph_compiler.values import parse_date, parse_datetime, to_f32
from omnigraph_sql.errors import BadRequest, ResourceLimit
from omnigraph_sql.storage.columns import blob_column, table_schema

BLOB_LIMIT = 32 << 20
_EPOCH_DAY = datetime.date(1970, 1, 1)
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_ARROW_NAMES = {"I32": "Int32", "I64": "Int64", "U32": "UInt32", "U64": "UInt64"}


def evaluate(expr: ir.Expr, params: Mapping[str, Any]) -> Any:
    """The value of a mutation's literal or parameter, as a plain Python value."""
    if isinstance(expr, ir.ParamRef):
        return params[expr.name]
    assert isinstance(expr, ir.Constant)
    value = expr.value
    if expr.type.scalar == "Date" and not expr.type.is_list:
        return _EPOCH_DAY + datetime.timedelta(days=value)  # type: ignore[arg-type]
    if expr.type.scalar == "DateTime" and not expr.type.is_list:
        return _EPOCH + datetime.timedelta(milliseconds=value)  # type: ignore[arg-type]
    return list(value) if isinstance(value, tuple) else value


def default_value(type_: PropType, literal: Any) -> Any:
    """A `@default` literal as a stored value."""
    if literal is None:
        return None
    if type_.scalar == "Date":
        return _EPOCH_DAY + datetime.timedelta(days=parse_date(literal))
    if type_.scalar == "DateTime":
        return _EPOCH + datetime.timedelta(milliseconds=parse_datetime(literal))
    return literal


def stored(name: str, type_: PropType, value: Any) -> Any:
    """A value converted for a column; `name` is `Type.property` and appears in the message."""
    if value is None:
        return None
    if type_.is_vector:
        return _vector(name, type_, value)
    if type_.is_list:
        return [_scalar(name, type_.item, each) for each in value]
    return _scalar(name, type_, value)


def _scalar(name: str, type_: PropType, value: Any) -> Any:
    scalar = type_.scalar
    if scalar in INTEGERS:
        return _integer(name, scalar, value)
    if scalar in FLOATS:
        return _float(name, scalar, value)
    if scalar == "Blob":
        return _blob(name, value)
    return value


def _integer(name: str, scalar: str, value: Any) -> int:
    if isinstance(value, float) and not value.is_integer():
        raise BadRequest(f"{name} is {scalar}: {value} is not a whole number")
    low, high = INTEGER_RANGES[scalar]
    if not low <= value <= high:
        raise BadRequest(f"{name}: {int(value)} exceeds {_ARROW_NAMES[scalar]} range")
    return int(value)


def _float(name: str, scalar: str, value: Any) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise BadRequest(f"{name}: {number} is not a finite number")
    if scalar == "F64":
        return number
    try:
        return to_f32(number)
    except ValueError:
        raise BadRequest(f"{name}: {number} exceeds Float32 range") from None


def _vector(name: str, type_: PropType, value: Sequence[Any]) -> list[float]:
    if len(value) != type_.dimension:
        raise BadRequest(f"{name} has {type_.dimension} dimensions, found {len(value)}")
    return [_float(name, "F32", each) for each in value]


def _blob(name: str, value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    if not value.startswith("base64:"):
        hint = "write inline data as `base64:<data>`"
        raise BadRequest(f"{name}: external blob references are not allowed", hint=hint)
    try:
        data = base64.b64decode(value[7:], validate=True)
    except binascii.Error as error:
        raise BadRequest(f"{name}: the base64 data is malformed: {error}") from None
    if len(data) > BLOB_LIMIT:
        text = f"{name}: a Blob of {len(data)} bytes"
        raise ResourceLimit(text, resource="blob bytes", limit=BLOB_LIMIT, actual=len(data))
    return data


def key_text_value(value: Any) -> Any:
    """A stored value as the derivation of ids takes it: dates and instants as numbers."""
    if isinstance(value, datetime.datetime):
        return (value - _EPOCH) // datetime.timedelta(milliseconds=1)
    if isinstance(value, datetime.date):
        return (value - _EPOCH_DAY).days
    return value


def rows_table(type_: NodeType | EdgeType, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Rows as a table of the type's exact schema."""
    schema = table_schema(type_)
    columns = []
    for column in schema:
        values = [row.get(column.name) for row in rows]
        prop = type_.properties.get(column.name)
        if prop is not None and prop.type.is_blob:
            columns.append(blob_column(pa.array(values, pa.large_binary())))
        else:
            columns.append(pa.array(values, column.type))
    return pa.Table.from_arrays(columns, schema=schema)
