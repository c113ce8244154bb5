"""Batches of a running query, handed to whoever reads them.

Readers wait for rows that other threads fetch, and can be interrupted while they do. DataFusion can be stopped in the middle
of a query only where its stream is awaited. One thread of the process does that for all queries.
"""

from __future__ import annotations

import asyncio
import atexit
import math
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from contextvars import Context
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, TypeVar

import pyarrow as pa

from omnigraph_sql.engines.execution import Execution, calls_in_progress, translate, translated
from omnigraph_sql.engines.threads import read, reading, working
from omnigraph_sql.errors import BadRequest

_EXIT_SECONDS = 2.0
_LEAVING_SECONDS = 0.005
_LONGEST_BATCH = 65_536
T = TypeVar("T")


@dataclass(frozen=True)
class Portion:
    """How much is fetched before the one who waits for it is told: that takes as long as a small batch does."""

    rows: int
    seconds: float = math.inf
    """After so long fewer rows are enough, if there are any."""
    size: float = math.inf
    """In bytes; so are fewer rows that have this many."""

    def taken(self) -> Callable[[pa.RecordBatch], bool]:
        """Begins a portion: what it returns is told each batch, and says whether that was enough."""
        rows, size, until = self.rows, self.size, time.monotonic() + self.seconds

        def is_enough(batch: pa.RecordBatch) -> bool:
            nonlocal rows, size
            rows, size = rows - batch.num_rows, size - batch.nbytes
            return rows <= 0 or size <= 0 or (rows < self.rows and time.monotonic() >= until)

        return is_enough


_NEXT = Portion(rows=1 << 17, seconds=0.01, size=4 << 20)
"""What a reader gets who asks for the next batch."""

Fetched: TypeAlias = tuple[list[pa.RecordBatch], bool]
"""Batches, and whether they are the last."""


class Rows(Protocol):
    """The rows of one run, as an engine gives them."""

    def ask(self, portion: Portion) -> Future[Fetched]:
        """Fetch batches in another thread. Cancelling stops the engine."""

    def fetch(self, portion: Portion) -> Fetched:
        """As `ask`, in this thread."""

    def close(self) -> None:
        """Stop the engine, whatever it is doing, and let go of it."""


class Awaited:
    """The rows of a stream of DataFusion."""

    def __init__(self, source: Any) -> None:
        self._source = source

    def ask(self, portion: Portion) -> Future[Fetched]:
        """Have them awaited by the thread that does so for all queries."""
        return asyncio.run_coroutine_threadsafe(_advance(self._source, portion), _loop())

    def fetch(self, portion: Portion) -> Fetched:
        """Poll the stream."""
        batches: list[pa.RecordBatch] = []
        is_enough = portion.taken()
        for batch in self._source:
            batches.append(batch.to_pyarrow())
            if is_enough(batches[-1]):
                return batches, False
        return batches, True

    def close(self) -> None:
        """A stream that nobody holds stops."""
        self._source = None


class Session(Protocol):
    """What the engine needs as long as a query runs."""

    def finished(self) -> None:
        """The engine has given all rows, and is at rest."""


