"""Kernels of breadth-first search from up to 256 sources at once: a bit for each of them, in a few words per vertex.

`seen` holds the sources that met a vertex, `now` and `later` those that meet it at this hop and at the next. All three are
zero before and after. `queue` and `waiting` hold the vertices of these two hops, `touched` all that any source met.

Counts are kept upright: bit `i` of row `k` of `digits` is digit `k` of the count of source `i`, in base two. To count a
vertex for all sources that met it takes as many steps as digits change, two on average.
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
"""Words per vertex: what a processor combines in one instruction."""
_DENSE = 4
"""A hop from more than one in so many vertices asks every vertex whom it is met from, instead of telling whom it meets."""


class Marks(NamedTuple):
    """What a search writes on, and the counts it leaves."""

    seen: Words
    now: Words
    later: Words
    queue: Ints
    waiting: Ints
    touched: Ints
    digits: Words


@kernel
def _loops(offsets: Ints, targets: Ints, vertex: int) -> Any:
    """Whether a vertex has a self-loop."""
    low, high = offsets[vertex], offsets[vertex + 1]
    while low < high:
        middle = (low + high) // 2
        if targets[middle] < vertex:
            low = middle + 1
        else:
            high = middle
    return low < offsets[vertex + 1] and targets[low] == vertex


@kernel
def _count(digits: Words, met: Words, weight: int) -> None:
    """Adds a weight to the counts of the sources that met a vertex."""
    place = 0
    while weight:
        if weight & 1:
            for lane in range(LANES):
                carry = met[lane]
                at = place
                while carry:
                    both = digits[at, lane] & carry
                    digits[at, lane] ^= carry
                    carry = both
                    at += 1
        weight >>= 1
        place += 1


@kernel
def _told(offsets: Ints, targets: Ints, seen: Words, now: Words, later: Words, queue: Ints, stop: int, waiting: Ints) -> Any:
    """Every vertex of a hop tells its neighbours which sources it brings; returns how many meet somebody new."""
    end = np.uint64(0)
    for at in range(np.uint64(stop)):
        vertex = np.uint64(queue[at])
        for i in range(np.uint64(offsets[vertex]), np.uint64(offsets[vertex + np.uint64(1)])):
            target = np.uint64(targets[i])
            new = np.uint64(0)
            known = np.uint64(0)
            for lane in range(LANES):
                known |= later[target, lane]
                fresh = now[vertex, lane] & ~seen[target, lane]
                later[target, lane] |= fresh
                new |= fresh
            if new and not known:
                waiting[end] = targets[i]
                end += np.uint64(1)
    return np.int64(end)


@kernel
def _asked(offsets: Ints, targets: Ints, full: Words, seen: Words, now: Words, later: Words, waiting: Ints) -> Any:
    """Every vertex asks those it is a neighbour of; returns how many meet somebody new."""
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
    """Leaves in `digits` the sum of the weights of what each source reaches; without weights each vertex has one.

    A vertex counts at its shortest distance. One that is a hop short of the least counts if it has a loop or, if the search
    is `turned`, if its source is among those `looped`.
    """
    seen, now, later, queue, waiting, touched, digits = marks
    stop, met = 0, 0
    full = np.zeros(LANES, np.uint64)
    some = np.zeros(LANES, np.uint64)
    for number in range(len(sources)):
        vertex = sources[number]
        bit = np.uint64(1) << np.uint64(number % 64)
        seen[vertex, number // 64] = now[vertex, number // 64] = bit
        full[number // 64] |= bit
        queue[stop] = touched[met] = vertex
        stop += 1
        met += 1
    for hop in range(1, most + 1):
        if hop == least:
            for at in range(stop):
                vertex = queue[at]
                if turned:
                    for lane in range(LANES):
                        some[lane] = now[vertex, lane] & looped[lane]
                    _count(digits, some, weights[vertex] if len(weights) else 1)
                elif _loops(offsets, targets, vertex):
                    _count(digits, now[vertex], weights[vertex] if len(weights) else 1)
        if stop * _DENSE > len(offsets) and len(back_offsets):
            end = _asked(back_offsets, back_targets, full, seen, now, later, waiting)
        else:
            end = _told(offsets, targets, seen, now, later, queue, stop, waiting)
        for at in range(stop):
            for lane in range(LANES):
                now[queue[at], lane] = np.uint64(0)
        for at in range(end):
            vertex = waiting[at]
            known = np.uint64(0)
            for lane in range(LANES):
                known |= seen[vertex, lane]
                seen[vertex, lane] |= later[vertex, lane]
                now[vertex, lane] = later[vertex, lane]
                later[vertex, lane] = np.uint64(0)
            if not known:
                touched[met] = vertex
                met += 1
            queue[at] = vertex
            if hop >= least:
                _count(digits, now[vertex], weights[vertex] if len(weights) else 1)
        stop = end
        if stop == 0:
            break
    for at in range(met):
        for lane in range(LANES):
            seen[touched[at], lane] = np.uint64(0)
            now[touched[at], lane] = np.uint64(0)
