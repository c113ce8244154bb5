"""Scalar values: parsing of dates and instants, checks of literals against types, canonical texts for ids."""

from __future__ import annotations

import datetime
import math
import re
import struct
from decimal import Decimal

from omnigraph_compiler.types import FLOATS, INTEGER_RANGES, INTEGERS, PropType

_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_DATETIME = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt ]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]+))?([Zz]|[+-][0-9]{2}:[0-9]{2})?",
    re.ASCII,
)
_EPOCH = datetime.date(1970, 1, 1)
_MAX_F32 = struct.unpack("<f", b"\xff\xff\x7f\x7f")[0]


def parse_date(text: str) -> int:
    """Return the days since 1970-01-01 of a `YYYY-MM-DD` text. Raises ValueError if it is malformed."""
    if not _DATE.fullmatch(text):
        raise ValueError("expects a date written YYYY-MM-DD")
    try:
        return (datetime.date.fromisoformat(text) - _EPOCH).days
    except ValueError:
        raise ValueError("expects a day that exists") from None


def parse_datetime(text: str) -> int:
    """Return the milliseconds since the epoch of an RFC 3339 text. Without a zone it is UTC; finer digits are cut off."""
    match = _DATETIME.fullmatch(text)
    if match is None:
        raise ValueError("expects an RFC 3339 instant such as 2024-05-01T12:00:00Z")
    day, hour, minute, second, fraction, zone = match.groups()
    if int(hour) > 23 or int(minute) > 59 or int(second) > 59:
        raise ValueError("expects an RFC 3339 instant: the time of day is out of range")
    offset = 0
    if zone and zone not in "Zz":
        if int(zone[1:3]) > 23 or int(zone[4:6]) > 59:
            raise ValueError("expects an RFC 3339 instant: the zone offset is out of range")
        offset = (int(zone[1:3]) * 60 + int(zone[4:6])) * (1 if zone[0] == "+" else -1)
    minutes = parse_date(day) * 1440 + int(hour) * 60 + int(minute) - offset
    return (minutes * 60 + int(second)) * 1000 + int(((fraction or "") + "000")[:3])


def format_date(days: int) -> str:
    return (_EPOCH + datetime.timedelta(days=days)).isoformat()


def format_datetime(milliseconds: int) -> str:
    seconds, rest = divmod(milliseconds, 1000)
    moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=seconds)
    return f"{moment.isoformat(timespec='seconds')}.{rest:03d}Z"


def to_f32(value: float) -> float:
    """Round a value to 32 bits. Raises ValueError if it is too large."""
    if not math.isfinite(value):
        raise ValueError("not a finite number")
    try:
        rounded: float = struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        raise ValueError("outside the Float32 range") from None
    if abs(rounded) > _MAX_F32:
        raise ValueError("outside the Float32 range")
    return rounded


def fit_literal(literal: str | int | float | bool, type_: PropType) -> str | None:
    """Return the reason why a literal is not a value of a scalar type, or None if it is one."""
    scalar = type_.scalar
    if scalar == "Bool":
        return None if isinstance(literal, bool) else "expects true or false"
    if scalar in INTEGERS:
        return _fit_integer(literal, scalar)
    if scalar in FLOATS:
        if isinstance(literal, bool | str):
            return "expects a number"
        return _fit_float(literal, scalar)
    if not isinstance(literal, str):
        return "expects a string"
    if type_.enum_values is not None and literal not in type_.enum_values:
        return f"expects one of {', '.join(type_.enum_values)}"
    try:
        if scalar == "Date":
            parse_date(literal)
        elif scalar == "DateTime":
            parse_datetime(literal)
    except ValueError as error:
        return str(error)
    return None


def _fit_float(literal: int | float, scalar: str) -> str | None:
    try:
        number = to_f32(float(literal)) if scalar == "F32" else float(literal)
    except (ValueError, OverflowError) as error:
        return str(error) if isinstance(error, ValueError) else "outside the Float64 range"
    return None if math.isfinite(number) else "not a finite number"


def _fit_integer(literal: str | int | float | bool, scalar: str) -> str | None:
    if isinstance(literal, bool | str) or (isinstance(literal, float) and not literal.is_integer()):
        return "expects a whole number"
    low, high = INTEGER_RANGES[scalar]
    return None if low <= literal <= high else f"outside the range of {scalar}"


def stored_scalar(type_: PropType, value: object) -> str | int | float | bool:
    """Convert a JSON scalar to its stored form: dates to days, instants to milliseconds, floats to their width."""
    scalar = type_.scalar
    if scalar == "Date" and isinstance(value, int) and not isinstance(value, bool):
        return value
    if scalar == "DateTime" and isinstance(value, int) and not isinstance(value, bool):
        return value
    if not isinstance(value, str | int | float | bool):
        raise ValueError("expects a single value")
    complaint = fit_literal(value, type_)
    if complaint is not None:
        raise ValueError(complaint)
    if scalar in INTEGERS:
        return int(value)
    if scalar in FLOATS:
        return to_f32(float(value)) if scalar == "F32" else float(value)
    if scalar in ("Date", "DateTime"):
        return (parse_date if scalar == "Date" else parse_datetime)(str(value))
    return value


def canonical_text(type_: PropType, value: str | int | float | bool) -> str:
    """Return the canonical text of a stored scalar, from which ids are made.

    Dates are days and instants milliseconds since the epoch.

    >>> canonical_text(PropType("F64"), 1e21), canonical_text(PropType("F32"), 33554433)
    ('1000000000000000000000', '33554432')
    """
    scalar = type_.scalar
    if scalar == "Bool":
        return "true" if value else "false"
    if scalar in FLOATS:
        return _float_text(float(value), scalar)
    return value if isinstance(value, str) else str(int(value))


def _float_text(value: float, scalar: str) -> str:
    if not math.isfinite(value):
        raise ValueError("an id cannot be made from a number that is not finite")
    if scalar == "F32":
        value = to_f32(value)
    if value == 0:
        return "0"
    digits = _shortest_f32(value) if scalar == "F32" else repr(value)
    text = format(Decimal(digits), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def _shortest_f32(value: float) -> str:
    for precision in range(1, 10):
        text = f"{value:.{precision}g}"
        # Rounding up may leave the range; such a text does not round-trip.
        if abs(float(text)) <= _MAX_F32 * (1 + 2**-25) and to_f32(float(text)) == value:
            return text
    return repr(value)
