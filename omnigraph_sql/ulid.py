"""ULIDs: ids that sort by their time of creation.

An id is 26 characters of Crockford's base 32: 48 bits of milliseconds since the epoch, then 80 random bits. The ids of a
process ascend: while the clock stands still or goes back, the random part is incremented instead of drawn anew.
"""

from __future__ import annotations

import os
import secrets
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
LENGTH = 26

_RANDOM_BITS = 80
_LOW_BITS = 40
_LOW_PAIRS = 4

_lock = threading.Lock()
_next = 0
"""The smallest unused number of time and random bits."""


def new() -> str:
    """Return a new id, greater than all earlier ids of this process.

    >>> len(new()), new() < new()
    (26, True)
    """
    return _text(_claim(1))


def first_of(seconds: float) -> str:
    """Return the smallest id of a time, in seconds since the epoch.

    >>> first_of(0), first_of(1e9) < new()
    ('00000000000000000000000000', True)
    """
    return _text(int(seconds * 1000) << _RANDOM_BITS)


def is_ulid(text: str) -> bool:
    """True if a text is an id.

    >>> is_ulid(new()), is_ulid("x")
    (True, False)
    """
    return len(text) == LENGTH and not set(text) - set(ALPHABET)


def from_bytes(data: bytes) -> str:
    """Return the id of a number, in sixteen bytes.

    >>> from_bytes(bytes(16))
    '00000000000000000000000000'
    """
    return _text(int.from_bytes(data, "big"))


def new_many(count: int) -> pa.StringArray:
    """Return new ids in ascending order, as an Arrow array.

    >>> ids = new_many(3).to_pylist()
    >>> ids == sorted(set(ids))
    True
    """
    import numpy as np
    import pyarrow as pa

    pairs = np.empty((count, LENGTH // 2), dtype=np.uint16)
    if count:
        first = _claim(count)
        low = np.uint64(first & ((1 << _LOW_BITS) - 1)) + np.arange(count, dtype=np.uint64)
        _write_digits(pairs[:, -_LOW_PAIRS:], low)
        # A carry from the low digits changes the upper ones. Very few calls have one.
        start = 0
        for carry in range(int(low[-1] >> np.uint64(_LOW_BITS)) + 1):
            end = int(np.searchsorted(low, np.uint64((carry + 1) << _LOW_BITS)))
            upper = _text(((first >> _LOW_BITS) + carry) << _LOW_BITS)[: -2 * _LOW_PAIRS]
            pairs[start:end, :-_LOW_PAIRS] = np.frombuffer(upper.encode(), dtype=np.uint16)
            start = end
    offsets = np.arange(0, (count + 1) * LENGTH, LENGTH, dtype=np.int32)
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(pairs))


def _claim(count: int) -> int:
    """Reserve `count` consecutive numbers, and return the first."""
    global _next  # noqa: PLW0603 - the process's one counter
    now = time.time_ns() // 1_000_000
    with _lock:
        first = _next
        if now > first >> _RANDOM_BITS:
            # One bit less than fits: increments practically never overflow into the time, and an overflow would only
            # make an id a millisecond early.
            first = (now << _RANDOM_BITS) | secrets.randbits(_RANDOM_BITS - 1)
        _next = first + count
        return first


def _reset_after_fork() -> None:
    """Draw new random bits in a forked child, which would otherwise repeat the next ids of its parent."""
    global _next, _lock  # noqa: PLW0603 - the process's one counter
    _lock = threading.Lock()
    # Not zero: the ids of the child must be greater than those that it inherited.
    _next = (((_next >> _RANDOM_BITS) + 1) << _RANDOM_BITS) | secrets.randbits(_RANDOM_BITS - 1) if _next else 0


os.register_at_fork(after_in_child=_reset_after_fork)


def _text(number: int) -> str:
    return "".join(ALPHABET[(number >> shift) & 31] for shift in range(5 * (LENGTH - 1), -1, -5))


def _write_digits(pairs: npt.NDArray[np.uint16], numbers: npt.NDArray[np.uint64]) -> None:
    """Write the last digits of the numbers into the cells, two digits per cell."""
    import numpy as np

    spelled = np.frombuffer("".join(a + b for a in ALPHABET for b in ALPHABET).encode(), dtype=np.uint16)
    for position in range(pairs.shape[1]):
        shift = np.uint64(10 * (pairs.shape[1] - 1 - position))
        pairs[:, position] = spelled[(numbers >> shift) & np.uint64(1023)]
