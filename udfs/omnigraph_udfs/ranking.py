"""The best of many, with ties as the language orders them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_udfs.arrays import Positions

__all__ = ["Keys", "by_id", "least"]

Keys = Callable[[pa.Array], pa.Array]
"""From positions to what sorts like the ids there: the ids, or their places in the order of ids."""


def least(values: npt.ArrayLike, limit: int) -> Positions:
    """Where the `limit` smallest values stand, and every value equal to the last of them: ascending, ties as they stood.

    Not-a-number is larger than every number. With the ties, further sort keys can decide which rows a limit keeps.

    >>> least([3.0, 1.0, 2.0, 2.0, 9.0], 2).tolist()
    [1, 2, 3]
    """
    given = np.asarray(values, np.float64)
    if limit <= 0:
        return np.empty(0, np.int64)
    if limit >= len(given):
        return np.argsort(given, kind="stable")
    bound = np.partition(given, limit - 1)[limit - 1]
    chosen = np.arange(len(given)) if np.isnan(bound) else np.flatnonzero(given <= bound)
    return chosen[np.argsort(given[chosen], kind="stable")]


def by_id(values: npt.ArrayLike, at: npt.ArrayLike, ids: Keys, *, limit: int | None = None) -> Positions:
    """The order of rows by ascending value, equal ones by id in byte order; the first `limit` of them.

    Args:
        values: One number per row. For best-first by a score, its negative.
        at: The position of each row's entity.
        ids: From positions to what sorts like their ids; asked about ids that break a tie only.
        limit: How many to keep; all, if None.

    >>> by_id([2.0, 1.0, 1.0], [0, 2, 1], pa.array(["a", "b", "c"]).take).tolist()
    [2, 1, 0]
    """
    given = np.asarray(values, np.float64)
    order = least(given, len(given) if limit is None else limit)
    _, ranks = np.unique(given[order], return_inverse=True)
    tied = np.zeros(len(order), np.bool_)
    tied[1:] = ranks[1:] == ranks[:-1]
    tied[:-1] |= tied[1:]
    rows = np.flatnonzero(tied)
    if len(rows):
        keys = pa.table({"rank": ranks[rows], "id": ids(pa.array(np.asarray(at)[order[rows]]))})
        sorted_rows = pc.sort_indices(keys, sort_keys=[("rank", "ascending"), ("id", "ascending")]).to_numpy()
        order[rows] = order[rows][sorted_rows]
    return order[:limit]
