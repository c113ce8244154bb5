"""Explanations of queries on DataFusion."""

from __future__ import annotations

import time
from dataclasses import replace

from omnigraph_compiler import ir
from omnigraph_sql.engines.datafusion.engine import DataFusionEngine, DataFusionRun
from omnigraph_sql.engines.datafusion.plan_steps import PlanReader
from omnigraph_sql.explanation import Explanation
from omnigraph_sql.planner.dialects import DIALECTS
from omnigraph_sql.runtime.execution import Execution, RunSettings, translated_errors
from omnigraph_sql.runtime.request import READ_AHEAD_ROWS, ReadRequest
from omnigraph_sql.runtime.streams import Portion


def explain(engine: DataFusionEngine, request: ReadRequest) -> Explanation:
    """Explain how a query would run."""

    def run(execution: Execution) -> Explanation:
        return _explanation(engine, request, _session(engine, request, execution), execution)

    return engine.resources.attempt(RunSettings(limits=request.limits, collects_metrics=True), run)


def analyze(engine: DataFusionEngine, request: ReadRequest) -> Explanation:
    """Run a query to its end without keeping its rows, and explain how it ran."""

    def run(execution: Execution) -> Explanation:
        started = time.perf_counter()
        session = _session(engine, request, execution)
        stream = session.stream(execution, request.schema)
        stream.read_ahead(Portion(READ_AHEAD_ROWS))
        planned = time.perf_counter()
        rows = 0
        try:
            while (batch := stream.next()) is not None:
                rows += batch.num_rows
        finally:
            stream.close()
        seconds = {"preparing": planned - started, "running": time.perf_counter() - planned}
        return replace(
            _explanation(engine, request, session, execution), rows=rows, seconds=seconds, work=session.trace.counts()
        )

    return engine.resources.attempt(RunSettings(limits=request.limits, collects_metrics=True), run)


def _session(engine: DataFusionEngine, request: ReadRequest, execution: Execution) -> DataFusionRun:
    with execution.clock.running():
        return engine.session(request, execution)


def _explanation(
    engine: DataFusionEngine, request: ReadRequest, session: DataFusionRun, execution: Execution
) -> Explanation:
    plan = session.planned.plan
    with translated_errors(execution):
        logical, physical = session.running.frame.optimized_logical_plan(), session.physical
    meanings = {**plan.relations, **plan.functions}
    return Explanation(
        query_name=request.query.name,
        target=request.snapshot.commit_id,
        steps=PlanReader(request, session).step(physical),
        plan=ir.plan_json(request.read),
        sql=DIALECTS["datafusion"].statements(plan, pretty=True).query.sql,
        names={name: str(meaning) for name, meaning in meanings.items()},
        values={f"${name}": scalar.as_py() for name, scalar in session.binding.values.items()},
        logical=logical.display_indent(),
        physical=physical.display_indent(),
        rules=plan.applied,
        traversals=tuple(f"{plan.functions[name]}: {note}" for name, note in session.binding.notes.items()),
        indexes=tuple(engine.resources.indexes(request, meanings.values())),
    )
