"""Kernels of breadth-first search from up to 256 sources at once, with one bit per source in a few words per vertex.

`seen` contains the sources that reached a vertex, `now` and `later` those that reach it at this hop and at the next. All
three are zero before and after. `queue` and `waiting` contain the vertices of these two hops, `touched` all vertices that
any source reached.

Counts are bit-sliced: bit `i` of row `k` of `digits` is binary digit `k` of the count of source `i`. Counting a vertex for
all sources that reached it takes as many steps as digits change, two on average.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from omnigraph_udfs.arrays import Ints
from omnigraph_udfs.kernels.jit import kernel

__all__ = ["DIGITS", "LANES", "Marks", "sums"]

Words: TypeAlias = npt.NDArray[np.uint64]
DIGITS = 63
LANES = 4
"""Words per vertex; a processor combines so many in one instruction."""
_DENSE = 4
"""A hop from more than one in `_DENSE` vertices is done bottom-up (from the unreached vertices), others top-down."""


class Marks(NamedTuple):
    """The working arrays of a search, and its resulting counts."""

    seen: Words
    now: Words
    later: Words
    queue: Ints
    waiting: Ints
    touched: Ints
    digits: Words


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
def _count(digits: Words, sources: Words, weight: int) -> None:
    """Add a weight to the counts of the sources that reached a vertex."""
    place = 0
    while weight:
        if weight & 1:
            for lane in range(LANES):
                carry = sources[lane]
                at = place
                while carry:
                    both = digits[at, lane] & carry
                    digits[at, lane] ^= carry
                    carry = both
                    at += 1
        weight >>= 1
        place += 1


@kernel
def _top_down(
    offsets: Ints, targets: Ints, seen: Words, now: Words, later: Words, queue: Ints, stop: int, waiting: Ints
) -> Any:
    """Propagate the sources of each vertex of a hop to its neighbours; return the number of newly reached vertices."""
    end = np.uint64(0)
    for at in range(np.uint64(stop)):
        vertex = np.uint64(queue[at])
        for i in range(np.uint64(offsets[vertex]), np.uint64(offsets[vertex + np.uint64(1)])):
            target = np.uint64(targets[i])
            new = np.uint64(0)
            pending = np.uint64(0)
            for lane in range(LANES):
                pending |= later[target, lane]
                fresh = now[vertex, lane] & ~seen[target, lane]
                later[target, lane] |= fresh
                new |= fresh
            if new and not pending:
                waiting[end] = targets[i]
                end += np.uint64(1)
    return np.int64(end)


@kernel
def _bottom_up(offsets: Ints, targets: Ints, full: Words, seen: Words, now: Words, later: Words, waiting: Ints) -> Any:
    """Collect the sources of the predecessors of each vertex; return the number of newly reached vertices."""
    end = np.uint64(0)
    for vertex in range(np.uint64(len(offsets) - 1)):
        missing = np.uint64(0)
        for lane in range(LANES):
            missing |= full[lane] & ~seen[vertex, lane]
        if not missing:
            continue
        for i in range(np.uint64(offsets[vertex]), np.uint64(offsets[vertex + np.uint64(1)])):
            other = np.uint64(targets[i])
            for lane in range(LANES):
                later[vertex, lane] |= now[other, lane]
        new = np.uint64(0)
        for lane in range(LANES):
            later[vertex, lane] &= ~seen[vertex, lane]
            new |= later[vertex, lane]
        if new:
            waiting[end] = vertex
            end += np.uint64(1)
    return np.int64(end)


@kernel
def sums(
    offsets: Ints,
    targets: Ints,
    back_offsets: Ints,
    back_targets: Ints,
    sources: Ints,
    least: int,
    most: int,
    weights: Ints,
    looped: Words,
    turned: bool,
    marks: Marks,
) -> None:
    """Write to `digits` the sum of the weights of the vertices that each source reaches; without weights, their number.

    A vertex counts at its shortest distance. A vertex one hop short of `least` counts if it has a self-loop or, in a
    `turned` search, if its source is in `looped`.
    """
    seen, now, later, queue, waiting, touched, digits = marks
    stop, touched_count = 0, 0
    full = np.zeros(LANES, np.uint64)
    looped_now = np.zeros(LANES, np.uint64)
    for number in range(len(sources)):
        vertex = sources[number]
        bit = np.uint64(1) << np.uint64(number % 64)
        seen[vertex, number // 64] = now[vertex, number // 64] = bit
        full[number // 64] |= bit
        queue[stop] = touched[touched_count] = vertex
        stop += 1
        touched_count += 1
    for hop in range(1, most + 1):
        if hop == least:
            for at in range(stop):
                vertex = queue[at]
                if turned:
                    for lane in range(LANES):
                        looped_now[lane] = now[vertex, lane] & looped[lane]
                    _count(digits, looped_now, weights[vertex] if len(weights) else 1)
                elif _loops(offsets, targets, vertex):
                    _count(digits, now[vertex], weights[vertex] if len(weights) else 1)
        if stop * _DENSE > len(offsets) and len(back_offsets):
            end = _bottom_up(back_offsets, back_targets, full, seen, now, later, waiting)
        else:
            end = _top_down(offsets, targets, seen, now, later, queue, stop, waiting)
        for at in range(stop):
            for lane in range(LANES):
                now[queue[at], lane] = np.uint64(0)
        for at in range(end):
            vertex = waiting[at]
            reached_before = np.uint64(0)
            for lane in range(LANES):
                reached_before |= seen[vertex, lane]
                seen[vertex, lane] |= later[vertex, lane]
                now[vertex, lane] = later[vertex, lane]
                later[vertex, lane] = np.uint64(0)
            if not reached_before:
                touched[touched_count] = vertex
                touched_count += 1
            queue[at] = vertex
            if hop >= least:
                _count(digits, now[vertex], weights[vertex] if len(weights) else 1)
        stop = end
        if stop == 0:
            break
    for at in range(touched_count):
        for lane in range(LANES):
            seen[touched[at], lane] = np.uint64(0)
            now[touched[at], lane] = np.uint64(0)