class Stream:
    """The rows of one run, in order, once. Holds on to everything the engine needs until it is closed."""

    def __init__(
        self, source: Rows, session: Session, execution: Execution, fit: Callable[[pa.RecordBatch], pa.RecordBatch]
    ) -> None:
        self._source: Rows | None = source
        self._session: Session | None = session
        self._execution = execution
        self._fit = fit
        self._ready: deque[pa.RecordBatch] = deque()
        self._waiting: Future[Any] | None = None
        self.is_done = False
        """Whether the engine has given all its rows; some may wait to be read."""
        _LIVE.add(self)

    def __del__(self) -> None:
        self.close()

    def read_ahead(self, rows: int) -> None:
        """Wait for so many rows, or for all. A short run is done in this thread, which saves waiting for others."""
        if not self.is_done:
            self._fetch(Portion(rows), self._await if self._execution.left is None else self._run)
        self._execution.left = None

    def next(self) -> pa.RecordBatch | None:
        """The next batch; None after the last."""
        self._execution.is_shown = True
        reading()
        if not self._ready and not self.is_done:
            self._fetch(_NEXT, self._await)
        if self._ready:
            return self._ready.popleft()
        read()
        return None

    def cancel(self) -> None:
        """Stop the work, from any thread. Whoever waits for a batch is told."""
        self._execution.stop(BadRequest("the query was cancelled", hint="run it again"))
        waiting = self._waiting
        if waiting is not None:
            waiting.cancel()

    def close(self) -> None:
        """Stop the work and let go of everything."""
        read()
        self.is_done = True
        self._execution.stop()
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            waiting.cancel()
        source, self._source, self._session = self._source, None, None
        if source is not None:
            source.close()
        self._ready.clear()
        _LIVE.discard(self)

    def _fetch(self, portion: Portion, ask: Callable[[Rows, Portion], Fetched]) -> None:
        assert self._source is not None
        try:
            with self._execution.clock.running():
                batches, is_last = ask(self._source, portion)
            fits = [self._fit(batch) for batch in batches]
        except BaseException:
            self.close()
            raise
        for fit in fits:
            # What was unfolded from lists can be very long.
            self._ready += [fit.slice(at, _LONGEST_BATCH) for at in range(0, fit.num_rows, _LONGEST_BATCH)]
        if is_last:
            self.is_done = True
            session, self._source, self._session = self._session, None, None
            _LIVE.discard(self)
            if session is not None:
                session.finished()

    def _run(self, source: Rows, portion: Portion) -> Fetched:
        with translated(self._execution):
            found = source.fetch(portion)
        self._execution.going()
        return found

    def _await(self, source: Rows, portion: Portion) -> Fetched:
        execution = self._execution
        _raise_if(execution.failure)
        self._waiting = source.ask(portion)
        try:
            return awaited(self._waiting, execution)
        finally:
            self._waiting = None


def awaited(waiting: Future[T], execution: Execution) -> T:
    """Wait for what an engine does in other threads, as long as there is time. Who is interrupted stops the engine."""
    try:
        return waiting.result(execution.clock.left)
    except CancelledError:
        raise execution.failure or BadRequest("the query was cancelled") from None
    except TimeoutError:
        over = execution.clock.over()
        execution.stop(over)
        raise over from None
    except Exception as error:
        raise translate(error, execution) from (execution.failure or error)
    finally:
        waiting.cancel()


def _raise_if(failure: BaseException | None) -> None:
    if failure is not None:
        raise failure


async def _advance(source: Any, portion: Portion) -> Fetched:
    """The next batches, and whether they are the last."""
    batches: list[pa.RecordBatch] = []
    is_enough = portion.taken()
    async for batch in source:
        batches.append(batch.to_pyarrow())
        if is_enough(batches[-1]):
            return batches, False
    return batches, True


class Complete:
    """Rows that are all there."""

    is_done = True

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._batch: pa.RecordBatch | None = batch

    def next(self) -> pa.RecordBatch | None:
        """The batch, once."""
        found, self._batch = self._batch, None
        return found

    def cancel(self) -> None:
        """There is nothing left to stop."""

    def close(self) -> None:
        """Let go of the rows."""
        self._batch = None


class _Loop(asyncio.SelectorEventLoop):
    """Counts the threads of the engine that are handing over a batch; they are not done when the reader has it."""

    def __init__(self) -> None:
        super().__init__()
        self.handing_over = 0

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., object], *arguments: Any, context: Context | None = None
    ) -> asyncio.Handle:
        with _counting:
            self.handing_over += 1
        try:
            return super().call_soon_threadsafe(callback, *arguments, context=context)
        finally:
            with _counting:
                self.handing_over -= 1


_counting = threading.Lock()
_LIVE: weakref.WeakSet[Stream] = weakref.WeakSet()
_lock = threading.Lock()
_started: tuple[int, _Loop] | None = None


def _loop() -> _Loop:
    """The loop of this process; a child that was forked needs one of its own."""
    global _started  # noqa: PLW0603 (one thread per process)
    with _lock:
        if _started is None or _started[0] != os.getpid():
            loop = _Loop()
            threading.Thread(target=loop.run_forever, name="omnigraph-queries", daemon=True).start()
            _started = os.getpid(), loop
        return _started[1]


@atexit.register
def _stop_all() -> None:
    """Wait for the threads of the engine: one that enters or leaves Python while it goes away ends the process badly."""
    loop = None if _started is None or _started[0] != os.getpid() else _started[1]
    if loop is None and not working():
        return
    for stream in list(_LIVE):
        stream.close()
    until = time.monotonic() + _EXIT_SECONDS
    while (calls_in_progress() or working() or (loop and loop.handing_over)) and time.monotonic() < until:
        time.sleep(0.001)
    time.sleep(_LEAVING_SECONDS)
