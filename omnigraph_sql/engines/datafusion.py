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
from omnigraph_sql.engines.binding import Binding, bind_names
from omnigraph_sql.engines.execution import Execution, guarded, translated
from omnigraph_sql.engines.fitting import fit
from omnigraph_sql.engines.orders import READ_AHEAD_ROWS, Order
from omnigraph_sql.engines.planning import Planned, Plans
from omnigraph_sql.engines.prepared import Contexts, Prepared, Setting, Shelf, asked, context_of
from omnigraph_sql.engines.resources import BATCH_ROWS, Resources
from omnigraph_sql.engines.scope import Scope
from omnigraph_sql.engines.streaming import Awaited, Complete, Portion, Stream
from omnigraph_sql.engines.totals import counted
from omnigraph_sql.explanation import Explanation
from omnigraph_sql.planner import functions as fn
from omnigraph_sql.planner.dialects import Statement
from omnigraph_sql.planner.logical import Vertex
from omnigraph_sql.planner.plan import SqlPlan
from omnigraph_sql.topology.trace import Trace

LONG_BATCH_ROWS = 65_536
MANY_ROWS = 500_000


@dataclass(frozen=True)
class Running:
    """A query in the hands of DataFusion. A frame must not outlive its context."""

    context: SessionContext
    frame: DataFrame
    give_back: Callable[[], None]
    """Called when it has come to its end, so that others make use of what is left."""
    make: Callable[[], ExecutionPlan]
    """Makes what DataFusion runs, or takes what it ran before."""


@dataclass(frozen=True)
class Session:
    """A query that DataFusion knows everything about."""

    planned: Planned[Shelf]
    binding: Binding
    running: Running
    trace: Trace
    is_short: bool
    """Whether the number of its rows bounds its time."""

    @cached_property
    def physical(self) -> ExecutionPlan:
        """What DataFusion runs."""
        return self.running.make()

    def finished(self) -> None:
        """All rows were given."""
        self.running.give_back()

    def stream(self, execution: Execution, schema: pa.Schema) -> Stream:
        """Begin to run the query, for rows with the columns of a schema."""
        with execution.clock.running(), translated(execution):
            one = execution.left is not None and self.physical.partition_count == 1
            source = self.running.context.execute(self.physical, 0) if one else self.running.frame.execute_stream()
        execution.begin()
        return Stream(Awaited(source), self, execution, partial(fit, schema=schema, execution=execution))


class QueryEngine:
    """Runs read queries of one graph on DataFusion."""

    def __init__(self, resources: Resources) -> None:
        self.resources = resources
        self._plans = Plans("datafusion", Shelf)
        self._contexts = Contexts()

    def scope(self, order: Order, execution: Execution) -> Scope:
        """What the names of an order's plans are bound to."""

        def allowed(vertex: Vertex, value: ir.PropertyRef | None) -> pa.Table:
            planned = self._plans.of_positions(order, scope, vertex, value)
            session = self._session(planned, replace(scope, memo={}), execution)
            with translated(execution):
                found = session.running.frame.to_arrow_table()
            session.finished()
            return found

        scope = self.resources.scope(order, allowed)
        return scope

    def start(self, order: Order) -> Stream | Complete:
        """Run a query until its first rows are there."""

        def run(execution: Execution) -> Stream | Complete:
            with execution.clock.running():
                scope = self.scope(order, execution)
                planned = self._plans.of_query(order, scope)
                if planned.plan.total is not None and scope.given.mode is None:
                    number = pa.array(np.array([counted(scope, planned.plan.total)], np.int64))
                    execution.clock.check()
                    return Complete(pa.RecordBatch.from_arrays([number] * len(order.schema), schema=order.schema))
                session = self._bound(planned, scope, execution)
            stream = session.stream(execution, order.schema)
            stream.read_ahead(Portion(READ_AHEAD_ROWS))
            return stream

        return self.resources.attempt(order.limits, run)

    def explain(self, order: Order) -> Explanation:
        """How a query would run."""
        from omnigraph_sql.engines import explaining

        return explaining.explain(self, order)

    def analyze(self, order: Order) -> Explanation:
        """How a query ran: it is run to its end, and its rows are counted and dropped."""
        from omnigraph_sql.engines import explaining

        return explaining.analyze(self, order)

    def session(self, order: Order, execution: Execution) -> Session:
        """Plan a query, and bind everything that its SQL names to the data of its snapshot."""
        scope = self.scope(order, execution)
        return self._bound(self._plans.of_query(order, scope), scope, execution)

    def _bound(self, planned: Planned[Shelf], scope: Scope, execution: Execution) -> Session:
        found = self._session(planned, scope, execution)
        if found.is_short and execution.allowance > found.binding.longest:
            execution.left = execution.allowance
        return found

    def _session(self, planned: Planned[Shelf], scope: Scope, execution: Execution) -> Session:
        plan = planned.plan
        binding = bind_names(plan, scope, execution)
        longest = binding.longest
        execution.first_rows = min(execution.batch_rows, longest)
        partitions = _partitions(plan, longest)
        is_straight = plan.is_straight and partitions == 1
        with translated(execution):
            make = self._prepared if is_straight and not binding.values else _fresh
            running = make(planned, binding, execution, _setting(execution, plan, partitions))
        is_short = is_straight and all(bound.at_hand for bound in binding.functions.values())
        return Session(planned, binding, running, scope.trace, is_short)

    def _prepared(self, planned: Planned[Shelf], binding: Binding, execution: Execution, setting: Setting) -> Running:
        """A query of one relation, and without values in its text, on a plan that may have been made before."""
        ((name, batch),) = binding.relations.items()
        wanted = asked(name, batch.schema, binding.functions)
        prepared = planned.shelf.take(wanted) or Prepared(planned.query.sql, wanted)
        prepared.load(batch, [guarded(execution, bound) for bound in binding.functions.values()])
        memory = execution.limits.memory
        context = self._contexts.take(memory, setting)

        def give_back() -> None:
            planned.shelf.give(prepared)
            self._contexts.give(memory, setting, context)

        frame = context.create_dataframe_from_logical_plan(prepared.plan)
        # What is measured of a run is added to what was measured before.
        make = frame.execution_plan if execution.is_measured else partial(prepared.physical, frame, setting)
        return Running(context, frame, give_back, make)


