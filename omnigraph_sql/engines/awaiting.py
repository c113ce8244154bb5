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
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from contextvars import Context
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")
_counting = threading.Lock()
_handing_over = 0


def handing_over() -> int:
    """How many threads of the engine are about to say that a batch is there; they are not done when the reader has it."""
    return _handing_over


class Loop(asyncio.AbstractEventLoop):
    """As much of an event loop as the futures of an engine need."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[asyncio.Handle] = SimpleQueue()
        self._awaited: asyncio.Future[Any] | None = None
        self._is_cancelled = False

    def wait(self, coroutine: Generator[Any, None, T], until: float | None) -> T:
        """What a coroutine returns that awaits futures of this loop. Raises `TimeoutError` if that takes too long."""
        with self._running():
            while True:
                try:
                    self._awaited = coroutine.send(None)
                except StopIteration as done:
                    found: T = done.value
                    return found
                try:
                    self._settle(self._awaited, until)
                finally:
                    self._awaited = None

    def cancel(self) -> None:
        """Let nobody wait any more, from any thread."""
        self._is_cancelled = True
        self._calls.put(asyncio.Handle(_nothing, (), self))

    def _settle(self, future: asyncio.Future[Any], until: float | None) -> None:
        """Work off calls until a future is done."""
        try:
            while not future.done():
                if self._is_cancelled:
                    raise CancelledError
                self._next(None if until is None else until - time.perf_counter())._run()
        finally:
            if not future.done():
                future.cancel()  # which stops the engine, when those hear of it who are to be called then
                self._work_off()

    def _next(self, seconds: float | None) -> asyncio.Handle:
        try:
            return self._calls.get(timeout=None if seconds is None else max(seconds, 0.0))
        except Empty:
            raise TimeoutError from None

    def _work_off(self) -> None:
        while True:
            try:
                self._calls.get_nowait()._run()
            except Empty:
                return

    @contextmanager
    def _running(self) -> Iterator[None]:
        """The thread may run a loop already, as that of a notebook does: it waits until we are back."""
        before = asyncio._get_running_loop()
        asyncio._set_running_loop(self)
        try:
            yield
        finally:
            asyncio._set_running_loop(before)

    # What futures ask of a loop ---------------------------------------------------------------------------------------

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *arguments: Any, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, arguments, self, context)
        self._calls.put(handle)
        return handle

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., object], *arguments: Any, context: Context | None = None
    ) -> asyncio.Handle:
        global _handing_over  # noqa: PLW0603 (the threads belong to the process)
        with _counting:
            _handing_over += 1
        try:
            return self.call_soon(callback, *arguments, context=context)
        finally:
            with _counting:
                _handing_over -= 1

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Nobody waits for what a call raises: futures carry what they fail with."""

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return asyncio._get_running_loop() is self

    def is_closed(self) -> bool:
        return False

    def time(self) -> float:
        return time.monotonic()


def _nothing() -> None:
    """Wakes whoever waits for a call."""
