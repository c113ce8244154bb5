"""Finding the smallest of many values of which only bounds are known."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from omnigraph_udfs.arrays import Floats, Positions, frozen

__all__ = ["Sieve", "merged"]


class Sieve:
    """Keeps the rows that may be among the `limit` smallest. Bounds that are no numbers bound nothing: the row is kept."""

    def __init__(self, limit: int) -> None:
        self.bounds = np.full(limit, np.inf)  # the smallest upper bounds so far, as a heap with the largest first
        self.rows: list[Positions] = []
        self.lows: list[Floats] = []

    def add(self, rows: Positions, low: Floats, high: Floats) -> None:
        """Looks at rows with a lower and an upper bound of each value."""
        from omnigraph_udfs.kernels import sieve

        kept_rows, kept_low = np.empty(len(rows), np.int64), np.empty(len(rows))
        count = sieve.sift(low, high, rows, self.bounds, kept_rows, kept_low)
        if count:
            self.rows.append(kept_rows[:count].copy())
            self.lows.append(kept_low[:count].copy())


def merged(sieves: Sequence[Sieve], limit: int) -> Positions:
    """The rows that may be among the `limit` smallest of all, in the order they came."""
    bound = np.partition(np.concatenate([sieve.bounds for sieve in sieves]), limit - 1)[limit - 1]
    rows = np.concatenate([np.empty(0, np.int64), *(rows for sieve in sieves for rows in sieve.rows)])
    lows = np.concatenate([np.empty(0), *(low for sieve in sieves for low in sieve.lows)])
    return frozen(rows[~(lows > bound)], np.int64)
