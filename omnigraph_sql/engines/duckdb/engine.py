"""Read queries on DuckDB, with the same plans and functions as on DataFusion, rendered in DuckDB's dialect."""

from __future__ import annotations

import re
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import cache, partial
from inspect import Parameter, Signature
from typing import Protocol, TypeVar

import duckdb
import pyarrow as pa
from duckdb import sqltypes
from duckdb.func import FunctionNullHandling, PythonUDFType

from omnigraph_compiler import ir
from omnigraph_sql.binding.binder import Binding, bind_names
from omnigraph_sql.binding.context import Array, BindContext
from omnigraph_sql.binding.path_counts import count_overflow
from omnigraph_sql.engines.duckdb.connections import IDLE, Connection, keyboard_interrupts
from omnigraph_sql.engines.duckdb.watchdog import WatchedWork
from omnigraph_sql.errors import BadRequest, OmnigraphError
from omnigraph_sql.planner.dialects import DIALECTS, SqlStatement
from omnigraph_sql.planner.logical import Vertex
from omnigraph_sql.runtime.casts import cast_batch
from omnigraph_sql.runtime.execution import (
    BATCH_ROWS,
    Execution,
    RunSettings,
    engine_error,
    error_for_defect,
    guarded_function,
)
from omnigraph_sql.runtime.limits import RunLimits, parse_size
from omnigraph_sql.runtime.plan_cache import PlanCache, PlannedQuery
from omnigraph_sql.runtime.request import READ_AHEAD_ROWS, ReadRequest
from omnigraph_sql.runtime.resources import Resources
from omnigraph_sql.runtime.shutdown import Stage, at_shutdown
from omnigraph_sql.runtime.streams import BatchStream, Fetched, PendingBatches, Portion, wait_for
from omnigraph_sql.runtime.worker_threads import submit
from omnigraph_sql.topology.trace import Trace

T = TypeVar("T")
_DIALECT = DIALECTS["duckdb"]
_VECTOR_ROWS = 2048
"""The number of rows that DuckDB processes at a time."""
_SHORT_SECONDS = 0.05
"""A run that is expected to be short and takes longer continues in a worker thread."""
_EXHAUSTED = re.compile(r"of size ([0-9.]+ [KMGT]?i?B\w*) \(([0-9.]+ [KMGT]?i?B\w*)/")
_TYPES = {
    pa.null(): sqltypes.SQLNULL,
    pa.bool_(): sqltypes.BOOLEAN,
    pa.int8(): sqltypes.TINYINT,
    pa.int16(): sqltypes.SMALLINT,
    pa.int32(): sqltypes.INTEGER,
    pa.int64(): sqltypes.BIGINT,
    pa.uint8(): sqltypes.UTINYINT,
    pa.uint16(): sqltypes.USMALLINT,
    pa.uint32(): sqltypes.UINTEGER,
    pa.uint64(): sqltypes.UBIGINT,
    pa.float16(): sqltypes.FLOAT,
    pa.float32(): sqltypes.FLOAT,
    pa.float64(): sqltypes.DOUBLE,
    pa.string(): sqltypes.VARCHAR,
    pa.large_string(): sqltypes.VARCHAR,
    pa.string_view(): sqltypes.VARCHAR,
    pa.binary(): sqltypes.BLOB,
    pa.large_binary(): sqltypes.BLOB,
    pa.binary_view(): sqltypes.BLOB,
    pa.date32(): sqltypes.DATE,
    pa.time64("us"): sqltypes.TIME,
    pa.duration("us"): sqltypes.INTERVAL,
}


@cache
def duckdb_type_of(kind: pa.DataType) -> sqltypes.DuckDBPyType:
    """Return the DuckDB type of an Arrow type."""
    if pa.types.is_fixed_size_list(kind):
        return duckdb.array_type(duckdb_type_of(kind.value_type), kind.list_size)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return duckdb.list_type(duckdb_type_of(kind.value_type))
    if pa.types.is_struct(kind):
        return duckdb.struct_type({field.name: duckdb_type_of(field.type) for field in kind})
    if pa.types.is_decimal(kind):
        return duckdb.decimal_type(kind.precision, kind.scale)
    if pa.types.is_timestamp(kind):
        return sqltypes.TIMESTAMP if kind.tz is None else sqltypes.TIMESTAMP_TZ
    if kind not in _TYPES:
        raise BadRequest(f"DuckDB has no values of the type {kind}", hint="give a plain value of another type")
    return _TYPES[kind]


