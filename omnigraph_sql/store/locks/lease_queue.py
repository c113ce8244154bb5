"""The queue of this process's threads for a lease, and the contention that it has observed."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final
from weakref import WeakValueDictionary

from omnigraph_sql.caches import LruCache
from omnigraph_sql.store.locks.base import LockHeld

_BUSY_SECONDS: Final = 30.0
"""After waiting for a lease, a process checks the queue first for so many seconds."""
_STREAK_SECONDS: Final = 1.0
"""The seconds for which a process may retake a lease without checking the queue."""
_KEPT: Final = 256


class LeaseQueue:
    """Threads that want one lease, in order of arrival."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[threading.Event] = deque()
        self._is_taken = False
        self._turns = 0

    @property
    def is_taken(self) -> bool:
        """True if a thread of this process has the lease, or is about to acquire it."""
        return self._is_taken

    @contextmanager
    def turn(self, patience: float) -> Iterator[None]:
        """Wait for this thread's turn; raise `LockHeld` if one thread keeps the gate for longer than `patience` seconds."""
        self._enter(patience)
        try:
            yield
        finally:
            self._leave()

    def _enter(self, patience: float) -> None:
        called = threading.Event()
        with self._lock:
            if not self._is_taken:
                self._is_taken = True
                return
            self._waiting.append(called)
            turns = self._turns
        try:
            while not called.wait(patience):
                if self._turns == turns:
                    raise LockHeld(patience)
                turns = self._turns
        except BaseException:
            with self._lock:
                if called.is_set():
                    self._hand_over()
                else:
                    self._waiting.remove(called)
            raise

    def _leave(self) -> None:
        with self._lock:
            self._hand_over()

    def _hand_over(self) -> None:
        self._turns += 1
        if self._waiting:
            self._waiting.popleft().set()
        else:
            self._is_taken = False


_gates: WeakValueDictionary[str, LeaseQueue] = WeakValueDictionary()
_gates_lock = threading.Lock()


def lease_queue(uri: str) -> LeaseQueue:
    """Return the gate of a lease; all handles of the process share it."""
    with _gates_lock:
        queue = _gates.get(uri)
        if queue is None:
            queue = _gates[uri] = LeaseQueue()
        return queue


@dataclass
class Traffic:
    """The contention for a lease that this process has observed, by its monotonic clock."""

    waited: float = float("-inf")
    """The last time that another process held the lease."""
    looked: float = float("-inf")
    """The last time that it checked the queue."""
    released: float = float("-inf")

    @property
    def is_crowded(self) -> bool:
        """True if other processes wanted the lease recently."""
        return time.monotonic() - self.waited < _BUSY_SECONDS

    @property
    def wants_look(self) -> bool:
        """True if other processes may be waiting, so that the queue must be checked, which costs a call to the store."""
        now = time.monotonic()
        is_streak = now - self.released < _STREAK_SECONDS < now - self.looked
        return self.is_crowded or is_streak


class TrafficLog:
    """The contention for the recently used leases."""

    def __init__(self) -> None:
        self._known: LruCache[str, Traffic] = LruCache(_KEPT)

    def at(self, name: str) -> Traffic:
        return self._known.setdefault(name, Traffic())
