"""Top-k selection by lower and upper bounds of values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from omnigraph_udfs.arrays import Floats, Positions, frozen

__all__ = ["Sieve", "merged"]


class Sieve:
    """Collects the rows that may be among the `limit` smallest. A row with a bound of NaN is always collected."""

    def __init__(self, limit: int) -> None:
        self.bounds = np.full(limit, np.inf)  # the smallest upper bounds so far, as a heap with the largest first
        self.rows: list[Positions] = []
        self.lows: list[Floats] = []

    def add(self, rows: Positions, low: Floats, high: Floats) -> None:
        """Process rows with a lower and an upper bound of each value."""
        from omnigraph_udfs.kernels import top_k_bounds

        candidate_rows, candidate_lows = np.empty(len(rows), np.int64), np.empty(len(rows))
        count = top_k_bounds.sift(low, high, rows, self.bounds, candidate_rows, candidate_lows)
        if count:
            self.rows.append(candidate_rows[:count].copy())
            self.lows.append(candidate_lows[:count].copy())


def merged(sieves: Sequence[Sieve], limit: int) -> Positions:
    """Return the rows that may be among the `limit` smallest of all sieves, in their original order."""
    bound = np.partition(np.concatenate([sieve.bounds for sieve in sieves]), limit - 1)[limit - 1]
    rows = np.concatenate([np.empty(0, np.int64), *(rows for sieve in sieves for rows in sieve.rows)])
    lows = np.concatenate([np.empty(0), *(low for sieve in sieves for low in sieve.lows)])
    return frozen(rows[~(lows > bound)], np.int64)
