"""What the operators agree on about arrays: the integer type of positions, and read-only, contiguous inputs."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

__all__ = ["Floats", "Ints", "Mask", "Positions", "frozen", "index_type", "positions"]

Ints = npt.NDArray[np.signedinteger[Any]]
"""Integers of either index width."""
Positions = npt.NDArray[np.int64]
"""Positions of rows in a table; a negative number stands for "none"."""
Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

Scalar = TypeVar("Scalar", bound=np.generic)


def index_type(count: int) -> type[np.int32] | type[np.int64]:
    """The narrowest integer type that holds every position below `count`.

    >>> index_type(1000).__name__, index_type(2**31).__name__, index_type(2**31 + 1).__name__
    ('int32', 'int32', 'int64')
    """
    return np.int32 if count <= 2**31 else np.int64


def frozen(values: npt.ArrayLike, dtype: type[Scalar]) -> npt.NDArray[Scalar]:
    """The values as a contiguous, read-only array of the type; nothing is copied that need not be.

    Compiled code is made anew for each kind of argument, and a read-only array is another kind than a writable one.
    Arrays mapped from a file are read-only, so all inputs are.
    """
    view = np.ascontiguousarray(values, dtype=dtype).view()
    view.flags.writeable = False
    return view


def positions(values: npt.ArrayLike, count: int) -> Positions:
    """Positions to look at among `count` rows, checked: compiled code reads wherever it is told to.

    Raises:
        IndexError: A position is not below `count`. Negative ones stand for "none" and pass.
        TypeError: The values are no integers.
    """
    given = np.asarray(values)
    if given.size == 0:
        return frozen(np.empty(0, np.int64), np.int64)
    if given.ndim != 1 or given.dtype.kind not in "iu":
        raise TypeError(f"positions must be one row of integers, not {given.dtype} of {given.ndim} dimensions")
    highest = int(given.max())
    if highest >= count:
        raise IndexError(f"position {highest} is out of range: there are {count} rows")
    return frozen(given, np.int64)
