"""Kernels of breadth-first search, one source at a time.

`seen` contains, for each vertex, the number of the last search that reached it, so that it need not be cleared between
searches. `queue` contains the vertices of the current search in order of distance.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from omnigraph_udfs.arrays import Ints
from omnigraph_udfs.kernels.jit import kernel

__all__ = ["pair_distances", "reached"]


@kernel
def _advance(offsets: Ints, targets: Ints, seen: Ints, search: int, queue: Ints, start: int, stop: int) -> Any:
    """Append the unseen neighbours of `queue[start:stop]` to the queue; return its new end."""
    end = np.uint64(stop)
    for at in range(np.uint64(start), np.uint64(stop)):
        vertex = np.uint64(queue[at])
        for i in range(np.uint64(offsets[vertex]), np.uint64(offsets[vertex + np.uint64(1)])):
            target = np.uint64(targets[i])
            if seen[target] != search:
                seen[target] = search
                queue[end] = targets[i]
                end += np.uint64(1)
    return np.int64(end)


@kernel
def _loops(offsets: Ints, targets: Ints, vertex: int) -> Any:
    """True if a vertex has a self-loop."""
    low, high = offsets[vertex], offsets[vertex + 1]
    while low < high:
        middle = (low + high) // 2
        if targets[middle] < vertex:
            low = middle + 1
        else:
            high = middle
    return low < offsets[vertex + 1] and targets[low] == vertex


@kernel
def reached(
    offsets: Ints,
    targets: Ints,
    sources: Ints,
    earlier: int,
    least: int,
    most: int,
    seen: Ints,
    queue: Ints,
    ends: Ints,
    out: Ints,
) -> tuple[int, int]:
    """Write the destinations of each source and their ends, until the destinations of a source do not fit into `out`.

    A vertex is reported at its shortest distance, if that is within the bounds. A self-loop reports its vertex one hop after
    the vertex was reached; this adds a destination only for vertices one hop short of the lower bound.

    `earlier` is the number of previous searches, including incomplete ones.

    Returns:
        The number of completed sources; and, if the next did not fit, the number of its destinations.
    """
    place = 0
    for number in range(len(sources)):
        if sources[number] < 0:
            ends[number] = place
            continue
        search = earlier + number + 1
        seen[sources[number]] = search
        queue[0] = sources[number]
        start, stop = 0, 1
        loop_start, loop_stop, first = 0, 0, -1
        for hop in range(1, most + 1):
            if hop == least:
                loop_start, loop_stop, first = start, stop, stop
            start, stop = stop, _advance(offsets, targets, seen, search, queue, start, stop)
            if start == stop:
                break
        if first < 0:
            first = stop
        count = stop - first
        for at in range(loop_start, loop_stop):
            count += _loops(offsets, targets, queue[at])
        if place + count > len(out):
            return number, count
        for at in range(loop_start, loop_stop):
            if _loops(offsets, targets, queue[at]):
                out[place] = queue[at]
                place += 1
        for at in range(first, stop):
            out[place] = queue[at]
            place += 1
        ends[number] = place
    return len(sources), 0


@kernel
def pair_distances(
    offsets: Ints,
    targets: Ints,
    sources: Ints,
    destinations: Ints,
    order: Ints,
    most: int,
    seen: Ints,
    wanted: Ints,
    depth: Ints,
    queue: Ints,
    out: Ints,
) -> None:
    """Write the shortest distance of each pair, -1 beyond `most`; `order` sorts pairs by source.

    `wanted` is the number of the search that looks for a vertex; it is negated when the search reaches the vertex.
    """
    low, search = 0, 0
    while low < len(order):
        source = sources[order[low]]
        high = low
        while high < len(order) and sources[order[high]] == source:
            high += 1
        if source < 0:
            low = high
            continue
        search += 1
        missing = 0
        for at in range(low, high):
            destination = destinations[order[at]]
            if destination >= 0 and destination != source and wanted[destination] != search:
                wanted[destination] = search
                missing += 1
        seen[source] = search
        queue[0] = source
        start, stop = 0, 1
        for hop in range(1, most + 1):
            if missing == 0 or start == stop:
                break
            start, stop = stop, _advance(offsets, targets, seen, search, queue, start, stop)
            for at in range(start, stop):
                if wanted[queue[at]] == search:
                    wanted[queue[at]] = -search
                    depth[queue[at]] = hop
                    missing -= 1
        for at in range(low, high):
            destination = destinations[order[at]]
            if destination == source:
                out[order[at]] = 0
            elif destination >= 0 and wanted[destination] == -search:
                out[order[at]] = depth[destination]
        low = high
