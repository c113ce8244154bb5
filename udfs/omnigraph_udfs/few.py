"""What the kernels do, for a few values: loading compiled code takes most of a second, which a small question is not worth.

Each function gives what the kernel of the same name gives; the callers choose by size. A process that goes on asking loads
the compiled code meanwhile, in a thread of its own.
"""

from __future__ import annotations

import os
import sys
import threading

import numpy as np
import numpy.typing as npt

from omnigraph_udfs.arrays import Ints, Mask, Positions

__all__ = ["FEW", "counts", "find", "firsts", "is_enough", "sums", "values"]

FEW = 1024
"""Up to here NumPy is about as fast, and nothing needs to be loaded."""
SOME = 1 << 20
_WORD = 2**64 - 1
_UPPER = 0xFFFFFFFF00000000


def is_enough(count: int) -> bool:
    """Whether NumPy will do for so many values: for many, only as long as nobody has loaded the compiled code."""
    if count <= FEW:
        return True
    if count > SOME or _compiled.is_loaded:
        return False
    _compiled.wanted(count)
    return True


class _Compiled:
    """Whether the compiled code can be called at once, and what it would have been good for."""

    def __init__(self) -> None:
        self._spared = 0
        self._loader: threading.Thread | None = None

    @property
    def is_loaded(self) -> bool:
        """Whether somebody has loaded it, and is not still about to."""
        return "numba" in sys.modules if self._loader is None else not self._loader.is_alive()

    def wanted(self, count: int) -> None:
        """Count values that went without it. From some number on it is loaded, for those to come."""
        self._spared += count
        if self._spared > SOME and self._loader is None:
            # Not a daemon: a process must not end in the middle of it.
            self._loader = threading.Thread(target=_load, name="omnigraph-kernels")
            self._loader.start()


def _load() -> None:
    from omnigraph_udfs.kernels import tallies

    # The first call of any kernel takes as long as loading does.
    tallies.counts(np.zeros(1, np.int32), np.ones(1, np.bool_), np.zeros(1, np.int64))


_compiled = _Compiled()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_compiled.__init__)  # type: ignore[misc]  # threads do not survive a fork


def counts(offsets: Ints, frontier: Positions) -> Positions:
    """How many neighbours each vertex of the frontier has; none for -1."""
    vertices = np.maximum(frontier, 0)
    if len(offsets) == 1:
        return np.zeros(len(frontier), np.int64)
    return np.where(frontier >= 0, offsets[vertices + 1] - offsets[vertices], 0)


def values(offsets: Ints, of: Ints, frontier: Positions, ends: Positions) -> Positions:
    """The values of one vertex of the frontier after the other, those of each row ending where `ends` says."""
    starts = ends[:-1]
    places = (offsets[np.maximum(frontier, 0)] - starts).repeat(ends[1:] - starts)
    places += np.arange(ends[-1])
    found: Positions = of[places].astype(np.int64)
    return found


def firsts(offsets: Ints, targets: Ints) -> Mask:
    """Which neighbours are not the same as the one before, of the same vertex."""
    found = np.ones(len(targets), np.bool_)
    found[1:] = targets[1:] != targets[:-1]
    begins = offsets[:-1]
    found[begins[begins < len(targets)]] = True
    return found


def sums(offsets: Ints, targets: Ints, values: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
    """For each vertex the sum of the values of its neighbours."""
    found = np.zeros(len(offsets) - 1, values.dtype)
    some = np.flatnonzero(np.diff(offsets))
    if len(some):
        found[some] = np.add.reduceat(values[targets], offsets[some])
    return found


def find(offsets: Positions, data: npt.NDArray[np.uint8], slots: npt.NDArray[np.uint64], asked: list[bytes]) -> Positions:
    """The position of each string asked for, -1 if it is not in the table."""
    mask = len(slots) - 1
    out = np.full(len(asked), -1, np.int64)
    for row, text in enumerate(asked):
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
