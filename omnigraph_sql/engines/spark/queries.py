"""Read queries on Spark: the tree that DataFusion runs, in Spark's words, with the same functions in its workers."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar
from uuid import uuid4

import pyarrow as pa

from omnigraph_sql.engines.binding import Binding, bind_names
from omnigraph_sql.engines.datafusion import QueryEngine
from omnigraph_sql.engines.execution import Execution
from omnigraph_sql.engines.orders import READ_AHEAD_ROWS, Order
from omnigraph_sql.engines.planning import Planned, Plans
from omnigraph_sql.engines.resources import Resources
from omnigraph_sql.engines.spark.functions import register
from omnigraph_sql.engines.spark.parcels import parcel, settled
from omnigraph_sql.engines.spark.reports import told
from omnigraph_sql.engines.spark.session import quiet_import, running_session
from omnigraph_sql.engines.spark.tasks import Task
from omnigraph_sql.engines.spark.types import argument, restored, widened
from omnigraph_sql.engines.streaming import Fetched, Portion, Stream, awaited
from omnigraph_sql.engines.threads import in_thread
from omnigraph_sql.engines.weights import too_many
from omnigraph_sql.errors import BadRequest
from omnigraph_sql.explanation import Explanation
from omnigraph_sql.planner.dialects import DIALECTS, Statement
from omnigraph_sql.topology.trace import Trace

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

T = TypeVar("T")
_DIALECT = DIALECTS["spark"]
_WIDE = 1 << 24
"""Destinations that one call should give at most: 128 MiB of them, in a worker and once more in Spark."""
_FEW_ROWS = 1 << 15
"""A query that starts from no more rows than this is not divided."""
_PART_ROWS = 1 << 14
"""Rows of a relation that are worth a task of their own."""
_SPREAD = 128
"""What a row is worth that leads to others."""
_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    # A sum that does not fit is an error, not another number.
    "spark.sql.ansi.enabled": "true",
    "spark.sql.execution.arrow.useLargeVarTypes": "false",
}
_FOR_FEW = {
    "spark.sql.shuffle.partitions": "1",
    # What these take is more than what they save.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
}

_QUIET = threading.Lock()
"""What Python warns of is the same for all threads: one at a time changes it, and puts it back."""


@dataclass(frozen=True)
class Session:
    """A query that a session of Spark knows everything about. The session is its own, so are the names in it."""

    planned: Planned[None]
    binding: Binding
    spark: SparkSession
    task: Task
    trace: Trace

    def load(self, sent: bytes, batch_rows: int) -> None:
        """Tell Spark what the names in the query mean."""
        worth = _SPREAD if any(pa.types.is_large_list(each.result) for each in self.binding.functions.values()) else 1
        rows = worth * self.binding.longest
        settings = _SETTINGS | {"spark.sql.execution.arrow.maxRecordsPerBatch": str(batch_rows)}
        for key, value in (settings | (_FOR_FEW if rows <= _FEW_ROWS else {})).items():
            self.spark.conf.set(key, value)
        with _QUIET, quiet_import():
            self._name(sent, worth)

    def _name(self, sent: bytes, worth: int) -> None:
        for name, batch in self.binding.relations.items():
            frame = self.spark.createDataFrame(_widened(batch))
            parts = max(1, worth * batch.num_rows // _PART_ROWS)
            frame.coalesce(parts).createOrReplaceTempView(name)
        for name, bound in self.binding.functions.items():
            register(self.spark, _DIALECT.function(name), sent, name, bound)

    def settle(self) -> None:
        """Make the tables that the query starts from."""
        for name, query in self.planned.stages:
            self._asked(_DIALECT.made(name, query), query)

    def run(self, prefix: str = "") -> DataFrame:
        """The query or, with EXPLAIN before it, what Spark says about it."""
        query = self.planned.query
        return self._asked(f"{prefix}{query.sql}", query)

    def rows(self) -> pa.Table:
        """All rows of the query."""
        return self.run().toArrow()

    def _asked(self, text: str, query: Statement) -> DataFrame:
        return self.spark.sql(text, args={name: argument(self.binding.values[name]) for name in query.parameters})

    def finished(self) -> None:
        """Spark has done all it was asked to."""
        self.task.close([name for name, _ in self.planned.stages])


class Fetching:
    """The rows of a session: all of them come at once."""

    def __init__(self, session: Session, execution: Execution) -> None:
        self._session = session
        self._execution = execution
        self._lock = threading.Lock()
        self._is_busy = self._is_closed = False

    def ask(self, portion: Portion) -> Future[Fetched]:
        """Read in a thread that nobody has to wait for."""
        return in_thread(partial(self.fetch, portion), self._session.task.stop)

    def fetch(self, portion: Portion) -> Fetched:  # noqa: ARG002 (there are no fewer than all)
        """All batches."""
        with self._lock:
            if self._is_closed:
                raise BadRequest("the query was cancelled")
            self._is_busy = True
        try:
            return _run(self._session, self._execution, self._session.rows).to_batches(), True
        finally:
            with self._lock:
                self._is_busy, is_closed = False, self._is_closed
            if is_closed:
                self._session.finished()

    def fetch_if_short(self, portion: Portion) -> Fetched | None:  # noqa: ARG002 (it never is)
        """A job takes longer than that."""
        return None

    def close(self) -> None:
        """Stop the work. Whoever reads lets go of the session; else it is done at once."""
        self._execution.stop()
        with self._lock:
            self._is_closed, is_busy = True, self._is_busy
        self._session.task.stop()
        if not is_busy:
            self._session.finished()


class SparkEngine:
    """Runs read queries of one graph on Spark."""

    def __init__(self, resources: Resources) -> None:
        self.resources = resources
        self._plans: Plans[None] = Plans("spark", lambda: None)
        self._beside = QueryEngine(resources)
        """Finds the nodes that parts of a query allow, here and in the workers."""

    def start(self, order: Order) -> Stream:
        """Run a query until its rows are there."""

        def run(execution: Execution) -> Stream:
            session = self.session(order, execution)
            stream = Stream(Fetching(session, execution), session, execution, partial(_fit, order.schema))
            stream.read_ahead(Portion(READ_AHEAD_ROWS))
            return stream

        return self.resources.attempt(order.limits, run)

    def explain(self, order: Order) -> Explanation:
        """How a query would run."""
        from omnigraph_sql.engines.spark import explaining

        return explaining.explain(self, order)

    def analyze(self, order: Order) -> Explanation:
        """How a query ran: it is run to its end, and its rows are counted and dropped."""
        from omnigraph_sql.engines.spark import explaining

        return explaining.analyze(self, order)

    def session(self, order: Order, execution: Execution) -> Session:
        """Plan a query, and tell Spark and its workers what everything in its SQL means."""
        spark = running_session()  # to start it is no work of the query
        with execution.clock.running():
            return self._session(spark, order, execution)

    def _session(self, spark: SparkSession, order: Order, execution: Execution) -> Session:
        scope = self._beside.scope(order, execution)
        found = self._plans.of_query(order, scope)
        planned = replace(found, plan=settled(found.plan, scope))
        binding = bind_names(planned.plan, scope, execution)
        execution.first_rows, execution.left = execution.batch_rows, None
        execution.wide = min(_WIDE, execution.limits.memory // 32)
        execution.begin()
        name = f"omnigraph-{uuid4().hex}"
        used = execution.batch_rows, execution.wide
        sent = parcel(name, self.resources, order, scope, planned.plan, *used).to_bytes()
        own = spark.newSession()
        session = Session(planned, binding, own, Task(own, name), scope.trace)
        try:
            supervised(session, execution, lambda: session.load(sent, execution.batch_rows))
        except BaseException:
            session.finished()
            raise
        return session


def supervised(session: Session, execution: Execution, work: Callable[[], T]) -> T:
    """Do something with a session in a thread that nobody has to wait for longer than there is time."""
    return awaited(in_thread(lambda: _run(session, execution, work, settles=False), session.task.stop), execution)


def _run(session: Session, execution: Execution, work: Callable[[], T], *, settles: bool = True) -> T:
    try:
        with session.task.running():
            if settles:
                session.settle()
            execution.going()
            return work()
    except Exception as error:
        raise told(error, execution) from error


def _widened(batch: pa.RecordBatch) -> pa.Table:
    return pa.table([widened(column) for column in batch.columns], names=batch.schema.names)


def _fit(schema: pa.Schema, batch: pa.RecordBatch) -> pa.RecordBatch:
    try:
        columns = [restored(column, field.type) for column, field in zip(batch.columns, schema, strict=True)]
    except pa.ArrowInvalid as error:
        # Sums of whole numbers are wider than the numbers.
        raise too_many() from error
    return pa.RecordBatch.from_arrays(columns, schema=schema)
