"""Arrow columns of any type as columns of a property's type, whole columns at a time.

What no value of the column can become is a `Complaint` about the column. Where single values do not fit, the result has
nulls and `flaws` say which rows and why.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NoReturn, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_compiler import PropType
from omnigraph_compiler.types import FLOATS, INTEGER_RANGES, INTEGERS
from omnigraph_compiler.values import to_f32
from omnigraph_sql.storage.columns import arrow_type
from omnigraph_sql.writes import value_codec as codec
from omnigraph_sql.writes.readers.model import ReaderLimits
from omnigraph_sql.writes.value_codec import Complaint

Rows: TypeAlias = npt.NDArray[np.int64]
Explain: TypeAlias = Callable[[Any], Complaint]
One: TypeAlias = Callable[[Any], Any]

_DAY_MS = 86_400_000
_DATE_TEXT = "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
_INSTANT_TEXT = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,3})?Z$"


@dataclass(frozen=True)
class Flaw:
    """Rows whose values do not fit, with a message for each."""

    rows: Rows
    explain: Explain


@dataclass(frozen=True)
class Cast:
    """A column of the right type, null where a flaw is."""

    values: pa.Array
    flaws: tuple[Flaw, ...] = ()


def cast(array: pa.Array, type_: PropType, limits: ReaderLimits) -> Cast:
    """The column as one of the property's type; raises `Complaint` when its own type rules that out."""
    array = plain(array)
    if array.null_count == len(array):  # whatever its type: it has no values
        return Cast(pa.nulls(len(array), arrow_type(type_)))
    if type_.is_vector:
        return _vectors(array, type_, limits)
    if type_.is_list:
        return _lists(array, type_, limits)
    if type_.is_blob:
        return _blobs(array, limits)
    return _scalars(array, type_)


