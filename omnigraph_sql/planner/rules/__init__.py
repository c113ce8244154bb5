"""The rules of the planner: pure functions from a query to a query with the same answer, one per file."""

from __future__ import annotations

from collections.abc import Callable

from omnigraph_sql.planner.estimate import Estimate
from omnigraph_sql.planner.logical import Logical
from omnigraph_sql.planner.rules.choose_steps import choose_steps
from omnigraph_sql.planner.rules.count_without_rows import count_without_rows
from omnigraph_sql.planner.rules.evaluate_negations import evaluate_negations
from omnigraph_sql.planner.rules.group_edges import group_edges
from omnigraph_sql.planner.rules.number_texts import number_texts
from omnigraph_sql.planner.rules.order_by_search import order_by_search
from omnigraph_sql.planner.rules.push_down_top_k import push_down_top_k
from omnigraph_sql.planner.rules.rank_nodes import rank_nodes
from omnigraph_sql.planner.rules.weigh_branches import weigh_branches
from omnigraph_sql.planner.rules.weigh_negations import weigh_negations

Rule = Callable[[Logical, Estimate], Logical]

RULES: tuple[Rule, ...] = (
    weigh_negations,
    weigh_branches,
    choose_steps,
    evaluate_negations,
    number_texts,
    group_edges,
    push_down_top_k,
    rank_nodes,
    order_by_search,
    count_without_rows,
)


def apply_rules(query: Logical, estimate: Estimate) -> Logical:
    """A query after all rules."""
    for rule in RULES:
        query = rule(query, estimate)
    return query
