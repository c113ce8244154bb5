"""Explanations of queries on Spark."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from omnigraph_compiler import ir
from omnigraph_sql.engines.spark.engine import SparkQueryEngine, SparkRun, supervised
from omnigraph_sql.explanation import Explanation, Step
from omnigraph_sql.planner.dialects import DIALECTS
from omnigraph_sql.runtime.execution import Execution, RunSettings
from omnigraph_sql.runtime.request import ReadRequest

_DIALECT = DIALECTS["spark"]
_LINE = re.compile(r"(?P<indent>[ :+-]*)(?:\*\(\d+\) )?(?P<name>\w+)(?P<rest>.*)")
_WORDS = re.compile(r"(?<=[a-z])(?=[A-Z])")
_NUMBER = re.compile(r"#\d+L?")
_SECTION = re.compile(r"^== (.+) ==$", re.MULTILINE)


def explain(engine: SparkQueryEngine, request: ReadRequest) -> Explanation:
    """Explain how a query would run. Its temporary tables are filled, because Spark needs them to plan."""

    def run(execution: Execution) -> Explanation:
        session = engine.session(request, execution)
        with finishing(session), execution.clock.running():
            return _explanation(engine, request, session, _plans(session, execution))

    return engine.resources.attempt(RunSettings(limits=request.limits), run)


def analyze(engine: SparkQueryEngine, request: ReadRequest) -> Explanation:
    """Run a query to its end without keeping its rows, and explain how it ran."""

    def run(execution: Execution) -> Explanation:
        started = time.perf_counter()
        session = engine.session(request, execution)
        with finishing(session), execution.clock.running():
            plans = _plans(session, execution)
            prepared = time.perf_counter()
            rows = supervised(session, execution, lambda: session.rows().num_rows)
            seconds = {"preparing": prepared - started, "running": time.perf_counter() - prepared}
            explanation = _explanation(engine, request, session, plans)
        return replace(explanation, steps=replace(explanation.steps, rows=rows), rows=rows, seconds=seconds)

    return engine.resources.attempt(RunSettings(limits=request.limits), run)


@contextmanager
def finishing(session: SparkRun) -> Iterator[None]:
    """Finish a session at the end of the block."""
    try:
        yield
    finally:
        session.finished()


def _plans(session: SparkRun, execution: Execution) -> dict[str, str]:
    """Return the sections of EXPLAIN EXTENDED by title."""

    def run() -> str:
        session.fill_temporary_tables()
        return str(session.run("EXPLAIN EXTENDED ").collect()[0][0])

    _, *parts = _SECTION.split(supervised(session, execution, run))
    return {title: text.strip("\n") for title, text in zip(parts[::2], parts[1::2], strict=True)}


def _explanation(engine: SparkQueryEngine, request: ReadRequest, session: SparkRun, plans: dict[str, str]) -> Explanation:
    plan, notes = session.planned.plan, session.binding.notes
    relations = {name: str(relation) for name, relation in plan.relations.items()}
    functions = {_DIALECT.function(name): str(function) for name, function in plan.functions.items()}
    physical = plans["Physical Plan"]
    return Explanation(
        query_name=request.query.name,
        target=request.snapshot.commit_id,
        steps=steps(physical),
        plan=ir.plan_json(request.read),
        sql=_DIALECT.statements(plan, pretty=True).query.sql,
        names=relations | functions,
        values={f":{name}": scalar.as_py() for name, scalar in session.binding.values.items()},
        logical=plans["Optimized Logical Plan"],
        physical=physical,
        rules=plan.applied,
        traversals=tuple(f"{plan.functions[name]}: {note}" for name, note in notes.items()),
        indexes=tuple(engine.resources.indexes(request, [*plan.relations.values(), *plan.functions.values()])),
    )


def steps(text: str) -> Step:
    """Return the operators of a physical plan: Spark writes one per line, with its inputs indented below it."""
    matches = [_LINE.fullmatch(line) for line in text.splitlines() if line.strip()]
    lines = [(len(match["indent"]), match["name"], match["rest"].strip()) for match in matches if match is not None]
    return _step(lines)


def _step(lines: Sequence[tuple[int, str, str]]) -> Step:
    """Return the step of the first line, with those of its inputs: the lines that are indented as the second one is."""
    (_, name, rest), *below = lines
    starts = [place for place, (depth, _, _) in enumerate(below) if depth == below[0][0]]
    ends = [*starts[1:], len(below)]
    inputs = tuple(_step(below[start:end]) for start, end in zip(starts, ends, strict=False))  # the last has no inputs
    notes = (_NUMBER.sub("", rest),) if rest else ()
    return Step(_WORDS.sub(" ", name).lower(), inputs, notes)
