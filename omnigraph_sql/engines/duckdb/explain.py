"""Explanations of queries on DuckDB."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from omnigraph_compiler import ir
from omnigraph_sql.engines.duckdb.engine import DuckDBEngine, DuckDBRun, run_settings, supervised
from omnigraph_sql.explanation import Explanation, Step
from omnigraph_sql.planner.dialects import DIALECTS
from omnigraph_sql.runtime.execution import Execution
from omnigraph_sql.runtime.request import ReadRequest

_WRAPPERS = ("RESULT_COLLECTOR", "EXPLAIN_ANALYZE")
_ESTIMATE = "Estimated Cardinality"
_DIALECT = DIALECTS["duckdb"]


def explain(engine: DuckDBEngine, request: ReadRequest) -> Explanation:
    """Explain how a query would run. Its temporary tables are filled, because DuckDB plans with their statistics."""

    def run(execution: Execution) -> Explanation:
        session = _session(engine, request, execution)
        (root,), text = _explain_output(session, execution, "")
        return _explanation(engine, request, session, _step(root), text)

    return engine.resources.attempt(run_settings(request.limits), run)


def analyze(engine: DuckDBEngine, request: ReadRequest) -> Explanation:
    """Run a query to its end without keeping its rows, and explain how it ran."""

    def run(execution: Execution) -> Explanation:
        started = time.perf_counter()
        session = _session(engine, request, execution)
        prepared = time.perf_counter()
        profile, text = _explain_output(session, execution, "ANALYZE, ")
        seconds = {"preparing": prepared - started, "running": time.perf_counter() - prepared}
        step = _step(_unwrapped(profile["operator"][0]))
        explanation = _explanation(engine, request, session, step, text)
        return replace(explanation, rows=step.rows, seconds=seconds, work=session.trace.counts())

    return engine.resources.attempt(run_settings(request.limits), run)


def _session(engine: DuckDBEngine, request: ReadRequest, execution: Execution) -> DuckDBRun:
    with execution.clock.running():
        return engine.session(request, execution)


def _explain_output(session: DuckDBRun, execution: Execution, options: str) -> tuple[Any, str]:
    """Return the output of EXPLAIN with these options as JSON, and that of a plain EXPLAIN as text."""

    def run() -> tuple[str, str]:
        return _explain_text(session, f"EXPLAIN ({options}FORMAT JSON) "), _explain_text(session, "EXPLAIN ")

    with execution.clock.running():
        json_text, text = supervised(session, execution, run)
    return json.loads(json_text), text


def _explain_text(session: DuckDBRun, prefix: str) -> str:
    ((_, text),) = session.run(prefix).fetchall()
    return str(text)


def _explanation(engine: DuckDBEngine, request: ReadRequest, session: DuckDBRun, step: Step, text: str) -> Explanation:
    plan, notes = session.planned.plan, session.binding.notes
    relations = {name: str(relation) for name, relation in plan.relations.items()}
    functions = {_DIALECT.function(name): str(function) for name, function in plan.functions.items()}
    return Explanation(
        query_name=request.query.name,
        target=request.snapshot.commit_id,
        steps=step,
        plan=ir.plan_json(request.read),
        sql=_DIALECT.statements(plan, pretty=True).query.sql,
        names=relations | functions,
        values={f"${name}": scalar.as_py() for name, scalar in session.binding.values.items()},
        logical="",  # DuckDB shows only the physical plan
        physical=text,
        rules=plan.applied,
        traversals=tuple(f"{plan.functions[name]}: {note}" for name, note in notes.items()),
        indexes=tuple(engine.resources.indexes(request, [*plan.relations.values(), *plan.functions.values()])),
    )


def _unwrapped(node: dict[str, Any]) -> dict[str, Any]:
    """Return the topmost operator of the query itself."""
    while node["type"] in _WRAPPERS:
        (node,) = node["children"]
    return node


def _step(node: dict[str, Any]) -> Step:
    """Return the step of an operator, with those of its inputs: it has a `name` in a plan, a `type` in a profile."""
    details = node["extra_info"]
    estimate = details.get(_ESTIMATE)
    return Step(
        str(node.get("name") or node["type"]).strip().lower().replace("_", " "),
        tuple(map(_step, node.get("children", ()))),
        tuple(_notes(details)),
        None if estimate is None else int(estimate),
        rows=node.get("intermediate_rows"),
        seconds=node.get("timing"),
    )


def _notes(details: dict[str, Any]) -> Iterator[str]:
    for name, value in details.items():
        if name != _ESTIMATE and value:
            text = ", ".join(map(str, value)) if isinstance(value, list) else " ".join(str(value).split())
            yield f"{name}: {text}"
