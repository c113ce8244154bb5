"""Calls that must not run in a thread in which DataFusion is planning."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from omnigraph_sql.runtime.worker_threads import start_thread

T = TypeVar("T")


def run_off_thread(run: Callable[[], T]) -> T:
    """Call `run` in a new thread and wait for it: DataFusion cannot plan or run inside of a thread that is planning."""
    future: Future[T] = Future()

    def work() -> None:
        try:
            future.set_result(run())
        except BaseException as error:
            future.set_exception(error)

    # Not a pooled thread: calls can nest, and a bounded pool would deadlock.
    start_thread(work, "omnigraph-off-thread")
    return future.result()
