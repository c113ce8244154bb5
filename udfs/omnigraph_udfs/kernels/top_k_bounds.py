"""The kernel of top-k selection by bounds."""

from __future__ import annotations

from omnigraph_udfs.arrays import Floats, Positions
from omnigraph_udfs.kernels.jit import kernel

__all__ = ["sift"]


@kernel
def sift(low: Floats, high: Floats, rows: Positions, heap: Floats, out_rows: Positions, out_low: Floats) -> int:
    """Write the rows that may be among the best so far.

    `heap` contains the smallest upper bounds so far, the largest of them first. A row with a bound of NaN is written.

    Returns:
        The number of rows written.
    """
    for i in range(len(rows)):
        bound = high[i]
        if bound < heap[0]:
            at = 0
            while True:
                child = 2 * at + 1
                if child >= len(heap):
                    break
                if child + 1 < len(heap) and heap[child + 1] > heap[child]:
                    child += 1
                if heap[child] <= bound:
                    break
                heap[at] = heap[child]
                at = child
            heap[at] = bound
    count = 0
    for i in range(len(rows)):
        if not low[i] > heap[0]:
            out_rows[count] = rows[i]
            out_low[count] = low[i]
            count += 1
    return count
