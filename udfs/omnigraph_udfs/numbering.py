"""Numbers that stand for the values of columns: groups by them are found faster than groups by the values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from omnigraph_udfs import few
from omnigraph_udfs.arrays import Ints, Positions, frozen
from omnigraph_udfs.threads import in_threads, shares

__all__ = ["is_run", "joint"]

_BLOCK = 1 << 14
"""So many numbers stay close to the processor until the code of each column is in them."""
_SHARE = 1 << 18
"""Fewer rows than this are not worth another thread."""


def joint(at: Sequence[Ints], codes: Sequence[Ints], sizes: Sequence[int], kind: type[np.signedinteger]) -> Ints:
    """The number that the codes at several positions, one for each column, have together.

    The codes of a column are below its size; its last code is that of no position, which a negative one stands for.

    >>> joint([np.array([0, 1, -1]), np.array([1, 1, 0])], [np.array([0, 1, 2]), np.array([0, 1])], [3, 2], np.int32)
    array([1, 3, 4], dtype=int32)
    """
    found = np.zeros(len(at[0]), kind)
    if few.is_enough(len(found)):
        for places, known, size in zip(at, codes, sizes, strict=True):
            found *= size
            found += known[places].astype(kind, copy=False)
        return found
    from omnigraph_udfs.kernels import numbering

    columns = [(_narrow(each), frozen(known, np.int32), size) for each, known, size in zip(at, codes, sizes, strict=True)]

    def number(share: tuple[int, int]) -> None:
        for start in range(*share, _BLOCK):
            some = slice(start, min(start + _BLOCK, share[1]))
            for places, known, size in columns:
                numbering.append(found[some], places[some], known, size)

    in_threads(number, shares(len(found), _SHARE))
    return found


def _narrow(at: Ints) -> Ints:
    return frozen(at, np.int32) if at.dtype == np.int32 else frozen(at, np.int64)


def is_run(at: Positions) -> bool:
    """Whether positions come one after the other, without a gap.

    >>> is_run(np.array([4, 5, 6])), is_run(np.array([4, 6, 5]))
    (True, False)
    """
    if len(at) and at[-1] - at[0] + 1 != len(at):
        return False
    if few.is_enough(len(at)):
        return bool((np.diff(at) == 1).all())
    from omnigraph_udfs.kernels import numbering

    return bool(numbering.is_run(frozen(at, np.int64)))
