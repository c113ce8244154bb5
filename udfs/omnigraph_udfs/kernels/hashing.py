"""Kernels of a hash table from strings to their positions.

An empty slot is 0. Other slots contain the upper half of a string's hash and, in the lower half, the string's position plus
one. Comparing half hashes avoids most comparisons of other strings; equal bytes decide.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from omnigraph_udfs.arrays import Positions
from omnigraph_udfs.kernels.jit import kernel

__all__ = ["find", "insert"]

Bytes = npt.NDArray[np.uint8]
Slots = npt.NDArray[np.uint64]

BLOCK = 64  # strings hashed before the look-up, so that their slots are fetched in parallel


@kernel
def _hash(data: Bytes, start: int, stop: int) -> np.uint64:
    mixed = np.uint64(stop - start) * np.uint64(0x9E3779B97F4A7C15)
    at = np.uint64(start)
    whole = np.uint64(start + (stop - start) // 8 * 8)
    while at < whole:
        word = np.uint64(0)
        for i in range(8):
            word |= np.uint64(data[at + np.uint64(i)]) << np.uint64(8 * i)
        mixed = (mixed ^ word) * np.uint64(0xBF58476D1CE4E5B9)
        mixed ^= mixed >> np.uint64(29)
        at += np.uint64(8)
    word = np.uint64(0)
    shift = np.uint64(0)
    while at < np.uint64(stop):
        word |= np.uint64(data[at]) << shift
        shift += np.uint64(8)
        at += np.uint64(1)
    mixed = (mixed ^ word) * np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(32)
    mixed *= np.uint64(0xD6E8FEB86659FD93)
    return mixed ^ (mixed >> np.uint64(32))


@kernel
def _equal(data: Bytes, start: int, other: Bytes, other_start: int, length: int) -> bool:
    for i in range(np.uint64(length)):
        if data[np.uint64(start) + i] != other[np.uint64(other_start) + i]:
            return False
    return True


@kernel
def _number(entry: np.uint64) -> Any:
    """Return the position of an entry; 0 for an empty one, which is safe to read."""
    return max(np.int64(entry & np.uint64(0xFFFFFFFF)) - 1, 0)


@kernel
def insert(offsets: Positions, data: Bytes, first: int, slots: Slots) -> int:
    """Insert the strings from number `first` on; return the number of a duplicate, or -1."""
    mask = np.uint64(len(slots) - 1)
    upper = np.uint64(0xFFFFFFFF00000000)
    for number in range(first, len(offsets) - 1):
        start, stop = offsets[number], offsets[number + 1]
        mixed = _hash(data, start, stop)
        slot = mixed & mask
        while slots[slot] != np.uint64(0):
            if (slots[slot] ^ mixed) & upper == np.uint64(0):
                other = _number(slots[slot])
                length = offsets[other + 1] - offsets[other]
                if length == stop - start and _equal(data, start, data, offsets[other], length):
                    return number
            slot = (slot + np.uint64(1)) & mask
        slots[slot] = (mixed & upper) | np.uint64(number + 1)
    return -1


@kernel
def find(offsets: Positions, data: Bytes, slots: Slots, wanted: Positions, wanted_data: Bytes, out: Positions) -> None:
    """Write the position of each wanted string, -1 if it is not in the table.

    Each step processes a block of strings before the next step, so that their memory accesses overlap.
    """
    mask = np.uint64(len(slots) - 1)
    upper = np.uint64(0xFFFFFFFF00000000)
    hashes = np.empty(BLOCK, np.uint64)
    entries = np.empty(BLOCK, np.uint64)
    begins = np.empty(BLOCK, np.int64)
    for first in range(0, len(out), BLOCK):
        count = min(BLOCK, len(out) - first)
        for i in range(count):
            hashes[i] = _hash(wanted_data, wanted[first + i], wanted[first + i + 1])
        for i in range(count):
            entries[i] = slots[hashes[i] & mask]
        for i in range(count):
            begins[i] = offsets[_number(entries[i])]
        for i in range(count):
            start = wanted[first + i]
            length = wanted[first + i + 1] - start
            slot = hashes[i] & mask
            entry = entries[i]
            begin = begins[i]
            position: Any = -1
            while entry != np.uint64(0):
                other = _number(entry)
                if (
                    (entry ^ hashes[i]) & upper == np.uint64(0)
                    and offsets[other + 1] - begin == length
                    and _equal(data, begin, wanted_data, start, length)
                ):
                    position = other
                    break
                slot = (slot + np.uint64(1)) & mask
                entry = slots[slot]
                begin = offsets[_number(entry)]
            out[first + i] = position
