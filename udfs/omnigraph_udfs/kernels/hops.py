"""Kernels of one hop over an adjacency.

Inner loops count in unsigned numbers: a signed index is checked for being negative at every access, which here costs more
than the access.
"""

from __future__ import annotations

import numpy as np

from omnigraph_udfs.arrays import Ints, Mask
from omnigraph_udfs.kernels.jit import kernel

__all__ = ["any_kept", "counts", "fill", "has_edge", "has_edge_in_runs", "kept_counts", "kept_fill"]

STEPS = 8


@kernel
def counts(offsets: Ints, frontier: Ints, out: Ints) -> None:
    """How many neighbours each vertex of the frontier has."""
    for row in range(len(frontier)):
        vertex = frontier[row]
        out[row] = 0 if vertex < 0 else offsets[vertex + 1] - offsets[vertex]


@kernel
def fill(offsets: Ints, values: Ints, frontier: Ints, skip: int, out: Ints) -> None:
    """Writes the values of one vertex of the frontier after the other until `out` is full.

    The first `skip` values of the first vertex are passed over.
    """
    place = np.uint64(0)
    room = np.uint64(len(out))
    for row in range(len(frontier)):
        vertex = frontier[row]
        if vertex < 0:
            continue
        begin = np.uint64(offsets[vertex] + skip)
        skip = 0
        count = min(np.uint64(offsets[vertex + 1]) - begin, room - place)
        for i in range(count):
            out[place + i] = values[begin + i]
        place += count


@kernel
def kept_counts(offsets: Ints, targets: Ints, frontier: Ints, keep: Mask, out: Ints) -> None:
    """How many neighbours each vertex of the frontier has among those to keep."""
    for row in range(len(frontier)):
        vertex = frontier[row]
        count = 0
        if vertex >= 0:
            for i in range(np.uint64(offsets[vertex]), np.uint64(offsets[vertex + 1])):
                count += keep[np.uint64(targets[i])]
        out[row] = count


@kernel
def kept_fill(offsets: Ints, targets: Ints, frontier: Ints, keep: Mask, skip: int, places: Ints) -> None:
    """Writes where in `targets` the neighbours to keep stand until `places` is full.

    The first `skip` of them, all of the first vertex, are passed over.
    """
    place = -skip
    for row in range(len(frontier)):
        vertex = frontier[row]
        if vertex < 0:
            continue
        if place == len(places):
            return
        for i in range(np.uint64(offsets[vertex]), np.uint64(offsets[vertex + 1])):
            if keep[np.uint64(targets[i])]:
                if place == len(places):
                    return
                if place >= 0:
                    places[np.uint64(place)] = i
                place += 1


@kernel
def any_kept(offsets: Ints, targets: Ints, frontier: Ints, keep: Mask, out: Mask) -> None:
    """Whether each vertex of the frontier has a neighbour among those to keep."""
    for row in range(len(frontier)):
        vertex = frontier[row]
        found = False
        if vertex >= 0:
            for i in range(np.uint64(offsets[vertex]), np.uint64(offsets[vertex + 1])):
                if keep[np.uint64(targets[i])]:
                    found = True
                    break
        out[row] = found


@kernel
def _place(targets: Ints, low: int, high: int, wanted: int) -> int:
    """Where the first of some ascending targets stands that is not below the one wanted."""
    while low < high:
        middle = (low + high) // 2
        if targets[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def has_edge(offsets: Ints, targets: Ints, sources: Ints, destinations: Ints, out: Mask) -> None:
    """Whether each pair is joined, by binary search in the sorted neighbours of the source."""
    for row in range(len(sources)):
        source, destination = sources[row], destinations[row]
        found = False
        if source >= 0 and destination >= 0:
            end = offsets[source + 1]
            place = _place(targets, offsets[source], end, destination)
            found = place < end and targets[place] == destination
        out[row] = found


@kernel
def has_edge_in_runs(offsets: Ints, targets: Ints, held: Ints, wanted: Ints, out: Mask) -> None:
    """As `has_edge`, for runs of one vertex with ascending others: each run goes through its neighbours once.

    Where the next one asked for is further away than a few steps, it is searched for.
    """
    vertex, before = -1, -1
    place, end = 0, 0
    for row in range(len(held)):
        other = wanted[row]
        if held[row] < 0 or other < 0:
            out[row] = False
            continue
        if held[row] != vertex or other < before:
            vertex = held[row]
            place, end = offsets[vertex], offsets[vertex + 1]
        before = other
        near = min(place + STEPS, end)
        while place < near and targets[place] < other:
            place += 1
        if place == near:
            place = _place(targets, place, end, other)
        out[row] = place < end and targets[place] == other
