"""Values: how they are stored, compared, sorted and shown."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import Any, Literal

from omnigraph_compiler import PropType
from omnigraph_compiler.types import FLOATS
from omnigraph_compiler.values import format_date, format_datetime, parse_date, parse_datetime

Origin = Literal["given", "stored", "computed"]


@dataclass(frozen=True)
class Value:
    """A value with its static type. A literal or parameter is given, a property of an entity stored."""

    data: Any
    type: PropType
    origin: Origin = "computed"

    def elements(self) -> list[Value]:
        return [Value(each, self.type.item, self.origin) for each in self.data]


def f32(number: float) -> float:
    """A number rounded to 32 bits; beyond the largest one it is infinite."""
    try:
        rounded: float = struct.unpack("<f", struct.pack("<f", number))[0]
    except OverflowError:
        return math.copysign(math.inf, number)
    return rounded


def stored(type_: PropType, value: Any) -> Any:
    """A JSON value as a column of the type keeps it."""
    if value is None or type_.is_blob:
        return value
    if type_.is_vector:
        return [f32(float(each)) for each in value]
    if type_.is_list:
        return [stored(type_.item, each) for each in value]
    if type_.scalar == "Date":
        return parse_date(value) if isinstance(value, str) else value
    if type_.scalar == "DateTime":
        return parse_datetime(value) if isinstance(value, str) else value
    if type_.scalar in FLOATS:
        return f32(float(value)) if type_.scalar == "F32" else float(value)
    return value


# Comparisons -----------------------------------------------------------------------------------------------------


def holds(left: Value, operator: str, right: Value) -> bool:
    """Whether a filter keeps a row: null on either side is unknown, and unknown does not."""
    if left.data is None or right.data is None:
        return False
    if operator == "contains":
        if left.type.is_list:
            return any(equal(element, right) for element in left.elements())
        return right.data in left.data
    if operator == "starts_with":
        return bool(left.data.startswith(right.data))
    if operator == "=":
        return equal(left, right)
    if operator == "!=":
        return not equal(left, right)
    a, b = _comparable(left, right)
    return bool({"<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[operator])


def equal(left: Value, right: Value) -> bool:
    if left.data is None or right.data is None:
        return False
    if left.type.is_vector:
        return [f32(each) for each in left.data] == [f32(each) for each in right.data]
    a, b = _comparable(left, right)
    return bool(a == b)


def _comparable(left: Value, right: Value) -> tuple[Any, Any]:
    """Both sides as Python values: strings as bytes, numbers exactly, but a given float beside an F32 column as F32."""
    a, b = left.data, right.data
    if isinstance(a, str):
        return a.encode(), b.encode()
    if _rounds(left, right):
        a = f32(a)
    if _rounds(right, left):
        b = f32(b)
    return a, b


def _rounds(value: Value, beside: Value) -> bool:
    is_given_float = value.origin == "given" and value.type.scalar in FLOATS
    return is_given_float and beside.origin == "stored" and beside.type.scalar == "F32"


def sort_key(data: Any) -> tuple[int, Any]:
    """Null is smallest, text goes by bytes, false comes before true."""
    if data is None:
        return (0, 0)
    return (1, data.encode() if isinstance(data, str) else data)


# JSON ------------------------------------------------------------------------------------------------------------

_SAFE = 2**53 - 1


def to_json(type_: PropType, data: Any, *, javascript_safe: bool = False) -> Any:
    """A value as results show it."""
    if data is None:
        return None
    if isinstance(data, list | tuple):
        item = PropType("F32") if type_.is_vector else type_.item
        return [to_json(item, each, javascript_safe=javascript_safe) for each in data]
    if type_.scalar == "Date":
        return format_date(data)
    if type_.scalar == "DateTime":
        return format_datetime(data)
    if isinstance(data, float) and not math.isfinite(data):
        return "NaN" if math.isnan(data) else "Infinity" if data > 0 else "-Infinity"
    if javascript_safe and isinstance(data, int) and not isinstance(data, bool) and abs(data) > _SAFE:
        return str(data)
    return data
