"""Validation of arrays from files before compiled code reads them without bounds checks.

>>> require_offsets(np.array([0, 2, 2, 3]), 3)
>>> require_positions(np.array([0, 3]), 3)
Traceback (most recent call last):
    ...
ValueError: positions from 0 to 3 exceed the range from 0 to 2
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from omnigraph_udfs.arrays import Ints, Positions, frozen

__all__ = ["require_ascending_rows", "require_index", "require_offsets", "require_positions", "require_type"]

Scalar = TypeVar("Scalar", bound=np.generic)
_PIECE = 1 << 18  # values checked at a time, so that intermediate results stay in a processor cache


def require_type(values: npt.ArrayLike, dtype: type[Scalar]) -> npt.NDArray[Scalar]:
    """Return values as a one-dimensional array of a type.

    Raises:
        ValueError: The type or the number of dimensions differs.
    """
    array = np.asarray(values)
    if array.dtype != dtype or array.ndim != 1:
        raise ValueError(f"{array.ndim} dimensions of {array.dtype}, where one of {np.dtype(dtype)} is needed")
    return frozen(array, dtype)


def require_index(values: npt.ArrayLike) -> Ints:
    """Return values as a one-dimensional array of 32-bit or 64-bit integers.

    Raises:
        ValueError: The type or the number of dimensions differs.
    """
    return require_type(values, np.int32 if np.asarray(values).dtype == np.int32 else np.int64)


def require_offsets(offsets: Positions, end: int) -> None:
    """Check offsets of rows: they begin at 0, end at `end` and never descend.

    Raises:
        ValueError: The offsets are invalid.
    """
    if len(offsets) == 0 or int(offsets[0]) != 0 or int(offsets[-1]) != end:
        raise ValueError(f"the rows do not begin at 0 and end at {end}")
    for first in range(0, len(offsets), _PIECE):
        block = offsets[first : first + _PIECE + 1]
        if (block[1:] < block[:-1]).any():
            raise ValueError("a row begins before the one before it")


def require_positions(values: npt.NDArray[Any], count: int, *, least: int = 0) -> None:
    """Check positions: all are at least `least` and below `count`.

    Raises:
        ValueError: A position is out of range.
    """
    if len(values) and (int(values.min()) < least or int(values.max()) >= count):
        raise ValueError(f"positions from {values.min()} to {values.max()} exceed the range from {least} to {count - 1}")


def require_ascending_rows(offsets: Positions, values: Ints, *, strictly: bool) -> None:
    """Check that the values ascend within each row.

    Raises:
        ValueError: A row does not ascend.
    """
    for first in range(0, len(values) - 1, _PIECE):
        block = values[first : first + _PIECE + 1]
        descends = block[1:] <= block[:-1] if strictly else block[1:] < block[:-1]
        low, high = np.searchsorted(offsets, [first + 1, first + len(block)])
        descends[offsets[low:high] - (first + 1)] = False  # another row begins there
        if descends.any():
            raise ValueError("the values of a row do not ascend")
