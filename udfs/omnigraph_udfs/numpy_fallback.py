"""NumPy versions of kernels, for few values: loading the compiled code takes most of a second.

Each function returns the result of the kernel of the same name; callers choose by size. After many calls, a background
thread loads the compiled code.
"""

from __future__ import annotations

import os
import sys
import threading

import numpy as np
import numpy.typing as npt

from omnigraph_udfs.arrays import Ints, Mask, Positions

__all__ = [
    "FEW",
    "counts",
    "find",
    "firsts",
    "insert",
    "is_enough",
    "is_loaded",
    "reached",
    "sorted_by",
    "sums",
    "union",
    "values",
]

FEW = 1024
"""Up to this number of values, NumPy is about as fast as compiled code."""
SOME = 1 << 20
_PIECE = 1 << 20
"""Bytes of strings that are hashed at once."""
_WORD = 2**64 - 1
_UPPER = 0xFFFFFFFF00000000


def is_enough(count: int) -> bool:
    """True if NumPy should process `count` values: always for few, and for more until the compiled code is loaded."""
    if count <= FEW:
        return True
    if count > SOME or _compiled.is_loaded:
        return False
    _compiled.wanted(count)
    return True


def is_loaded() -> bool:
    """True if the compiled code can be called at once."""
    return _compiled.is_loaded


class _Compiled:
    """The state of the compiled code: loaded or not, and the number of values processed without it."""

    def __init__(self) -> None:
        self._spared = 0
        self._loader: threading.Thread | None = None

    @property
    def is_loaded(self) -> bool:
        """True if loading is complete."""
        return "numba" in sys.modules if self._loader is None else not self._loader.is_alive()

    def wanted(self, count: int) -> None:
        """Count values processed without it, and start to load it when they exceed a limit."""
        self._spared += count
        if self._spared > SOME and self._loader is None:
            # Not a daemon: a process must not end in the middle of it.
            self._loader = threading.Thread(target=_load, name="omnigraph-kernels")
            self._loader.start()


def _load() -> None:
    from omnigraph_udfs.kernels import edge_counts

    # The first call of a kernel takes as long as the import.
    edge_counts.counts(np.zeros(1, np.int32), np.ones(1, np.bool_), np.zeros(1, np.int64))


_compiled = _Compiled()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_compiled.__init__)  # type: ignore[misc]  # threads do not survive a fork


def counts(offsets: Ints, frontier: Positions) -> Positions:
    """Return the number of neighbours of each vertex of the frontier, 0 for -1."""
    vertices = np.maximum(frontier, 0)
    if len(offsets) == 1:
        return np.zeros(len(frontier), np.int64)
    return np.where(frontier >= 0, offsets[vertices + 1] - offsets[vertices], 0)


def values(offsets: Ints, of: Ints, frontier: Positions, ends: Positions) -> Positions:
    """Return the values of each vertex of the frontier, in order; `ends` are the offsets of the result."""
    starts = ends[:-1]
    places = (offsets[np.maximum(frontier, 0)] - starts).repeat(ends[1:] - starts)
    places += np.arange(ends[-1])
    gathered: Positions = of[places].astype(np.int64)
    return gathered


def firsts(offsets: Ints, targets: Ints) -> Mask:
    """Return a mask of the neighbours that differ from the preceding neighbour of the same vertex."""
    mask = np.ones(len(targets), np.bool_)
    mask[1:] = targets[1:] != targets[:-1]
    begins = offsets[:-1]
    mask[begins[begins < len(targets)]] = True
    return mask


def sums(offsets: Ints, targets: Ints, values: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
    """Return the sum of the values of the neighbours of each vertex."""
    out = np.zeros(len(offsets) - 1, values.dtype)
    nonempty = np.flatnonzero(np.diff(offsets))
    if len(nonempty):
        out[nonempty] = np.add.reduceat(values[targets], offsets[nonempty])
    return out


def reached(offsets: Ints, targets: Ints, sources: Positions, least: int, most: int) -> tuple[Positions, Positions]:
    """The destinations of one source after the other, and where those of each source begin and end."""
    destinations: list[int] = []
    ends = [0]
    for source in sources.tolist():
        if source >= 0:
            destinations += _destinations(offsets, targets, source, least, most)
        ends.append(len(destinations))
    return np.array(ends, np.int64), np.array(destinations, np.int64)


def _destinations(offsets: Ints, targets: Ints, source: int, least: int, most: int) -> list[int]:
    seen, layer, reached = {source}, [source], []
    for hop in range(1, most + 1):
        following: list[int] = []
        for vertex in layer:
            neighbours = targets[offsets[vertex] : offsets[vertex + 1]].tolist()
            if hop == least and vertex in neighbours:
                reached.append(vertex)  # a loop leads back to a vertex one hop short of the lower bound
            following += (other for other in dict.fromkeys(neighbours) if other not in seen)
            seen.update(neighbours)
        if hop >= least:
            reached += following
        if not following:
            break
        layer = following
    return reached


def sorted_by(keys: Ints, count: int) -> tuple[Positions, Positions]:
    """Where the values of each key begin once they are sorted by key, and their order; that of one key stays."""
    offsets = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(keys, minlength=count), out=offsets[1:])
    return offsets, np.argsort(keys, kind="stable")


