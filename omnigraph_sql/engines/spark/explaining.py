"""What a query will do, or did, told from what Spark makes of it."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from omnigraph_compiler import ir
from omnigraph_sql.engines.execution import Execution
from omnigraph_sql.engines.orders import Order
from omnigraph_sql.engines.spark.queries import Session, SparkEngine, supervised
from omnigraph_sql.explanation import Explanation, Step
from omnigraph_sql.planner.dialects import DIALECTS

_DIALECT = DIALECTS["spark"]
_LINE = re.compile(r"(?P<indent>[ :+-]*)(?:\*\(\d+\) )?(?P<name>\w+)(?P<rest>.*)")
_WORDS = re.compile(r"(?<=[a-z])(?=[A-Z])")
_NUMBER = re.compile(r"#\d+L?")
_SECTION = re.compile(r"^== (.+) ==$", re.MULTILINE)


def explain(engine: SparkEngine, order: Order) -> Explanation:
    """How a query would run. Tables that it starts from are made, as Spark has to know them."""

    def run(execution: Execution) -> Explanation:
        session = engine.session(order, execution)
        with finishing(session), execution.clock.running():
            return _explained(engine, order, session, _plans(session, execution))

    return engine.resources.attempt(order.limits, run)


def analyze(engine: SparkEngine, order: Order) -> Explanation:
    """How a query ran."""

    def run(execution: Execution) -> Explanation:
        started = time.perf_counter()
        session = engine.session(order, execution)
        with finishing(session), execution.clock.running():
            plans = _plans(session, execution)
            prepared = time.perf_counter()
            rows = supervised(session, execution, lambda: session.rows().num_rows)
            seconds = {"preparing": prepared - started, "running": time.perf_counter() - prepared}
            shown = _explained(engine, order, session, plans)
        return replace(shown, steps=replace(shown.steps, rows=rows), rows=rows, seconds=seconds)

    return engine.resources.attempt(order.limits, run)


@contextmanager
def finishing(session: Session) -> Iterator[None]:
    """Let go of a session afterwards, whatever happens."""
    try:
        yield
    finally:
        session.finished()


def _plans(session: Session, execution: Execution) -> dict[str, str]:
    """What Spark says of a query, by the titles that it gives."""

    def ask() -> str:
        session.settle()
        return str(session.run("EXPLAIN EXTENDED ").collect()[0][0])

    _, *parts = _SECTION.split(supervised(session, execution, ask))
    return {title: text.strip("\n") for title, text in zip(parts[::2], parts[1::2], strict=True)}


def _explained(engine: SparkEngine, order: Order, session: Session, plans: dict[str, str]) -> Explanation:
    plan, notes = session.planned.plan, session.binding.notes
    relations = {name: str(relation) for name, relation in plan.relations.items()}
    functions = {_DIALECT.function(name): str(function) for name, function in plan.functions.items()}
    physical = plans["Physical Plan"]
    return Explanation(
        order.query.name,
        order.snapshot.commit_id,
        steps(physical),
        ir.plan_json(order.read),
        _DIALECT.statements(plan, pretty=True).query.sql,
        relations | functions,
        {f":{name}": scalar.as_py() for name, scalar in session.binding.values.items()},
        plans["Optimized Logical Plan"],
        physical,
        plan.applied,
        traversals=tuple(f"{plan.functions[name]}: {note}" for name, note in notes.items()),
        indexes=tuple(engine.resources.indexes(order, [*plan.relations.values(), *plan.functions.values()])),
    )


def steps(text: str) -> Step:
    """The operators of a physical plan, which Spark writes one below the other, each further in than the one it feeds."""
    found = [_LINE.fullmatch(line) for line in text.splitlines() if line.strip()]
    lines = [(len(each["indent"]), each["name"], each["rest"].strip()) for each in found if each is not None]
    return _step(lines)


def _step(lines: Sequence[tuple[int, str, str]]) -> Step:
    """An operator, with those below it: they are as far in as the first of them."""
    (_, name, rest), *below = lines
    starts = [place for place, (depth, _, _) in enumerate(below) if depth == below[0][0]]
    ends = [*starts[1:], len(below)]
    inputs = tuple(_step(below[start:end]) for start, end in zip(starts, ends, strict=False))  # the last has no inputs
    notes = (_NUMBER.sub("", rest),) if rest else ()
    return Step(_WORDS.sub(" ", name).lower(), inputs, notes)
