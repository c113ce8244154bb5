"""CSV cells as columns of a property's type. In a CSV file everything is text, so here texts become numbers.

Numbers, booleans, dates and instants are written as usual; lists and vectors as JSON arrays; an empty cell is null, a
quoted empty cell an empty text.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_compiler import PropType
from omnigraph_compiler.types import FLOATS, INTEGERS
from omnigraph_sql.storage.columns import arrow_type
from omnigraph_sql.writes import value_codec as codec
from omnigraph_sql.writes.readers.casts import Cast, by_hand, cast
from omnigraph_sql.writes.readers.model import ReaderLimits
from omnigraph_sql.writes.value_codec import Complaint

_SMALL_INTEGER = "^-?[0-9]{1,9}$"
_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,9})?", re.ASCII)
_INTEGER = re.compile(r"[+-]?[0-9]{1,1000}", re.ASCII)
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_PLAIN_NUMBER = r"^-?[0-9]{1,15}(\.[0-9]{1,15})?$"


def cast_texts(array: pa.StringArray, type_: PropType, limits: ReaderLimits) -> Cast:
    """The cells as a column of the property's type."""
    scalar, wanted = type_.scalar, arrow_type(type_)
    if type_.is_list or type_.is_vector:
        return by_hand(pa.nulls(len(array), wanted), array, array.is_valid(), lambda text: _json(type_, text, limits))
    if scalar in INTEGERS:
        simple = pc.match_substring_regex(array, _SMALL_INTEGER)
        numbers = cast(pc.if_else(simple, array, None).cast(pa.int64()), type_, limits)
        rest = by_hand(
            numbers.values, array, pc.invert(simple), lambda text: codec.integer(scalar, _number(text, codec.WHOLE))
        )
        return Cast(rest.values, numbers.flaws + rest.flaws)
    if scalar in FLOATS:
        simple = pc.match_substring_regex(array, _PLAIN_NUMBER)
        floats = cast(pc.if_else(simple, array, None).cast(pa.float64()), type_, limits)
        rest = by_hand(floats.values, array, pc.invert(simple), lambda text: _float(type_, text, limits))
        return Cast(rest.values, floats.flaws + rest.flaws)
    if scalar == "Bool":
        return by_hand(_booleans(array), array, pc.invert(_is_boolean(array)), _not_boolean)
    if scalar in ("Date", "DateTime"):
        return _moments(array, type_, limits)
    return cast(array, type_, limits)


def _booleans(array: pa.StringArray) -> pa.BooleanArray:
    return pc.equal(pc.ascii_lower(array), "true")


def _is_boolean(array: pa.StringArray) -> pa.BooleanArray:
    return pc.is_in(pc.ascii_lower(array), value_set=pa.array(["true", "false"])).cast(pa.bool_())


def _not_boolean(text: str | None) -> None:
    if text is not None:
        raise Complaint(codec.BOOL, codec.shown(text))


def _moments(array: pa.StringArray, type_: PropType, limits: ReaderLimits) -> Cast:
    """Dates and instants; those that are not in the usual form one by one."""
    usual = cast(array, type_, limits)
    if not usual.flaws:
        return usual
    one = _date if type_.scalar == "Date" else _instant
    return by_hand(usual.values, array, usual.values.is_null(), lambda text: None if text is None else one(text))


def _date(text: str) -> int:
    return codec.date(_days(text))


def _instant(text: str) -> int:
    return codec.instant(_moment(text))


def _days(text: str) -> str | int:
    return int(text) if _INTEGER.fullmatch(text) else text


def _moment(text: str) -> str | int:
    """Some writers leave out the time when every instant of the column is midnight."""
    return f"{text}T00:00:00Z" if _DATE.fullmatch(text) else _days(text)


def _number(text: str, complaint: str) -> int | float:
    if _INTEGER.fullmatch(text):
        return int(text)
    if not _NUMBER.fullmatch(text):
        raise Complaint(complaint, codec.shown(text))
    return float(text)


def _float(type_: PropType, text: str, limits: ReaderLimits) -> Any:
    return codec.stored_value(type_, _number(text, codec.NUMBER), limits.blob_bytes)


def _json(type_: PropType, text: str, limits: ReaderLimits) -> Any:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = text
    return codec.stored_value(type_, value, limits.blob_bytes)
