"""Streams of the result batches of a running query.

Other threads produce the rows; a reader that waits for them can be interrupted.
"""

from __future__ import annotations

import math
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from concurrent.futures import CancelledError
from dataclasses import dataclass
from typing import Protocol, TypeAlias, TypeVar

import pyarrow as pa

from omnigraph_sql.errors import BadRequest
from omnigraph_sql.runtime.execution import Execution, engine_error, is_translatable, translated_errors
from omnigraph_sql.runtime.shutdown import Stage, at_shutdown, wait_for_activity
from omnigraph_sql.runtime.worker_threads import begin_reading, end_reading

_EXIT_SECONDS = 2.0
_LEAVING_SECONDS = 0.005
_LONGEST_BATCH = 65_536
T = TypeVar("T")
Result_co = TypeVar("Result_co", covariant=True)


@dataclass(frozen=True)
class Portion:
    """The number of rows to fetch before the reader is woken: a wake-up takes as long as a small batch."""

    rows: int
    seconds: float = math.inf
    """After this time, fewer rows are enough, but at least one."""
    size: float = math.inf
    """After this many bytes, fewer rows are enough."""

    def new_counter(self) -> Callable[[pa.RecordBatch], bool]:
        """Return a function to call with each fetched batch; it returns True when the portion is complete."""
        rows, size, until = self.rows, self.size, time.monotonic() + self.seconds

        def is_enough(batch: pa.RecordBatch) -> bool:
            nonlocal rows, size
            rows, size = rows - batch.num_rows, size - batch.nbytes
            return rows <= 0 or size <= 0 or (rows < self.rows and time.monotonic() >= until)

        return is_enough


_NEXT = Portion(rows=1 << 17, seconds=0.01, size=4 << 20)
"""The portion that is fetched when a reader asks for the next batch."""

Fetched: TypeAlias = tuple[list[pa.RecordBatch], bool]
"""Batches, and True if they are the last ones."""


class PendingBatches(Protocol[Result_co]):
    """A request to an engine that is being worked on."""

    def result(self, timeout: float | None = None) -> Result_co:
        """Wait for the result. Raises `TimeoutError` after `timeout` seconds, `CancelledError` after `cancel`."""

    def cancel(self) -> object:
        """Cancel the request, from any thread, if it is not complete."""


class BatchRows(Protocol):
    """The rows of one run, as an engine produces them."""

    @property
    def is_interruptible(self) -> bool:
        """True if `fetch` can be interrupted from the keyboard."""

    def submit(self, portion: Portion) -> PendingBatches[Fetched]:
        """Start to fetch batches so that the waiting reader can be interrupted."""

    def fetch(self, portion: Portion) -> Fetched:
        """Fetch batches in the calling thread."""

    def close(self) -> None:
        """Stop the engine and release it."""


class RunSession(Protocol):
    """The resources of an engine that one run holds."""

    def finished(self) -> None:
        """Release the resources: the engine has returned all rows and is idle."""


