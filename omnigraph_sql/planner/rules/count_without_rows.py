"""A query that only counts the matches of one vertex is a sum of path counts; no SQL runs."""

from __future__ import annotations

from dataclasses import replace

from omnigraph_compiler import ir
from omnigraph_sql.planner.estimate import Estimate, key_values
from omnigraph_sql.planner.logical import CountShortcut, Logical, Scan


def count_without_rows(query: Logical, estimate: Estimate) -> Logical:
    """Add the shortcut, if every column is the number of matches of one vertex with its branches."""
    if query.may_be_void or (query.limit and query.limit.number < 1) or not _only_counts(query):
        return query
    match query.steps:
        case (Scan(vertex),) if not vertex.conditions[1] and all(not_.branches is not None for not_ in vertex.negations):
            shortcut = CountShortcut(vertex, key_values(estimate.catalog, vertex))
            return replace(query, shortcut=shortcut).with_note("counted without making rows")
    return query


def _only_counts(query: Logical) -> bool:
    return isinstance(query.output, ir.Aggregate) and all(
        isinstance(item.expr, ir.AggregateCall)
        and item.expr.function == "count"
        and isinstance(item.expr.argument, ir.IdRef)
        for item in query.output.items
    )
