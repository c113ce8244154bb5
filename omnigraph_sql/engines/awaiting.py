"""Awaiting rows of DataFusion in the thread that wants them.

DataFusion can be stopped in the middle of a query only where its stream is awaited, and it tells the loop that runs there
when a batch is ready. A loop that runs elsewhere would have to tell the reader in turn, for every batch. So each reader has
a loop of its own, which is nothing but a queue of calls, and works it off until the batch is there. That takes a timeout,
and an interrupt from the keyboard.
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

T = TypeVar("T")
_counting = threading.Lock()
_handing_over = 0


def handing_over() -> int:
    """How many threads of the engine are about to say that a batch is there; they are not done when the reader has it."""
    return _handing_over


class Loop:
    """As much of an event loop as the futures of an engine ask for."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[Callable[[], object]] = SimpleQueue()
        self._is_cancelled = False

    def wait(self, coroutine: Coroutine[asyncio.Future[Any], None, T], until: float | None) -> T:
        """What a coroutine returns that awaits futures of this loop. Raises `TimeoutError` if that takes too long."""
        try:
            with self._running():
                while True:
                    self._settle(coroutine.send(None), until)
        except StopIteration as done:
            found: T = done.value
            return found
        finally:
            coroutine.close()  # whoever keeps an error keeps its frames, and these must not keep the engine at work

    def cancel(self) -> None:
        """Let nobody wait any more, from any thread."""
        self._is_cancelled = True
        self._calls.put(_nothing)

    def _settle(self, future: asyncio.Future[Any], until: float | None) -> None:
        """Work off calls until a future is done."""
        try:
            while not future.done():
                if self._is_cancelled:
                    raise CancelledError
                self._next(None if until is None else until - time.perf_counter())()
        finally:
            if not future.done():
                future.cancel()  # which stops the engine, when those hear of it who are to be called then
                self._work_off()

    def _next(self, seconds: float | None) -> Callable[[], object]:
        try:
            return self._calls.get(timeout=None if seconds is None else max(seconds, 0.0))
        except Empty:
            raise TimeoutError from None

    def _work_off(self) -> None:
        with suppress(Empty):
            while True:
                self._calls.get_nowait()()

    @contextmanager
    def _running(self) -> Iterator[None]:
        """The thread may run a loop already, as that of a notebook does: it waits until we are back."""
        before = asyncio._get_running_loop()
        asyncio._set_running_loop(cast(Any, self))
        try:
            yield
        finally:
            asyncio._set_running_loop(before)

    # What futures ask of a loop ---------------------------------------------------------------------------------------

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=cast(Any, self))

    def call_soon(self, callback: Callable[..., object], *arguments: Any, context: Context | None = None) -> None:
        self._calls.put(partial((context or copy_context()).run, callback, *arguments))

    def call_soon_threadsafe(self, callback: Callable[..., object], *arguments: Any, context: Context | None = None) -> None:
        global _handing_over  # noqa: PLW0603 (the threads belong to the process)
        with _counting:
            _handing_over += 1
        try:
            self.call_soon(callback, *arguments, context=context)
        finally:
            with _counting:
                _handing_over -= 1

    def get_debug(self) -> bool:
        return False

    def is_closed(self) -> bool:
        return False


def _nothing() -> None:
    """Wakes whoever waits for a call."""
