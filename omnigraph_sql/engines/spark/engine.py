"""Read queries on Spark, with the same plans and functions as on DataFusion, rendered in Spark's dialect."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar
from uuid import uuid4

import pyarrow as pa

from omnigraph_sql.binding.binder import Binding, bind_names
from omnigraph_sql.binding.context import BoundFunction
from omnigraph_sql.binding.path_counts import count_overflow
from omnigraph_sql.engines.datafusion.engine import DataFusionEngine
from omnigraph_sql.engines.spark.cancellation import CancellableJob
from omnigraph_sql.engines.spark.errors import query_error
from omnigraph_sql.engines.spark.session import quiet_import, running_session
from omnigraph_sql.engines.spark.task_payload import TaskPayload, bare_snapshot, deterministic_plan
from omnigraph_sql.engines.spark.types import argument, restored, widened
from omnigraph_sql.errors import BadRequest
from omnigraph_sql.planner.dialects import DIALECTS, SqlStatement
from omnigraph_sql.planner.spark_types import spark_type
from omnigraph_sql.runtime.execution import Execution, RunSettings
from omnigraph_sql.runtime.plan_cache import PlanCache, PlannedQuery
from omnigraph_sql.runtime.request import READ_AHEAD_ROWS, ReadRequest
from omnigraph_sql.runtime.resources import Resources
from omnigraph_sql.runtime.streams import BatchStream, Fetched, Portion, wait_for
from omnigraph_sql.runtime.worker_threads import submit
from omnigraph_sql.topology.trace import Trace

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

T = TypeVar("T")
_DIALECT = DIALECTS["spark"]
_WIDE = 1 << 24
"""The most destinations that one function call may return: 128 MiB of them, in a worker and once more in Spark."""
_FEW_ROWS = 1 << 15
"""A query that starts from at most this many rows runs in one partition."""
_PART_ROWS = 1 << 14
"""Rows of a relation per task."""
_SPREAD = 128
"""The number of rows that a row counts for if a traversal starts from it."""
_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    # An overflow is an error.
    "spark.sql.ansi.enabled": "true",
    "spark.sql.execution.arrow.useLargeVarTypes": "false",
}
_FOR_FEW = {
    "spark.sql.shuffle.partitions": "1",
    # For few rows, these cost more than they save.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
}

_QUIET = threading.Lock()
"""Warning filters are process-wide: one thread at a time changes and restores them."""


@dataclass(frozen=True)
class SparkRun:
    """A planned and bound query in a Spark session of its own."""

    planned: PlannedQuery[None]
    binding: Binding
    spark: SparkSession
    task: CancellableJob
    trace: Trace

    def load(self, payload: bytes, batch_rows: int) -> None:
        """Register the relations and functions that the query names."""
        is_traversal = any(pa.types.is_large_list(bound.result) for bound in self.binding.functions.values())
        weight = _SPREAD if is_traversal else 1
        rows = weight * self.binding.longest
        settings = _SETTINGS | {"spark.sql.execution.arrow.maxRecordsPerBatch": str(batch_rows)}
        for key, value in (settings | (_FOR_FEW if rows <= _FEW_ROWS else {})).items():
            self.spark.conf.set(key, value)
        with _QUIET, quiet_import():
            self._register(payload, weight)

    def _register(self, payload: bytes, weight: int) -> None:
        for name, batch in self.binding.relations.items():
            frame = self.spark.createDataFrame(_widened(batch))
            parts = max(1, weight * batch.num_rows // _PART_ROWS)
            frame.coalesce(parts).createOrReplaceTempView(name)
        for name, bound in self.binding.functions.items():
            _register_function(self.spark, _DIALECT.function(name), payload, name, bound)

    def fill_temporary_tables(self) -> None:
        """Fill the temporary tables that the query reads."""
        for name, query in self.planned.stages:
            self._sql(_DIALECT.made(name, query), query)

    def run(self, prefix: str = "") -> DataFrame:
        """Return the query, or its EXPLAIN with that as a prefix."""
        query = self.planned.query
        return self._sql(f"{prefix}{query.sql}", query)

    def rows(self) -> pa.Table:
        """Run the query, and return all its rows."""
        return self.run().toArrow()

    def _sql(self, text: str, query: SqlStatement) -> DataFrame:
        return self.spark.sql(text, args={name: argument(self.binding.values[name]) for name in query.parameters})

    def finished(self) -> None:
        """Drop the temporary tables, and release the session."""
        self.task.close([name for name, _ in self.planned.stages])


class SparkRows:
    """The rows of a run, which Spark returns all at once."""

    is_interruptible = False

    def __init__(self, session: SparkRun, execution: Execution) -> None:
        self._session = session
        self._execution = execution
        self._lock = threading.Lock()
        self._is_busy = self._is_closed = False

    def submit(self, portion: Portion) -> Future[Fetched]:
        """Fetch the rows in a worker thread, which a cancelled reader can abandon."""
        return submit(partial(self.fetch, portion), self._session.task.stop)

    def fetch(self, portion: Portion) -> Fetched:  # noqa: ARG002 (there is only one portion)
        """Fetch all batches in the calling thread."""
        with self._lock:
            if self._is_closed:
                raise BadRequest("the query was cancelled")
            self._is_busy = True
        try:
            return _run(self._session, self._execution, self._read).to_batches(), True
        finally:
            with self._lock:
                self._is_busy, is_closed = False, self._is_closed
            if is_closed:
                self._session.finished()

    def _read(self) -> pa.Table:
        self._session.fill_temporary_tables()
        self._execution.check_cancelled()
        return self._session.rows()

    def close(self) -> None:
        """Cancel the run. The session is released by the thread that is reading, or here if there is none."""
        self._execution.stop()
        with self._lock:
            self._is_closed, is_busy = True, self._is_busy
        self._session.task.stop()
        if not is_busy:
            self._session.finished()


class SparkQueryEngine:
    """Runs read queries of one graph on Spark."""

    def __init__(self, resources: Resources) -> None:
        self.resources = resources
        self._plans: PlanCache[None] = PlanCache("spark", lambda: None)
        self._datafusion = DataFusionEngine(resources)
        """Evaluates the filters of vertices, in the driver and in the workers."""

    def start(self, request: ReadRequest) -> BatchStream:
        """Run a query, and return it with its rows read."""

        def run(execution: Execution) -> BatchStream:
            session = self.session(request, execution)
            stream = BatchStream(SparkRows(session, execution), session, execution, partial(_fit, request.schema))
            stream.read_ahead(Portion(READ_AHEAD_ROWS))
            return stream

        return self.resources.attempt(RunSettings(limits=request.limits), run)

    def session(self, request: ReadRequest, execution: Execution) -> SparkRun:
        """Plan a query, and register the names in its SQL in a new Spark session."""
        spark = running_session()  # starting Spark does not count as work of the query
        with execution.clock.running():
            return self._session(spark, request, execution)

    def _session(self, spark: SparkSession, request: ReadRequest, execution: Execution) -> SparkRun:
        scope = self._datafusion.scope(request, execution)
        cached = self._plans.of_query(request, scope)
        planned = replace(cached, plan=deterministic_plan(cached.plan, scope))
        binding = bind_names(planned.plan, scope, execution.clock.check)
        execution.end_short()
        execution.begin()
        name = f"omnigraph-{uuid4().hex}"
        max_destinations = min(_WIDE, execution.limits.memory // 32)
        task = TaskPayload(
            run=name,
            root=self.resources.root,
            saves=self.resources.saves,
            request=replace(request, snapshot=bare_snapshot(request.snapshot)),
            traversal=scope.traversal,
            functions=planned.plan.functions,
            inputs=planned.plan.inputs,
            batch_rows=execution.batch_rows,
            max_destinations=max_destinations,
        )
        payload = task.to_bytes()
        own = spark.newSession()
        session = SparkRun(planned, binding, own, CancellableJob(own, name), scope.trace)
        try:
            supervised(session, execution, lambda: session.load(payload, execution.batch_rows))
        except BaseException:
            session.finished()
            raise
        return session


def supervised(session: SparkRun, execution: Execution, work: Callable[[], T]) -> T:
    """Call `work` in a worker thread, and wait until the timeout of the run."""
    return wait_for(submit(lambda: _run(session, execution, work), session.task.stop), execution)


def _run(session: SparkRun, execution: Execution, work: Callable[[], T]) -> T:
    try:
        with session.task.running():
            execution.check_cancelled()
            return work()
    except Exception as error:
        raise query_error(error, execution) from error


def _widened(batch: pa.RecordBatch) -> pa.Table:
    return pa.table([widened(column) for column in batch.columns], names=batch.schema.names)


def _fit(schema: pa.Schema, batch: pa.RecordBatch) -> pa.RecordBatch:
    try:
        columns = [restored(column, field.type) for column, field in zip(batch.columns, schema, strict=True)]
    except pa.ArrowInvalid as error:
        # The sum of 64-bit integers is a wider decimal in Spark.
        raise count_overflow() from error
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _register_function(spark: SparkSession, name: str, payload: bytes, function: str, bound: BoundFunction) -> None:
    """Register a function of a plan in a session, as an Arrow UDF."""
    from pyspark.sql.functions import arrow_udf  # type: ignore[attr-defined]

    spark.udf.register(name, arrow_udf(_remote_call(payload, function), spark_type(bound.result)))


def _remote_call(payload: bytes, function: str) -> Callable[..., pa.Array]:
    def call(*columns: pa.Array) -> pa.Array:
        # This runs in a worker, which imports the package itself; only the closure is pickled.
        from omnigraph_sql.engines.spark.worker import call_function

        return call_function(payload, function, columns)

    return call
