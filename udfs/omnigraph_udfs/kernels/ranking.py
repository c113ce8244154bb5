"""Kernels of ranking."""

from __future__ import annotations

from omnigraph_udfs.arrays import Floats, Positions
from omnigraph_udfs.kernels.jit import kernel

__all__ = ["count_up_to", "find"]


@kernel
def count_up_to(values: Floats, bounds: Floats, counts: Positions) -> None:
    """Count each value at the first bound above it; bounds ascend. Values at or above the last bound count at the end."""
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


@kernel
def find(values: Positions, wanted: Positions, rows: Positions) -> int:
    """Write the indices of values that are among the ascending wanted ones; return their number."""
    count = 0
    for i in range(len(values)):
        value = values[i]
        low, high = 0, len(wanted)
        while low < high:
            middle = (low + high) // 2
            if wanted[middle] < value:
                low = middle + 1
            else:
                high = middle
        if low < len(wanted) and wanted[low] == value:
            rows[count] = i
            count += 1
    return count
