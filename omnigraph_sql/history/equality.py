"""Equality of two columns, value by value: null equals only null, floats are compared by their bits, and NaN equals NaN."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Mask = npt.NDArray[np.bool_]


def equal_values(left: pa.Array, right: pa.Array) -> Mask:
    """Return a mask of the rows in which both columns, of one type, have the same value.

    >>> equal_values(pa.array([1.0, float("nan"), -0.0, None]), pa.array([1.0, float("nan"), 0.0, None])).tolist()
    [True, True, False, True]
    >>> equal_values(pa.array([[1, 2], [], None]), pa.array([[1, 3], [], []])).tolist()
    [False, True, False]
    """
    left, right = _whole(left), _whole(right)
    left_valid, right_valid = _valid(left), _valid(right)
    equal: Mask = left_valid == right_valid
    rows = np.flatnonzero(left_valid & right_valid)
    if len(rows):
        indices = pa.array(rows)
        equal[rows] = _equal(left.take(indices), right.take(indices))
    return equal


def _equal(left: pa.Array, right: pa.Array) -> Mask:
    """As `equal_values`, for columns without nulls."""
    kind = left.type
    if isinstance(kind, pa.BaseExtensionType):
        return equal_values(left.storage, right.storage)
    if pa.types.is_floating(kind):
        return np.asarray(_bits(left) == _bits(right))
    if pa.types.is_struct(kind):
        fields = zip(left.flatten(), right.flatten(), strict=True)
        return np.asarray(np.logical_and.reduce([equal_values(*pair) for pair in fields]))
    if pa.types.is_fixed_size_list(kind):
        return np.asarray(equal_values(left.flatten(), right.flatten()).reshape(len(left), kind.list_size).all(axis=1))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _lists(left, right)
    return np.asarray(pc.equal(left, right).to_numpy(zero_copy_only=False), np.bool_)


def _lists(left: pa.Array, right: pa.Array) -> Mask:
    lengths = pc.list_value_length(left).to_numpy()
    equal = np.asarray(lengths == pc.list_value_length(right).to_numpy())
    rows = np.flatnonzero(equal & (lengths > 0))
    if len(rows):
        indices = pa.array(rows)
        equal_items = equal_values(left.take(indices).flatten(), right.take(indices).flatten())
        offsets = np.cumsum(lengths[rows]) - lengths[rows]
        equal[rows] = np.logical_and.reduceat(equal_items, offsets)
    return equal


def _bits(column: pa.Array) -> npt.NDArray[np.generic]:
    values = column.to_numpy().copy()
    values[np.isnan(values)] = np.nan
    bits: npt.NDArray[np.generic] = values.view(f"u{values.dtype.itemsize}")
    return bits


def _valid(column: pa.Array) -> Mask:
    return np.asarray(column.is_valid().to_numpy(zero_copy_only=False), np.bool_).copy()


def _whole(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
