"""A negation is evaluated as a condition on the rows where its steps allow that; otherwise it matches the rows again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from omnigraph_sql.planner.estimate import Estimate
from omnigraph_sql.planner.logical import (
    CloseStep,
    HopStep,
    Logical,
    MeetStep,
    NegatedPattern,
    Restrict,
    Scan,
    ScanEdges,
    Step,
    Vertex,
    Where,
    Without,
    used_by,
)

_REPEATED = 2
"""An engine puts every use of an expression in place of its name, so each further negation that matches the rows again
doubles the work before it. After so many the rows become a table."""


def evaluate_negations(query: Logical, estimate: Estimate) -> Logical:  # noqa: ARG001
    """Decide for each negation how its rows are dropped."""
    evaluation = _Evaluation()
    steps = evaluation.of_steps(query.steps)
    if steps == query.steps:
        return query
    evaluated = replace(query, steps=steps)
    if evaluation.conditions:
        evaluated = evaluated.with_note("negations are conditions on the rows")
    return evaluated.with_note("rows are stored before a negation") if evaluation.stored else evaluated


@dataclass
class _Evaluation:
    """Goes through the steps in the order in which they run."""

    conditions: int = 0
    repeated: int = 0
    """Negations so far that match the rows again."""
    stored: int = 0

    def of_steps(self, steps: Sequence[Step]) -> tuple[Step, ...]:
        return tuple(self._of_step(step) for step in steps)

    def _of_step(self, step: Step) -> Step:
        match step:
            case Scan() | HopStep() | MeetStep() | Restrict():
                return replace(step, vertex=self._of_vertex(step.vertex))
            case ScanEdges():
                return replace(step, source=self._of_vertex(step.source), target=self._of_vertex(step.target))
            case Without():
                return Without(self._of_negation(step.negation))
            case CloseStep() | Where():
                return step

    def _of_vertex(self, vertex: Vertex) -> Vertex:
        if not vertex.negations:
            return vertex
        return replace(vertex, negations=tuple(map(self._of_negation, vertex.negations)))

    def _of_negation(self, negation: NegatedPattern) -> NegatedPattern:
        if negation.branches is not None:
            return negation
        if negation.outer:
            if _are_conditions(negation.steps, frozenset(negation.outer)):
                self.conditions += 1
                return replace(negation, is_condition=True)
            self.repeated += 1
        stores_rows = bool(negation.outer) and self.repeated > _REPEATED
        self.stored += stores_rows
        return replace(negation, steps=self.of_steps(negation.steps), stores_rows=stores_rows)


def _are_conditions(steps: Sequence[Step], bound: frozenset[str]) -> bool:
    """True if every step of a body asks about variables that the rows have, and adds none."""
    return bool(steps) and all(_is_condition(step, bound) for step in steps)


def _is_condition(step: Step, bound: frozenset[str]) -> bool:
    match step:
        case Where():
            return used_by(step.condition) <= bound
        case Restrict():
            return step.vertex.variable in bound and not step.vertex.negations
        case CloseStep():
            return set(step.link.ends) <= bound and step.link.edge_variable is None
        case MeetStep():
            ends = {link.other(step.vertex.variable) for link in step.links}
            return ends <= bound and not step.vertex.negations
        case _:
            return False