class BatchStream:
    """The rows of one run, in order, to be read once. Holds the engine's resources until it is closed."""

    def __init__(
        self, source: BatchRows, session: RunSession, execution: Execution, cast: Callable[[pa.RecordBatch], pa.RecordBatch]
    ) -> None:
        self._source: BatchRows | None = source
        self._session: RunSession | None = session
        self._execution = execution
        self._cast = cast
        self._ready: deque[pa.RecordBatch] = deque()
        self._waiting: PendingBatches[Fetched] | None = None
        self.is_done = False
        """True if the engine has returned all its rows; some may still be buffered here."""
        _LIVE.add(self)

    def __del__(self) -> None:
        self.close()

    def read_ahead(self, portion: Portion) -> None:
        """Fetch the first portion of rows, in the calling thread if that is safe, because it is faster."""
        if not self.is_done:
            is_short = self._execution.is_short
            self._fetch(portion, self._run if is_short or self._is_alone else self._await)
        self._execution.end_short()

    @property
    def _is_alone(self) -> bool:
        """True if only a keyboard interrupt can stop this wait, and the engine handles it."""
        is_main = threading.current_thread() is threading.main_thread()
        source = self._source
        return is_main and self._execution.clock.remaining is None and source is not None and source.is_interruptible

    def next(self) -> pa.RecordBatch | None:
        """Return the next batch; None after the last."""
        self._execution.begin_output()
        begin_reading()
        if not self._ready and not self.is_done:
            self._fetch(_NEXT, self._await)
        if self._ready:
            return self._ready.popleft()
        end_reading()
        return None

    def cancel(self) -> None:
        """Cancel the run, from any thread. A thread that waits for a batch raises an error."""
        self._execution.stop(BadRequest("the query was cancelled", hint="run it again"))
        waiting = self._waiting
        if waiting is not None:
            waiting.cancel()

    def close(self) -> None:
        """Stop the run and release its resources."""
        end_reading()
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

    def _fetch(self, portion: Portion, fetch: Callable[[BatchRows, Portion], Fetched]) -> None:
        assert self._source is not None
        try:
            with self._execution.clock.running():
                batches, is_last = fetch(self._source, portion)
            results = [self._cast(batch) for batch in batches]
        except BaseException:
            self.close()
            raise
        for result in results:
            # A batch can be very long after its lists were unnested.
            self._ready += [result.slice(at, _LONGEST_BATCH) for at in range(0, result.num_rows, _LONGEST_BATCH)]
        if is_last:
            self.is_done = True
            session, self._source, self._session = self._session, None, None
            _LIVE.discard(self)
            if session is not None:
                session.finished()

    def _run(self, source: BatchRows, portion: Portion) -> Fetched:
        with translated_errors(self._execution):
            batches, is_last = source.fetch(portion)
        self._execution.check_cancelled()
        return batches, is_last

    def _await(self, source: BatchRows, portion: Portion) -> Fetched:
        execution = self._execution
        _raise_if(execution.failure)
        self._waiting = source.submit(portion)
        try:
            return wait_for(self._waiting, execution)
        finally:
            self._waiting = None


def wait_for(waiting: PendingBatches[T], execution: Execution) -> T:
    """Wait for a result until the timeout of the run. An interrupt of the waiting thread stops the engine."""
    try:
        return waiting.result(execution.clock.remaining)
    except CancelledError:
        raise execution.failure or BadRequest("the query was cancelled") from None
    except TimeoutError:
        timeout = execution.clock.error_for_timeout()
        execution.stop(timeout)
        raise timeout from None
    except BaseException as error:
        if not is_translatable(error):
            raise
        raise engine_error(error, execution) from (execution.failure or error)
    finally:
        waiting.cancel()


def run_here(work: Callable[[], T], execution: Execution) -> T:
    """Run short work of an engine in the calling thread."""
    try:
        return work()
    except BaseException as error:
        if not is_translatable(error):
            raise
        raise engine_error(error, execution) from (execution.failure or error)


def _raise_if(failure: BaseException | None) -> None:
    if failure is not None:
        raise failure


class CompleteRows:
    """A result that is complete, in one batch."""

    is_done = True

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._batch: pa.RecordBatch | None = batch

    def next(self) -> pa.RecordBatch | None:
        """Return the batch at the first call, None after that."""
        batch, self._batch = self._batch, None
        return batch

    def cancel(self) -> None:
        """Do nothing: the run has ended."""

    def close(self) -> None:
        """Release the rows."""
        self._batch = None


_LIVE: weakref.WeakSet[BatchStream] = weakref.WeakSet()


@at_shutdown(Stage.STREAMS)
def _close_streams() -> None:
    for stream in list(_LIVE):
        stream.close()
    wait_for_activity(_EXIT_SECONDS)
    time.sleep(_LEAVING_SECONDS)
