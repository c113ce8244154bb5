"""Kernels of vector distances.

Vectors are rows of a float32 matrix; everything is computed in float64. `exact_*` add up from left to right, so a distance
depends on nothing but the two vectors. The estimates may add up in any order; each comes with the most it can be off.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from omnigraph_udfs.arrays import Floats, Mask, Positions
from omnigraph_udfs.kernels.jit import kernel, reordering_kernel

__all__ = [
    "estimate_cosine",
    "estimate_dot",
    "estimate_l2",
    "exact_cosine",
    "exact_dot",
    "exact_l2",
    "norms",
    "product_bounds",
]

Matrix = npt.NDArray[np.float32]

SLACK = 1e-300  # squares that are too small for float64 may vanish


@kernel
def exact_l2(matrix: Matrix, rows: Positions, query: Floats, out: Floats, known: Mask) -> None:
    """Squared Euclidean distances."""
    for i in range(len(rows)):
        row = rows[i]
        total = 0.0
        for j in range(len(query)):
            difference = np.float64(matrix[row, j]) - query[j]
            total += difference * difference
        out[i] = total
        known[i] = True


@kernel
def exact_dot(matrix: Matrix, rows: Positions, query: Floats, out: Floats, known: Mask) -> None:
    """One minus the dot product."""
    for i in range(len(rows)):
        row = rows[i]
        total = 0.0
        for j in range(len(query)):
            total += np.float64(matrix[row, j]) * query[j]
        out[i] = 1.0 - total
        known[i] = True


@kernel
def exact_cosine(matrix: Matrix, rows: Positions, query: Floats, out: Floats, known: Mask) -> None:
    """One minus the cosine; unknown if either vector is zero."""
    size = 0.0
    for j in range(len(query)):
        size += query[j] * query[j]
    for i in range(len(rows)):
        row = rows[i]
        total = 0.0
        own = 0.0
        for j in range(len(query)):
            value = np.float64(matrix[row, j])
            total += value * query[j]
            own += value * value
        known[i] = own != 0.0 and size != 0.0
        out[i] = 1.0 - total / math.sqrt(own * size) if known[i] else 0.0


@reordering_kernel
def estimate_l2(matrix: Matrix, rows: Positions, query: Floats, unit: float, low: Floats, high: Floats) -> None:
    """Bounds of squared Euclidean distances; `unit` is what a sum can be off, relative to the sum of its terms."""
    for i in range(len(rows)):
        row = np.uint64(rows[i])
        total = 0.0
        for j in range(np.uint64(len(query))):
            difference = np.float64(matrix[row, j]) - query[j]
            total += difference * difference
        low[i] = total - unit * total - SLACK
        high[i] = total + unit * total + SLACK


@reordering_kernel
def estimate_dot(matrix: Matrix, rows: Positions, query: Floats, unit: float, low: Floats, high: Floats) -> None:
    """Bounds of one minus the dot product."""
    for i in range(len(rows)):
        row = np.uint64(rows[i])
        total = 0.0
        weight = 1.0
        for j in range(np.uint64(len(query))):
            product = np.float64(matrix[row, j]) * query[j]
            total += product
            weight += abs(product)
        low[i] = 1.0 - total - unit * weight
        high[i] = 1.0 - total + unit * weight


@reordering_kernel
def estimate_cosine(matrix: Matrix, rows: Positions, query: Floats, unit: float, low: Floats, high: Floats) -> None:
    """Bounds of one minus the cosine; infinite, so that it comes last, for a zero vector."""
    size = 0.0
    for j in range(len(query)):
        size += query[j] * query[j]
    for i in range(len(rows)):
        row = np.uint64(rows[i])
        total = 0.0
        own = 0.0
        for j in range(np.uint64(len(query))):
            value = np.float64(matrix[row, j])
            total += value * query[j]
            own += value * value
        if own == 0.0 or size == 0.0:
            low[i] = np.inf
            high[i] = np.inf
        else:
            middle = 1.0 - total / math.sqrt(own * size)
            low[i] = middle - unit
            high[i] = middle + unit


@reordering_kernel
def norms(matrix: Matrix, out: Floats) -> None:
    """The length of each row, about."""
    for i in range(np.uint64(len(out))):
        total = 0.0
        for j in range(np.uint64(matrix.shape[1])):
            total += np.float64(matrix[i, j]) * np.float64(matrix[i, j])
        out[i] = math.sqrt(total)


@kernel
def product_bounds(
    metric: int,
    products: Matrix,
    lengths: Floats,
    query_lengths: Floats,
    factors: Floats,
    units: tuple[float, float, float],
    best: Floats,
    low: Floats,
    high: Floats,
) -> Any:
    """Bounds of distances from the float32 dot products of vectors with scaled queries.

    Where something overflows, or a length is zero under cosine, the bounds are no numbers.

    Args:
        metric: 0 for squared Euclidean distance, 1 for cosine, 2 for dot product.
        products: For each query the dot products of its scaled form with the vectors.
        lengths: The length of each vector.
        query_lengths: The length of each scaled query.
        factors: What each query was divided by.
        units: What a product can be off, relative to the two lengths and absolutely; what any other sum can be off.
        best: For each query a bound beyond which nobody is interested.
        low: Lower bounds, written.
        high: Upper bounds, written.

    Returns:
        For each query how many vectors may be within its `best`.
    """
    relative, absolute, unit = units
    promising = np.zeros(len(products), np.int64)
    for query in range(np.uint64(len(products))):
        factor = factors[query]
        whole = query_lengths[query] * factor
        for i in range(np.uint64(products.shape[1])):
            product = factor * np.float64(products[query, i])
            weight = lengths[i] * whole
            off = relative * weight + absolute * factor + 0.0 * product  # no number, if the product is infinite
            if metric == 0:
                sizes = lengths[i] * lengths[i] + whole * whole
                middle = sizes - 2.0 * product
                off = 2.0 * off + unit * sizes
            elif metric == 1:
                middle = 1.0 - product / weight
                off = off / weight + unit
            else:
                middle = 1.0 - product
                off += unit * (1.0 + weight)
            low[query, i] = middle - off
            high[query, i] = middle + off
            promising[query] += not (middle - off > best[query])
    return promising