def _settled(
    context: SessionContext, query: Statement, scalars: Mapping[str, pa.Scalar], execution: Execution
) -> list[pa.RecordBatch]:
    """The rows of a query that others start from, in batches with memory of their own.

    The engine would cut a long batch, and count all of it as the memory of each piece.
    """
    frame = context.sql(query.sql, param_values={name: scalars[name] for name in query.parameters})
    batches = [pa.RecordBatch.from_pylist([], schema=frame.schema())]
    for found in frame.execute_stream():
        batch = found.to_pyarrow()
        execution.keep(batch.nbytes)
        for start in range(0, batch.num_rows, execution.batch_rows):
            end = min(start + execution.batch_rows, batch.num_rows)
            batches.append(batch.take(pa.array(np.arange(start, end))))
    return batches


def _partitions(plan: SqlPlan, rows: int) -> int:
    # Where nothing is done with the neighbours of each row, and for few rows, dividing the work costs more than it brings.
    visits = _unfolds(plan) or any(isinstance(function, fn.CommonWeight) for function in plan.functions.values())
    return os.cpu_count() or 1 if rows > (BATCH_ROWS if visits else MANY_ROWS) else 1


def _unfolds(plan: SqlPlan) -> bool:
    return any(isinstance(function, fn.Hop | fn.Reach | fn.Common) for function in plan.functions.values())


def _setting(execution: Execution, plan: SqlPlan, partitions: int) -> Setting:
    # Lists multiply the rows of a batch, so these are short, and shorter where a run had to begin again.
    is_short = _unfolds(plan) or execution.batch_rows < BATCH_ROWS
    batch_rows = execution.batch_rows if is_short else LONG_BATCH_ROWS
    return (
        ("datafusion.execution.batch_size", str(batch_rows)),
        ("datafusion.execution.target_partitions", str(partitions)),
        # What a sort keeps back for merging what it has put aside.
        ("datafusion.execution.sort_spill_reservation_bytes", str(min(10 << 20, execution.limits.memory // 16))),
    )


def _fresh(planned: Planned[Shelf], binding: Binding, execution: Execution, setting: Setting) -> Running:
    """A query planned for this run alone."""
    context = context_of(execution.limits.memory, setting)
    for number, (name, batch) in enumerate(binding.relations.items()):
        _register(context, name, [batch], number)
    for name, bound in binding.functions.items():
        run = guarded(execution, bound)
        context.register_udf(udf(run, list(bound.arguments), bound.result, "immutable", name))
    for number, (name, query) in enumerate(planned.stages, len(binding.relations)):
        _register(context, name, _settled(context, query, binding.values, execution), number)
    frame = context.sql(planned.query.sql, param_values=binding.values)
    return Running(context, frame, lambda: None, frame.execution_plan)


def _register(context: SessionContext, name: str, batches: list[pa.RecordBatch], number: int) -> None:
    # A physical plan shows how many batches a relation has, not its name: the empty ones tell them apart.
    context.register_record_batches(f'"{name}"', [[*batches, *[batches[0].slice(0, 0)] * (number + 1 - len(batches))]])
