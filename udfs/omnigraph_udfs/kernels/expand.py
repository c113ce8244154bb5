"""Kernels of one hop over an adjacency.

Inner loops use unsigned integers: a signed index is tested for being negative at every access, which here costs more than
the access itself.
"""

from __future__ import annotations

import numpy as np

from omnigraph_udfs.arrays import Ints, Mask
from omnigraph_udfs.kernels.jit import kernel

__all__ = ["counts", "fill", "has_edge", "has_edge_in_runs"]

STEPS = 8


@kernel
def counts(offsets: Ints, frontier: Ints, out: Ints) -> None:
    """Write the number of neighbours of each vertex of the frontier."""
    for row in range(len(frontier)):
        vertex = frontier[row]
        out[row] = 0 if vertex < 0 else offsets[vertex + 1] - offsets[vertex]


@kernel
def fill(offsets: Ints, values: Ints, frontier: Ints, out: Ints) -> None:
    """Write the values of each vertex of the frontier, in order."""
    place = np.uint64(0)
    for row in range(len(frontier)):
        vertex = frontier[row]
        if vertex < 0:
            continue
        begin = np.uint64(offsets[vertex])
        count = np.uint64(offsets[vertex + 1]) - begin
        for i in range(count):
            out[place + i] = values[begin + i]
        place += count


@kernel
def _place(targets: Ints, low: int, high: int, wanted: int) -> int:
    """Return the index of the first of the ascending targets that is not below the wanted one."""
    while low < high:
        middle = (low + high) // 2
        if targets[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def has_edge(offsets: Ints, targets: Ints, sources: Ints, destinations: Ints, out: Mask) -> None:
    """Mark the pairs that an edge connects, by binary search in the sorted neighbours of the source."""
    for row in range(len(sources)):
        source, destination = sources[row], destinations[row]
        connected = False
        if source >= 0 and destination >= 0:
            end = offsets[source + 1]
            place = _place(targets, offsets[source], end, destination)
            connected = place < end and targets[place] == destination
        out[row] = connected


@kernel
def has_edge_in_runs(offsets: Ints, targets: Ints, vertices: Ints, others: Ints, out: Mask) -> None:
    """Like `has_edge`, for runs of one vertex with ascending others: each run scans its neighbours once.

    If the next one is more than a few steps away, a binary search finds it.
    """
    vertex, before = -1, -1
    place, end = 0, 0
    for row in range(len(vertices)):
        other = others[row]
        if vertices[row] < 0 or other < 0:
            out[row] = False
            continue
        if vertices[row] != vertex or other < before:
            vertex = vertices[row]
            place, end = offsets[vertex], offsets[vertex + 1]
        before = other
        near = min(place + STEPS, end)
        while place < near and targets[place] < other:
            place += 1
        if place == near:
            place = _place(targets, place, end, other)
        out[row] = place < end and targets[place] == other
