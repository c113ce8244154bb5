"""Reciprocal rank fusion of two rankings of the same entities.

>>> first, second = Arm.of([7, 8]), Arm.of([9, 7])
>>> fused = rrf(first, second, limit=2)
>>> fused.positions.tolist()
[7, 9]
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_udfs.arrays import Floats, Positions, frozen
from omnigraph_udfs.ranking import Keys, by_id

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
    def first(cls, at: npt.ArrayLike, values: npt.ArrayLike, ids: Keys, *, limit: int | None = None) -> Arm:
        """The first `limit` entities of an arm, or all.

        Args:
            at: The position of each entity that the arm ranks.
            values: What ranks each; the smaller the better, equal ones by id.
            ids: From positions to what sorts like their ids.
            limit: How many.
        """
        return cls.of(np.asarray(at, np.int64)[by_id(values, at, ids, limit=limit)])

    def with_ranks_of(self, others: npt.ArrayLike, at: npt.ArrayLike, values: npt.ArrayLike, ids: Keys) -> Arm:
        """This arm with the ranks of some more entities, as far as it ranks them; `at`, `values`, `ids` as for `first`."""
        from omnigraph_udfs.kernels import ranking

        given, places = frozen(values, np.float64), frozen(at, np.int64)
        wanted = frozen(np.setdiff1d(np.asarray(others, np.int64), self.positions), np.int64)
        found = np.empty(len(wanted), np.int64)
        rows = found[: ranking.find(places, wanted, found)]
        if not len(rows):
            return self
        ranks = 1 + _below(given, given[rows]) + _tied_before(given, places, ids, rows)
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


def _tied_before(values: Floats, places: Positions, ids: Keys, rows: Positions) -> Positions:
    """For each row how many entities with the same value have a smaller id."""
    equal = [places[values == values[row]] for row in rows]
    counts = np.zeros(len(rows), np.int64)
    if sum(map(len, equal)) == len(rows):
        return counts
    keys = pc.rank(ids(pa.array(np.concatenate([places[rows], *equal]))), tiebreaker="dense").to_numpy().astype(np.int64)
    first = len(rows)
    for number, same in enumerate(equal):
        counts[number] = np.count_nonzero(keys[first : first + len(same)] < keys[number])
        first += len(same)
    return counts


def _ranks(arm: Arm, positions: Positions) -> Floats:
    ranks = np.full(len(positions), np.inf)
    ranks[np.searchsorted(positions, arm.positions)] = arm.ranks
    return ranks
