"""Read queries on DuckDB: the tree that DataFusion runs, in DuckDB's words, with the same functions."""

from __future__ import annotations

import atexit
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
from omnigraph_sql.engines.binding import Binding, bind_names
from omnigraph_sql.engines.duckdb_connections import IDLE, Connection, heeding_keyboard
from omnigraph_sql.engines.execution import Execution, defect, guarded, translate
from omnigraph_sql.engines.fitting import fit
from omnigraph_sql.engines.limits import parse_size
from omnigraph_sql.engines.orders import READ_AHEAD_ROWS, Order
from omnigraph_sql.engines.planning import Planned, Plans
from omnigraph_sql.engines.resources import BATCH_ROWS, Resources
from omnigraph_sql.engines.scope import Array, Scope
from omnigraph_sql.engines.streaming import Fetched, Portion, Stream, Waiting, awaited
from omnigraph_sql.engines.threads import in_thread
from omnigraph_sql.engines.watching import Watched
from omnigraph_sql.engines.weights import too_many
from omnigraph_sql.errors import BadRequest, OmnigraphError
from omnigraph_sql.explanation import Explanation
from omnigraph_sql.planner.dialects import DIALECTS, Statement
from omnigraph_sql.planner.logical import Vertex
from omnigraph_sql.topology.trace import Trace

T = TypeVar("T")
_DIALECT = DIALECTS["duckdb"]
_VECTOR_ROWS = 2048
"""How many rows DuckDB works on at a time."""
_SHORT_SECONDS = 0.05
"""What is known to be short and is not done by then is left to another thread."""
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
def duck_type(kind: pa.DataType) -> sqltypes.DuckDBPyType:
    """The type of DuckDB for values of an Arrow type."""
    if pa.types.is_fixed_size_list(kind):
        return duckdb.array_type(duck_type(kind.value_type), kind.list_size)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return duckdb.list_type(duck_type(kind.value_type))
    if pa.types.is_struct(kind):
        return duckdb.struct_type({each.name: duck_type(each.type) for each in kind})
    if pa.types.is_decimal(kind):
        return duckdb.decimal_type(kind.precision, kind.scale)
    if pa.types.is_timestamp(kind):
        return sqltypes.TIMESTAMP if kind.tz is None else sqltypes.TIMESTAMP_TZ
    if kind not in _TYPES:
        raise BadRequest(f"DuckDB has no values of the type {kind}", hint="give a plain value of another type")
    return _TYPES[kind]


def duck_value(scalar: pa.Scalar) -> object:
    """A value for a parameter."""
    return duckdb.Value(scalar.as_py(), duck_type(scalar.type)) if scalar.is_valid else None


