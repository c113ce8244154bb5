"""Plain values as columns store them, checked one by one: those of mutations, of JSON records and of odd columns.

Every refusal is a `Complaint` whose text is one of the constants or functions here, so that a value is refused in the
same words wherever it comes from.
"""

from __future__ import annotations

import binascii
import datetime
import json
import math
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NoReturn

from omnigraph_compiler import PropType
from omnigraph_compiler.diagnostics import clip
from omnigraph_compiler.types import FLOATS, INTEGER_RANGES, INTEGERS
from omnigraph_compiler.values import parse_date, parse_datetime, to_f32

BLOB_BYTES = 32 << 20
"""The most that one Blob may hold, decoded."""
_EPOCH = datetime.date(1970, 1, 1)
_EPOCH_INSTANT = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MILLISECOND = datetime.timedelta(milliseconds=1)
_DAY_MS = 86_400_000
DAYS = ((datetime.date.min - _EPOCH).days, (datetime.date.max - _EPOCH).days)
"""The days that can be written YYYY-MM-DD; others could be stored, but not shown or exported."""
INSTANTS = (DAYS[0] * _DAY_MS, (DAYS[1] + 1) * _DAY_MS - 1)

_WIDTHS = {"I32": "Int32", "I64": "Int64", "U32": "UInt32", "U64": "UInt64"}
_INLINE = "base64:"
_SHOWN = 200

WHOLE = "expects a whole number"
NUMBER = "expects a number"
FINITE = "expects a finite number"
BOOL = "expects true or false"
STRING = "expects a string"
DATE = "expects a date, written YYYY-MM-DD or as days since 1970-01-01"
DATETIME = "expects an instant, written as in RFC 3339 or as milliseconds since 1970-01-01"
DATE_RANGE = "exceeds Date range, which is 0001-01-01 to 9999-12-31"
DATETIME_RANGE = "exceeds DateTime range, which is the years 0001 to 9999"
NULL_ELEMENT = "expects elements that are not null"
NUMERIC = "expects numeric elements"
BLOB = "expects bytes, written base64:<data>"
EXTERNAL_BLOB = "external blob references are not allowed"


@dataclass(frozen=True)
class Excess:
    """The amount by which a limit was exceeded."""

    resource: str
    limit: int
    actual: int


class Complaint(Exception):
    """The reason why a value cannot be stored, without its place: `expects a number`, found `"x"`."""

    def __init__(self, text: str, actual: str | None = None, *, rule: str = "type", excess: Excess | None = None) -> None:
        super().__init__(text)
        self.text = text
        self.actual = actual
        self.rule = rule
        self.excess = excess

    @property
    def sentence(self) -> str:
        return self.text if self.actual is None else f"{self.text}, found {self.actual}"


def integer_range(scalar: str) -> str:
    low, high = INTEGER_RANGES[scalar]
    return f"exceeds {_WIDTHS[scalar]} range, which is {low} to {high}"


def float_range(scalar: str) -> str:
    return f"exceeds {'Float32' if scalar == 'F32' else 'Float64'} range"


def dimensions(type_: PropType) -> str:
    return f"expects {type_.dimension} dimensions"


def shown(value: Any, limit: int = 40) -> str:
    """A value for a message, as JSON where it has a JSON form."""
    if isinstance(value, bytes):
        return f"{len(value)} bytes"
    if isinstance(value, Decimal | datetime.date | datetime.time):
        return clip(str(value), limit)
    try:
        return clip(json.dumps(value, ensure_ascii=False, default=str), limit)
    except (ValueError, RecursionError):  # an integer of thousands of digits, or deep nesting
        return f"a value of type {type(value).__name__}"


def recorded(value: Any) -> str | None:
    """A value for the report of rejects, which has more room than a message."""
    return None if value is None else shown(value, _SHOWN)


def stored_value(type_: PropType, value: Any, blob_bytes: int = BLOB_BYTES) -> Any:
    """A value other than null as a column of that type stores it; raises `Complaint`."""
    if type_.is_list:
        return _list(type_, value)
    if type_.scalar == "Vector":
        return _vector(type_, value)
    return blob(value, blob_bytes) if type_.scalar == "Blob" else _scalar(type_, value)


def _list(type_: PropType, value: Any) -> list[Any]:
    if not isinstance(value, list):
        _refuse("expects an array", value)
    item = type_.item
    if None in value:
        _refuse(NULL_ELEMENT, value)
    return [_scalar(item, element) for element in value]


