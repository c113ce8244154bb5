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
    """The ranking of one arm: entities and their ranks, 1 for the best.

    An arm need not list every entity that it ranks. For a fused list of `limit` entities, if the other arm lists at most
    `limit`, the first `limit` of this arm and those that the other arm lists are sufficient: any other entity scores only
    this arm's `1 / (k + rank)`, and `limit` entities score more.
    """

    positions: Positions
    ranks: Positions

    @classmethod
    def of(cls, ordered: npt.ArrayLike) -> Arm:
        """Make an arm of entities in order of rank."""
        positions = frozen(ordered, np.int64)
        return cls(positions, np.arange(1, len(positions) + 1))

    @classmethod
    def first(cls, at: npt.ArrayLike, values: npt.ArrayLike, ids: Keys, *, limit: int | None = None) -> Arm:
        """Make an arm of the first `limit` entities, or of all.

        Args:
            at: The position of each entity that the arm ranks.
            values: The sort key of each entity, ascending; equal ones are ordered by id.
            ids: A function from positions to keys that sort like their ids.
            limit: The number of entities; None for all.
        """
        return cls.of(np.asarray(at, np.int64)[by_id(values, at, ids, limit=limit)])

    def with_ranks_of(self, others: npt.ArrayLike, at: npt.ArrayLike, values: npt.ArrayLike, ids: Keys) -> Arm:
        """Add the ranks of other entities that the arm ranks; `at`, `values` and `ids` as in `first`."""
        from omnigraph_udfs.kernels import ranking

        keys, places = frozen(values, np.float64), frozen(at, np.int64)
        missing = frozen(np.setdiff1d(np.asarray(others, np.int64), self.positions), np.int64)
        buffer = np.empty(len(missing), np.int64)
        rows = buffer[: ranking.find(places, missing, buffer)]
        if not len(rows):
            return self
        ranks = 1 + _below(keys, keys[rows]) + _tied_before(keys, places, ids, rows)
        return Arm(np.concatenate([self.positions, places[rows]]), np.concatenate([self.ranks, ranks]))


@dataclass(frozen=True)
class Fused:
    """Entities in order of rank, and their scores."""

    positions: Positions
    scores: Floats


def rrf(first: Arm, second: Arm, *, limit: int, k: int = K) -> Fused:
    """Return the first `limit` entities by the sum of `1 / (k + rank)` over the arms that list them.

    Ties are ordered by rank in the first arm, with entities it does not list last, then by rank in the second.

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
    """Return the number of values below each bound."""
    from omnigraph_udfs.kernels import ranking

    distinct, places = np.unique(bounds, return_inverse=True)
    counts = np.zeros(len(distinct) + 1, np.int64)
    ranking.count_up_to(values, frozen(distinct, np.float64), counts)
    return np.cumsum(counts)[places]


def _tied_before(values: Floats, places: Positions, ids: Keys, rows: Positions) -> Positions:
    """Return for each row the number of entities with the same value and a smaller id."""
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
