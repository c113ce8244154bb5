"""What a query will do, or did, told from what DuckDB makes of it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from omnigraph_compiler import ir
from omnigraph_sql.engines.duckdb import DuckEngine, Session, supervised
from omnigraph_sql.engines.execution import Execution
from omnigraph_sql.engines.orders import Order
from omnigraph_sql.explanation import Explanation, Step
from omnigraph_sql.planner.dialects import DIALECTS

_WRAPPERS = ("RESULT_COLLECTOR", "EXPLAIN_ANALYZE")
_ESTIMATE = "Estimated Cardinality"
_DIALECT = DIALECTS["duckdb"]


def explain(engine: DuckEngine, order: Order) -> Explanation:
    """How a query would run. Tables that it starts from are made: DuckDB plans with what is in them."""

    def run(execution: Execution) -> Explanation:
        session = _session(engine, order, execution)
        (root,), text = _asked(session, execution, "")
        return _explained(engine, order, session, _step(root), text)

    return engine.resources.attempt(order.limits, run)


def analyze(engine: DuckEngine, order: Order) -> Explanation:
    """How a query ran."""

    def run(execution: Execution) -> Explanation:
        started = time.perf_counter()
        session = _session(engine, order, execution)
        prepared = time.perf_counter()
        found, text = _asked(session, execution, "ANALYZE, ")
        seconds = {"preparing": prepared - started, "running": time.perf_counter() - prepared}
        step = _step(_unwrapped(found["operator"][0]))
        shown = _explained(engine, order, session, step, text)
        return replace(shown, rows=step.rows, seconds=seconds, work=session.trace.counts())

    return engine.resources.attempt(order.limits, run)


def _session(engine: DuckEngine, order: Order, execution: Execution) -> Session:
    with execution.clock.running():
        return engine.session(order, execution)


def _asked(session: Session, execution: Execution, how: str) -> tuple[Any, str]:
    """What DuckDB says of a query, as JSON, and its plan as text."""

    def ask() -> tuple[str, str]:
        return _said(session, f"EXPLAIN ({how}FORMAT JSON) "), _said(session, "EXPLAIN ")

    with execution.clock.running():
        found, text = supervised(session, execution, ask)
    return json.loads(found), text


def _said(session: Session, question: str) -> str:
    ((_, answer),) = session.run(question).fetchall()
    return str(answer)


def _explained(engine: DuckEngine, order: Order, session: Session, step: Step, text: str) -> Explanation:
    plan, notes = session.planned.plan, session.binding.notes
    relations = {name: str(relation) for name, relation in plan.relations.items()}
    functions = {_DIALECT.function(name): str(function) for name, function in plan.functions.items()}
    return Explanation(
        order.query.name,
        order.snapshot.commit_id,
        step,
        ir.plan_json(order.read),
        _DIALECT.statements(plan, pretty=True).query.sql,
        relations | functions,
        {f"${name}": scalar.as_py() for name, scalar in session.binding.values.items()},
        "",  # DuckDB shows the plan that it runs
        text,
        plan.applied,
        traversals=tuple(f"{plan.functions[name]}: {note}" for name, note in notes.items()),
        indexes=tuple(engine.resources.indexes(order, [*plan.relations.values(), *plan.functions.values()])),
    )


def _unwrapped(node: dict[str, Any]) -> dict[str, Any]:
    """The first operator of the query itself."""
    while node["type"] in _WRAPPERS:
        (node,) = node["children"]
    return node


def _step(node: dict[str, Any]) -> Step:
    """An operator, with those below it: `name` in a plan, `type` in what was measured of a run."""
    details = node["extra_info"]
    estimate = details.get(_ESTIMATE)
    return Step(
        str(node.get("name") or node["type"]).strip().lower().replace("_", " "),
        tuple(map(_step, node.get("children", ()))),
        tuple(_notes(details)),
        None if estimate is None else int(estimate),
        node.get("intermediate_rows"),
        node.get("timing"),
    )


def _notes(details: dict[str, Any]) -> Iterator[str]:
    for name, value in details.items():
        if name != _ESTIMATE and value:
            shown = ", ".join(map(str, value)) if isinstance(value, list) else " ".join(str(value).split())
            yield f"{name}: {shown}"