def union(
    offsets: Ints, targets: Ints, edges: Ints, in_offsets: Ints, in_targets: Ints, in_edges: Ints
) -> tuple[Positions, Ints, Ints]:
    """The edges that leave or enter each vertex, by the other end and edge; a self-loop once."""
    rows = np.arange(len(offsets) - 1).repeat(np.diff(offsets))
    in_rows = np.arange(len(in_offsets) - 1).repeat(np.diff(in_offsets))
    others = in_rows != in_targets
    joint = np.concatenate([rows, in_rows[others]])
    ends, tags = np.concatenate([targets, in_targets[others]]), np.concatenate([edges, in_edges[others]])
    order = np.lexsort((tags, ends, joint))
    begins = np.zeros(len(offsets), np.int64)
    np.cumsum(np.bincount(joint, minlength=len(offsets) - 1), out=begins[1:])
    return begins, ends[order], tags[order]


def insert(offsets: Positions, data: npt.NDArray[np.uint8], first: int, slots: npt.NDArray[np.uint64]) -> int:
    """Enters the strings from number `first` on; returns the number of one that was there before, or -1.

    All strings look at a slot at once, and of those that find it empty the first takes it. The others go on to the next.
    """
    mask, hashes = np.int64(len(slots) - 1), _hashes(offsets[first:], data)
    waiting = np.arange(first, len(offsets) - 1)
    at = (hashes & np.uint64(mask)).astype(np.int64)
    marks, twice = hashes & np.uint64(_UPPER), len(offsets)
    while len(waiting):
        free = np.flatnonzero(slots[at] == 0)[::-1]  # of several that write to a slot, the last one stays
        slots[at[free]] = marks[waiting[free] - first] | (waiting[free] + 1).astype(np.uint64)
        entries = slots[at]
        others = (entries & np.uint64(0xFFFFFFFF)).astype(np.int64) - 1
        on = others != waiting
        for row in np.flatnonzero(on & (entries & np.uint64(_UPPER) == marks[waiting - first])):
            if _text(offsets, data, waiting[row]) == _text(offsets, data, others[row]):
                twice, on[row] = min(twice, int(waiting[row])), False
        waiting, at = waiting[on], (at[on] + 1) & mask
    return -1 if twice == len(offsets) else twice


def _text(offsets: Positions, data: npt.NDArray[np.uint8], number: int) -> bytes:
    return data[offsets[number] : offsets[number + 1]].tobytes()


def _hashes(offsets: Positions, data: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint64]:
    """The hash of each string. Strings of one length are hashed side by side."""
    lengths = np.diff(offsets)
    order = np.argsort(lengths, kind="stable")
    hashes = np.empty(len(lengths), np.uint64)
    start = 0
    while start < len(order):
        length = int(lengths[order[start]])
        end = int(np.searchsorted(lengths, length, side="right", sorter=order))
        rows = order[start : min(end, start + max(1, _PIECE // (length + 1)))]
        hashes[rows] = _hashes_of_length(offsets[rows], length, data)
        start += len(rows)
    return hashes


def _hashes_of_length(starts: Positions, length: int, data: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint64]:
    padded = np.zeros((len(starts), length // 8 * 8 + 8), np.uint8)
    padded[:, :length] = data[starts[:, None] + np.arange(length)]
    words = padded.view("<u8").astype(np.uint64, copy=False)
    mixed = np.full(len(starts), length * 0x9E3779B97F4A7C15 & _WORD, np.uint64)
    for column in range(length // 8):
        mixed = (mixed ^ words[:, column]) * np.uint64(0xBF58476D1CE4E5B9)
        mixed ^= mixed >> np.uint64(29)
    mixed = (mixed ^ words[:, -1]) * np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(32)
    mixed *= np.uint64(0xD6E8FEB86659FD93)
    return mixed ^ (mixed >> np.uint64(32))


def find(offsets: Positions, data: npt.NDArray[np.uint8], slots: npt.NDArray[np.uint64], texts: list[bytes]) -> Positions:
    """Return the position of each text, -1 if it is not in the table."""
    mask = len(slots) - 1
    out = np.full(len(texts), -1, np.int64)
    for row, text in enumerate(texts):
        mixed = _hash(text)
        slot = mixed & mask
        while entry := int(slots[slot]):
            other = (entry & 0xFFFFFFFF) - 1
            if not (entry ^ mixed) & _UPPER and data[offsets[other] : offsets[other + 1]].tobytes() == text:
                out[row] = other
                break
            slot = (slot + 1) & mask
    return out


def _hash(text: bytes) -> int:
    mixed = len(text) * 0x9E3779B97F4A7C15 & _WORD
    whole = len(text) // 8 * 8
    for at in range(0, whole, 8):
        mixed = (mixed ^ int.from_bytes(text[at : at + 8], "little")) * 0xBF58476D1CE4E5B9 & _WORD
        mixed ^= mixed >> 29
    mixed = (mixed ^ int.from_bytes(text[whole:], "little")) * 0x94D049BB133111EB & _WORD
    mixed ^= mixed >> 32
    mixed = mixed * 0xD6E8FEB86659FD93 & _WORD
    return mixed ^ (mixed >> 32)
