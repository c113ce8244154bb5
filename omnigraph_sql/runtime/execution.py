"""One run of a query: its settings, its clock, the memory it has reserved, and its cancellation."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa

from omnigraph_sql.binding.context import Array, BoundFunction
from omnigraph_sql.errors import BadRequest, Internal, OmnigraphError, ResourceLimit, Storage
from omnigraph_sql.runtime.limits import RunLimits, parse_size, shown_size
from omnigraph_sql.runtime.shutdown import counts_activity
from omnigraph_sql.storage.error_translation import is_remote, lost_file, storage_error

BATCH_ROWS = 8192
WIDE = 1 << 21
"""The most destinations that one function call may return, 16 MiB of them. DataFusion passes a batch on whole, however
long its lists are: a run that exceeds this before its first output row is restarted with shorter batches."""
SHORT = 1 << 17
"""The most rows that a run may process in the caller's thread: a fraction of a second of work."""
_PIECE_SECONDS = 0.05
_FIRST_PIECE = 16
_TRACKED_BYTES = 1 << 20
_EXHAUSTED = re.compile(r"additional ([0-9.]+ [KMGT]?B).*?([0-9.]+ [KMGT]?B) remain available", re.DOTALL)

_UNAFFORDABLE = re.compile(
    r"std::bad_alloc|offset overflow|capacity overflow|maximum supported string size|32bit utf8|failed to (?:re)?allocate",
    re.IGNORECASE,
)