def duckdb_value(scalar: pa.Scalar) -> object:
    """Return a scalar as the value of a parameter."""
    return duckdb.Value(scalar.as_py(), duckdb_type_of(scalar.type)) if scalar.is_valid else None


@dataclass(frozen=True)
class DuckDBRun:
    """A planned and bound query on a connection of its own."""

    planned: PlannedQuery[None]
    binding: Binding
    connection: Connection
    trace: Trace

    def load(self, execution: Execution) -> None:
        """Register the relations and functions that the query names."""
        duck = self.connection.duck
        for name, batch in self.binding.relations.items():
            starts = range(0, max(batch.num_rows, 1), execution.batch_rows)
            duck.register(name, pa.Table.from_batches([batch.slice(at, execution.batch_rows) for at in starts]))
        for name, bound in self.binding.functions.items():
            create_function(duck, _DIALECT.function(name), guarded_function(execution, bound), bound.arguments, bound.result)

    def fill_temporary_tables(self) -> None:
        """Fill the temporary tables that the query reads."""
        for name, query in self.planned.stages:
            self.connection.duck.execute(_DIALECT.made(name, query), self._values(query))

    def run(self, prefix: str = "") -> duckdb.DuckDBPyRelation:
        """Return the rows of the query, or of its EXPLAIN with that as a prefix."""
        query = self.planned.query
        return self.connection.duck.sql(f"{prefix}{query.sql}", params=self._values(query))

    def is_short(self) -> bool:
        """DuckDB gives no estimate: queries always run in a worker thread."""
        return False

    def begin(self, _: Execution) -> pa.RecordBatchReader:
        """Start the query."""
        self.fill_temporary_tables()
        return self.run().to_arrow_reader(self.batch_rows)

    @property
    def batch_rows(self) -> int:
        """The number of rows in a batch: fewer if the query returns vectors."""
        kinds = [bound.result for bound in self.binding.functions.values()]
        width = sum(4 * kind.list_size for kind in kinds if pa.types.is_fixed_size_list(kind))
        return max(1, min(BATCH_ROWS, self.connection.memory // 8 // width)) if width else BATCH_ROWS

    def _values(self, query: SqlStatement) -> dict[str, object]:
        return {name: duckdb_value(self.binding.values[name]) for name in query.parameters}

    def finished(self) -> None:
        """Drop the names of the query, and return the connection to the pool."""
        duck = self.connection.duck
        with keyboard_interrupts():
            for name in self.binding.relations:
                duck.unregister(name)
            for name, _ in self.planned.stages:
                duck.execute(f"DROP TABLE {name}")
            for name in self.binding.functions:
                duck.remove_function(_DIALECT.function(name))
        IDLE.give(self.connection)


class StartingRun(Protocol):
    """A query or statement that runs on a connection of its own."""

    @property
    def connection(self) -> Connection:
        """The connection."""

    @property
    def batch_rows(self) -> int:
        """The number of rows in a full batch."""

    def is_short(self) -> bool:
        """True if the run is likely to end within milliseconds. Called once; a restarted run is not short."""

    def begin(self, execution: Execution) -> pa.RecordBatchReader:
        """Start the run."""


class DuckDBRows:
    """The rows of a run, read by one thread at a time."""

    is_interruptible = False

    def __init__(self, session: StartingRun, execution: Execution) -> None:
        self._session = session
        self._execution = execution
        self._lock = threading.Lock()
        self._is_busy = self._is_closed = False
        _LIVE.add(self)

    def submit(self, portion: Portion) -> PendingBatches[Fetched]:
        """Fetch batches in a worker thread, which a cancelled reader can abandon: DuckDB may not react to an interrupt.

        A short run is read by the thread that calls `result`: switching threads would take a large part of its time.
        """
        if self._session.connection.reader is None and self._session.is_short():
            return _BatchesInCallerThread(self, portion)
        return submit(partial(self.fetch, portion), self._session.connection.interrupt)

    def restart(self, portion: Portion) -> Future[Fetched]:
        """Discard the started run, and start it again in a worker thread."""

        def work() -> Fetched:
            self._session.connection.drain()
            return self._read(portion)

        return submit(lambda: self._exclusive(work), self._session.connection.interrupt)

    def fetch(self, portion: Portion) -> Fetched:
        """Fetch batches in the calling thread."""
        return self._exclusive(lambda: self._read(portion))

    def fetch_watched(self, portion: Portion, watched: WatchedWork) -> Fetched | None:
        """Fetch batches under the watchdog; return None if it has interrupted them, so that the run must be restarted."""
        return self._exclusive(lambda: self._read_watched(portion, watched))

    def watched(self) -> WatchedWork:
        """Return the work that the watchdog interrupts when a short run takes too long."""
        return WatchedWork(self._session.connection.interrupt, _SHORT_SECONDS)

    def _exclusive(self, work: Callable[[], T]) -> T:
        """Call `work` with exclusive use of the connection."""
        with self._lock:
            if self._is_closed:
                raise BadRequest("the query was cancelled")
            self._is_busy = True
        try:
            return work()
        except Exception as error:
            raise run_error(error, self._execution) from error
        finally:
            with self._lock:
                self._is_busy, is_closed = False, self._is_closed
            if is_closed:
                self._session.connection.close()

    def _read_watched(self, portion: Portion, watched: WatchedWork) -> Fetched | None:
        try:
            with keyboard_interrupts(), watched:
                fetched = self._read(portion)
        except Exception:
            if not watched.is_late or self._execution.is_stopped:
                raise
        else:
            _, is_last = fetched
            if is_last or not watched.is_late:
                return fetched
        return None

    def _read(self, portion: Portion) -> Fetched:
        connection = self._session.connection
        if connection.reader is None:
            self._execution.check_cancelled()
            connection.reader = self._session.begin(self._execution)
        batches: list[pa.RecordBatch] = []
        is_enough = portion.new_counter()
        # A short batch is usually the last: reading on to make sure saves the reader one more request.
        while not batches or not is_enough(batches[-1]) or batches[-1].num_rows < self._session.batch_rows:
            self._execution.check_cancelled()
            try:
                batches.append(connection.reader.read_next_batch())
            except StopIteration:
                connection.reader = None
                return batches, True
        return batches, False

    def close(self) -> None:
        """Interrupt the run. The connection is closed by the thread that is reading, or here if there is none."""
        self._execution.stop()
        with self._lock:
            self._is_closed, is_busy = True, self._is_busy
        self._session.connection.interrupt()
        if not is_busy:
            self._session.connection.close()


class _BatchesInCallerThread:
    """Batches of a short run, fetched by the thread that calls `result`; by a worker thread if that takes too long."""

    def __init__(self, rows: DuckDBRows, portion: Portion) -> None:
        self._rows = rows
        self._portion = portion
        self._watched = rows.watched()
        self._restarted: Future[Fetched] | None = None
        self._is_cancelled = False

    def result(self, timeout: float | None = None) -> Fetched:
        started = time.monotonic()
        fetched = self._rows.fetch_watched(self._portion, self._watched)
        if fetched is not None:
            return fetched
        self._restarted = self._rows.restart(self._portion)
        if self._is_cancelled:  # another thread may have cancelled it meanwhile
            self._restarted.cancel()
        return self._restarted.result(None if timeout is None else max(0.0, timeout - time.monotonic() + started))

    def cancel(self) -> None:
        self._is_cancelled = True
        self._watched.stop()
        if self._restarted is not None:
            self._restarted.cancel()


_LIVE: weakref.WeakSet[DuckDBRows] = weakref.WeakSet()


@at_shutdown(Stage.RUNS)
def _stop_all() -> None:
    """Stop all runs; the next stage closes the remaining connections."""
    for rows in list(_LIVE):
        rows.close()


class DuckDBEngine:
    """Runs read queries of one graph on DuckDB."""

    def __init__(self, resources: Resources) -> None:
        self.resources = resources
        self._plans: PlanCache[None] = PlanCache("duckdb", lambda: None)

    def start(self, request: ReadRequest) -> BatchStream:
        """Run a query, and return it with its first rows read."""

        def run(execution: Execution) -> BatchStream:
            with execution.clock.running(), keyboard_interrupts():
                session = self.session(request, execution)
            stream = BatchStream(
                DuckDBRows(session, execution), session, execution, partial(_fit, request.schema, execution)
            )
            stream.read_ahead(Portion(READ_AHEAD_ROWS))
            return stream

        return self.resources.attempt(run_settings(request.limits), run)

    def session(self, request: ReadRequest, execution: Execution) -> DuckDBRun:
        """Plan a query, and bind the names in its SQL to the data of its snapshot."""

        def allowed(vertex: Vertex, value: ir.PropertyRef | None) -> pa.Table:
            planned = self._plans.of_positions(request, scope, vertex, value)
            session = self._session(planned, replace(scope, memo={}), execution)
            return supervised(session, execution, lambda: session.run().to_arrow_table())

        scope = self.resources.scope(request, allowed)
        return self._session(self._plans.of_query(request, scope), scope, execution)

    def _session(self, planned: PlannedQuery[None], context: BindContext, execution: Execution) -> DuckDBRun:
        binding = bind_names(planned.plan, context, execution.clock.check)
        execution.expect_first_rows(min(_VECTOR_ROWS, execution.batch_rows, binding.longest))
        execution.begin()
        session = DuckDBRun(planned, binding, IDLE.take(execution.limits.memory), context.trace)
        try:
            session.load(execution)
        except BaseException:
            session.connection.close()
            raise
        return session


def run_settings(limits: RunLimits) -> RunSettings:
    """Return the settings of a run on DuckDB.

    DuckDB bounds the rows of each function call, except that it passes shorter batches of a relation on as they are. A
    restart with such batches is worth its time only if the run would fail otherwise, so the limit of destinations is high.
    """
    return RunSettings(limits=limits, widest=limits.memory // 16, describe=_error_for_query)


def supervised(session: DuckDBRun, execution: Execution, work: Callable[[], T]) -> T:
    """Call `work` once in a worker thread, wait until the timeout of the run, and finish the session."""

    def run() -> T:
        try:
            session.fill_temporary_tables()
            return work()
        except Exception as error:
            session.connection.close()
            raise run_error(error, execution) from error

    result = wait_for(submit(run, session.connection.interrupt), execution)
    session.finished()
    return result


def run_error(error: Exception, execution: Execution) -> BaseException:
    """Return the error to raise for an exception of DuckDB, or of a reader of its rows."""
    text = str(error)
    if execution.failure is None:
        if "INTERRUPT Error" in text:
            return BadRequest("the query was cancelled", hint="run it again")
        if "Out of Memory Error" in text:
            match = _EXHAUSTED.search(text)
            sizes = (0, 0) if match is None else (parse_size(match[1]), parse_size(match[2]))
            return execution.error_for_memory(max(sum(sizes), execution.limits.memory))
    return engine_error(error, execution)


def _error_for_query(cause: BaseException) -> OmnigraphError:
    """Return the error of a `.gq` query that DuckDB failed: apart from defects, only a sum can overflow."""
    return count_overflow() if "Out of Range Error: Overflow" in str(cause) else error_for_defect(cause)


def create_function(
    duck: duckdb.DuckDBPyConnection,
    name: str,
    run: Callable[..., Array],
    arguments: Sequence[pa.DataType],
    result: pa.DataType,
) -> None:
    """Register a deterministic function over arrays."""
    duck.create_function(
        name,
        _adapted(run, arguments),
        [duckdb_type_of(kind) for kind in arguments],
        duckdb_type_of(result),
        type=PythonUDFType.ARROW,
        null_handling=FunctionNullHandling.SPECIAL,
        side_effects=False,
    )


def _adapted(run: Callable[..., Array], arguments: Sequence[pa.DataType]) -> Callable[..., Array]:
    """Wrap a function so that DuckDB can inspect its arity, and the function gets arrays of its argument types."""

    def call(*columns: pa.ChunkedArray) -> Array:
        return run(*(_array(column, kind) for column, kind in zip(columns, arguments, strict=True)))

    parameters = [Parameter(f"c{place}", Parameter.POSITIONAL_ONLY) for place in range(len(arguments))]
    call.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    return call


def _array(column: pa.ChunkedArray, kind: pa.DataType) -> Array:
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return array if array.type == kind else array.cast(kind)


def _fit(schema: pa.Schema, execution: Execution, batch: pa.RecordBatch) -> pa.RecordBatch:
    try:
        return cast_batch(batch, schema, execution)
    except pa.ArrowInvalid as error:
        # The sum of 64-bit integers has 128 bits in DuckDB.
        raise count_overflow() from error
