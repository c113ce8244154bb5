"""The rules of the planner: small functions from a query to a query with the same answer, each in a file of its own."""

from __future__ import annotations

from collections.abc import Callable

from omnigraph_sql.planner.estimate import Estimate
from omnigraph_sql.planner.logical import Logical
from omnigraph_sql.planner.rules.choose_steps import choose_steps
from omnigraph_sql.planner.rules.number_texts import number_texts
from omnigraph_sql.planner.rules.weigh_branches import weigh_branches
from omnigraph_sql.planner.rules.weigh_negations import weigh_negations

Rule = Callable[[Logical, Estimate], Logical]

RULES: tuple[Rule, ...] = (weigh_negations, weigh_branches, choose_steps, number_texts)


def apply_rules(query: Logical, estimate: Estimate) -> Logical:
    """A query after all rules."""
    for rule in RULES:
        query = rule(query, estimate)
    return query
