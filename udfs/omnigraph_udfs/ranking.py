"""Top-k selection, with ties ordered as in the query language."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_udfs.arrays import Positions

__all__ = ["Keys", "by_id", "least"]

Keys = Callable[[pa.Array], pa.Array]
"""A function from positions to keys that sort like the ids there: the ids themselves, or their ranks."""


def least(values: npt.ArrayLike, limit: int) -> Positions:
    """Return the indices of the `limit` smallest values and of all values equal to the last of them, in ascending order.

    Ties are in index order, and NaN is larger than every number. With all ties, further sort keys can decide which rows
    are within the limit.

    >>> least([3.0, 1.0, 2.0, 2.0, 9.0], 2).tolist()
    [1, 2, 3]
    """
    array = np.asarray(values, np.float64)
    if limit <= 0:
        return np.empty(0, np.int64)
    if limit >= len(array):
        return np.argsort(array, kind="stable")
    bound = np.partition(array, limit - 1)[limit - 1]
    chosen = np.arange(len(array)) if np.isnan(bound) else np.flatnonzero(array <= bound)
    return chosen[np.argsort(array[chosen], kind="stable")]


def by_id(values: npt.ArrayLike, at: npt.ArrayLike, ids: Keys, *, limit: int | None = None) -> Positions:
    """Return the first `limit` rows by ascending value, with ties ordered by id in byte order.

    Args:
        values: One number per row. Negate a score to sort it descending.
        at: The position of each row's entity.
        ids: A function from positions to keys that sort like their ids; called for ties only.
        limit: The number of rows; None for all.

    >>> by_id([2.0, 1.0, 1.0], [0, 2, 1], pa.array(["a", "b", "c"]).take).tolist()
    [2, 1, 0]
    """
    array = np.asarray(values, np.float64)
    order = least(array, len(array) if limit is None else limit)
    _, ranks = np.unique(array[order], return_inverse=True)
    tied = np.zeros(len(order), np.bool_)
    tied[1:] = ranks[1:] == ranks[:-1]
    tied[:-1] |= tied[1:]
    rows = np.flatnonzero(tied)
    if len(rows):
        keys = pa.table({"rank": ranks[rows], "id": ids(pa.array(np.asarray(at)[order[rows]]))})
        sorted_rows = pc.sort_indices(keys, sort_keys=[("rank", "ascending"), ("id", "ascending")]).to_numpy()
        order[rows] = order[rows][sorted_rows]
    return order[:limit]
