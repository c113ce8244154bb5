"""Bounds of the distances of many queries to many vectors, from one float32 matrix product per block of vectors.

A product in float32 is off by at most `(dimension + 4) / 2**24` of the two lengths, and by what is too small for float32.
The bounds allow for that and for the rounding of everything else; exact distances decide among what they leave.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from omnigraph_udfs.arrays import Floats, Positions, frozen
from omnigraph_udfs.sieve import Sieve, merged

__all__ = ["sift_products"]

BLOCK = 16_384
SINGLE, DOUBLE = 2.0**-24, 2.0**-53
SMALLEST = 2.0**-126  # a smaller product may be taken for 0
METRICS = {"l2": 0, "cosine": 1, "dot": 2}


def sift_products(
    matrix: npt.NDArray[np.float32], rows: Positions, points: Floats, metric: str, limit: int
) -> list[Positions]:
    """For each query the rows that may be among the `limit` nearest, ascending as `rows` is.

    Args:
        matrix: The vectors.
        rows: The rows to choose from, more than `limit`.
        points: One query per row.
        metric: `l2`, `cosine` or `dot`.
        limit: How many.
    """
    from omnigraph_udfs.kernels import vectors as kernels

    dimension = points.shape[1]
    scales = np.array([math.frexp(float(np.abs(point).max(initial=0.0)))[1] for point in points])
    scaled = np.ldexp(points, -scales[:, None])
    single = scaled.astype(np.float32)
    units = (dimension + 4) * SINGLE, (dimension + 4) * SMALLEST, 8 * (dimension + 8) * DOUBLE
    sieves = [Sieve(limit) for _ in points]
    low, high, lengths = np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK)
    for first in range(0, len(rows), BLOCK):
        block = rows[first : first + BLOCK]
        count = len(block)
        vectors = matrix[first : first + count] if len(rows) == len(matrix) else frozen(matrix[block], np.float32)
        kernels.norms(vectors, lengths[:count])
        with np.errstate(all="ignore"):  # a product that overflows bounds nothing, and its row is kept
            products = single @ vectors.T
            factors = np.ldexp(1.0, scales)
        for number, sieve in enumerate(sieves):
            square, factor = float(np.dot(scaled[number], scaled[number])), float(factors[number])
            kernels.product_bounds(METRICS[metric], products[number], lengths, square, factor, units, low, high)
            sieve.add(block, low[:count], high[:count])
    return [merged([sieve], limit) for sieve in sieves]
