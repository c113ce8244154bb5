"""A watchdog thread that interrupts work which has passed its deadline."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

_TURN_SECONDS = 0.025
_IDLE_TURNS = 40
"""After this many turns without work to watch, the watchdog sleeps until there is some."""


class WatchedWork:
    """A `with` block that other threads can interrupt while it runs, and never after it."""

    def __init__(self, interrupt: Callable[[], None], seconds: float) -> None:
        self._interrupt = interrupt
        self._seconds = seconds
        self._lock = threading.Lock()
        self._is_running = False
        self.deadline = 0.0
        self.is_late = False
        """True if the watchdog interrupted the work."""

    def __enter__(self) -> None:
        self.deadline = time.monotonic() + self._seconds
        self._is_running = True
        _watchdog.add(self)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._is_running = False
        _watchdog.discard(self)

    def stop(self) -> None:
        """Interrupt the work if it is still running; an interrupt must not hit the work that follows."""
        with self._lock:
            if self._is_running:
                self._interrupt()

    def expire(self) -> None:
        """Interrupt the work because it has passed its deadline."""
        with self._lock:
            if self._is_running:
                self.is_late = True
                self._interrupt()


class _Watchdog:
    """A thread that interrupts work which has passed its deadline.

    Adding work takes microseconds: it uses atomic operations only, no lock.
    """

    def __init__(self) -> None:
        self._watched: set[WatchedWork] = set()
        self._wake = threading.Event()
        self._is_resting = True
        self._is_started = False

    def add(self, watched: WatchedWork) -> None:
        self._watched.add(watched)
        if not self._is_started:
            self._start()
        if self._is_resting:
            self._wake.set()

    def discard(self, watched: WatchedWork) -> None:
        self._watched.discard(watched)

    def _start(self) -> None:
        self._is_started = True
        threading.Thread(target=self._work, name="omnigraph-watch", daemon=True).start()

    def _work(self) -> None:
        while True:
            self._rest()
            idle = 0
            while idle < _IDLE_TURNS:
                time.sleep(_TURN_SECONDS)
                idle = 0 if self._expire_late() else idle + 1

    def _rest(self) -> None:
        self._wake.clear()
        self._is_resting = True
        if not self._watched:  # otherwise work was added before this thread was seen to rest
            self._wake.wait()
        self._is_resting = False

    def _expire_late(self) -> bool:
        """Interrupt the work that has passed its deadline; return True if there was any work to watch."""
        now = time.monotonic()
        watched = list(self._watched)
        for work in watched:
            if work.deadline < now:
                self._watched.discard(work)
                work.expire()
        return bool(watched)


_watchdog = _Watchdog()


def _forked() -> None:
    """Replace the watchdog: a forked child does not have its thread."""
    global _watchdog  # noqa: PLW0603 (it belongs to the process)
    _watchdog = _Watchdog()


os.register_at_fork(after_in_child=_forked)
