"""Kernels that count edges, or weigh them, at one of their ends."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from omnigraph_udfs.arrays import Ints, Mask
from omnigraph_udfs.kernels.jit import kernel

__all__ = ["counts", "sums"]


@kernel
def counts(ends: Ints, kept: Mask, out: npt.NDArray[np.int64]) -> None:
    """How many of the edges that are kept have each vertex as their end."""
    if len(ends) == 0:
        return
    last, count = ends[0], 0
    for edge in range(np.uint64(len(ends))):
        end = ends[edge]
        if end != last:  # edges of one vertex often come together: adding up in memory would wait for itself
            out[np.uint64(last)] += count
            last, count = end, 0
        count += kept[edge]
    out[np.uint64(last)] += count


@kernel
def sums(ends: Ints, others: Ints, kept: Mask, weights: npt.NDArray[np.int64], out: npt.NDArray[np.int64]) -> None:
    """The sum of the weights of their other ends, over the edges that are kept and have each vertex as their end."""
    if len(ends) == 0:
        return
    last, total = ends[0], 0
    for edge in range(np.uint64(len(ends))):
        end = ends[edge]
        if end != last:
            out[np.uint64(last)] += total
            last, total = end, 0
        total += kept[edge] * weights[np.uint64(others[edge])]
    out[np.uint64(last)] += total
