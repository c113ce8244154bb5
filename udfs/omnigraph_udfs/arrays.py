"""Array types of the operators: integer widths of positions, and read-only, contiguous inputs."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

__all__ = ["Floats", "Ints", "Mask", "Positions", "frozen", "index_type", "positions"]

Ints = npt.NDArray[np.signedinteger[Any]]
"""Integers of either index width."""
Positions = npt.NDArray[np.int64]
"""Positions of rows in a table; a negative number means none."""
Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

Scalar = TypeVar("Scalar", bound=np.generic)


def index_type(count: int) -> type[np.int32] | type[np.int64]:
    """Return the narrowest integer type that holds every position below `count`.

    >>> index_type(1000).__name__, index_type(2**31).__name__, index_type(2**31 + 1).__name__
    ('int32', 'int32', 'int64')
    """
    return np.int32 if count <= 2**31 else np.int64


def frozen(values: npt.ArrayLike, dtype: type[Scalar]) -> npt.NDArray[Scalar]:
    """Return the values as a contiguous, read-only array of the type, copied only if necessary.

    Numba compiles a function for each combination of argument types, and read-only and writable arrays differ in type.
    Arrays mapped from a file are read-only, so all inputs are made read-only.
    """
    view = np.ascontiguousarray(values, dtype=dtype).view()
    view.flags.writeable = False
    return view


def positions(values: npt.ArrayLike, count: int) -> Positions:
    """Check positions among `count` rows; compiled code does not check bounds.

    Raises:
        IndexError: A position is not below `count`. Negative ones mean none and are accepted.
        TypeError: The values are no integers.
    """
    array = np.asarray(values)
    if array.size == 0:
        return frozen(np.empty(0, np.int64), np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise TypeError(f"positions must be one row of integers, not {array.dtype} of {array.ndim} dimensions")
    highest = int(array.max())
    if highest >= count:
        raise IndexError(f"position {highest} is out of range: there are {count} rows")
    return frozen(array, np.int64)
