"""Deterministic vectors for tests, computed from the text alone; they have no semantic meaning."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

_OFFSET_BASIS = 0xCBF29CE484222325
_PRIME = 0x100000001B3
_MASK = 2**64 - 1


def mock_vectors(texts: Sequence[str], dimension: int) -> npt.NDArray[np.float64]:
    """Return one row per text, not yet normalised.

    The seed is a hash of the text (FNV-1a, 64 bits); each component advances it (xorshift64) and maps it to -1..1.
    """
    states = np.array([_fnv1a64(text.encode()) for text in texts], dtype=np.uint64)
    vectors = np.empty((len(texts), dimension))
    # All texts at once, component by component, since each state depends on the preceding one.
    for component in range(dimension):
        states ^= states << np.uint64(13)
        states ^= states >> np.uint64(7)
        states ^= states << np.uint64(17)
        vectors[:, component] = states.astype(np.float64)
    return 2.0 * (vectors / float(_MASK)) - 1.0


def _fnv1a64(data: bytes) -> int:
    state = _OFFSET_BASIS
    for byte in data:
        state = (state ^ byte) * _PRIME & _MASK
    return state