@dataclass(frozen=True)
class Session:
    """A query that DuckDB knows everything about, and its connection."""

    planned: Planned[None]
    binding: Binding
    connection: Connection
    trace: Trace

    def load(self, execution: Execution) -> None:
        """Tell DuckDB what the names in the query mean."""
        duck = self.connection.duck
        for name, batch in self.binding.relations.items():
            starts = range(0, max(batch.num_rows, 1), execution.batch_rows)
            duck.register(name, pa.Table.from_batches([batch.slice(at, execution.batch_rows) for at in starts]))
        for name, bound in self.binding.functions.items():
            create_function(duck, _DIALECT.function(name), guarded(execution, bound), bound.arguments, bound.result)

    def settle(self) -> None:
        """Make the tables that the query starts from."""
        for name, query in self.planned.stages:
            self.connection.duck.execute(_DIALECT.made(name, query), self._values(query))

    def run(self, prefix: str = "") -> duckdb.DuckDBPyRelation:
        """The rows of the query or, with EXPLAIN before it, what DuckDB says about it."""
        query = self.planned.query
        return self.connection.duck.sql(f"{prefix}{query.sql}", params=self._values(query))

    def is_short(self) -> bool:
        """Nobody knows."""
        return False

    def begin(self, _: Execution) -> pa.RecordBatchReader:
        """The rows as they come."""
        self.settle()
        return self.run().to_arrow_reader(self.batch_rows)

    @property
    def batch_rows(self) -> int:
        """How many rows to take at a time: vectors are wide."""
        kinds = [bound.result for bound in self.binding.functions.values()]
        width = sum(4 * kind.list_size for kind in kinds if pa.types.is_fixed_size_list(kind))
        return max(1, min(BATCH_ROWS, self.connection.memory // 8 // width)) if width else BATCH_ROWS

    def _values(self, query: Statement) -> dict[str, object]:
        return {name: duck_value(self.binding.values[name]) for name in query.parameters}

    def finished(self) -> None:
        """All rows were given: DuckDB forgets the names, and others may make use of the connection."""
        duck = self.connection.duck
        with heeding_keyboard():
            for name in self.binding.relations:
                duck.unregister(name)
            for name, _ in self.planned.stages:
                duck.execute(f"DROP TABLE {name}")
            for name in self.binding.functions:
                duck.remove_function(_DIALECT.function(name))
        IDLE.give(self.connection)


class Beginning(Protocol):
    """Something to run on a connection."""

    @property
    def connection(self) -> Connection:
        """A connection that is its own."""

    @property
    def batch_rows(self) -> int:
        """How many rows a batch has, if there are so many."""

    def is_short(self) -> bool:
        """Whether it is likely to be done in a moment. Asked once before it begins: it is no longer so if it begins anew."""

    def begin(self, execution: Execution) -> pa.RecordBatchReader:
        """The rows as they come."""


class Fetching:
    """The rows of a session, read by one thread at a time."""

    def __init__(self, session: Beginning, execution: Execution) -> None:
        self._session = session
        self._execution = execution
        self._lock = threading.Lock()
        self._is_busy = self._is_closed = False
        _LIVE.add(self)

    def ask(self, portion: Portion) -> Waiting[Fetched]:
        """Read in a thread that nobody has to wait for: DuckDB itself cannot be left in the middle.

        What is short is read by whoever asks for the result: to wait for another thread is a good part of the time it takes.
        """
        if self._session.connection.reader is None and self._session.is_short():
            return _Here(self, portion)
        return in_thread(partial(self.fetch, portion), self._session.connection.interrupt)

    def ask_anew(self, portion: Portion) -> Future[Fetched]:
        """Give up what was begun, and begin anew in another thread."""

        def work() -> Fetched:
            self._session.connection.drain()
            return self._read(portion)

        return in_thread(lambda: self._alone(work), self._session.connection.interrupt)

    def fetch(self, portion: Portion) -> Fetched:
        """The next batches, and whether they are the last."""
        return self._alone(lambda: self._read(portion))

    def fetch_watched(self, portion: Portion, watched: Watched) -> Fetched | None:
        """As `fetch`; None if it was stopped because it took too long, and is to begin anew."""
        return self._alone(lambda: self._read_watched(portion, watched))

    def watched(self) -> Watched:
        """Work of the connection that should be over in a moment."""
        return Watched(self._session.connection.interrupt, _SHORT_SECONDS)

    def _alone(self, work: Callable[[], T]) -> T:
        """Do something while nobody else makes use of the connection."""
        with self._lock:
            if self._is_closed:
                raise BadRequest("the query was cancelled")
            self._is_busy = True
        try:
            return work()
        except Exception as error:
            raise told(error, self._execution) from error
        finally:
            with self._lock:
                self._is_busy, is_closed = False, self._is_closed
            if is_closed:
                self._session.connection.close()

    def _read_watched(self, portion: Portion, watched: Watched) -> Fetched | None:
        try:
            with heeding_keyboard(), watched:
                found = self._read(portion)
        except Exception:
            if not watched.is_late or self._execution.is_stopped:
                raise
        else:
            is_last = found[1]
            if is_last or not watched.is_late:
                return found
        return None

    def _read(self, portion: Portion) -> Fetched:
        connection = self._session.connection
        if connection.reader is None:
            self._execution.going()
            connection.reader = self._session.begin(self._execution)
        batches: list[pa.RecordBatch] = []
        is_enough = portion.taken()
        # A batch that is not full is the last, or nearly: to find that out now saves whoever reads another turn.
        while not batches or not is_enough(batches[-1]) or batches[-1].num_rows < self._session.batch_rows:
            self._execution.going()
            try:
                batches.append(connection.reader.read_next_batch())
            except StopIteration:
                connection.reader = None
                return batches, True
        return batches, False

    def close(self) -> None:
        """Interrupt the work. Whoever reads lets go of the connection; else it is done at once."""
        self._execution.stop()
        with self._lock:
            self._is_closed, is_busy = True, self._is_busy
        self._session.connection.interrupt()
        if not is_busy:
            self._session.connection.close()


class _Here:
    """Rows that are likely to be there in a moment, read in the thread that asks for them; if they are not, in another."""

    def __init__(self, fetching: Fetching, portion: Portion) -> None:
        self._fetching = fetching
        self._portion = portion
        self._watched = fetching.watched()
        self._elsewhere: Future[Fetched] | None = None
        self._is_cancelled = False

    def result(self, timeout: float | None = None) -> Fetched:
        started = time.monotonic()
        found = self._fetching.fetch_watched(self._portion, self._watched)
        if found is not None:
            return found
        self._elsewhere = self._fetching.ask_anew(self._portion)
        if self._is_cancelled:  # meanwhile
            self._elsewhere.cancel()
        return self._elsewhere.result(None if timeout is None else max(0.0, timeout - time.monotonic() + started))

    def cancel(self) -> None:
        self._is_cancelled = True
        self._watched.stop()
        if self._elsewhere is not None:
            self._elsewhere.cancel()


_LIVE: weakref.WeakSet[Fetching] = weakref.WeakSet()


@atexit.register
def _stop_all() -> None:
    """Nobody reads any more. What is left to close is closed with the connections, after this."""
    for fetching in list(_LIVE):
        fetching.close()


class DuckEngine:
    """Runs read queries of one graph on DuckDB."""

    def __init__(self, resources: Resources) -> None:
        self.resources = resources
        self._plans: Plans[None] = Plans("duckdb", lambda: None)

    def start(self, order: Order) -> Stream:
        """Run a query until its first rows are there."""

        def run(execution: Execution) -> Stream:
            with execution.clock.running(), heeding_keyboard():
                session = self.session(order, execution)
            stream = Stream(Fetching(session, execution), session, execution, partial(_fit, order.schema, execution))
            stream.read_ahead(Portion(READ_AHEAD_ROWS))
            return stream

        return self.resources.attempt(order.limits, run)

    def explain(self, order: Order) -> Explanation:
        """How a query would run."""
        from omnigraph_sql.engines import duckdb_explaining

        return duckdb_explaining.explain(self, order)

    def analyze(self, order: Order) -> Explanation:
        """How a query ran: it is run to its end, and its rows are counted and dropped."""
        from omnigraph_sql.engines import duckdb_explaining

        return duckdb_explaining.analyze(self, order)

    def session(self, order: Order, execution: Execution) -> Session:
        """Plan a query, and bind everything that its SQL names to the data of its snapshot."""

        def allowed(vertex: Vertex, value: ir.PropertyRef | None) -> pa.Table:
            planned = self._plans.of_positions(order, scope, vertex, value)
            session = self._session(planned, replace(scope, memo={}), execution)
            return supervised(session, execution, lambda: session.run().to_arrow_table())

        execution.describe = _described
        scope = self.resources.scope(order, allowed)
        return self._session(self._plans.of_query(order, scope), scope, execution)

    def _session(self, planned: Planned[None], scope: Scope, execution: Execution) -> Session:
        binding = bind_names(planned.plan, scope, execution)
        # What a function is given at a time is bounded, except where it is given shorter batches of a relation as they are.
        # To begin again with those is worth it only if the run would fail.
        execution.first_rows = min(_VECTOR_ROWS, execution.batch_rows, binding.longest)
        execution.wide = execution.limits.memory // 16
        execution.begin()
        session = Session(planned, binding, IDLE.take(execution.limits.memory), scope.trace)
        try:
            session.load(execution)
        except BaseException:
            session.connection.close()
            raise
        return session


def supervised(session: Session, execution: Execution, work: Callable[[], T]) -> T:
    """Do the one thing that a session is for, in a thread that nobody has to wait for longer than there is time."""

    def run() -> T:
        try:
            session.settle()
            return work()
        except Exception as error:
            session.connection.close()
            raise told(error, execution) from error

    found = awaited(in_thread(run, session.connection.interrupt), execution)
    session.finished()
    return found


def told(error: Exception, execution: Execution) -> BaseException:
    """The error to raise for what DuckDB raised, or what is read from it."""
    text = str(error)
    if execution.failure is None:
        if "INTERRUPT Error" in text:
            return BadRequest("the query was cancelled", hint="run it again")
        if "Out of Memory Error" in text:
            found = _EXHAUSTED.search(text)
            sizes = (0, 0) if found is None else (parse_size(found[1]), parse_size(found[2]))
            return execution.exhausted(max(sum(sizes), execution.limits.memory))
    return translate(error, execution)


def _described(cause: BaseException) -> OmnigraphError:
    """What a query of ours can make DuckDB fail with is a sum that is too large."""
    return too_many() if "Out of Range Error: Overflow" in str(cause) else defect(cause)


def create_function(
    duck: duckdb.DuckDBPyConnection,
    name: str,
    run: Callable[..., Array],
    arguments: Sequence[pa.DataType],
    result: pa.DataType,
) -> None:
    """Make a function of arrays known; what it gives for some arguments it always gives."""
    duck.create_function(
        name,
        _called(run, arguments),
        [duck_type(kind) for kind in arguments],
        duck_type(result),
        type=PythonUDFType.ARROW,
        null_handling=FunctionNullHandling.SPECIAL,
        side_effects=False,
    )


def _called(run: Callable[..., Array], arguments: Sequence[pa.DataType]) -> Callable[..., Array]:
    def call(*columns: pa.ChunkedArray) -> Array:
        return run(*(_array(column, kind) for column, kind in zip(columns, arguments, strict=True)))

    # DuckDB asks how many arguments it takes.
    parameters = [Parameter(f"c{place}", Parameter.POSITIONAL_ONLY) for place in range(len(arguments))]
    call.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    return call


def _array(column: pa.ChunkedArray, kind: pa.DataType) -> Array:
    found = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return found if found.type == kind else found.cast(kind)


def _fit(schema: pa.Schema, execution: Execution, batch: pa.RecordBatch) -> pa.RecordBatch:
    try:
        return fit(batch, schema, execution)
    except pa.ArrowInvalid as error:
        # Sums of whole numbers are wider than the numbers.
        raise too_many() from error
