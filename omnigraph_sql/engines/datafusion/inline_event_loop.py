"""A minimal event loop that awaits rows of DataFusion in the reader's thread.

A query of DataFusion can be cancelled only while its stream is awaited, and DataFusion notifies the loop of the awaiting
thread when a batch is ready. A loop in another thread would need one more wake-up per batch. So each reader runs its own
loop, a queue of calls, until the batch has arrived. Timeouts and keyboard interrupts work as usual.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from contextvars import Context, copy_context
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, TypeVar, cast

from omnigraph_sql.runtime.shutdown import counts_activity

T = TypeVar("T")
_counting = threading.Lock()
_handovers = 0


@counts_activity
def batches_in_handover() -> int:
    """Return the number of engine threads that are handing a batch over; the reader may have it before they are done."""
    return _handovers


class InlineEventLoop:
    """The subset of an asyncio event loop that the futures of DataFusion use."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[Callable[[], object]] = SimpleQueue()
        self._is_cancelled = False

    def wait(self, coroutine: Coroutine[asyncio.Future[Any], None, T], until: float | None) -> T:
        """Run a coroutine that awaits futures of this loop. Raises `TimeoutError` after `until`."""
        try:
            with self._running():
                while True:
                    self._run_until_done(coroutine.send(None), until)
        except StopIteration as done:
            result: T = done.value
            return result
        finally:
            coroutine.close()  # an exception keeps its frames alive, and these would keep the query running

    def cancel(self) -> None:
        """Make `wait` raise `CancelledError`, from any thread."""
        self._is_cancelled = True
        self._calls.put(_nothing)

    def _run_until_done(self, future: asyncio.Future[Any], until: float | None) -> None:
        """Run queued calls until a future is done."""
        try:
            while not future.done():
                if self._is_cancelled:
                    raise CancelledError
                self._next(None if until is None else until - time.perf_counter())()
        finally:
            if not future.done():
                future.cancel()  # its callbacks, which are queued, stop the engine
                self._drain()

    def _next(self, seconds: float | None) -> Callable[[], object]:
        try:
            return self._calls.get(timeout=None if seconds is None else max(seconds, 0.0))
        except Empty:
            raise TimeoutError from None

    def _drain(self) -> None:
        with suppress(Empty):
            while True:
                self._calls.get_nowait()()

    @contextmanager
    def _running(self) -> Iterator[None]:
        """Replace the running loop of this thread, for example that of a notebook, for the duration of the block."""
        before = asyncio._get_running_loop()
        asyncio._set_running_loop(cast(Any, self))
        try:
            yield
        finally:
            asyncio._set_running_loop(before)

    # The interface that asyncio futures use

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=cast(Any, self))

    def call_soon(self, callback: Callable[..., object], *arguments: Any, context: Context | None = None) -> None:
        self._calls.put(partial((context or copy_context()).run, callback, *arguments))

    def call_soon_threadsafe(self, callback: Callable[..., object], *arguments: Any, context: Context | None = None) -> None:
        global _handovers  # noqa: PLW0603 (the threads belong to the process)
        with _counting:
            _handovers += 1
        try:
            self.call_soon(callback, *arguments, context=context)
        finally:
            with _counting:
                _handovers -= 1

    def get_debug(self) -> bool:
        return False

    def is_closed(self) -> bool:
        return False


def _nothing() -> None:
    """Do nothing: queued to wake the waiting thread."""
