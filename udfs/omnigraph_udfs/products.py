"""Bounds of the distances of several queries to many vectors, from float32 matrix products.

A product in float32 is off by at most `(dimension + 4) / 2**24` of the two lengths, and by what is too small for float32.
The bounds allow for that and for the rounding of everything else; exact distances decide among what they leave.

Products are taken of blocks small enough to stay in a core's cache and, in the usual linear algebra libraries, on the core
that asks for them. That is several times faster than leaving large products to the library's own threads.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from omnigraph_udfs.arrays import Floats, Positions, frozen
from omnigraph_udfs.sieve import Sieve, merged
from omnigraph_udfs.threads import in_threads, shares

__all__ = ["queries_per_product", "sift_products"]

MULTIPLICATIONS = 1 << 18  # of one product
LEAST_ROWS = 64
MOST_QUERIES = 16
ROWS_PER_THREAD = 1 << 15
SINGLE, DOUBLE = 2.0**-24, 2.0**-53
SMALLEST = 2.0**-126  # a smaller product may be taken for 0
METRICS = {"l2": 0, "cosine": 1, "dot": 2}


def queries_per_product(dimension: int) -> int:
    """How many queries of a dimension are best done together; with less than two, products are no use."""
    return min(MOST_QUERIES, MULTIPLICATIONS // (LEAST_ROWS * max(dimension, 1)))


def sift_products(
    matrix: npt.NDArray[np.float32], rows: Positions, points: Floats, metric: str, limit: int
) -> list[Positions]:
    """For each query the rows that may be among the `limit` nearest, ascending as `rows` is.

    Args:
        matrix: The vectors.
        rows: The rows to choose from, more than `limit`.
        points: One query per row, as many as `queries_per_product` says at most.
        metric: `l2`, `cosine` or `dot`.
        limit: How many.
    """
    scales = np.array([math.frexp(float(np.abs(point).max(initial=0.0)))[1] for point in points])
    scaled = np.ldexp(points, -scales[:, None])
    with np.errstate(over="ignore"):  # an infinite factor bounds nothing, and every row is kept
        factors = frozen(np.ldexp(1.0, scales), np.float64)
    sizes = frozen([math.sqrt(float(np.dot(point, point))) for point in scaled], np.float64)
    single = scaled.astype(np.float32)

    def sift(share: tuple[int, int]) -> list[Sieve]:
        return _sift(matrix, rows[share[0] : share[1]], single, (sizes, factors), metric, limit)

    parts = in_threads(sift, shares(len(rows), ROWS_PER_THREAD))
    return [merged([part[number] for part in parts], limit) for number in range(len(points))]


def _sift(
    matrix: npt.NDArray[np.float32],
    rows: Positions,
    single: npt.NDArray[np.float32],
    sizes: tuple[Floats, Floats],
    metric: str,
    limit: int,
) -> list[Sieve]:
    from omnigraph_udfs.kernels import vectors as kernels

    queries, dimension = single.shape
    units = (dimension + 4) * SINGLE, (dimension + 4) * SMALLEST, 8 * (dimension + 8) * DOUBLE
    sieves = [Sieve(limit) for _ in range(queries)]
    step = MULTIPLICATIONS // max(queries * dimension, 1)
    low, high, lengths = np.empty((queries, step)), np.empty((queries, step)), np.empty(step)
    for first in range(0, len(rows), step):
        block = rows[first : first + step]
        count = len(block)
        gapless = int(block[-1]) - int(block[0]) + 1 == count
        vectors = matrix[block[0] : block[-1] + 1] if gapless else frozen(matrix[block], np.float32)
        kernels.norms(vectors, lengths[:count])
        with np.errstate(all="ignore"):  # a product that overflows bounds nothing, and its row is kept
            products = single @ vectors.T
        best = np.array([sieve.bounds[0] for sieve in sieves])
        promising = kernels.product_bounds(METRICS[metric], products, lengths, *sizes, units, best, low, high)
        for number in np.flatnonzero(promising):
            sieves[number].add(block, low[number, :count], high[number, :count])
    return sieves
