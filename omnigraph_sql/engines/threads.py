"""Work in threads of our own, which nobody has to wait for."""

from __future__ import annotations

import atexit
import os
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from queue import SimpleQueue
from typing import TypeVar

T = TypeVar("T")
_working: set[AtWork] = set()
"""Added to and taken from without a lock: a stream that is collected anywhere closes what it holds."""
_readers: weakref.WeakSet[threading.Thread] = weakref.WeakSet()
_UNWINDING_SECONDS = 1.0
_MOST_IDLE = 4


def in_thread(work: Callable[[], T], stop: Callable[[], None]) -> Future[T]:
    """Begin to work. Who cancels need not wait until the work has stopped: what it comes to then is dropped."""
    found: Future[T] = Future()

    def run() -> None:
        with started:
            _settle(found, work)

    found.add_done_callback(lambda done: stop() if done.cancelled() else None)
    started = AtWork()
    try:
        hand = _idle.pop()
    except IndexError:
        hand = _Hand()
    hand.tasks.put(run)
    return found


class _Hand:
    """A thread that works on one thing after another: to start one takes as long as a small query."""

    def __init__(self) -> None:
        self.tasks: SimpleQueue[Callable[[], None]] = SimpleQueue()
        threading.Thread(target=self._work, name="omnigraph-query", daemon=True).start()

    def _work(self) -> None:
        while True:
            self.tasks.get()()
            if len(_idle) >= _MOST_IDLE:
                return
            _idle.append(self)


_idle: list[_Hand] = []
"""Those that wait for work; only single steps are made with it, which no other thread can come between."""
os.register_at_fork(after_in_child=_idle.clear)


def working() -> int:
    """How much is going on that the end of the process has to wait for."""
    return sum(each.process == os.getpid() for each in list(_working))


class AtWork:
    """Work that the end of the process has to wait for, from now to the end of a block."""

    def __init__(self) -> None:
        self.process = os.getpid()
        """The threads of a process are not there in a child that was forked."""
        _working.add(self)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        _working.discard(self)


def _settle(future: Future[T], work: Callable[[], T]) -> None:
    # A future that was cancelled is settled already.
    with suppress(InvalidStateError):
        try:
            result = work()
        except BaseException as error:
            future.set_exception(error)
        else:
            future.set_result(result)


def reading() -> None:
    """This thread reads rows of a query, from now on."""
    _readers.add(threading.current_thread())


def read() -> None:
    """It has read them. What is stopped while the process ends is on its way out, with everything that its frames hold."""
    if threading.main_thread().is_alive():
        _readers.discard(threading.current_thread())


@atexit.register
def _see_off() -> None:
    """Daemon threads that were stopped in the middle of a query get a moment to end before what they hold on to is gone."""
    until = time.monotonic() + _UNWINDING_SECONDS
    for thread in list(_readers):
        # A thread that Python did not start has only a stand-in, which cannot be waited for.
        is_ours = not isinstance(thread, threading._DummyThread)
        if is_ours and thread.daemon and thread is not threading.current_thread():
            thread.join(max(0.0, until - time.monotonic()))
