"""Values that an engine computed, as the columns of a table keep them. The rules are the same for every engine.

Numbers are rounded to whole ones as SQL does it: decimals half away from zero, floating-point numbers half to even. Texts
are read as values of other types. Nothing is cut off: a value that does not fit is an error that names its row.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_sql.arguments import shown
from omnigraph_sql.errors import BadRequest, ValidationFailed
from omnigraph_sql.writes.relational_columns import cast_values

_LONGEST = 20
"""The digits of a whole number."""
_WIDEST = 76
_FINEST = 38
"""The decimals of a number that is read from a text."""


@dataclass(frozen=True)
class TargetColumn:
    """A column of a table that takes values."""

    table_key: str
    field: pa.Field

    def taken(self, values: pa.Array, first_row: int) -> pa.Array:
        """The values as the column keeps them; rows are counted from `first_row`."""
        kept = self._converted(values, first_row)
        if not self.field.nullable and kept.null_count:
            row = first_row + _first(pc.is_null(kept))
            text = f"row {row}: the column `{self.field.name}` of {self.table_key} cannot be null"
            raise ValidationFailed(text, table_key=self.table_key, rule="required", hint="give every row a value for it")
        return kept

    def _converted(self, values: pa.Array, first_row: int) -> pa.Array:
        kind = self.field.type
        if values.type == kind:
            return values
        if values.null_count == len(values):
            return pa.nulls(len(values), kind)
        try:
            return _cast(values, kind)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OverflowError):
            row = next(number for number in range(len(values)) if not _fits(values.slice(number, 1), kind))
            text = f"row {first_row + row}: the column `{self.field.name}` takes {kind}, not {shown(values[row].as_py())}"
            raise BadRequest(text, hint=f"{values.type} does not fit; cast the value") from None


def _first(mask: pa.Array) -> int:
    return int(pc.index(mask, True).as_py())


def _fits(value: pa.Array, kind: pa.DataType) -> bool:
    try:
        _cast(value, kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OverflowError):
        return False
    return True


def _cast(values: pa.Array, kind: pa.DataType) -> pa.Array:
    source = values.type
    _refuse_unlike(source, kind)
    if _is_text(source) and not _is_text(kind):
        return _from_texts(pc.utf8_trim_whitespace(values), kind)
    if pa.types.is_integer(kind) or (pa.types.is_decimal(kind) and not pa.types.is_integer(source)):
        values = _rounded(values, kind)
    if pa.types.is_date(kind) and pa.types.is_timestamp(source):
        return pc.floor_temporal(values, unit="day").cast(kind)
    if pa.types.is_timestamp(kind) and pa.types.is_timestamp(source):
        return _instants(values, kind)
    if pa.types.is_floating(kind) and pa.types.is_decimal(source):
        return values.cast(pa.string()).cast(kind)  # the nearest number: Arrow multiplies by a fraction, which is not exact
    if pa.types.is_floating(kind) and pa.types.is_floating(source):
        return values.cast(kind, safe=False)
    if pa.types.is_decimal(kind) and pa.types.is_boolean(source):
        values = values.cast(pa.int8())
    if pa.types.is_decimal(kind) and pa.types.is_integer(values.type):
        return values.cast(pa.decimal256(_LONGEST, 0)).cast(pa.decimal256(_WIDEST, kind.scale)).cast(kind)
    if _is_text(kind) and not _is_text(source) and not pa.types.is_binary(source):
        return _texts(values).cast(kind)
    return cast_values(values, kind)


def _refuse_unlike(source: pa.DataType, kind: pa.DataType) -> None:
    """Raise for numbers as dates and dates as numbers, which Arrow would take for days and microseconds."""
    if (_is_number(source) and pa.types.is_temporal(kind)) or (pa.types.is_temporal(source) and _is_number(kind)):
        raise pa.ArrowInvalid(f"{source} is no {kind}")


def _is_number(kind: pa.DataType) -> bool:
    checks = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_boolean)
    return any(check(kind) for check in checks)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _texts(values: pa.Array) -> pa.Array:
    """Values as SQL shows them."""
    if pa.types.is_floating(values.type) or pa.types.is_decimal(values.type) or pa.types.is_temporal(values.type):
        return pa.array([None if value is None else str(value) for value in values.to_pylist()], pa.string())
    return values.cast(pa.string())


def _from_texts(values: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_integer(kind):
        try:
            return values.cast(kind)
        except pa.ArrowInvalid:
            return _rounded(_numbers(values), kind).cast(kind)
    if pa.types.is_decimal(kind):
        return _rounded(_numbers(values), kind).cast(kind)
    if pa.types.is_time(kind):
        midnights = pc.binary_join_element_wise("1970-01-01", values, " ")
        return midnights.cast(pa.timestamp("us")).cast(pa.time64("us")).cast(kind)
    if pa.types.is_boolean(kind):
        lower = pc.utf8_lower(values)
        lower = pc.if_else(pc.is_in(lower, pa.array(["t", "yes", "y", "on"])), "true", lower)
        return pc.if_else(pc.is_in(lower, pa.array(["f", "no", "n", "off"])), "false", lower).cast(kind)
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        try:
            return values.cast(kind)
        except pa.ArrowInvalid:  # a time without a zone counts as UTC
            return values.cast(pa.timestamp(kind.unit)).cast(kind)
    if pa.types.is_date(kind):
        try:
            return values.cast(kind)
        except pa.ArrowInvalid:
            return _cast(values.cast(pa.timestamp("us")), kind)
    return values.cast(kind)


def _numbers(values: pa.Array) -> pa.Array:
    """Texts as decimals; as floating-point numbers if they have too many digits for that."""
    try:
        return values.cast(pa.decimal256(_WIDEST, _FINEST))
    except pa.ArrowInvalid:
        return values.cast(pa.float64())


def _rounded(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Numbers with as many decimals as a type has."""
    digits = kind.scale if pa.types.is_decimal(kind) else 0
    if pa.types.is_floating(values.type):
        if digits:  # a number that has that many decimals may not be exactly one of base two
            return pc.round(values, digits, round_mode="half_towards_infinity")
        return pc.round(values, 0, round_mode="half_to_even")
    if pa.types.is_decimal(values.type) and values.type.scale > digits:
        # One more digit before the point: 9.99 becomes 10.0.
        wide = pa.decimal256(min(_WIDEST, values.type.precision + 1), values.type.scale)
        return pc.round(values.cast(wide), digits, round_mode="half_towards_infinity")
    return values


def _instants(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Times of another unit or zone: what is finer than the unit is cut off, and a time without a zone is one of UTC."""
    source = values.type
    floored = values
    if _NANOSECONDS[source.unit] < _NANOSECONDS[kind.unit]:
        floored = pc.floor_temporal(values, unit=_UNITS[kind.unit])
    return floored.cast(pa.timestamp(kind.unit, source.tz)).cast(kind)


_NANOSECONDS = {"ns": 1, "us": 1000, "ms": 1_000_000, "s": 1_000_000_000}
_UNITS = {"ns": "nanosecond", "us": "microsecond", "ms": "millisecond", "s": "second"}
