"""Relations of exactly the nodes that a vertex allows."""

from __future__ import annotations

from omnigraph_sql.planner import functions as fn
from omnigraph_sql.planner.estimate import key_values
from omnigraph_sql.planner.logical import Vertex
from omnigraph_sql.planner.plan import Draft


def exact_source(draft: Draft, vertex: Vertex) -> fn.Nodes | None:
    """The relation of exactly the nodes of a vertex, if there is one."""
    if vertex.negations or draft.hanging.get(vertex.variable) or key_values(draft.catalog, vertex) is not None:
        return None
    conditions, rest = vertex.conditions
    return None if rest else fn.Nodes(vertex.type, conditions)
