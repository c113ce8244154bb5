"""Distances between stored vectors and a query, and exact nearest neighbours.

Smaller is nearer: squared Euclidean distance for `l2`, one minus the cosine for `cosine`, one minus the dot product for
`dot`. Distances are computed in float64 from the stored float32 values, summed from left to right. A null vector has no
distance; under `cosine` a zero vector has none either, and a zero query has no distance to any vector.

>>> ports = Vectors.of(pa.array([[0, 0], [3, 0], None, [1, 0]], pa.list_(pa.float32(), 2)))
>>> result = nearest(ports, [0, 0], limit=2)
>>> result.positions.tolist(), result.distances.tolist()
([0, 3], [0.0, 1.0])
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph_udfs.arrays import Floats, Mask, Positions, frozen, positions
from omnigraph_udfs.ranking import least
from omnigraph_udfs.threads import in_threads, shares
from omnigraph_udfs.top_k_bounds import Sieve, merged

__all__ = ["Metric", "Nearest", "Vectors", "distances", "nearest"]

Metric = Literal["l2", "cosine", "dot"]

BLOCK = 1 << 15  # small enough for a processor cache, large enough that the cost of calls is negligible
ROWS_PER_THREAD = 1 << 15
ROUNDING = 2.0**-53


@dataclass(frozen=True)
class Vectors:
    """A column of vectors in position order.

    Attributes:
        matrix: One row per position, float32; may be mapped from a file.
        valid: A mask of the rows that are not null; None if no row is. The matrix row of a null is never read.
    """

    matrix: npt.NDArray[np.float32]
    valid: Mask | None = None

    def __post_init__(self) -> None:
        if self.matrix.ndim != 2:
            raise ValueError(f"vectors form a matrix, not an array of {self.matrix.ndim} dimensions")
        object.__setattr__(self, "matrix", frozen(self.matrix, np.float32))
        if self.valid is not None:
            object.__setattr__(self, "valid", frozen(self.valid, np.bool_))
            if len(self.valid) != len(self.matrix):
                raise ValueError(f"{len(self.valid)} marks for {len(self.matrix)} vectors")

    @classmethod
    def of(cls, column: pa.FixedSizeListArray | pa.ChunkedArray) -> Vectors:
        """Return the vectors of an Arrow column, not copied if it is in one chunk.

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
        valid = None if not column.null_count else column.is_valid().to_numpy(zero_copy_only=False)
        return cls(matrix, valid)

    def __len__(self) -> int:
        return len(self.matrix)


@dataclass(frozen=True)
class Nearest:
    """Rows by ascending distance, including all ties with the last one; ties are in position order."""

    positions: Positions
    distances: Floats


def distances(vectors: Vectors, query: npt.ArrayLike, at: npt.ArrayLike, *, metric: Metric = "l2") -> tuple[Floats, Mask]:
    """Return the distance of each position, and a mask of the positions that have one; -1 has none.

    Raises:
        IndexError: A position is not in the column.
        ValueError: The query has another dimension or is not finite, or the metric is unknown.
    """
    point = _query(vectors, query, metric)
    rows = positions(at, len(vectors))
    stored = rows >= 0
    if vectors.valid is not None:
        stored[stored] = vectors.valid[rows[stored]]
    out, valid = np.zeros(len(rows)), np.zeros(len(rows), np.bool_)
    out[stored], valid[stored] = _exact(vectors, frozen(rows[stored], np.int64), point, metric)
    return out, valid


def nearest(
    vectors: Vectors,
    query: npt.ArrayLike,
    *,
    limit: int,
    metric: Metric = "l2",
    candidates: npt.ArrayLike | None = None,
) -> Nearest:
    """Return the `limit` nearest rows that have a distance, and all ties with the last of them.

    The result is exact: bounds select candidates, and exact distances order them.

    Args:
        vectors: The column.
        query: The query vector.
        limit: The number of rows.
        metric: The distance metric.
        candidates: Positions to choose from, without duplicates; None for all.

    Raises:
        IndexError: A candidate is not in the column.
        ValueError: The query has another dimension or is not finite, or the metric is unknown.
    """
    point = _query(vectors, query, metric)
    rows = _candidates(vectors, candidates)
    if 0 < limit < len(rows):
        rows = _sifted(vectors, rows, point, metric, limit)
    return _ranked(vectors, rows, point, metric, limit)


def _query(vectors: Vectors, query: npt.ArrayLike, metric: str) -> Floats:
    point = np.asarray(query, np.float64)
    if metric not in get_args(Metric):
        raise ValueError(f"there is no metric {metric!r}; there are {', '.join(get_args(Metric))}")
    if point.shape != vectors.matrix.shape[1:]:
        raise ValueError(f"a query of {point.size} numbers for vectors of {vectors.matrix.shape[1]}")
    if not np.isfinite(point).all():
        raise ValueError("a query must be finite")
    if metric == "cosine" and point.any():  # its length does not matter, and its square must not overflow
        point = np.ldexp(point, -math.frexp(float(np.abs(point).max()))[1])
    return frozen(point, np.float64)


def _candidates(vectors: Vectors, candidates: npt.ArrayLike | None) -> Positions:
    """Return the rows to choose from, ascending, without nulls."""
    if candidates is None:
        rows = np.arange(len(vectors)) if vectors.valid is None else np.flatnonzero(vectors.valid)
    else:
        rows = np.sort(positions(candidates, len(vectors)))
        rows = rows[rows >= 0]
        rows = rows if vectors.valid is None else rows[vectors.valid[rows]]
    return frozen(rows, np.int64)


def _exact(vectors: Vectors, rows: Positions, point: Floats, metric: Metric) -> tuple[Floats, Mask]:
    from omnigraph_udfs.kernels import vectors as kernels

    run = {"l2": kernels.exact_l2, "cosine": kernels.exact_cosine, "dot": kernels.exact_dot}[metric]
    out, valid = np.empty(len(rows)), np.empty(len(rows), np.bool_)
    run(vectors.matrix, rows, point, out, valid)
    return out, valid


def _ranked(vectors: Vectors, rows: Positions, point: Floats, metric: Metric, limit: int) -> Nearest:
    exact, valid = _exact(vectors, rows, point, metric)
    rows, exact = rows[valid], exact[valid]
    order = least(exact, limit)
    return Nearest(rows[order], exact[order])


def _sifted(vectors: Vectors, rows: Positions, point: Floats, metric: Metric, limit: int) -> Positions:
    """Return the rows that may be among the nearest, ascending: each thread filters its share, then bounds are merged."""
    from omnigraph_udfs.kernels import vectors as kernels

    run = {"l2": kernels.estimate_l2, "cosine": kernels.estimate_cosine, "dot": kernels.estimate_dot}[metric]
    unit = 8 * (len(point) + 8) * ROUNDING  # covers the rounding errors of both the estimate and the exact sum

    def sift(share: tuple[int, int]) -> Sieve:
        sieve = Sieve(limit)
        low, high = np.empty(BLOCK), np.empty(BLOCK)
        for first in range(share[0], share[1], BLOCK):
            block = rows[first : min(first + BLOCK, share[1])]
            run(vectors.matrix, block, point, unit, low, high)
            sieve.add(block, low[: len(block)], high[: len(block)])
        return sieve

    return merged(in_threads(sift, shares(len(rows), ROWS_PER_THREAD)), limit)
