"""Reciprocal rank fusion of two rankings of the same entities.

>>> first, second = Arm.of([7, 8]), Arm.of([9, 7])
>>> fused = rrf(first, second, limit=2)
>>> fused.positions.tolist()
[7, 9]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from omnigraph_udfs.arrays import Floats, Positions, frozen
from omnigraph_udfs.ranking import least

__all__ = ["Arm", "Fused", "rrf"]

K = 60


@dataclass(frozen=True)
class Arm:
    """What one arm ranks: entities, and the rank of each, 1 for the best.

    An arm need not list every entity it ranks. Where a fused list of `limit` entities is wanted and the other arm lists no
    more than `limit`, it is enough to give the first `limit` of this arm and those that the other one lists: anything else
    has only this arm's `1 / (k + rank)`, and `limit` entities have more.
    """

    positions: Positions
    ranks: Positions

    @classmethod
    def of(cls, ordered: npt.ArrayLike) -> Arm:
        """An arm that lists entities best first."""
        positions = frozen(ordered, np.int64)
        return cls(positions, np.arange(1, len(positions) + 1))

    @classmethod
    def first(cls, at: npt.ArrayLike, values: npt.ArrayLike, ids: Positions, *, limit: int | None = None) -> Arm:
        """The first `limit` entities of an arm, or all.

        Args:
            at: The position of each entity that the arm ranks.
            values: What ranks each; the smaller the better, equal ones by id.
            ids: For each position of the table the place of its id in the order of ids.
            limit: How many.
        """
        given, places = np.asarray(values, np.float64), np.asarray(at, np.int64)
        chosen = least(given, len(given) if limit is None else limit)
        order = np.lexsort((ids[places[chosen]], given[chosen]))
        return cls.of(places[chosen[order]][:limit])

    def with_ranks_of(self, others: npt.ArrayLike, at: npt.ArrayLike, values: npt.ArrayLike, ids: Positions) -> Arm:
        """This arm with the ranks of some more entities, as far as it ranks them; `at`, `values`, `ids` as for `first`."""
        given, places = frozen(values, np.float64), np.asarray(at, np.int64)
        wanted = np.setdiff1d(np.asarray(others, np.int64), self.positions)
        rows = np.flatnonzero(np.isin(places, wanted)) if len(wanted) else np.empty(0, np.int64)
        if not len(rows):
            return self
        ranks = [_rank(given, places, ids, row, below) for row, below in zip(rows, _below(given, given[rows]), strict=True)]
        return Arm(np.concatenate([self.positions, places[rows]]), np.concatenate([self.ranks, ranks]))


@dataclass(frozen=True)
class Fused:
    """Entities best first, and the score of each."""

    positions: Positions
    scores: Floats


def rrf(first: Arm, second: Arm, *, limit: int, k: int = K) -> Fused:
    """The first `limit` entities by the sum of `1 / (k + rank)` over the arms that list them.

    Equal sums go by rank in the first arm, entities it does not list last, then by rank in the second.

    Raises:
        ValueError: `k` is not positive.
    """
    if k <= 0:
        raise ValueError(f"rrf with k = {k}: it must be positive")
    positions = np.union1d(first.positions, second.positions)
    ranks = [_ranks(arm, positions) for arm in (first, second)]
    scores = sum((1.0 / (k + rank) for rank in ranks), np.zeros(len(positions)))  # infinity, not listed, gives 0
    order = np.lexsort((ranks[1], ranks[0], -scores))[: max(limit, 0)]
    return Fused(positions[order], scores[order])


def _below(values: Floats, bounds: Floats) -> Positions:
    """For each bound how many values are below it."""
    from omnigraph_udfs.kernels import ranking

    different, places = np.unique(bounds, return_inverse=True)
    counts = np.zeros(len(different) + 1, np.int64)
    ranking.count_up_to(values, frozen(different, np.float64), counts)
    return np.cumsum(counts)[places]


def _rank(values: Floats, places: Positions, ids: Positions, row: np.integer[Any], below: np.integer[Any]) -> int:
    equal = places[values == values[row]]
    return 1 + int(below) + int(np.count_nonzero(ids[equal] < ids[places[row]]))


def _ranks(arm: Arm, positions: Positions) -> Floats:
    ranks = np.full(len(positions), np.inf)
    ranks[np.searchsorted(positions, arm.positions)] = arm.ranks
    return ranks
