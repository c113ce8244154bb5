"""One run of a query: what it has used of its limits, how it is stopped, and what its functions may take."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pyarrow as pa

from omnigraph_sql.engines.limits import Limits, parse_size, shown_size
from omnigraph_sql.engines.scope import Array, Bound
from omnigraph_sql.errors import BadRequest, Internal, OmnigraphError, ResourceLimit, Storage
from omnigraph_sql.storage.faults import lost_file

WIDE = 1 << 21
"""Destinations that one call should give at most, 16 MiB of them. DataFusion passes a batch on whole, however long the
lists in it: a run that meets a wider one before its first row is shown starts again with shorter batches."""
SHORT = 1 << 17
"""Rows that a run may go through in the thread that asked for it: what a fraction of a second is enough for."""
_PIECE_SECONDS = 0.05
_FIRST_PIECE = 16
_TRACKED_BYTES = 1 << 20
_EXHAUSTED = re.compile(r"additional ([0-9.]+ [KMGT]?B).*?([0-9.]+ [KMGT]?B) remain available", re.DOTALL)


class TooWide(Exception):
    """A batch was too long for the lists that its rows lead to."""

    def __init__(self, destinations: int) -> None:
        super().__init__(destinations)
        self.destinations = destinations


class TooLong(Exception):
    """A run in the thread that asked for it goes through too many rows to be left without supervision."""


class Clock:
    """The time a query has worked. Waiting for whoever reads its rows does not count."""

    def __init__(self, timeout: float | None) -> None:
        self._timeout = timeout
        self._spent = 0.0
        self._since: float | None = None

    @contextmanager
    def running(self) -> Iterator[None]:
        """Work that counts."""
        self._since = time.perf_counter()
        try:
            yield
        finally:
            self._spent, self._since = self.spent, None

    @property
    def spent(self) -> float:
        """Seconds so far."""
        return self._spent + (0.0 if self._since is None else time.perf_counter() - self._since)

    @property
    def left(self) -> float | None:
        """Seconds until the time is over; None if it never is."""
        return None if self._timeout is None else max(0.0, self._timeout - self.spent)

    def check(self) -> None:
        """Raise if the time is over."""
        if self.left == 0:
            raise self.over()

    def over(self) -> ResourceLimit:
        """The error of a query that took too long, in milliseconds."""
        assert self._timeout is not None
        text = f"the query did not finish within {self._timeout:g} seconds"
        hint = "narrow it down (explain --analyze shows where the time goes), or allow more time"
        limit, actual = int(self._timeout * 1000), int(self.spent * 1000)
        return ResourceLimit(text, resource="time", limit=limit, actual=actual, hint=hint)


class Execution:
    """A run with batches of a certain length. Its functions are called from threads of the engine."""

    def __init__(self, limits: Limits, clock: Clock, batch_rows: int, allowance: int = SHORT) -> None:
        self.limits = limits
        self.clock = clock
        self.batch_rows = batch_rows
        self.first_rows = batch_rows
        """How many rows the longest of the first batches has: as long as it is more than one, shorter ones are possible."""
        self.wide = min(WIDE, limits.memory // 32)
        """Destinations that one call should give at most: a quarter of the memory, for others come after it."""
        self.failure: BaseException | None = None
        """What a function raised; the engine itself passes on its text only."""
        self.is_shown = False
        """Whether rows were handed out already."""
        self.is_stopped = False
        self.is_measured = False
        """Whether somebody wants to know what each operator did in this run."""
        self.allowance = allowance
        """How many rows it may go through in the thread that asked for it."""
        self.left: int | None = None
        """How many more of them; None if it runs in threads of the engine."""
        self.tried: BaseException | None = None
        """What a function raised while the query was being planned."""
        self.on_stop: Callable[[], None] | None = None
        """Ends what functions wait for elsewhere."""
        self.describe: Callable[[BaseException], OmnigraphError] = defect
        """What is said of a failure that is neither a limit nor an error of our family."""
        self._planner: int | None = threading.get_ident()
        self._held = 0
        self._lock = threading.RLock()

    def begin(self) -> None:
        """The query is planned, and runs."""
        self._planner = None

    def fail(self, error: BaseException) -> None:
        """A function raised something.

        Optimisers try functions with arguments of their own, and go on without an answer: in the thread that plans, it is
        the engine that decides whether the query fails.
        """
        if threading.get_ident() == self._planner:
            self.tried = error
        else:
            self.stop(error)

    def stop(self, reason: BaseException | None = None) -> None:
        """Let no function do any more work. Whoever waits for rows gets the reason."""
        with self._lock:
            if self.failure is None:
                self.failure = reason
            self.is_stopped = True
        if self.on_stop is not None:
            self.on_stop()

    def going(self) -> None:
        """Raise if the run was stopped."""
        if self.is_stopped:
            raise BadRequest("the query was cancelled")
        self.clock.check()

    def foresee(self, destinations: int) -> None:
        """Raise if a list of so many destinations should not be made."""
        if self.left is not None:
            self.left -= destinations
            if self.left < 0:
                raise TooLong
        wanted = self._held + destinations * 8
        if destinations > self.wide and self.first_rows > 1 and not self.is_shown:
            raise TooWide(destinations)
        if wanted > self.limits.memory:
            raise self.exhausted(wanted)

    def keep(self, size: int) -> None:
        """Count rows that stay until the run ends, and that the engine does not count; raise if they are too many."""
        with self._lock:
            self._held += size
        self.afford(0)

    def afford(self, size: int) -> None:
        """Raise if there is no memory for so many bytes more."""
        wanted = self._held + size
        if wanted > self.limits.memory:
            raise self.exhausted(wanted)

    def exhausted(self, actual: int) -> ResourceLimit:
        """The error of a query that needs more memory than it may take."""
        limit = self.limits.memory
        text = f"the query needs {shown_size(actual)} of memory, more than its limit of {shown_size(limit)}"
        hint = "narrow it down, return fewer columns, or allow more memory"
        return ResourceLimit(text, resource="memory", limit=limit, actual=actual, hint=hint)

    def tracked(self, found: Array) -> Array:
        """The same list, which counts as long as anybody holds it."""
        if not pa.types.is_large_list(found.type) or found.nbytes < _TRACKED_BYTES:
            return found
        with self._lock:
            self._held += found.nbytes
        base = _Hold(self, found, found.nbytes)
        buffers = found.buffers()[:2]
        return pa.Array.from_buffers(
            found.type, len(found), buffers, found.null_count, found.offset, [_rebased(found.values, base)]
        )

    def release(self, size: int) -> None:
        """A list is gone."""
        with self._lock:
            self._held -= size


class _Hold:
    """Stands behind the memory of a list: when it goes, nobody holds the list any more."""

    def __init__(self, execution: Execution, found: Array, size: int) -> None:
        self._execution, self._found, self._size = execution, found, size

    def __del__(self) -> None:
        self._execution.release(self._size)


def _rebased(values: Array, base: _Hold) -> Array:
    if pa.types.is_struct(values.type):
        fields = [_rebased(values.field(0), base), *(values.field(at) for at in range(1, values.type.num_fields))]
        return pa.StructArray.from_arrays(fields, fields=list(values.type))
    validity, data = values.buffers()
    data = pa.foreign_buffer(data.address, data.size, base)
    return pa.Array.from_buffers(values.type, len(values), [validity, data], values.null_count, values.offset)


def guarded(execution: Execution, bound: Bound) -> Callable[..., Array]:
    """A function that heeds the limits of a run and tells it what went wrong."""

    def run(*arrays: Array) -> Array:
        _enter()
        try:
            execution.going()
            if bound.destinations is not None:
                execution.foresee(bound.destinations(*arrays))
            if bound.at_once is not None:
                return _in_portions(execution, bound, bound.at_once, *arrays)
            found = _in_pieces(execution, bound, *arrays) if bound.is_search else bound.run(*arrays)
            return execution.tracked(found)
        except BaseException as error:
            execution.fail(error)
            raise
        finally:
            _leave()

    return run


@contextmanager
def calling() -> Iterator[None]:
    """Work in a thread of the engine that is not a function of a query, as reading from a source."""
    _enter()
    try:
        yield
    finally:
        _leave()


def calls_in_progress() -> int:
    """How many functions are at work in threads of the engine."""
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


def _in_pieces(execution: Execution, bound: Bound, *arrays: Array) -> Array:
    """Nobody knows beforehand how long a search takes and how much it finds: it is asked for a few rows at a time."""
    count, at, size, destinations = len(arrays[0]), 0, _FIRST_PIECE, 0
    found: list[Array] = []
    while at < count or not found:
        execution.going()
        started = time.perf_counter()
        piece = bound.run(*(array.slice(at, size) for array in arrays))
        found.append(piece)
        at += size
        destinations += len(piece.values)
        execution.foresee(destinations * count // min(at, count) if destinations > execution.wide else destinations)
        seconds = max(time.perf_counter() - started, 1e-6)
        size = max(1, min(int(size * _PIECE_SECONDS / seconds), size * 8))
    return found[0] if len(found) == 1 else pa.concat_arrays(found)


def _in_portions(execution: Execution, bound: Bound, size: int, *arrays: Array) -> Array:
    """So many rows at a time, so that the run can be ended in between."""
    found = []
    for at in range(0, max(len(arrays[0]), 1), size):
        execution.going()
        found.append(bound.run(*(array.slice(at, size) for array in arrays)))
    return found[0] if len(found) == 1 else pa.concat_arrays(found)


@contextmanager
def translated(execution: Execution) -> Iterator[None]:
    """What the engine raises inside becomes an error of our family, with the original as its cause."""
    try:
        yield
    except (OmnigraphError, TooWide, TooLong, KeyboardInterrupt):
        raise
    except Exception as error:
        execution.failure = execution.failure or execution.tried
        raise translate(error, execution) from (execution.failure or error)


def translate(error: Exception, execution: Execution) -> BaseException:
    """The error to raise for what the engine raised."""
    failure = execution.failure
    if isinstance(failure, OmnigraphError | TooWide | TooLong) or (
        failure is not None and not isinstance(failure, Exception)
    ):
        return failure
    if isinstance(error, OmnigraphError):
        return error
    text = str(error)
    if failure is None and "Resources exhausted" in text:
        return execution.exhausted(_wanted(text, execution.limits.memory))
    if failure is None and ("os error 28" in text or "No space left on device" in text):
        text = "there is no space left for the intermediate rows of the query"
        return Storage(text, storage_class="transient", hint="free space in the directory for temporary files")
    lost = lost_file(failure or error)
    if lost is not None:
        hint = "if an earlier version is read, a cleanup has removed it: read a later one; else restore it from a copy"
        return Storage(f"a table lacks a file: {lost} is gone", storage_class="not_found", hint=hint)
    return execution.describe(failure or error)


def defect(cause: BaseException) -> OmnigraphError:
    """Nothing that a query says can make the engine fail: it is our fault."""
    first = str(cause).strip().splitlines()[0] if str(cause).strip() else ""
    hint = "this is a defect in omnigraph-sql; please report it with the schema and the query"
    return Internal(f"the query could not be run: {type(cause).__name__}: {first}", hint=hint)


def _wanted(text: str, limit: int) -> int:
    found = _EXHAUSTED.search(text)
    return limit if found is None else limit + max(0, parse_size(found[1]) - parse_size(found[2]))
