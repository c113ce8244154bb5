"""Search also breaks ties where nothing but the id does, so that its first nodes are the rows in their order."""

from __future__ import annotations

from dataclasses import replace

from omnigraph_compiler import ir
from omnigraph_sql.planner.estimate import Estimate
from omnigraph_sql.planner.logical import Logical


def order_by_search(query: Logical, estimate: Estimate) -> Logical:  # noqa: ARG001
    """Leave order and limit to search, where it ranks the nodes of the only scan."""
    if query.ranked_nodes is None or query.limit is None or query.order is None:
        return query
    rank = query.order.rank
    if not isinstance(rank, ir.Rrf):
        assert rank is not None
        if query.order.keys or query.order.tie_break[:1] != (ir.IdRef(rank.field.variable),):
            return query
    return replace(query, is_ordered_by_search=True).with_note("search orders and cuts the rows")
