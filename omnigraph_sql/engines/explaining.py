"""What a query will do, or did, told from what DataFusion makes of it."""

from __future__ import annotations

import time
from dataclasses import replace

from omnigraph_compiler import ir
from omnigraph_sql.engines.datafusion import QueryEngine, Session
from omnigraph_sql.engines.execution import Execution, translated
from omnigraph_sql.engines.operators import Reader
from omnigraph_sql.engines.orders import READ_AHEAD_ROWS, Order
from omnigraph_sql.engines.streaming import Portion
from omnigraph_sql.explanation import Explanation
from omnigraph_sql.planner.dialects import DIALECTS


def explain(engine: QueryEngine, order: Order) -> Explanation:
    """How a query would run."""

    def run(execution: Execution) -> Explanation:
        return _explained(engine, order, _session(engine, order, execution), execution)

    return engine.resources.attempt(order.limits, run)


def analyze(engine: QueryEngine, order: Order) -> Explanation:
    """How a query ran: it is run to its end, and its rows are counted and dropped."""

    def run(execution: Execution) -> Explanation:
        started = time.perf_counter()
        session = _session(engine, order, execution)
        stream = session.stream(execution, order.schema)
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
            _explained(engine, order, session, execution), rows=rows, seconds=seconds, work=session.trace.counts()
        )

    return engine.resources.attempt(order.limits, run)


def _session(engine: QueryEngine, order: Order, execution: Execution) -> Session:
    execution.is_measured = True
    with execution.clock.running():
        return engine.session(order, execution)


def _explained(engine: QueryEngine, order: Order, session: Session, execution: Execution) -> Explanation:
    plan = session.planned.plan
    assert isinstance(order.query.plan, ir.ReadPlan)
    with translated(execution):
        logical, physical = session.running.frame.optimized_logical_plan(), session.physical
    meanings = {**plan.relations, **plan.functions}
    return Explanation(
        order.query.name,
        order.snapshot.commit_id,
        Reader(order, session).step(physical),
        ir.plan_json(order.query.plan),
        DIALECTS["datafusion"].statements(plan, pretty=True).query.sql,
        {name: str(meaning) for name, meaning in meanings.items()},
        {f"${name}": scalar.as_py() for name, scalar in session.binding.values.items()},
        logical.display_indent(),
        physical.display_indent(),
        plan.applied,
        traversals=tuple(f"{plan.functions[name]}: {note}" for name, note in session.binding.notes.items()),
        indexes=tuple(engine.resources.indexes(order, meanings.values())),
    )
