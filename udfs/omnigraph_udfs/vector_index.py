"""A vector column in one version of its table, in parts that versions share.

>>> import pyarrow as pa
>>> stored = Vectors.of(pa.array([[0, 0], [9, 9], [3, 0], [1, 0]], pa.list_(pa.float32(), 2)))
>>> index = VectorIndex([VectorPart(stored, [0, -1, 1, 2])], size=3)
>>> index.nearest([0, 0], limit=2).positions.tolist()
[0, 2]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from omnigraph_udfs.arrays import Floats, Mask, Positions, frozen, positions
from omnigraph_udfs.ranking import least
from omnigraph_udfs.vector import Metric, Nearest, Vectors, distances, nearest

__all__ = ["VectorIndex", "VectorPart"]


@dataclass(frozen=True)
class VectorPart:
    """Stored vectors, and their current positions in the table.

    Attributes:
        vectors: The vectors.
        positions: The position of each, ascending; -1 for one that is deleted.
    """

    vectors: Vectors
    positions: Positions

    def __init__(self, vectors: Vectors, positions: npt.ArrayLike) -> None:
        object.__setattr__(self, "vectors", vectors)
        object.__setattr__(self, "positions", frozen(positions, np.int64))
        if len(self.positions) != len(vectors):
            raise ValueError(f"{len(self.positions)} positions for {len(vectors)} vectors")

    @cached_property
    def live(self) -> Positions | None:
        """The rows that have a position; None if all have."""
        rows = np.flatnonzero(self.positions >= 0)
        return None if len(rows) == len(self.positions) else rows


class VectorIndex:
    """A column of vectors. The positions of later parts are above those of earlier ones."""

    def __init__(self, parts: Sequence[VectorPart], *, size: int) -> None:
        """Combine parts.

        Args:
            parts: The parts that cover the column.
            size: The number of rows of the table.

        Raises:
            IndexError: A position is not in the table.
        """
        for part in parts:
            positions(part.positions, size)
        self.parts = tuple(parts)
        self.size = size

    def nearest(
        self, query: npt.ArrayLike, *, limit: int, metric: Metric = "l2", candidates: npt.ArrayLike | None = None
    ) -> Nearest:
        """Return the `limit` nearest positions that have a distance, and all ties with the last of them.

        Args:
            query: The query vector.
            limit: The number of positions.
            metric: The distance metric.
            candidates: Positions to choose from, without duplicates; None for all.

        Raises:
            IndexError: A candidate is not in the table.
            ValueError: The query has another dimension or is not finite, or the metric is unknown.
        """
        rows = [part.live for part in self.parts] if candidates is None else self._local(candidates)
        results = [
            nearest(part.vectors, query, limit=limit, metric=metric, candidates=part_rows)
            for part, part_rows in zip(self.parts, rows, strict=True)
        ]
        places = [part.positions[result.positions] for part, result in zip(self.parts, results, strict=True)]
        if len(results) == 1:
            return Nearest(places[0], results[0].distances)
        candidate_positions = np.concatenate([np.empty(0, np.int64), *places])
        candidate_distances = np.concatenate([np.empty(0), *(result.distances for result in results)])
        best = least(candidate_distances, limit)
        return Nearest(candidate_positions[best], candidate_distances[best])

    def distances(self, query: npt.ArrayLike, at: npt.ArrayLike, *, metric: Metric = "l2") -> tuple[Floats, Mask]:
        """Return the distance of each position, and a mask of the positions that have one; -1 has none.

        Raises:
            IndexError: A position is not in the table.
            ValueError: The query has another dimension or is not finite, or the metric is unknown.
        """
        at_positions = positions(at, self.size)
        out, valid = np.zeros(len(at_positions)), np.zeros(len(at_positions), np.bool_)
        for part, places, rows in self._located(at_positions):
            out[places], valid[places] = distances(part.vectors, query, rows, metric=metric)
        return out, valid

    def _local(self, candidates: npt.ArrayLike) -> list[Positions]:
        """Return the candidates as rows of each part."""
        return [rows for _, _, rows in self._located(np.sort(positions(candidates, self.size)))]

    def _located(self, at: Positions) -> Sequence[tuple[VectorPart, Mask | slice, Positions]]:
        """Return for each part a mask of the positions that it contains, and their rows in it."""
        if len(self.parts) == 1 and self.parts[0].live is None:
            return [(self.parts[0], slice(None), at)]
        homes, located, first = self._homes[at], [], 0
        for part in self.parts:
            in_part = (homes >= first) & (homes < first + len(part.positions))
            located.append((part, in_part, homes[in_part] - first))
            first += len(part.positions)
        return located

    @cached_property
    def _homes(self) -> Positions:
        """The row of each position, counted through all parts; -1 for none, also as the last entry, for position -1."""
        homes, first = np.full(self.size + 1, -1, np.int64), 0
        for part in self.parts:
            live = np.flatnonzero(part.positions >= 0)
            homes[part.positions[live]] = first + live
            first += len(part.positions)
        return homes
