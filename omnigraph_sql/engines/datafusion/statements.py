"""Read-only SQL statements on DataFusion."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
from datafusion import DataFrame

from omnigraph_sql.caches import LruCache, Pool, SharedPools
from omnigraph_sql.engines.datafusion.bounded_functions import column_name
from omnigraph_sql.engines.datafusion.foreign_plans import is_explained, with_remote_sql
from omnigraph_sql.engines.datafusion.rows import DataFusionRows
from omnigraph_sql.engines.datafusion.sessions import GraphContext
from omnigraph_sql.errors import OmnigraphError
from omnigraph_sql.foreign.error_attribution import attributed_error
from omnigraph_sql.runtime.execution import Execution, RunClock, RunSettings, translated_errors
from omnigraph_sql.runtime.streams import BatchStream, CompleteRows, run_here, wait_for
from omnigraph_sql.runtime.worker_threads import submit
from omnigraph_sql.sql.errors import error_for_run
from omnigraph_sql.sql.refs import CatalogPin, StateRef
from omnigraph_sql.sql.resolver import NameResolver, SqlSource
from omnigraph_sql.sql.statement import READ_AHEAD, SqlRequest, result_batch, result_schema

_IDLE = 4
_MOST_QUICK = 256
_QUICK_SECONDS = 0.01
_SHORT_TEXT = 500
"""A shorter text cannot nest so deeply that its planning needs the large stack of a worker thread."""


@dataclass(frozen=True)
class RunningStatement:
    """The session and the frame of a running statement."""

    context: GraphContext
    frame: DataFrame
    give_back: Callable[[], None]

    def finished(self) -> None:
        """Return the session to the pool."""
        self.give_back()


class DataFusionStatements:
    """Runs statements on pooled sessions."""

    def __init__(self, source: SqlSource, pools: SharedPools) -> None:
        self._source = source
        self._idle: Pool[tuple[CatalogPin | None, StateRef, int], GraphContext] = pools.of("datafusion", lambda: Pool(_IDLE))
        """Sessions by their catalog, default state and memory limit."""
        self._quick: LruCache[Hashable, bool] = LruCache(_MOST_QUICK)
        """Statements that were planned quickly."""

    def start(self, statement: SqlRequest) -> tuple[pa.Schema, BatchStream | CompleteRows]:
        """Run a statement, and return it with its first rows read."""
        clock = RunClock(statement.limits.timeout, statement.spent)
        execution = Execution(RunSettings(limits=statement.limits), clock)
        context = self._take(statement)
        with execution.clock.running():
            frame, rows = self._planned(context, statement, execution)
        execution.begin()
        reading = context.graph.resolver.reading
        with translated_errors(execution):
            schema = result_schema(pa.schema([field.with_name(column_name(field.name)) for field in frame.schema()]))
        running = RunningStatement(context, frame, lambda: self._give(statement, context))
        stream = BatchStream(rows, running, execution, lambda batch: result_batch(batch, schema))
        stream.read_ahead(READ_AHEAD)
        return schema, with_remote_sql(stream, schema, reading) if reading.is_remote and is_explained(frame) else stream

    def _planned(
        self, context: GraphContext, statement: SqlRequest, execution: Execution
    ) -> tuple[DataFrame, DataFusionRows]:
        """Plan a statement, in a worker thread, which a cancelled caller can abandon: planning cannot be interrupted.

        A short text that was planned quickly on the same state is planned in the calling thread: it saves two switches.
        """
        work = partial(_plan, context, statement, execution)
        key = _repeatable(statement)
        if key is not None and self._quick.peek(key) and not _is_foreign_thread():
            return run_here(work, execution)
        since = time.monotonic()
        planned = wait_for(submit(work, execution.stop), execution)
        if key is not None and time.monotonic() - since < _QUICK_SECONDS:
            self._quick.get(key, lambda: True)
        return planned

    def _key(self, statement: SqlRequest) -> tuple[CatalogPin | None, StateRef, int]:
        return self._source.pin, statement.default_state, statement.limits.memory

    def _take(self, statement: SqlRequest) -> GraphContext:
        context = self._idle.take(self._key(statement))
        if context is None:
            return GraphContext(self._source, statement.default_state, statement.limits.memory)
        context.graph.read_from(self._source)
        return context

    def _give(self, statement: SqlRequest, context: GraphContext) -> None:
        self._idle.give(self._key(statement), context)


def _repeatable(statement: SqlRequest) -> Hashable | None:
    """What tells whether a statement is the same as an earlier one; None if it may take longer another time."""
    state = statement.states.get(statement.default_state)
    if statement.params or state is None or len(statement.text) > _SHORT_TEXT:
        return None
    return statement.text, statement.default_state, state.branch, state.manifest_version, state.commit_id


def _is_foreign_thread() -> bool:
    """True in a thread that Python did not start, as those of engines, in which DataFusion cannot plan."""
    return isinstance(threading.current_thread(), threading._DummyThread)


def _plan(context: GraphContext, statement: SqlRequest, execution: Execution) -> tuple[DataFrame, DataFusionRows]:
    """Plan a statement, and start to run it."""
    execution.plan_in_this_thread()
    frame = context.read(statement.text, statement.params, statement.states, execution)
    execution.check_cancelled()
    context.graph.resolver.reason()  # forget the look-ups that failed without harm: of the names of functions as tables
    execution.describe_failures(partial(_error_for_run, context.graph.resolver))
    with translated_errors(execution):
        # Only the rows refer to the stream: an exception keeps frames alive, which would keep the query running.
        return frame, DataFusionRows(frame.execute_stream())


def _error_for_run(resolver: NameResolver, cause: BaseException) -> OmnigraphError:
    return resolver.reason() or attributed_error(str(cause), resolver.reading) or error_for_run(str(cause))
