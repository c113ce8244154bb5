"""Batches of a running query, handed to whoever reads them.

Readers wait for rows that other threads make, and can be interrupted while they do.
"""

from __future__ import annotations

import atexit
import math
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from concurrent.futures import CancelledError
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, TypeVar

import pyarrow as pa

from omnigraph_sql.engines.awaiting import Loop, handing_over
from omnigraph_sql.engines.execution import Execution, calls_in_progress, translate, translated
from omnigraph_sql.engines.threads import read, reading, working
from omnigraph_sql.errors import BadRequest

_EXIT_SECONDS = 2.0
_LEAVING_SECONDS = 0.005
_LONGEST_BATCH = 65_536
T = TypeVar("T")
Found_co = TypeVar("Found_co", covariant=True)


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


class Waiting(Protocol[Found_co]):
    """Something that an engine is asked for."""

    def result(self, timeout: float | None = None) -> Found_co:
        """Wait for it. Raises `TimeoutError` after so many seconds, and `CancelledError` if it was cancelled."""

    def cancel(self) -> object:
        """Stop the engine, from any thread, if it is still at work."""


class Rows(Protocol):
    """The rows of one run, as an engine gives them."""

    def ask(self, portion: Portion) -> Waiting[Fetched]:
        """Fetch batches while the reader can be interrupted."""

    def fetch(self, portion: Portion) -> Fetched:
        """As `ask`, in this thread."""

    def close(self) -> None:
        """Stop the engine, whatever it is doing, and let go of it."""


class Awaited:
    """The rows of a stream of DataFusion."""

    def __init__(self, source: Any) -> None:
        self._source = source

    def ask(self, portion: Portion) -> Waiting[Fetched]:
        """Have them awaited by whoever asks for the result."""
        return _Awaiting(self._source, portion)

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


class _Awaiting:
    """Batches of a stream, awaited in the thread that asks for them."""

    def __init__(self, source: Any, portion: Portion) -> None:
        self._source = source
        self._portion = portion
        self._loop = Loop()

    def result(self, timeout: float | None = None) -> Fetched:
        until = None if timeout is None else time.perf_counter() + timeout
        batches: list[pa.RecordBatch] = []
        is_enough = self._portion.taken()
        while True:
            try:
                batch = self._loop.wait(self._source.__anext__(), until)
            except StopAsyncIteration:
                return batches, True
            batches.append(batch.to_pyarrow())
            if is_enough(batches[-1]):
                return batches, False

    def cancel(self) -> None:
        self._loop.cancel()
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
        self._waiting: Waiting[Fetched] | None = None
        self.is_done = False
        """Whether the engine has given all its rows; some may wait to be read."""
        _LIVE.add(self)

    def __del__(self) -> None:
        self.close()

    def read_ahead(self, portion: Portion) -> None:
        """Wait for the first rows, or for all. What can be done in this thread saves waiting for others."""
        if not self.is_done:
            is_short = self._execution.left is not None
            self._fetch(portion, self._run if is_short or self._is_alone else self._await)
        self._execution.left = None

    @property
    def _is_alone(self) -> bool:
        """Whether nobody but the keyboard can want to stop what this thread waits for; the engine heeds that by itself."""
        is_main = threading.current_thread() is threading.main_thread()
        return is_main and self._execution.clock.left is None and isinstance(self._source, Awaited)

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


def awaited(waiting: Waiting[T], execution: Execution) -> T:
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


_LIVE: weakref.WeakSet[Stream] = weakref.WeakSet()


@atexit.register
def _stop_all() -> None:
    """Wait for the threads of the engine: one that enters or leaves Python while it goes away ends the process badly."""
    for stream in list(_LIVE):
        stream.close()
    until = time.monotonic() + _EXIT_SECONDS
    while (calls_in_progress() or working() or handing_over()) and time.monotonic() < until:
        time.sleep(0.001)
    time.sleep(_LEAVING_SECONDS)
