"""The law that an engine answers what the oracle answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import assume, event

from omnigraph_sql.errors import OmnigraphError
from tests.property.graph_strategies import ReadCase
from tests.property.oracle import Answer, Undecided, disagreement, evaluate
from tests.property.oracle.answers import ANYTHING

Rows = list[dict[str, Any]]
Engine = Callable[[ReadCase], tuple[list[str], Rows]]
"""Runs a case; the answer is `name: Type` of every column and the rows as JSON. Raises what a user would get."""

BUDGET = 20_000
_NOW = 7_258_118_400_000
_SHOWN = "2200-01-01T00:00:00.000Z"


def check_agreement(case: ReadCase, engine: Engine) -> None:
    """Demand the oracle's columns and rows, or its error. Cases without an answer are discarded."""
    expected = decided(case)
    columns: list[str] = []
    rows: Rows = []
    failure: OmnigraphError | None = None
    try:
        columns, rows = engine(case)
    except OmnigraphError as error:
        failure = error
    if isinstance(expected, OmnigraphError):
        assert failure is not None, f"the engine answers {rows}, but it should fail: {expected}"
        assert (type(failure), failure.code) == (type(expected), expected.code), f"{failure} instead of {expected}"
        return
    if failure is not None:
        raise failure
    assert columns == shown_columns(expected)
    difference = disagreement(without_now(expected.to_json()), rows, in_order=expected.is_ordered)
    assert difference is None, difference


def decided(case: ReadCase) -> Answer | OmnigraphError:
    """What the oracle says to a case; the case is discarded where it says nothing."""
    try:
        answer = evaluate(case.graph.oracle(case.catalog), case.text, None, case.params, now=_NOW, budget=BUDGET)
    except Undecided as reason:
        event(f"undecided: {type(reason).__name__} {reason}")
        assume(False)
        raise
    except OmnigraphError as error:
        event(f"fails: {error.kind}")
        return error
    event("rows" if answer.rows else "no rows")
    return answer


def answered(case: ReadCase) -> Answer:
    """The oracle's answer; the case is discarded where there is none."""
    found = decided(case)
    assume(isinstance(found, Answer))
    assert isinstance(found, Answer)
    return found


def shown_columns(answer: Answer) -> list[str]:
    return [f"{column.name}: {column.type}" for column in answer.columns]


def without_now(rows: Rows) -> Rows:
    """The rows with anything in the place of `now()`, which every execution sees differently."""
    return [{name: ANYTHING if value == _SHOWN else value for name, value in row.items()} for row in rows]
