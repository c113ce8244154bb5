"""Distances between stored vectors and a query, and the exact nearest of them.

Smaller is nearer: squared Euclidean distance for `l2`, one minus the cosine for `cosine`, one minus the dot product for
`dot`. Distances are computed in float64 from the stored float32 values, adding up from left to right. A null vector has no
distance; under `cosine` a zero vector has none either, and a zero query none to anything.

>>> ports = Vectors.of(pa.array([[0, 0], [3, 0], None, [1, 0]], pa.list_(pa.float32(), 2)))
>>> found = nearest(ports, [0, 0], limit=2)
>>> found.positions.tolist(), found.distances.tolist()
([0, 3], [0.0, 1.0])
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph_udfs.arrays import Floats, Mask, Positions, frozen, positions
from omnigraph_udfs.products import queries_per_product, sift_products
from omnigraph_udfs.ranking import least
from omnigraph_udfs.sieve import Sieve, merged
from omnigraph_udfs.threads import in_threads, shares

__all__ = ["Metric", "Nearest", "Vectors", "distances", "nearest", "nearest_of_many"]

Metric = Literal["l2", "cosine", "dot"]

BLOCK = 1 << 15  # small enough for a cache, large enough that calls do not count
ROWS_PER_THREAD = 1 << 15
ROUNDING = 2.0**-53


@dataclass(frozen=True)
class Vectors:
    """A column of vectors in position order.

    Attributes:
        matrix: One row per position, float32; may be mapped from a file.
        known: Which rows are not null; None if all are. A null's row in the matrix is never read.
    """

    matrix: npt.NDArray[np.float32]
    known: Mask | None = None

    def __post_init__(self) -> None:
        if self.matrix.ndim != 2:
            raise ValueError(f"vectors form a matrix, not an array of {self.matrix.ndim} dimensions")
        object.__setattr__(self, "matrix", frozen(self.matrix, np.float32))
        if self.known is not None:
            object.__setattr__(self, "known", frozen(self.known, np.bool_))
            if len(self.known) != len(self.matrix):
                raise ValueError(f"{len(self.known)} marks for {len(self.matrix)} vectors")

    @classmethod
    def of(cls, column: pa.FixedSizeListArray | pa.ChunkedArray) -> Vectors:
        """The vectors of an Arrow column; not copied if it is in one piece.

        Raises:
            TypeError: The column holds no float32 vectors.
        """
        kind = column.type
        if not (pa.types.is_fixed_size_list(kind) and kind.value_type == pa.float32()):
            raise TypeError(f"float32 vectors are needed, not {kind}")
        if isinstance(column, pa.ChunkedArray):
            column = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
        values = column.values.slice(column.offset * kind.list_size, len(column) * kind.list_size)
        matrix = values.to_numpy(zero_copy_only=False).reshape(len(column), kind.list_size)
        known = None if not column.null_count else column.is_valid().to_numpy(zero_copy_only=False)
        return cls(matrix, known)

    def __len__(self) -> int:
        return len(self.matrix)


@dataclass(frozen=True)
class Nearest:
    """Rows by ascending distance; ties with the last one are all there, and in position order."""

    positions: Positions
    distances: Floats


def distances(vectors: Vectors, query: npt.ArrayLike, at: npt.ArrayLike, *, metric: Metric = "l2") -> tuple[Floats, Mask]:
    """The distance of each position, and whether it has one; -1 has none.

    Raises:
        IndexError: A position is not in the column.
        ValueError: The query has another dimension or is not finite, or the metric is unknown.
    """
    point = _query(vectors, query, metric)
    asked = positions(at, len(vectors))
    there = asked >= 0
    if vectors.known is not None:
        there[there] = vectors.known[asked[there]]
    found, known = _exact(vectors, frozen(asked[there], np.int64), point, metric)
    out, out_known = np.zeros(len(asked)), np.zeros(len(asked), np.bool_)
    out[there], out_known[there] = found, known
    return out, out_known


def nearest(
    vectors: Vectors,
    query: npt.ArrayLike,
    *,
    limit: int,
    metric: Metric = "l2",
    candidates: npt.ArrayLike | None = None,
) -> Nearest:
    """The `limit` nearest rows that have a distance, and all that tie with the last of them.

    Exact: bounds sift out what may be among the nearest, and exact distances decide.

    Args:
        vectors: The column.
        query: The point to be near to.
        limit: How many.
        metric: What near means.
        candidates: Positions to choose from, each once; all, if not given.

    Raises:
        IndexError: A candidate is not in the column.
        ValueError: The query has another dimension or is not finite, or the metric is unknown.
    """
    point = _query(vectors, query, metric)
    rows = _candidates(vectors, candidates)
    if 0 < limit < len(rows):
        rows = _sifted(vectors, rows, point, metric, limit)
    return _ranked(vectors, rows, point, metric, limit)


def nearest_of_many(
    vectors: Vectors,
    queries: Sequence[npt.ArrayLike] | npt.NDArray[Any],
    *,
    limit: int,
    metric: Metric = "l2",
    candidates: npt.ArrayLike | None = None,
) -> list[Nearest]:
    """As `nearest`, for several queries at once, which share the reading of the column."""
    points = [_query(vectors, query, metric) for query in queries]
    rows = _candidates(vectors, candidates)
    step = queries_per_product(vectors.matrix.shape[1])
    if not 0 < limit < len(rows) or min(step, len(points)) < 2:
        return [nearest(vectors, point, limit=limit, metric=metric, candidates=rows) for point in points]
    found = []
    for first in range(0, len(points), step):
        some = points[first : first + step]
        sifted = sift_products(vectors.matrix, rows, np.stack(some), metric, limit)
        found += [_ranked(vectors, left, point, metric, limit) for left, point in zip(sifted, some, strict=True)]
    return found


def _query(vectors: Vectors, query: npt.ArrayLike, metric: str) -> Floats:
    point = np.asarray(query, np.float64)
    if metric not in get_args(Metric):
        raise ValueError(f"there is no metric {metric!r}; there are {', '.join(get_args(Metric))}")
    if point.shape != vectors.matrix.shape[1:]:
        raise ValueError(f"a query of {point.size} numbers for vectors of {vectors.matrix.shape[1]}")
    if not np.isfinite(point).all():
        raise ValueError("a query must be finite")
    if metric == "cosine" and point.any():  # its length does not matter, and its square must fit
        point = np.ldexp(point, -math.frexp(float(np.abs(point).max()))[1])
    return frozen(point, np.float64)


def _candidates(vectors: Vectors, candidates: npt.ArrayLike | None) -> Positions:
    """The rows to choose from, ascending, without nulls."""
    if candidates is None:
        rows = np.arange(len(vectors)) if vectors.known is None else np.flatnonzero(vectors.known)
    else:
        rows = np.sort(positions(candidates, len(vectors)))
        rows = rows[rows >= 0]
        rows = rows if vectors.known is None else rows[vectors.known[rows]]
    return frozen(rows, np.int64)


def _exact(vectors: Vectors, rows: Positions, point: Floats, metric: Metric) -> tuple[Floats, Mask]:
    from omnigraph_udfs.kernels import vectors as kernels

    run = {"l2": kernels.exact_l2, "cosine": kernels.exact_cosine, "dot": kernels.exact_dot}[metric]
    out, known = np.empty(len(rows)), np.empty(len(rows), np.bool_)
    run(vectors.matrix, rows, point, out, known)
    return out, known


def _ranked(vectors: Vectors, rows: Positions, point: Floats, metric: Metric, limit: int) -> Nearest:
    found, known = _exact(vectors, rows, point, metric)
    rows, found = rows[known], found[known]
    order = least(found, limit)
    return Nearest(rows[order], found[order])


def _sifted(vectors: Vectors, rows: Positions, point: Floats, metric: Metric, limit: int) -> Positions:
    """The rows that may be among the nearest, ascending: each core sifts its share, then the shares' bounds meet."""
    from omnigraph_udfs.kernels import vectors as kernels

    run = {"l2": kernels.estimate_l2, "cosine": kernels.estimate_cosine, "dot": kernels.estimate_dot}[metric]
    unit = 8 * (len(point) + 8) * ROUNDING  # covers both sums, the estimate's and the exact one

    def sift(share: tuple[int, int]) -> Sieve:
        sieve = Sieve(limit)
        low, high = np.empty(BLOCK), np.empty(BLOCK)
        for first in range(share[0], share[1], BLOCK):
            block = rows[first : min(first + BLOCK, share[1])]
            run(vectors.matrix, block, point, unit, low, high)
            sieve.add(block, low[: len(block)], high[: len(block)])
        return sieve

    return merged(in_threads(sift, shares(len(rows), ROWS_PER_THREAD)), limit)
