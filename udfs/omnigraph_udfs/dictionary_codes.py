"""Dictionary codes of several columns combined into one integer, because grouping by integers is faster."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from omnigraph_udfs import numpy_fallback
from omnigraph_udfs.arrays import Ints, Positions, frozen
from omnigraph_udfs.threads import in_threads, shares

__all__ = ["is_run", "joint"]

_BLOCK = 1 << 14
"""The number of rows combined at a time, small enough for a processor cache."""
_SHARE = 1 << 18
"""The minimum number of rows per thread."""


def joint(at: Sequence[Ints], codes: Sequence[Ints], sizes: Sequence[int], kind: type[np.signedinteger]) -> Ints:
    """Combine the codes of several columns, each at its own positions, into one integer per row.

    The codes of a column are below its size. A negative position means none and has the last code.

    >>> joint([np.array([0, 1, -1]), np.array([1, 1, 0])], [np.array([0, 1, 2]), np.array([0, 1])], [3, 2], np.int32)
    array([1, 3, 4], dtype=int32)
    """
    combined = np.zeros(len(at[0]), kind)
    if numpy_fallback.is_enough(len(combined)):
        for places, column_codes, size in zip(at, codes, sizes, strict=True):
            combined *= size
            combined += column_codes[places].astype(kind, copy=False)
        return combined
    from omnigraph_udfs.kernels import dictionary_codes

    columns = [
        (_narrow(places), frozen(column_codes, np.int32), size)
        for places, column_codes, size in zip(at, codes, sizes, strict=True)
    ]

    def combine(share: tuple[int, int]) -> None:
        for start in range(*share, _BLOCK):
            block = slice(start, min(start + _BLOCK, share[1]))
            for places, column_codes, size in columns:
                dictionary_codes.append(combined[block], places[block], column_codes, size)

    in_threads(combine, shares(len(combined), _SHARE))
    return combined


def _narrow(at: Ints) -> Ints:
    return frozen(at, np.int32) if at.dtype == np.int32 else frozen(at, np.int64)


def is_run(at: Positions) -> bool:
    """True if the positions are consecutive and ascending.

    >>> is_run(np.array([4, 5, 6])), is_run(np.array([4, 6, 5]))
    (True, False)
    """
    if len(at) and at[-1] - at[0] + 1 != len(at):
        return False
    if numpy_fallback.is_enough(len(at)):
        return bool((np.diff(at) == 1).all())
    from omnigraph_udfs.kernels import dictionary_codes

    return bool(dictionary_codes.is_run(frozen(at, np.int64)))
