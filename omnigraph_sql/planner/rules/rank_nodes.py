"""Search ranks the nodes of a scan before rows are made of them."""

from __future__ import annotations

from dataclasses import replace

from omnigraph_compiler import ir
from omnigraph_sql.planner.estimate import Estimate, key_values
from omnigraph_sql.planner.logical import Logical, Scan, is_constant_rank


def rank_nodes(query: Logical, estimate: Estimate) -> Logical:
    """Rank the nodes of the only scan, if its relation applies all conditions and the rank is the same for all rows."""
    if not isinstance(query.output, ir.Project) or query.order is None or query.order.rank is None:
        return query
    match query.steps:
        case (Scan(vertex),) if not vertex.negations and not vertex.branches and not vertex.conditions[1]:
            if key_values(estimate.catalog, vertex) is None and is_constant_rank(query.order.rank):
                return replace(query, ranked_nodes=vertex).with_note(f"search ranks the nodes of ${vertex.variable}")
    return query