class BatchTooWide(Exception):
    """A function returned too many destinations for one batch: the run should restart with shorter batches."""

    def __init__(self, destinations: int, max_destinations: int, rows: int) -> None:
        super().__init__(destinations, max_destinations, rows)
        self.destinations = destinations
        self.max_destinations = max_destinations
        self.rows = rows

    def shorter_batch(self) -> int:
        """Return the number of rows per batch to try next."""
        return max(1, min(self.rows // 2, self.rows * self.max_destinations // self.destinations))


class RunTooLong(Exception):
    """A run in the caller's thread has processed more rows than its allowance: it must restart in engine threads."""


class RunClock:
    """Measures the working time of a query. The time in which its reader does not ask for rows does not count."""

    def __init__(self, timeout: float | None, spent: float = 0.0) -> None:
        self._timeout = timeout
        self._spent = spent
        self._since: float | None = None

    @contextmanager
    def running(self) -> Iterator[None]:
        """Count the time of the block."""
        self._since = time.perf_counter()
        try:
            yield
        finally:
            self._spent, self._since = self.spent, None

    @property
    def spent(self) -> float:
        """The seconds counted so far."""
        return self._spent + (0.0 if self._since is None else time.perf_counter() - self._since)

    @property
    def remaining(self) -> float | None:
        """The seconds until the timeout; None without a timeout."""
        return None if self._timeout is None else max(0.0, self._timeout - self.spent)

    def check(self) -> None:
        """Raise if the timeout has passed."""
        if self.remaining == 0:
            raise self.error_for_timeout()

    def error_for_timeout(self) -> ResourceLimit:
        """Return the error of a query that took too long; its numbers are milliseconds."""
        assert self._timeout is not None
        text = f"the query did not finish within {self._timeout:g} seconds"
        hint = "narrow it down (explain --analyze shows where the time goes), or allow more time"
        limit, actual = int(self._timeout * 1000), int(self.spent * 1000)
        return ResourceLimit(text, resource="time", limit=limit, actual=actual, hint=hint)


def error_for_defect(cause: BaseException) -> OmnigraphError:
    """Return the error for an engine failure that no query should be able to cause: a defect of this package."""
    first = str(cause).strip().splitlines()[0] if str(cause).strip() else ""
    hint = "this is a defect in omnigraph-sql; please report it with the schema and the query"
    return Internal(f"the query could not be run: {type(cause).__name__}: {first}", hint=hint)


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """The part of a run that stays the same from its start to its end."""

    limits: RunLimits
    batch_rows: int = BATCH_ROWS
    """The number of rows in a full batch."""
    allowance: int = SHORT
    """The most rows that the run may process in the caller's thread."""
    widest: int | None = None
    """The most destinations that one function call may return; None for the default."""
    collects_metrics: bool = False
    """True if the run must report what each operator did."""
    describe: Callable[[BaseException], OmnigraphError] = error_for_defect
    """Returns the error for a failure that is neither a limit nor an error of this package."""

    @property
    def max_destinations(self) -> int:
        """The most destinations that one function call may return.

        The default is a quarter of the memory: the operators above the function need memory for them as well.
        """
        return min(WIDE, self.limits.memory // 32) if self.widest is None else self.widest


class Execution:
    """One run. Its functions are called from threads of the engine."""

    def __init__(self, settings: RunSettings, clock: RunClock) -> None:
        self.settings = settings
        self.clock = clock
        self._describe = settings.describe
        self._first_rows = settings.batch_rows
        self._rows_left: int | None = None
        self._has_output = False
        self._is_stopped = False
        self._failure: BaseException | None = None
        self._planning_error: BaseException | None = None
        self._stop_callback: Callable[[], None] | None = None
        self._planner: int | None = threading.get_ident()
        self._held = 0
        self._lock = threading.RLock()

    @property
    def limits(self) -> RunLimits:
        """The timeout and the memory limit."""
        return self.settings.limits

    @property
    def batch_rows(self) -> int:
        """The number of rows in a full batch."""
        return self.settings.batch_rows

    @property
    def failure(self) -> BaseException | None:
        """The exception of a function, or the reason of a stop; engines pass on the text of an exception only."""
        return self._failure

    @property
    def is_stopped(self) -> bool:
        """True if functions must not do any more work."""
        return self._is_stopped

    @property
    def is_short(self) -> bool:
        """True while the run works in the caller's thread, within its allowance of rows."""
        return self._rows_left is not None

    def start_short(self, rows: int) -> None:
        """Run in the caller's thread if the allowance is larger than the number of rows to start from."""
        if self.settings.allowance > rows:
            self._rows_left = self.settings.allowance

    def end_short(self) -> None:
        """Run in threads of the engine from now on, without an allowance."""
        self._rows_left = None

    def expect_first_rows(self, rows: int) -> None:
        """Set the number of rows in the longest of the first batches: above 1, shorter batches are possible."""
        self._first_rows = rows

    def plan_in_this_thread(self) -> None:
        """Declare the calling thread the one that plans the query."""
        self._planner = threading.get_ident()

    def begin(self) -> None:
        """Mark the end of planning: from now on, an exception of a function fails the run."""
        self._planner = None

    def begin_output(self) -> None:
        """Mark the first output row: a run that has returned rows cannot be restarted."""
        self._has_output = True

    def describe_failures(self, describe: Callable[[BaseException], OmnigraphError]) -> None:
        """Replace the settings' `describe` by one that knows the planned statement."""
        self._describe = describe

    def describe(self, cause: BaseException) -> OmnigraphError:
        """Return the error for a failure that is neither a limit nor an error of this package."""
        return self._describe(cause)

    def call_on_stop(self, callback: Callable[[], None]) -> None:
        """Set the function that cancels what this run waits for in other systems."""
        self._stop_callback = callback

    def fail(self, error: BaseException) -> None:
        """Record the exception of a function, and stop the run unless it is still being planned.

        Optimisers call functions to fold constants, and go on if that fails: while a query is planned, the engine decides
        whether it fails.
        """
        if threading.get_ident() == self._planner:
            self._planning_error = error
        else:
            self.stop(error)

    def fail_planning(self) -> None:
        """Make the last exception of planning the failure of the run, unless it has one."""
        self._failure = self._failure or self._planning_error

    def stop(self, reason: BaseException | None = None) -> None:
        """Stop all functions. A thread that waits for rows raises the reason."""
        with self._lock:
            if self._failure is None:
                self._failure = reason
            self._is_stopped = True
        if self._stop_callback is not None:
            self._stop_callback()

    def check_cancelled(self) -> None:
        """Raise if the run was stopped or its timeout has passed."""
        if self._is_stopped:
            raise BadRequest("the query was cancelled")
        self.clock.check()

    def reserve_rows(self, destinations: int) -> None:
        """Raise if a function must not return a list of so many destinations."""
        if self._rows_left is not None:
            self._rows_left -= destinations
            if self._rows_left < 0:
                raise RunTooLong
        total = self._held + destinations * 8
        if destinations > self.settings.max_destinations and self._first_rows > 1 and not self._has_output:
            raise BatchTooWide(destinations, self.settings.max_destinations, self._first_rows)
        if total > self.limits.memory:
            raise self.error_for_memory(total)

    def hold(self, size: int) -> None:
        """Count bytes that stay until the run ends and that the engine does not count; raise if there is no memory left."""
        with self._lock:
            self._held += size
        self.reserve_bytes(0)

    def reserve_bytes(self, size: int) -> None:
        """Raise if there is no memory for so many more bytes."""
        total = self._held + size
        if total > self.limits.memory:
            raise self.error_for_memory(total)

    def error_for_memory(self, actual: int) -> ResourceLimit:
        """Return the error of a query that needs more memory than its limit."""
        limit = self.limits.memory
        text = f"the query needs {shown_size(actual)} of memory, more than its limit of {shown_size(limit)}"
        hint = "narrow it down, return fewer columns, or allow more memory"
        return ResourceLimit(text, resource="memory", limit=limit, actual=actual, hint=hint)

    def track(self, lists: Array) -> Array:
        """Return an equal array whose memory counts until the last reference to it is gone."""
        if not pa.types.is_large_list(lists.type) or lists.nbytes < _TRACKED_BYTES:
            return lists
        with self._lock:
            self._held += lists.nbytes
        base = _TrackedMemory(self, lists, lists.nbytes)
        buffers = lists.buffers()[:2]
        return pa.Array.from_buffers(
            lists.type, len(lists), buffers, lists.null_count, lists.offset, [_rebased(lists.values, base)]
        )

    def release(self, size: int) -> None:
        """Stop counting the bytes of a tracked array."""
        with self._lock:
            self._held -= size


class _TrackedMemory:
    """Owner of the buffers of a tracked array: its finalizer releases the bytes."""

    def __init__(self, execution: Execution, lists: Array, size: int) -> None:
        self._execution, self._lists, self._size = execution, lists, size

    def __del__(self) -> None:
        self._execution.release(self._size)


def _rebased(values: Array, base: _TrackedMemory) -> Array:
    if pa.types.is_struct(values.type):
        fields = [_rebased(values.field(0), base), *(values.field(at) for at in range(1, values.type.num_fields))]
        return pa.StructArray.from_arrays(fields, fields=list(values.type))
    validity, data = values.buffers()
    data = pa.foreign_buffer(data.address, data.size, base)
    return pa.Array.from_buffers(values.type, len(values), [validity, data], values.null_count, values.offset)


def guarded_function(execution: Execution, bound: BoundFunction) -> Callable[..., Array]:
    """Wrap a bound function: check the limits of the run before each call, and record its exceptions."""

    def run(*arrays: Array) -> Array:
        _enter()
        try:
            execution.check_cancelled()
            if bound.destinations is not None:
                execution.reserve_rows(bound.destinations(*arrays))
            if bound.portion_rows is not None:
                return _in_portions(execution, bound, bound.portion_rows, *arrays)
            result = _in_pieces(execution, bound, *arrays) if bound.is_search else bound.run(*arrays)
            return execution.track(result)
        except BaseException as error:
            execution.fail(error)
            raise
        finally:
            _leave()

    return run


@contextmanager
def engine_call() -> Iterator[None]:
    """Count work in a thread of the engine that is not a function of a query, such as reading from a source."""
    _enter()
    try:
        yield
    finally:
        _leave()


@counts_activity
def calls_in_progress() -> int:
    """Return the number of calls that threads of the engine are making."""
    return _calls


_calls = 0
_counting = threading.Lock()


def _enter() -> None:
    global _calls  # noqa: PLW0603 (the threads belong to the process)
    with _counting:
        _calls += 1


def _leave() -> None:
    global _calls  # noqa: PLW0603
    with _counting:
        _calls -= 1


def _in_pieces(execution: Execution, bound: BoundFunction, *arrays: Array) -> Array:
    """Call a search in short slices: neither its duration nor the size of its result is known beforehand."""
    count, at, size, destinations = len(arrays[0]), 0, _FIRST_PIECE, 0
    pieces: list[Array] = []
    while at < count or not pieces:
        execution.check_cancelled()
        started = time.perf_counter()
        piece = bound.run(*(array.slice(at, size) for array in arrays))
        pieces.append(piece)
        at += size
        destinations += len(piece.values)
        is_wide = destinations > execution.settings.max_destinations
        execution.reserve_rows(destinations * count // min(at, count) if is_wide else destinations)
        seconds = max(time.perf_counter() - started, 1e-6)
        size = max(1, min(int(size * _PIECE_SECONDS / seconds), size * 8))
    return pieces[0] if len(pieces) == 1 else pa.concat_arrays(pieces)


def _in_portions(execution: Execution, bound: BoundFunction, size: int, *arrays: Array) -> Array:
    """Call a function in slices of `size` rows, and check for cancellation between them."""
    portions = []
    for at in range(0, max(len(arrays[0]), 1), size):
        execution.check_cancelled()
        portions.append(bound.run(*(array.slice(at, size) for array in arrays)))
    return portions[0] if len(portions) == 1 else pa.concat_arrays(portions)


@contextmanager
def translated_errors(execution: Execution) -> Iterator[None]:
    """Translate exceptions of the engine in the block into errors of this package, with the original as the cause."""
    try:
        yield
    except (OmnigraphError, BatchTooWide, RunTooLong, KeyboardInterrupt):
        raise
    except BaseException as error:
        if not is_translatable(error):
            raise
        execution.fail_planning()
        raise engine_error(error, execution) from (execution.failure or error)


def is_translatable(error: BaseException) -> bool:
    """True if an exception comes from an engine: a Rust panic reaches Python as a `BaseException`."""
    return isinstance(error, Exception) or type(error).__name__ == "PanicException"


def engine_error(error: BaseException, execution: Execution) -> BaseException:
    """Return the error to raise for an exception of the engine."""
    failure = execution.failure
    if isinstance(failure, OmnigraphError | BatchTooWide | RunTooLong) or (
        failure is not None and not isinstance(failure, Exception)
    ):
        return failure
    if isinstance(error, OmnigraphError):
        return error
    text = str(error)
    if failure is None and "Resources exhausted" in text:
        return execution.error_for_memory(_requested_bytes(text, execution.limits.memory))
    if isinstance(failure or error, MemoryError | pa.ArrowMemoryError) or (failure is None and _UNAFFORDABLE.search(text)):
        return execution.error_for_memory(execution.limits.memory)
    if failure is None and ("os error 28" in text or "No space left on device" in text):
        text = "there is no space left for the intermediate rows of the query"
        return Storage(text, storage_class="transient", hint="free space in the directory for temporary files")
    lost = lost_file(failure or error)
    if lost is not None:
        hint = "if an earlier version is read, a cleanup has removed it: read a later one; else restore it from a copy"
        return Storage(f"a table lacks a file: {lost} is gone", storage_class="not_found", hint=hint)
    cause = failure or error
    if isinstance(cause, Exception) and is_remote(cause):
        return storage_error(cause, "a table")
    return execution.describe(cause)


def _requested_bytes(text: str, limit: int) -> int:
    """Return the bytes that an allocation failed for, in addition to the limit."""
    sizes = _EXHAUSTED.search(text)
    return limit if sizes is None else limit + max(0, parse_size(sizes[1]) - parse_size(sizes[2]))
