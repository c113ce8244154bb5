"""Read queries on DataFusion."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
import pyarrow as pa
from datafusion import DataFrame, ExecutionPlan, SessionContext, udf

from omnigraph_compiler import ir
from omnigraph_sql.binding.binder import Binding, bind_names
from omnigraph_sql.binding.context import BindContext
from omnigraph_sql.binding.count_shortcut import shortcut_count
from omnigraph_sql.engines.datafusion.prepared_plans import (
    PlanPool,
    PreparedPlan,
    SessionPool,
    Setting,
    new_session,
    plan_signature,
)
from omnigraph_sql.engines.datafusion.rows import DataFusionRows
from omnigraph_sql.planner import plan_functions as fn
from omnigraph_sql.planner.dialects import SqlStatement
from omnigraph_sql.planner.logical import Vertex
from omnigraph_sql.planner.plan import SqlPlan
from omnigraph_sql.runtime.casts import cast_batch
from omnigraph_sql.runtime.execution import BATCH_ROWS, Execution, RunSettings, guarded_function, translated_errors
from omnigraph_sql.runtime.plan_cache import PlanCache, PlannedQuery
from omnigraph_sql.runtime.request import READ_AHEAD_ROWS, ReadRequest
from omnigraph_sql.runtime.resources import Resources
from omnigraph_sql.runtime.streams import BatchStream, CompleteRows, Portion
from omnigraph_sql.topology.trace import Trace

LONG_BATCH_ROWS = 65_536
MANY_ROWS = 500_000


@dataclass(frozen=True)
class PhysicalRun:
    """A query that DataFusion has planned. The frame must not outlive the context."""

    context: SessionContext
    frame: DataFrame
    give_back: Callable[[], None]
    """Returns the plan and the session to their pools; called after the last row."""
    execution_plan: Callable[[], ExecutionPlan]
    """Returns the physical plan, a new or a pooled one."""


@dataclass(frozen=True)
class DataFusionRun:
    """A planned and bound query, ready to run."""

    planned: PlannedQuery[PlanPool]
    binding: Binding
    running: PhysicalRun
    trace: Trace
    is_short: bool
    """True if the time of the query is bounded by the number of its input rows."""

    @cached_property
    def physical(self) -> ExecutionPlan:
        """The physical plan."""
        return self.running.execution_plan()

    def finished(self) -> None:
        """Return the plan and the session to their pools."""
        self.running.give_back()

    def stream(self, execution: Execution, schema: pa.Schema) -> BatchStream:
        """Start the query; its rows are cast to the schema."""
        with execution.clock.running(), translated_errors(execution):
            one = execution.is_short and self.physical.partition_count == 1
            source = self.running.context.execute(self.physical, 0) if one else self.running.frame.execute_stream()
        execution.begin()
        return BatchStream(DataFusionRows(source), self, execution, partial(cast_batch, schema=schema, execution=execution))


class DataFusionEngine:
    """Runs read queries of one graph on DataFusion."""

    def __init__(self, resources: Resources) -> None:
        self.resources = resources
        self._plans = PlanCache("datafusion", PlanPool)
        self._contexts = SessionPool()

    def scope(self, request: ReadRequest, execution: Execution) -> BindContext:
        """Return the binding context of a request."""

        def allowed(vertex: Vertex, value: ir.PropertyRef | None) -> pa.Table:
            planned = self._plans.of_positions(request, scope, vertex, value)
            session = self._session(planned, replace(scope, memo={}), execution)
            with translated_errors(execution):
                positions = session.running.frame.to_arrow_table()
            session.finished()
            return positions

        scope = self.resources.scope(request, allowed)
        return scope

    def start(self, request: ReadRequest) -> BatchStream | CompleteRows:
        """Run a query, and return it with its first rows read."""

        def run(execution: Execution) -> BatchStream | CompleteRows:
            with execution.clock.running():
                scope = self.scope(request, execution)
                planned = self._plans.of_query(request, scope)
                if planned.plan.shortcut is not None and scope.traversal.mode is None:
                    number = pa.array(np.array([shortcut_count(scope, planned.plan.shortcut)], np.int64))
                    execution.clock.check()
                    return CompleteRows(pa.RecordBatch.from_arrays([number] * len(request.schema), schema=request.schema))
                session = self._bind(planned, scope, execution)
            stream = session.stream(execution, request.schema)
            stream.read_ahead(Portion(READ_AHEAD_ROWS))
            return stream

        return self.resources.attempt(RunSettings(limits=request.limits), run)

    def session(self, request: ReadRequest, execution: Execution) -> DataFusionRun:
        """Plan a query, and bind the names in its SQL to the data of its snapshot."""
        scope = self.scope(request, execution)
        return self._bind(self._plans.of_query(request, scope), scope, execution)

    def _bind(self, planned: PlannedQuery[PlanPool], context: BindContext, execution: Execution) -> DataFusionRun:
        query_run = self._session(planned, context, execution)
        if query_run.is_short:
            execution.start_short(query_run.binding.longest)
        return query_run

    def _session(self, planned: PlannedQuery[PlanPool], context: BindContext, execution: Execution) -> DataFusionRun:
        plan = planned.plan
        binding = bind_names(plan, context, execution.clock.check)
        longest = binding.longest
        execution.expect_first_rows(min(execution.batch_rows, longest))
        partitions = _partition_count(plan, longest)
        is_straight = plan.is_straight and partitions == 1
        with translated_errors(execution):
            make = self._pooled_run if is_straight and not binding.values else _unpooled_run
            running = make(planned, binding, execution, _setting(execution, plan, partitions))
        is_short = is_straight and all(bound.is_cached for bound in binding.functions.values())
        return DataFusionRun(planned, binding, running, context.trace, is_short)

    def _pooled_run(
        self, planned: PlannedQuery[PlanPool], binding: Binding, execution: Execution, setting: Setting
    ) -> PhysicalRun:
        """Run a query of one relation and without parameters on a pooled plan."""
        ((name, batch),) = binding.relations.items()
        signature = plan_signature(name, batch.schema, binding.functions)
        prepared = planned.engine_state.take(signature) or PreparedPlan(planned.query.sql, signature)
        prepared.load(batch, [guarded_function(execution, bound) for bound in binding.functions.values()])
        memory = execution.limits.memory
        context = self._contexts.take(memory, setting)

        def give_back() -> None:
            planned.engine_state.give(prepared)
            self._contexts.give(memory, setting, context)

        frame = context.create_dataframe_from_logical_plan(prepared.plan)
        # A pooled physical plan adds the metrics of its runs up.
        make = frame.execution_plan if execution.settings.collects_metrics else partial(prepared.physical, frame, setting)
        return PhysicalRun(context, frame, give_back, make)


def _temporary_table_batches(
    context: SessionContext, query: SqlStatement, scalars: Mapping[str, pa.Scalar], execution: Execution
) -> list[pa.RecordBatch]:
    """Run the query of a temporary table, and return its rows in batches that own their memory.

    DataFusion slices long batches, and would count the memory of the whole batch for each slice.
    """
    frame = context.sql(query.sql, param_values={name: scalars[name] for name in query.parameters})
    batches = [pa.RecordBatch.from_pylist([], schema=frame.schema())]
    for engine_batch in frame.execute_stream():
        batch = engine_batch.to_pyarrow()
        execution.hold(batch.nbytes)
        for start in range(0, batch.num_rows, execution.batch_rows):
            end = min(start + execution.batch_rows, batch.num_rows)
            batches.append(batch.take(pa.array(np.arange(start, end))))
    return batches


def _partition_count(plan: SqlPlan, rows: int) -> int:
    # Partitions cost more than they save for few rows, and for plans that do not visit the neighbours of each row.
    visits = _unfolds(plan) or any(isinstance(function, fn.CommonWeight) for function in plan.functions.values())
    return os.cpu_count() or 1 if rows > (BATCH_ROWS if visits else MANY_ROWS) else 1


def _unfolds(plan: SqlPlan) -> bool:
    return any(isinstance(function, fn.HopFunction | fn.Reach | fn.Common) for function in plan.functions.values())


def _setting(execution: Execution, plan: SqlPlan, partitions: int) -> Setting:
    # Unnesting lists multiplies the rows of a batch: such plans start with short batches, and shorter ones after a restart.
    is_short = _unfolds(plan) or execution.batch_rows < BATCH_ROWS
    batch_rows = execution.batch_rows if is_short else LONG_BATCH_ROWS
    return (
        ("datafusion.execution.batch_size", str(batch_rows)),
        ("datafusion.execution.target_partitions", str(partitions)),
        # The memory that a sort reserves for merging spilled runs.
        ("datafusion.execution.sort_spill_reservation_bytes", str(min(10 << 20, execution.limits.memory // 16))),
    )


def _unpooled_run(planned: PlannedQuery[PlanPool], binding: Binding, execution: Execution, setting: Setting) -> PhysicalRun:
    """Plan a query for one run, without the pools."""
    context = new_session(execution.limits.memory, setting)
    for number, (name, batch) in enumerate(binding.relations.items()):
        _register(context, name, [batch], number)
    for name, bound in binding.functions.items():
        run = guarded_function(execution, bound)
        context.register_udf(udf(run, list(bound.arguments), bound.result, "immutable", name))
    for number, (name, query) in enumerate(planned.stages, len(binding.relations)):
        _register(context, name, _temporary_table_batches(context, query, binding.values, execution), number)
    frame = context.sql(planned.query.sql, param_values=binding.values)
    return PhysicalRun(context, frame, lambda: None, frame.execution_plan)


def _register(context: SessionContext, name: str, batches: list[pa.RecordBatch], number: int) -> None:
    # A physical plan shows the number of batches of a relation but not its name: empty batches make the numbers differ.
    context.register_record_batches(f'"{name}"', [[*batches, *[batches[0].slice(0, 0)] * (number + 1 - len(batches))]])
