"""Kernels of common neighbours of two vertices.

The neighbours of the first vertex are marked, those of the second looked up. Consecutive rows often share their first
vertex, whose marks are then reused. If the second vertex has many more neighbours than the first, the few are looked up
among the many by binary search instead.
"""

from __future__ import annotations

import numpy as np

from omnigraph_udfs.arrays import Ints
from omnigraph_udfs.kernels.jit import kernel

__all__ = ["count", "fill", "weigh"]

SEARCHED = 16


@kernel
def _mark(offsets: Ints, targets: Ints, vertex: int, stamp: int, marks: Ints) -> None:
    for i in range(np.uint64(offsets[vertex]), np.uint64(offsets[vertex + 1])):
        marks[np.uint64(targets[i])] = stamp


@kernel
def _contains(targets: Ints, low: int, high: int, wanted: int) -> bool:
    while low < high:
        middle = (low + high) >> 1
        if targets[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low < len(targets) and targets[low] == wanted


@kernel
def count(off1: Ints, to1: Ints, off2: Ints, to2: Ints, first: Ints, second: Ints, marks: Ints, out: Ints) -> None:
    """Write the number of common neighbours of the two vertices of each row. `marks` is zero."""
    stamp, marked = 0, -1
    for row in range(len(first)):
        u, v = first[row], second[row]
        total = 0
        if u < 0 or v < 0:
            out[row] = 0
            continue
        few, many = off1[u + 1] - off1[u], off2[v + 1] - off2[v]
        if few * SEARCHED < many:
            low, high = off2[v], off2[v + 1]
            for i in range(np.uint64(off1[u]), np.uint64(off1[u + 1])):
                wanted = to1[i]
                total += low < high and wanted <= to2[high - 1] and _contains(to2, low, high, wanted)
        else:
            if u != marked:
                stamp, marked = stamp + 1, u
                _mark(off1, to1, u, stamp, marks)
            for i in range(np.uint64(off2[v]), np.uint64(off2[v + 1])):
                total += marks[np.uint64(to2[i])] == stamp
        out[row] = total


@kernel
def fill(off1: Ints, to1: Ints, off2: Ints, to2: Ints, first: Ints, second: Ints, marks: Ints, out: Ints) -> None:
    """Write the common neighbours of each row, ascending. `marks` is zero."""
    stamp, marked, place = 0, -1, 0
    for row in range(len(first)):
        u, v = first[row], second[row]
        if u < 0 or v < 0:
            continue
        few, many = off1[u + 1] - off1[u], off2[v + 1] - off2[v]
        if few * SEARCHED < many:
            low, high = off2[v], off2[v + 1]
            for i in range(np.uint64(off1[u]), np.uint64(off1[u + 1])):
                wanted = to1[i]
                if low < high and wanted <= to2[high - 1] and _contains(to2, low, high, wanted):
                    out[place] = wanted
                    place += 1
            continue
        if u != marked:
            stamp, marked = stamp + 1, u
            _mark(off1, to1, u, stamp, marks)
        for i in range(np.uint64(off2[v]), np.uint64(off2[v + 1])):
            if marks[np.uint64(to2[i])] == stamp:
                out[place] = to2[i]
                place += 1


@kernel
def weigh(
    off1: Ints, to1: Ints, off2: Ints, to2: Ints, first: Ints, second: Ints, weights: Ints, marks: Ints, out: Ints
) -> None:
    """Write the sum of the weights of the common neighbours of each row. `marks` is zero."""
    stamp, marked = 0, -1
    for row in range(len(first)):
        u, v = first[row], second[row]
        total = 0
        if u < 0 or v < 0:
            out[row] = 0
            continue
        if u != marked:
            stamp, marked = stamp + 1, u
            _mark(off1, to1, u, stamp, marks)
        for i in range(np.uint64(off2[v]), np.uint64(off2[v + 1])):
            target = np.uint64(to2[i])
            if marks[target] == stamp:
                total += weights[target]
        out[row] = total
