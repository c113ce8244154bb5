"""Kernels of vector distances.

Vectors are rows of a float32 matrix; everything is computed in float64. `exact_*` sum from left to right, so a distance
depends only on the two vectors. The estimates may sum in any order; each has a bound of its error.
"""

from __future__ import annotations

import math

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
]

Matrix = npt.NDArray[np.float32]

SLACK = 1e-300  # squares that are too small for float64 may vanish


@kernel
def exact_l2(matrix: Matrix, rows: Positions, query: Floats, out: Floats, valid: Mask) -> None:
    """Write squared Euclidean distances."""
    for i in range(len(rows)):
        row = rows[i]
        total = 0.0
        for j in range(len(query)):
            difference = np.float64(matrix[row, j]) - query[j]
            total += difference * difference
        out[i] = total
        valid[i] = True


@kernel
def exact_dot(matrix: Matrix, rows: Positions, query: Floats, out: Floats, valid: Mask) -> None:
    """Write one minus the dot product."""
    for i in range(len(rows)):
        row = rows[i]
        total = 0.0
        for j in range(len(query)):
            total += np.float64(matrix[row, j]) * query[j]
        out[i] = 1.0 - total
        valid[i] = True


@kernel
def exact_cosine(matrix: Matrix, rows: Positions, query: Floats, out: Floats, valid: Mask) -> None:
    """Write one minus the cosine; invalid if either vector is zero."""
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
        valid[i] = own != 0.0 and size != 0.0
        out[i] = 1.0 - total / math.sqrt(own * size) if valid[i] else 0.0


@reordering_kernel
def estimate_l2(matrix: Matrix, rows: Positions, query: Floats, unit: float, low: Floats, high: Floats) -> None:
    """Write bounds of squared Euclidean distances; `unit` is the error bound of a sum relative to the sum of its terms."""
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
    """Write bounds of one minus the dot product."""
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
    """Write bounds of one minus the cosine; infinite for a zero vector, so that it comes last."""
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
