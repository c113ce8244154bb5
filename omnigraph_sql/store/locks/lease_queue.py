"""The queue of a process's own threads for a lease, and its memory of the lease's traffic."""

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
"""How long after it had to wait a process looks at the queue before it takes a lease."""
_STREAK_SECONDS: Final = 1.0
"""How long a process may take a lease again and again without a look at the queue."""
_KEPT: Final = 256


class LeaseQueue:
    """Threads that want one lease, in the order in which they came."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[threading.Event] = deque()
        self._is_taken = False
        self._turns = 0

    @property
    def is_taken(self) -> bool:
        """True if a thread of this process has the lease, or is about to get it."""
        return self._is_taken

    @contextmanager
    def turn(self, patience: float) -> Iterator[None]:
        """Pass when it is one's turn; `LockHeld` when one thread keeps the gate for longer than that."""
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
    """The gate of a lease; one for all handles of the process."""
    with _gates_lock:
        queue = _gates.get(uri)
        if queue is None:
            queue = _gates[uri] = LeaseQueue()
        return queue


@dataclass
class Traffic:
    """The traffic at a lease that this process has seen, by its steady clock."""

    waited: float = float("-inf")
    """When it last found the lease taken by another process."""
    looked: float = float("-inf")
    """When it last looked at the queue."""
    released: float = float("-inf")

    @property
    def is_crowded(self) -> bool:
        """True if other processes wanted the lease lately."""
        return time.monotonic() - self.waited < _BUSY_SECONDS

    @property
    def wants_look(self) -> bool:
        """True if others may be waiting whom this process would pass by: a look costs a call to the store."""
        now = time.monotonic()
        is_streak = now - self.released < _STREAK_SECONDS < now - self.looked
        return self.is_crowded or is_streak


class TrafficLog:
    """The traffic of the leases that were used last."""

    def __init__(self) -> None:
        self._known: LruCache[str, Traffic] = LruCache(_KEPT)

    def at(self, name: str) -> Traffic:
        return self._known.setdefault(name, Traffic())
