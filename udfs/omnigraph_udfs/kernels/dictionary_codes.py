"""Kernels for dictionary codes of columns."""

from __future__ import annotations

from omnigraph_udfs.arrays import Ints, Positions
from omnigraph_udfs.kernels.jit import kernel

__all__ = ["append", "is_run"]


@kernel
def append(combined: Ints, at: Ints, codes: Ints, size: int) -> None:
    """Multiply each combined code by `size` and add the code at a position.

    A negative position means none and has the last code.
    """
    last = len(codes) - 1
    for row in range(len(at)):
        place = at[row]
        if place < 0:
            place = last
        if place > last:
            raise IndexError("a position is out of range")
        combined[row] = combined[row] * size + codes[place]


@kernel
def is_run(at: Positions) -> bool:
    """True if the positions are consecutive and ascending."""
    for row in range(1, len(at)):
        if at[row] != at[row - 1] + 1:
            return False
    return True
