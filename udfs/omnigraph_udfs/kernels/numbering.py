"""Kernels for numbers that stand for the values of columns."""

from __future__ import annotations

from omnigraph_udfs.arrays import Ints, Positions
from omnigraph_udfs.kernels.jit import kernel

__all__ = ["append", "is_run"]


@kernel
def append(found: Ints, at: Ints, codes: Ints, size: int) -> None:
    """Makes room for a number below `size` in each number found, and puts there the code of a position.

    The last code is that of no position, which a negative one stands for.
    """
    last = len(codes) - 1
    for row in range(len(at)):
        place = at[row]
        if place < 0:
            place = last
        if place > last:
            raise IndexError("a position is out of range")
        found[row] = found[row] * size + codes[place]


@kernel
def is_run(at: Positions) -> bool:
    """Whether each position is the one after that before it."""
    for row in range(1, len(at)):
        if at[row] != at[row - 1] + 1:
            return False
    return True
