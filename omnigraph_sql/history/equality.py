"""Whether values of two columns are the same: null is no empty text, floats are alike if their bits are, any NaN, too."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Mask = npt.NDArray[np.bool_]


def same(left: pa.Array, right: pa.Array) -> Mask:
    """For each row whether both columns, of one type, have the same value.

    >>> same(pa.array([1.0, float("nan"), -0.0, None]), pa.array([1.0, float("nan"), 0.0, None])).tolist()
    [True, True, False, True]
    >>> same(pa.array([[1, 2], [], None]), pa.array([[1, 3], [], []])).tolist()
    [False, True, False]
    """
    left, right = _whole(left), _whole(right)
    here, there = _valid(left), _valid(right)
    found: Mask = here == there
    both = np.flatnonzero(here & there)
    if len(both):
        at = pa.array(both)
        found[both] = _equal(left.take(at), right.take(at))
    return found


def _equal(left: pa.Array, right: pa.Array) -> Mask:
    """As `same`, where nothing is null."""
    kind = left.type
    if isinstance(kind, pa.BaseExtensionType):
        return same(left.storage, right.storage)
    if pa.types.is_floating(kind):
        return np.asarray(_bits(left) == _bits(right))
    if pa.types.is_struct(kind):
        fields = zip(left.flatten(), right.flatten(), strict=True)
        return np.asarray(np.logical_and.reduce([same(*each) for each in fields]))
    if pa.types.is_fixed_size_list(kind):
        return np.asarray(same(left.flatten(), right.flatten()).reshape(len(left), kind.list_size).all(axis=1))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _lists(left, right)
    return np.asarray(pc.equal(left, right).to_numpy(zero_copy_only=False), np.bool_)


def _lists(left: pa.Array, right: pa.Array) -> Mask:
    lengths = pc.list_value_length(left).to_numpy()
    found = np.asarray(lengths == pc.list_value_length(right).to_numpy())
    some = np.flatnonzero(found & (lengths > 0))
    if len(some):
        at = pa.array(some)
        alike = same(left.take(at).flatten(), right.take(at).flatten())
        begins = np.cumsum(lengths[some]) - lengths[some]
        found[some] = np.logical_and.reduceat(alike, begins)
    return found


def _bits(column: pa.Array) -> npt.NDArray[np.generic]:
    values = column.to_numpy().copy()
    values[np.isnan(values)] = np.nan
    bits: npt.NDArray[np.generic] = values.view(f"u{values.dtype.itemsize}")
    return bits


def _valid(column: pa.Array) -> Mask:
    return np.asarray(column.is_valid().to_numpy(zero_copy_only=False), np.bool_).copy()


def _whole(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