def _vector(type_: PropType, value: Any) -> list[float]:
    if not isinstance(value, list):
        _refuse(f"expects an array of {type_.dimension} numbers", value)
    if len(value) != type_.dimension:
        raise Complaint(dimensions(type_), str(len(value)))
    for element in value:
        if not isinstance(element, int | float) or isinstance(element, bool):
            _refuse(NUMERIC, element)
    return [_float("F32", element) for element in value]


def _scalar(type_: PropType, value: Any) -> Any:
    scalar = type_.scalar
    if scalar == "String":
        return value if isinstance(value, str) else _refuse(STRING, value)
    if scalar in INTEGERS:
        return integer(scalar, value)
    if scalar in FLOATS:
        return _float(scalar, value)
    if scalar == "Bool":
        return value if isinstance(value, bool) else _refuse(BOOL, value)
    return date(value) if scalar == "Date" else instant(value)


def integer(scalar: str, value: Any) -> int:
    """A whole number in range; one with a fraction of zero counts."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        _refuse(WHOLE, value)
    if not isinstance(value, int):
        if not math.isfinite(value):
            _refuse(integer_range(scalar), value)
        if value != int(value):
            _refuse(WHOLE, value)
        value = int(value)
    low, high = INTEGER_RANGES[scalar]
    return int(value) if low <= value <= high else _refuse(integer_range(scalar), value)


def _float(scalar: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        _refuse(NUMBER, value)
    try:
        number = float(value)
        # JSON has no infinity: one is made by reading a number that is too large.
        return to_f32(number) if scalar == "F32" else to_finite(number)
    except (ValueError, OverflowError):
        return _refuse(float_range(scalar), value)


def to_finite(number: float) -> float:
    if not math.isfinite(number):
        raise ValueError("not a finite number")
    return number


def date(value: Any) -> int:
    """Days since the epoch, from their number, a text or a date."""
    if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        return (value - _EPOCH).days
    days = value
    if isinstance(value, str):
        try:
            days = parse_date(value)
        except ValueError:
            _refuse(DATE, value)
    elif isinstance(value, bool) or not isinstance(value, int):
        _refuse(DATE, value)
    return int(days) if DAYS[0] <= days <= DAYS[1] else _refuse(DATE_RANGE, value)


def instant(value: Any) -> int:
    """Milliseconds since the epoch, from their number, a text or an instant of Python."""
    if isinstance(value, datetime.datetime):
        return (value - _EPOCH_INSTANT) // _MILLISECOND
    moment = value
    if isinstance(value, str):
        try:
            moment = parse_datetime(value)
        except ValueError:
            _refuse(DATETIME, value)
    elif isinstance(value, bool) or not isinstance(value, int):
        _refuse(DATETIME, value)
    return int(moment) if INSTANTS[0] <= moment <= INSTANTS[1] else _refuse(DATETIME_RANGE, value)


def blob(value: Any, most: int) -> bytes:
    """The bytes of a `base64:` text, or bytes as they are."""
    if isinstance(value, bytes):
        return _sized(value, len(value), most)
    if not isinstance(value, str):
        _refuse(BLOB, value)
    if not value.startswith(_INLINE):
        raise Complaint(EXTERNAL_BLOB, shown(value), rule="blob")
    data = value[len(_INLINE) :]
    # Refused before it is decoded: what is too large should not be copied as well.
    _sized(b"", len(data) // 4 * 3 - data[-2:].count("="), most)
    try:
        return _sized(decoded := binascii.a2b_base64(data, strict_mode=True), len(decoded), most)
    except ValueError:  # text outside ASCII is one, too
        return _refuse(BLOB, value)


def _sized(data: bytes, size: int, most: int) -> bytes:
    if size > most:
        text = f"holds {size} bytes, more than the {most} a Blob may have"
        raise Complaint(text, rule="limit", excess=Excess("blob_bytes", most, size))
    return data


def _refuse(text: str, value: Any) -> NoReturn:
    raise Complaint(text, shown(value))


def kind(value: Any) -> str:
    """The kind of a JSON value, for messages about the shape of a record."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, str):
        return "a string"
    if isinstance(value, list):
        return "an array"
    return "an object" if isinstance(value, dict) else "a number"