def plain(array: pa.Array) -> pa.Array:
    """Return the array in plain form: without extension types, dictionaries, run-end encoding and views."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if isinstance(array, pa.ExtensionArray):
        return plain(array.storage)
    type_ = array.type
    if pa.types.is_dictionary(type_):
        return plain(array.dictionary).take(array.indices)
    if pa.types.is_run_end_encoded(type_):
        return plain(pc.run_end_decode(array))
    if pa.types.is_large_string(type_) or pa.types.is_string_view(type_):
        return array.cast(pa.string())
    if pa.types.is_binary_view(type_) or pa.types.is_fixed_size_binary(type_) or pa.types.is_binary(type_):
        return array.cast(pa.large_binary())
    return array


def _scalars(array: pa.Array, type_: PropType) -> Cast:
    scalar = type_.scalar
    if scalar in INTEGERS:
        return _integers(array, scalar)
    if scalar in FLOATS:
        return _floats(array, scalar)
    if scalar == "Date":
        return _dates(array)
    if scalar == "DateTime":
        return _instants(array)
    wanted, complaint = (pa.bool_(), codec.BOOL) if scalar == "Bool" else (pa.string(), codec.STRING)
    if array.type != wanted:
        _refuse(complaint, array)
    return Cast(array)


def _refuse(text: str, array: pa.Array) -> NoReturn:
    raise Complaint(text, f"a column of type {array.type}")


# Numbers


def _integers(array: pa.Array, scalar: str) -> Cast:
    type_ = arrow_type(PropType(scalar))
    if pa.types.is_decimal(array.type):
        return by_hand(pa.nulls(len(array), type_), array, array.is_valid(), lambda value: codec.integer(scalar, value))
    if pa.types.is_integer(array.type):
        return _narrowed(array, type_, scalar)
    if not pa.types.is_floating(array.type):
        _refuse(codec.WHOLE, array)
    numbers = array.cast(pa.float64())
    whole = pc.equal(numbers, pc.floor(numbers)).fill_null(True)  # false for what is not a number, true for infinities
    low, high = INTEGER_RANGES[scalar]
    # The float nearest to the upper bound may lie above it; the first that is out of range is a power of two.
    fits = pc.and_(pc.greater_equal(numbers, float(low)), pc.less(numbers, float(high + 1))).fill_null(True)
    good = pc.and_(whole, fits)
    kept = pc.if_else(good, numbers, None).cast(type_)
    return Cast(
        kept, (*_flaw(pc.invert(whole), codec.WHOLE), *_flaw(pc.and_(whole, pc.invert(fits)), codec.integer_range(scalar)))
    )


def _narrowed(array: pa.Array, type_: pa.DataType, scalar: str) -> Cast:
    try:
        return Cast(array.cast(type_))
    except pa.ArrowInvalid:
        low, high = INTEGER_RANGES[scalar]
        own_low, own_high = _integer_bounds(array.type)
        fits = pc.and_(
            pc.greater_equal(array, pa.scalar(max(low, own_low), array.type)),
            pc.less_equal(array, pa.scalar(min(high, own_high), array.type)),
        ).fill_null(True)
        return Cast(pc.if_else(fits, array, None).cast(type_), _flaw(pc.invert(fits), codec.integer_range(scalar)))


def _integer_bounds(type_: pa.DataType) -> tuple[int, int]:
    info = np.iinfo(type_.to_pandas_dtype())
    return int(info.min), int(info.max)


def _floats(array: pa.Array, scalar: str) -> Cast:
    type_ = arrow_type(PropType(scalar))
    if pa.types.is_decimal(array.type):
        return by_hand(pa.nulls(len(array), type_), array, array.is_valid(), lambda value: _from_decimal(value, scalar))
    if not (pa.types.is_integer(array.type) or pa.types.is_floating(array.type)):
        _refuse(codec.NUMBER, array)
    numbers = array.cast(pa.float64(), safe=False)
    finite = pc.is_finite(numbers).fill_null(True)
    flaws = _flaw(pc.invert(finite), codec.FINITE)
    if scalar == "F64" and not flaws:
        return Cast(numbers)
    narrow = numbers.cast(type_, safe=False)
    fits = pc.is_finite(narrow).fill_null(True)
    flaws += _flaw(pc.and_(finite, pc.invert(fits)), codec.float_range(scalar))
    return Cast(pc.if_else(fits, narrow, None) if flaws else narrow, flaws)


def _from_decimal(value: Decimal, scalar: str) -> float:
    """The float that, written as short as possible, is the decimal again."""
    try:
        number = to_f32(float(value)) if scalar == "F32" else codec.to_finite(float(value))
    except (ValueError, OverflowError):
        raise Complaint(codec.float_range(scalar), codec.shown(value)) from None
    spelled = str(np.float32(number)) if scalar == "F32" else repr(number)
    if Decimal(spelled) != value:
        raise Complaint(f"expects a number that a {scalar} holds without loss", codec.shown(value))
    return number


# Dates and instants


def _dates(array: pa.Array) -> Cast:
    if pa.types.is_string(array.type):
        return _date_texts(array)
    if pa.types.is_date(array.type):
        days = _days(array)
    elif pa.types.is_timestamp(array.type):
        return _midnights(array)
    elif pa.types.is_integer(array.type) and array.type != pa.uint64():
        days = array.cast(pa.int64())
    else:
        _refuse(codec.DATE, array)
    return _within(days, pa.date32(), codec.DAYS, codec.DATE_RANGE)


def _days(array: pa.Array) -> pa.Array:
    if pa.types.is_date32(array.type):
        return array.cast(pa.int32()).cast(pa.int64())
    return _floored(array.cast(pa.int64()), _DAY_MS)


def _midnights(array: pa.Array) -> Cast:
    """Convert instants to days; a time of day other than midnight is a flaw."""
    moments, flaws = _milliseconds(array)
    floored = _floored(moments, _DAY_MS)
    exact = pc.equal(_modulo(_ticks(array), _DAY_MS // 1000 * _per_second(array.type)), 0).fill_null(True)
    result = _within(pc.if_else(exact, floored, None), pa.date32(), codec.DAYS, codec.DATE_RANGE)
    return Cast(result.values, (*flaws, *_flaw(pc.invert(exact), "expects a date without a time of day"), *result.flaws))


def _date_texts(array: pa.Array) -> Cast:
    plausible = pc.and_(pc.match_substring_regex(array, _DATE_TEXT), pc.invert(pc.starts_with(array, "0000")))
    try:
        days = pc.if_else(plausible, array, None).cast(pa.date32())
    except pa.ArrowInvalid:
        days, plausible = pa.nulls(len(array), pa.date32()), pc.and_(plausible, False)
    return by_hand(days, array, pc.invert(plausible), codec.date)


def _instants(array: pa.Array) -> Cast:
    type_ = pa.timestamp("ms", "UTC")
    if pa.types.is_string(array.type):
        return _instant_texts(array, type_)
    if pa.types.is_timestamp(array.type):
        moments, flaws = _milliseconds(array)
        result = _within(moments, type_, codec.INSTANTS, codec.DATETIME_RANGE)
        return Cast(result.values, flaws + result.flaws)
    if pa.types.is_date(array.type):
        return _within(pc.multiply(_days(array), _DAY_MS), type_, codec.INSTANTS, codec.DATETIME_RANGE)
    if not pa.types.is_integer(array.type) or array.type == pa.uint64():
        _refuse(codec.DATETIME, array)
    return _within(array.cast(pa.int64()), type_, codec.INSTANTS, codec.DATETIME_RANGE)


def _instant_texts(array: pa.Array, type_: pa.DataType) -> Cast:
    plausible = pc.and_(pc.match_substring_regex(array, _INSTANT_TEXT), pc.invert(pc.starts_with(array, "0000")))
    bare = pc.utf8_rtrim(pc.if_else(plausible, array, None), "Z")
    try:
        moments = bare.cast(pa.timestamp("ms")).cast(pa.int64()).cast(type_)
    except pa.ArrowInvalid:
        moments, plausible = pa.nulls(len(array), type_), pc.and_(plausible, False)
    return by_hand(moments, array, pc.invert(plausible), codec.instant)


def _ticks(array: pa.Array) -> pa.Array:
    return array.cast(pa.int64())


def _per_second(type_: pa.DataType) -> int:
    return {"s": 1, "ms": 1000, "us": 1_000_000, "ns": 1_000_000_000}[type_.unit]


def _milliseconds(array: pa.Array) -> tuple[pa.Array, tuple[Flaw, ...]]:
    """Instants as milliseconds since the epoch, rounded down."""
    ticks, per_second = _ticks(array), _per_second(array.type)
    if per_second >= 1000:
        return _floored(ticks, per_second // 1000), ()
    low, high = codec.INSTANTS[0] // 1000, codec.INSTANTS[1] // 1000
    fits = pc.and_(pc.greater_equal(ticks, low), pc.less_equal(ticks, high)).fill_null(True)
    return pc.multiply(pc.if_else(fits, ticks, None), 1000), _flaw(pc.invert(fits), codec.DATETIME_RANGE)


def _floored(array: pa.Array, divisor: int) -> pa.Array:
    return array if divisor == 1 else pa.array(np.asarray(array.fill_null(0)) // divisor, mask=np.asarray(array.is_null()))


def _modulo(array: pa.Array, divisor: int) -> pa.Array:
    """The remainder that is never negative."""
    numbers = np.asarray(array.fill_null(0))
    return pa.array(np.mod(numbers, divisor), mask=np.asarray(array.is_null()))


def _within(numbers: pa.Array, type_: pa.DataType, bounds: tuple[int, int], text: str) -> Cast:
    fits = pc.and_(pc.greater_equal(numbers, bounds[0]), pc.less_equal(numbers, bounds[1])).fill_null(True)
    flaws = _flaw(pc.invert(fits), text)
    kept = pc.if_else(fits, numbers, None) if flaws else numbers
    return Cast((kept.cast(pa.int32()) if type_ == pa.date32() else kept).cast(type_), flaws)


# Lists, vectors, bytes


def _is_list(type_: pa.DataType) -> bool:
    return any(
        (
            pa.types.is_list(type_),
            pa.types.is_large_list(type_),
            pa.types.is_fixed_size_list(type_),
            pa.types.is_list_view(type_),
            pa.types.is_large_list_view(type_),
        )
    )


@dataclass(frozen=True)
class _Taken:
    """A list column, split into the elements of its non-null lists and the length of each row."""

    elements: pa.Array
    lengths: npt.NDArray[np.int64]
    absent: npt.NDArray[np.bool_]

    @property
    def owners(self) -> Rows:
        """The row of each element."""
        return np.repeat(np.arange(len(self.lengths)), self.lengths)

    def rows(self, elements: pa.BooleanArray) -> Rows:
        """The rows of the chosen elements, each once."""
        return np.unique(self.owners[_indices(elements)])

    def flaws(self, flaws: Sequence[Flaw]) -> tuple[Flaw, ...]:
        """Convert flaws of elements to flaws of their rows; each row reports its first one."""
        of_rows: list[Flaw] = []
        for flaw in flaws:
            rows, first = np.unique(self.owners[flaw.rows], return_index=True)
            elements = self.elements.take(flaw.rows[first]).to_pylist()
            of_rows += [
                Flaw(np.array([row]), _element(flaw.explain, element))
                for row, element in zip(rows.tolist(), elements, strict=True)
            ]
        return tuple(of_rows)


def _taken(array: pa.Array) -> _Taken:
    absent = np.asarray(array.is_null())
    lengths = np.asarray(pc.list_value_length(array).fill_null(0)).astype(np.int64)
    lengths[absent] = 0
    return _Taken(plain(pc.list_flatten(array)), lengths, absent)


def _lists(array: pa.Array, type_: PropType, limits: ReaderLimits) -> Cast:
    if not _is_list(array.type):
        _refuse("expects an array", array)
    taken = _taken(array)
    result = cast(taken.elements, type_.item, limits)
    flaws = _rows_flaw(taken.rows(taken.elements.is_null()), _fixed(codec.NULL_ELEMENT))
    flaws += taken.flaws(result.flaws)
    offsets = np.concatenate([[0], np.cumsum(taken.lengths)]).astype(np.int32)
    mask = pa.array(taken.absent) if taken.absent.any() else None
    lists = pa.ListArray.from_arrays(pa.array(offsets), result.values, type=arrow_type(type_), mask=mask)
    return Cast(lists, flaws)


def _element(explain: Explain, element: Any) -> Explain:
    return lambda _: explain(element)


def _vectors(array: pa.Array, type_: PropType, limits: ReaderLimits) -> Cast:
    if not _is_list(array.type):
        _refuse(f"expects an array of {type_.dimension} numbers", array)
    width = type_.dimension or 0
    taken = _taken(array)
    try:
        result = cast(taken.elements, PropType("F32"), limits)
    except Complaint as complaint:
        raise Complaint(codec.NUMERIC, complaint.actual) from None
    misfit = ~taken.absent & (taken.lengths != width)
    flaws = _rows_flaw(_where(misfit), lambda value: Complaint(codec.dimensions(type_), str(len(value))))
    flaws += _rows_flaw(np.setdiff1d(taken.rows(taken.elements.is_null()), _where(misfit)), _fixed(codec.NUMERIC))
    flaws += taken.flaws(result.flaws)
    good = ~taken.absent & ~misfit
    elements = result.values
    if not good.all():
        full = np.zeros((len(array), width), dtype=np.float32)
        chosen = np.repeat(good, taken.lengths)
        full[good] = np.asarray(elements.filter(pa.array(chosen)).fill_null(0)).reshape(-1, width)
        elements = pa.array(full.reshape(-1))
    vectors = pa.FixedSizeListArray.from_arrays(
        elements, type=arrow_type(type_), mask=None if good.all() else pa.array(~good)
    )
    return Cast(vectors, flaws)


def _blobs(array: pa.Array, limits: ReaderLimits) -> Cast:
    empty = pa.nulls(len(array), pa.large_binary())
    if pa.types.is_large_binary(array.type):
        small = pc.less_equal(pc.binary_length(array), limits.blob_bytes).fill_null(True)
        if pc.all(small).as_py() is not False:
            return Cast(array)
    elif not pa.types.is_string(array.type):
        _refuse(codec.BLOB, array)
    return by_hand(empty, array, array.is_valid(), lambda value: codec.blob(value, limits.blob_bytes))


# Flaws


def by_hand(values: pa.Array, array: pa.Array, chosen: pa.BooleanArray, one: One) -> Cast:
    """Replace the values of the chosen rows by those that `one` computes; a `Complaint` of it is a flaw."""
    rows = _indices(chosen.fill_null(False))
    if not len(rows):
        return Cast(values)
    made: list[Any] = []
    refused: list[int] = []
    for row, value in zip(rows.tolist(), array.take(rows).to_pylist(), strict=True):
        try:
            made.append(one(value))
        except Complaint:
            made.append(None)
            refused.append(row)
    return Cast(
        _replaced(values, rows, made), _rows_flaw(np.array(refused, dtype=np.int64), lambda value: _complaint(one, value))
    )


def _replaced(values: pa.Array, rows: Rows, made: list[Any]) -> pa.Array:
    if pa.types.is_nested(values.type):
        everything = values.to_pylist()
        for row, value in zip(rows.tolist(), made, strict=True):
            everything[row] = value
        return pa.array(everything, values.type)
    mask = np.zeros(len(values), dtype=np.bool_)
    mask[rows] = True
    return pc.replace_with_mask(values, pa.array(mask), pa.array(made, values.type))


def _complaint(one: One, value: Any) -> Complaint:
    try:
        one(value)
    except Complaint as complaint:
        return complaint
    raise AssertionError("a value is refused once and accepted later")


def _fixed(text: str) -> Explain:
    return lambda value: Complaint(text, codec.shown(value))


def _flaw(mask: pa.BooleanArray, text: str) -> tuple[Flaw, ...]:
    return _rows_flaw(_indices(mask), _fixed(text))


def _rows_flaw(rows: Rows, explain: Explain) -> tuple[Flaw, ...]:
    return (Flaw(rows, explain),) if len(rows) else ()


def _indices(mask: pa.BooleanArray) -> Rows:
    return _where(np.asarray(mask.fill_null(False)))


def _where(mask: npt.NDArray[np.bool_]) -> Rows:
    return np.flatnonzero(mask)


def rows_of(flaws: Sequence[Flaw]) -> Rows:
    """Return the rows with flaws, in order."""
    return np.unique(np.concatenate([flaw.rows for flaw in flaws])) if flaws else np.empty(0, dtype=np.int64)
