"""Conversion of Arrow arrays for Spark and back: types that Spark lacks are widened, and restored in the results."""

from __future__ import annotations

import datetime
import decimal
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph_sql.binding.context import Array

_WIDE = pa.decimal128(20, 0)


@cache
def widened_type(kind: pa.DataType) -> pa.DataType:
    """Return the Arrow type in which Spark accepts values of a type."""
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return pa.list_(pa.field("element", widened_type(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, widened_type(field.type)) for field in kind])
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", "UTC")
    return {
        pa.uint32(): pa.int64(),
        pa.uint64(): _WIDE,
        pa.large_string(): pa.string(),
        pa.large_binary(): pa.binary(),
    }.get(kind, kind)


def widened(array: Array) -> Array:
    """Convert an array to the type in which Spark accepts it."""
    kind, wide = array.type, widened_type(array.type)
    if kind == wide:
        return array
    if pa.types.is_struct(kind):
        fields = [widened(field) for field in array.flatten()]
        return pa.StructArray.from_arrays(fields, fields=list(wide), mask=_mask(array))
    if pa.types.is_fixed_size_list(kind):
        return array.cast(pa.list_(wide.value_field.with_type(kind.value_type)))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        offsets, values = _unsliced(array)
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), widened(values), type=wide, mask=_mask(array))
    return array.cast(wide)


def restored(array: Array, kind: pa.DataType) -> Array:
    """Convert an array from Spark back to its original type."""
    if array.type == kind:
        return array
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), kind)
    if pa.types.is_fixed_size_list(kind):
        return _fixed(array, kind)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        make, size = (pa.LargeListArray, pa.int64()) if pa.types.is_large_list(kind) else (pa.ListArray, pa.int32())
        offsets, values = _unsliced(array)
        return make.from_arrays(pa.array(offsets, size), restored(values, kind.value_type), type=kind, mask=_mask(array))
    return array.cast(kind)


def _fixed(array: Array, kind: pa.FixedSizeListType) -> Array:
    """Convert lists of equal length or null to fixed-size lists, in which a null occupies as many values as a list."""
    values = restored(array.flatten(), kind.value_type)
    if not array.null_count:
        return pa.FixedSizeListArray.from_arrays(values, type=kind)
    is_list = array.is_valid().to_numpy(zero_copy_only=False)
    places = np.full((len(array), kind.list_size), -1)
    places[is_list] = np.arange(len(values)).reshape(-1, kind.list_size)
    taken = values.take(pa.array(places.ravel(), mask=places.ravel() < 0))
    return pa.FixedSizeListArray.from_arrays(taken, type=kind, mask=_mask(array))


def _unsliced(array: Array) -> tuple[npt.NDArray[np.int64], Array]:
    """Return the offsets of lists, starting at 0, and their values."""
    offsets = array.offsets.to_numpy().astype(np.int64)
    return offsets - offsets[0], array.values.slice(offsets[0], offsets[-1] - offsets[0])


def _mask(array: Array) -> Array | None:
    return array.is_null() if array.null_count else None


def argument(scalar: pa.Scalar) -> Any:
    """Convert a scalar to the value of a statement's parameter: a Python value, or a column expression for a list."""
    value = scalar.as_py()
    if isinstance(value, list):
        from pyspark.sql import functions

        return functions.array(*(functions.lit(_element(element)) for element in scalar.values))
    if isinstance(value, int) and pa.types.is_uint64(scalar.type):
        return decimal.Decimal(value)
    # Spark converts a Python date before 1582 by the Julian calendar, and a text by the Gregorian one.
    return value.isoformat() if isinstance(value, datetime.date) else value


def _element(scalar: pa.Scalar) -> Any:
    """Convert an element of a list. All elements must have one type, so a decimal becomes a text."""
    value = argument(scalar)
    return str(value) if isinstance(value, decimal.Decimal) else value
