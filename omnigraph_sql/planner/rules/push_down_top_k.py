"""A limit of groups that are ordered by their number of matches becomes a limit of nodes."""

from __future__ import annotations

from dataclasses import replace

from omnigraph_compiler import ir
from omnigraph_sql.planner.estimate import Estimate
from omnigraph_sql.planner.group_keys import group_keys, rows_are_groups
from omnigraph_sql.planner.logical import Logical, Scan


def push_down_top_k(query: Logical, estimate: Estimate) -> Logical:
    """Scan only the nodes with the most matches, where the output is one row per node, ordered by match count descending."""
    match query.steps:
        case (Scan(vertex) as scan,) if vertex.branches and not vertex.negations and not vertex.conditions[1]:
            pass
        case _:
            return query
    if query.limit is None or query.limit.number < 1 or not _is_by_count_descending(query):
        return query
    if not rows_are_groups(query, group_keys(estimate.catalog, query)):
        return query
    top_k = query.limit.number
    return replace(query, steps=(replace(scan, top_k=top_k),)).with_note(f"top {top_k} of ${vertex.variable} by matches")


def _is_by_count_descending(query: Logical) -> bool:
    if not isinstance(query.output, ir.Aggregate) or not query.order or not query.order.keys:
        return False
    key = query.order.keys[0]
    items = {item.name: item.expr for item in query.output.items}
    expr = items[key.expr.name] if isinstance(key.expr, ir.ColumnRef) else key.expr
    is_count = isinstance(expr, ir.AggregateCall) and expr.function == "count" and isinstance(expr.argument, ir.IdRef)
    return is_count and key.direction == "desc"
