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

from omnigraph_udfs.arrays import Floats, Positions, frozen

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


def _ranks(arm: Arm, positions: Positions) -> Floats:
    ranks = np.full(len(positions), np.inf)
    ranks[np.searchsorted(positions, arm.positions)] = arm.ranks
    return ranks
