"""Kernels that gather the values of neighbours."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from omnigraph_udfs.arrays import Ints, Mask
from omnigraph_udfs.kernels.jit import kernel

__all__ = ["largest", "smallest", "sums"]


@kernel
def sums(offsets: Ints, targets: Ints, values: npt.NDArray[Any], out: npt.NDArray[Any]) -> None:
    """The sum over the neighbours of each vertex."""
    for vertex in range(len(out)):
        total = out.dtype.type(0)
        for i in range(np.uint64(offsets[vertex]), np.uint64(offsets[vertex + 1])):
            total += values[np.uint64(targets[i])]
        out[vertex] = total


@kernel
def smallest(
    offsets: Ints, targets: Ints, values: npt.NDArray[Any], known: Mask, out: npt.NDArray[Any], out_known: Mask
) -> None:
    """The smallest known value among the neighbours of each vertex; not-a-number is larger than every number."""
    for vertex in range(len(out)):
        found = False
        best = values[0]
        for i in range(np.uint64(offsets[vertex]), np.uint64(offsets[vertex + 1])):
            target = np.uint64(targets[i])
            if known[target]:
                value = values[target]
                if not found or value < best or best != best:  # noqa: PLR0124 - not-a-number differs from itself
                    best = value
                found = True
        out_known[vertex] = found
        if found:
            out[vertex] = best


@kernel
def largest(
    offsets: Ints, targets: Ints, values: npt.NDArray[Any], known: Mask, out: npt.NDArray[Any], out_known: Mask
) -> None:
    """The largest known value among the neighbours of each vertex; not-a-number is larger than every number."""
    for vertex in range(len(out)):
        found = False
        best = values[0]
        for i in range(np.uint64(offsets[vertex]), np.uint64(offsets[vertex + 1])):
            target = np.uint64(targets[i])
            if known[target]:
                value = values[target]
                if not found or value > best or value != value:  # noqa: PLR0124 - not-a-number differs from itself
                    best = value
                found = True
        out_known[vertex] = found
        if found:
            out[vertex] = best
