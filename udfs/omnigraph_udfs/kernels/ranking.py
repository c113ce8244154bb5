"""Kernels of ranks."""

from __future__ import annotations

from omnigraph_udfs.arrays import Floats, Positions
from omnigraph_udfs.kernels.jit import kernel

__all__ = ["count_up_to"]


@kernel
def count_up_to(values: Floats, bounds: Floats, counts: Positions) -> None:
    """Counts each value at the first bound above it; bounds ascend, and values that none is above count at the end."""
    most = len(bounds)
    for i in range(len(values)):
        value = values[i]
        if not value < bounds[most - 1]:
            counts[most] += 1
            continue
        low, high = 0, most - 1
        while low < high:
            middle = (low + high) // 2
            if value < bounds[middle]:
                high = middle
            else:
                low = middle + 1
        counts[low] += 1
