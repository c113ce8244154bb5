"""A pool of daemon threads whose tasks a caller can abandon."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from queue import SimpleQueue
from typing import TypeVar

from omnigraph_sql.runtime.shutdown import Stage, at_shutdown, counts_activity

T = TypeVar("T")
_working: set[PendingWork] = set()
"""Changed without a lock: the garbage collector may close a stream in any thread, at any point."""
_readers: weakref.WeakSet[threading.Thread] = weakref.WeakSet()
_UNWINDING_SECONDS = 1.0
_MOST_IDLE = 4
_STACK_BYTES = 32 << 20
"""Planners recurse over the statement; the default stack of a thread is as small as half a MiB on some systems."""
_starting = threading.Lock()


def start_thread(work: Callable[[], object], name: str) -> None:
    """Start a daemon thread with a stack that is large enough for planners."""
    with _starting:
        before = threading.stack_size(_STACK_BYTES)
        try:
            threading.Thread(target=work, name=name, daemon=True).start()
        finally:
            threading.stack_size(before)


def submit(work: Callable[[], T], stop: Callable[[], None]) -> Future[T]:
    """Run a task in a worker thread. Cancelling the future calls `stop` and drops the result, without waiting for it."""
    future: Future[T] = Future()

    def run() -> None:
        with started:
            _complete(future, work)

    future.add_done_callback(lambda done: stop() if done.cancelled() else None)
    started = PendingWork()
    try:
        worker = _idle.pop()
    except IndexError:
        worker = _Worker()
    worker.tasks.put(run)
    return future


class _Worker:
    """A thread that runs one task after another: starting a thread takes as long as a small query."""

    def __init__(self) -> None:
        self.tasks: SimpleQueue[Callable[[], None]] = SimpleQueue()
        start_thread(self._work, "omnigraph-query")

    def _work(self) -> None:
        while True:
            self.tasks.get()()
            if len(_idle) >= _MOST_IDLE:
                return
            _idle.append(self)


_idle: list[_Worker] = []
"""The idle workers; changed by atomic operations only, without a lock."""
os.register_at_fork(after_in_child=_idle.clear)


@counts_activity
def pending_work() -> int:
    """Return the number of tasks that the shutdown has to wait for."""
    return sum(work.process == os.getpid() for work in list(_working))


class PendingWork:
    """A task that the shutdown waits for, from its creation to the end of the `with` block."""

    def __init__(self) -> None:
        self.process = os.getpid()
        """A forked child does not have the threads of its parent."""
        _working.add(self)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        _working.discard(self)


def _complete(future: Future[T], work: Callable[[], T]) -> None:
    # A cancelled future has a state already.
    with suppress(InvalidStateError):
        try:
            result = work()
        except BaseException as error:
            future.set_exception(error)
        else:
            future.set_result(result)


def begin_reading() -> None:
    """Mark the calling thread as a reader of query results."""
    _readers.add(threading.current_thread())


def end_reading() -> None:
    """Unmark the calling thread. During the shutdown the mark stays: the thread is unwinding and must be joined."""
    if threading.main_thread().is_alive():
        _readers.discard(threading.current_thread())


@at_shutdown(Stage.THREADS)
def _join_readers() -> None:
    """Give daemon threads that were stopped while they read time to unwind before their objects are freed."""
    until = time.monotonic() + _UNWINDING_SECONDS
    for thread in list(_readers):
        # A thread that Python did not start has only a dummy object, which cannot be joined.
        is_joinable = not isinstance(thread, threading._DummyThread)
        if is_joinable and thread.daemon and thread is not threading.current_thread():
            thread.join(max(0.0, until - time.monotonic()))
