"""Work in the thread that asks for it, stopped by another thread if it is not as short as it should be."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

_TURN_SECONDS = 0.025
_IDLE_TURNS = 40
"""After so many turns in which there was nothing to watch the watching thread rests until there is."""


class Watched:
    """Work that is stopped, from any thread, while a block is executed, and never after it."""

    def __init__(self, interrupt: Callable[[], None], seconds: float) -> None:
        self._interrupt = interrupt
        self._seconds = seconds
        self._lock = threading.Lock()
        self._is_running = False
        self.until = 0.0
        self.is_late = False
        """Whether it was stopped because it took too long."""

    def __enter__(self) -> None:
        self.until = time.monotonic() + self._seconds
        self._is_running = True
        _watch.add(self)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._is_running = False
        _watch.discard(self)

    def stop(self) -> None:
        """Stop the work if it is still going on: whatever comes after it must not be met."""
        with self._lock:
            if self._is_running:
                self._interrupt()

    def late(self) -> None:
        """Stop the work because it took too long."""
        with self._lock:
            if self._is_running:
                self.is_late = True
                self._interrupt()


class _Watch:
    """A thread that looks every now and then whether the time of something is over.

    To be watched takes microseconds: only single steps are made, which no other thread can come between.
    """

    def __init__(self) -> None:
        self._watched: set[Watched] = set()
        self._called = threading.Event()
        self._is_resting = True
        self._is_started = False

    def add(self, watched: Watched) -> None:
        self._watched.add(watched)
        if not self._is_started:
            self._start()
        if self._is_resting:
            self._called.set()

    def discard(self, watched: Watched) -> None:
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
                idle = 0 if self._look() else idle + 1

    def _rest(self) -> None:
        self._called.clear()
        self._is_resting = True
        if not self._watched:  # else it was added before anybody could know that this thread rests
            self._called.wait()
        self._is_resting = False

    def _look(self) -> bool:
        """Stop what is late; whether there is anything to watch."""
        now = time.monotonic()
        watched = list(self._watched)
        for each in watched:
            if each.until < now:
                self._watched.discard(each)
                each.late()
        return bool(watched)


_watch = _Watch()


def _forked() -> None:
    """Threads are not there in a child."""
    global _watch  # noqa: PLW0603 (it belongs to the process)
    _watch = _Watch()


os.register_at_fork(after_in_child=_forked)
