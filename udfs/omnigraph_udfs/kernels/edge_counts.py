"""Kernels that count edges per vertex, or sum their weights."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from omnigraph_udfs.arrays import Ints, Mask
from omnigraph_udfs.kernels.jit import kernel

__all__ = ["counts", "sums"]


@kernel
def counts(ends: Ints, selected: Mask, out: npt.NDArray[np.int64]) -> None:
    """Add the number of selected edges of each vertex to `out`."""
    if len(ends) == 0:
        return
    last, count = ends[0], 0
    for edge in range(np.uint64(len(ends))):
        end = ends[edge]
        if end != last:  # runs of one vertex are common: a local sum avoids dependent memory accesses
            out[np.uint64(last)] += count
            last, count = end, 0
        count += selected[edge]
    out[np.uint64(last)] += count


@kernel
def sums(ends: Ints, others: Ints, selected: Mask, weights: npt.NDArray[np.int64], out: npt.NDArray[np.int64]) -> None:
    """Add the weights of the other ends of the selected edges of each vertex to `out`."""
    if len(ends) == 0:
        return
    last, total = ends[0], 0
    for edge in range(np.uint64(len(ends))):
        end = ends[edge]
        if end != last:
            out[np.uint64(last)] += total
            last, total = end, 0
        total += selected[edge] * weights[np.uint64(others[edge])]
    out[np.uint64(last)] += total
