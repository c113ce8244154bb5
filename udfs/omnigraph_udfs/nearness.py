"""A vector column as of one version of its table, in parts that versions share.

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
    """Stored vectors, and where they stand in the table now.

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
        """Puts parts together.

        Args:
            parts: The parts that cover the column.
            size: How many rows the table has.

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
        """The `limit` nearest positions that have a distance, and all that tie with the last of them.

        Args:
            query: The point to be near to.
            limit: How many.
            metric: What near means.
            candidates: Positions to choose from, each once; all, if not given.

        Raises:
            IndexError: A candidate is not in the table.
            ValueError: The query has another dimension or is not finite, or the metric is unknown.
        """
        rows = [part.live for part in self.parts] if candidates is None else self._local(candidates)
        found = [
            nearest(part.vectors, query, limit=limit, metric=metric, candidates=some)
            for part, some in zip(self.parts, rows, strict=True)
        ]
        places = [part.positions[each.positions] for part, each in zip(self.parts, found, strict=True)]
        if len(found) == 1:
            return Nearest(places[0], found[0].distances)
        where = np.concatenate([np.empty(0, np.int64), *places])
        away = np.concatenate([np.empty(0), *(each.distances for each in found)])
        best = least(away, limit)
        return Nearest(where[best], away[best])

    def distances(self, query: npt.ArrayLike, at: npt.ArrayLike, *, metric: Metric = "l2") -> tuple[Floats, Mask]:
        """The distance of each position, and whether it has one; -1 has none.

        Raises:
            IndexError: A position is not in the table.
            ValueError: The query has another dimension or is not finite, or the metric is unknown.
        """
        asked = positions(at, self.size)
        out, known = np.zeros(len(asked)), np.zeros(len(asked), np.bool_)
        for part, places, rows in self._found(asked):
            out[places], known[places] = distances(part.vectors, query, rows, metric=metric)
        return out, known

    def _local(self, candidates: npt.ArrayLike) -> list[Positions]:
        """The candidates as rows of each part."""
        asked = np.sort(positions(candidates, self.size))
        return [rows for _, _, rows in self._found(asked)]

    def _found(self, asked: Positions) -> Sequence[tuple[VectorPart, Mask | slice, Positions]]:
        """For each part which of the positions it has, and as which of its rows."""
        if len(self.parts) == 1 and self.parts[0].live is None:
            return [(self.parts[0], slice(None), asked)]
        homes, found, first = self._homes[asked], [], 0
        for part in self.parts:
            mine = (homes >= first) & (homes < first + len(part.positions))
            found.append((part, mine, homes[mine] - first))
            first += len(part.positions)
        return found

    @cached_property
    def _homes(self) -> Positions:
        """For each position its row, counted through all parts; at the end, where -1 leads to, is none."""
        homes, first = np.full(self.size + 1, -1, np.int64), 0
        for part in self.parts:
            live = np.flatnonzero(part.positions >= 0)
            homes[part.positions[live]] = first + live
            first += len(part.positions)
        return homes
