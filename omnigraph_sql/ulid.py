"""ULIDs: ids that sort by the time they were made.

An id is 26 characters of Crockford's base 32: 48 bits of milliseconds since the epoch, then 80 random bits. Within a
process ids only grow: as long as the clock stands still (or goes back) the random part counts on instead of being drawn
anew.
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
"""The smallest number, time and random bits together, that has not been given out."""


def new() -> str:
    """A fresh id, greater than every id this process made before.

    >>> len(new()), new() < new()
    (26, True)
    """
    return _text(_claim(1))


def first_of(seconds: float) -> str:
    """The smallest id of a moment, in seconds since the epoch.

    >>> first_of(0), first_of(1e9) < new()
    ('00000000000000000000000000', True)
    """
    return _text(int(seconds * 1000) << _RANDOM_BITS)


def is_ulid(text: str) -> bool:
    """Whether a text is an id.

    >>> is_ulid(new()), is_ulid("x")
    (True, False)
    """
    return len(text) == LENGTH and not set(text) - set(ALPHABET)


def new_many(count: int) -> pa.StringArray:
    """Fresh ids in ascending order, as an Arrow array.

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
        # What runs over the low digits changes those above; it happens in very few calls, and then once.
        start = 0
        for carry in range(int(low[-1] >> np.uint64(_LOW_BITS)) + 1):
            end = int(np.searchsorted(low, np.uint64((carry + 1) << _LOW_BITS)))
            upper = _text(((first >> _LOW_BITS) + carry) << _LOW_BITS)[: -2 * _LOW_PAIRS]
            pairs[start:end, :-_LOW_PAIRS] = np.frombuffer(upper.encode(), dtype=np.uint16)
            start = end
    offsets = np.arange(0, (count + 1) * LENGTH, LENGTH, dtype=np.int32)
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(pairs))


def _claim(count: int) -> int:
    """The first of `count` consecutive numbers that belong to the caller alone."""
    global _next  # noqa: PLW0603 - the process's one counter
    now = time.time_ns() // 1_000_000
    with _lock:
        first = _next
        if now > first >> _RANDOM_BITS:
            # One bit less than there is room for: counting on never reaches the time in practice, and would only be
            # an id a millisecond early if it did.
            first = (now << _RANDOM_BITS) | secrets.randbits(_RANDOM_BITS - 1)
        _next = first + count
        return first


def _forget() -> None:
    """A forked child starts anew, else it would give out its parent's next ids."""
    global _next, _lock  # noqa: PLW0603 - the process's one counter
    _lock = threading.Lock()
    # Not zero: the child's ids must still be greater than those it inherited.
    _next = (((_next >> _RANDOM_BITS) + 1) << _RANDOM_BITS) | secrets.randbits(_RANDOM_BITS - 1) if _next else 0


os.register_at_fork(after_in_child=_forget)


def _text(number: int) -> str:
    return "".join(ALPHABET[(number >> shift) & 31] for shift in range(5 * (LENGTH - 1), -1, -5))


def _write_digits(pairs: npt.NDArray[np.uint16], numbers: npt.NDArray[np.uint64]) -> None:
    """The last digits of the numbers, two to a cell."""
    import numpy as np

    spelled = np.frombuffer("".join(a + b for a in ALPHABET for b in ALPHABET).encode(), dtype=np.uint16)
    for position in range(pairs.shape[1]):
        shift = np.uint64(10 * (pairs.shape[1] - 1 - position))
        pairs[:, position] = spelled[(numbers >> shift) & np.uint64(1023)]
