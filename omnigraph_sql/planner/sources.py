"""Relations of exactly the nodes that a vertex allows: comparisons with values are decided for whole columns at once."""

from __future__ import annotations

from omnigraph_compiler import ir
from omnigraph_sql.planner import functions as fn
from omnigraph_sql.planner.estimate import key_values
from omnigraph_sql.planner.logical import Vertex
from omnigraph_sql.planner.plan import Draft
from omnigraph_sql.planner.values import Compared

_MIRRORED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def exact_source(draft: Draft, vertex: Vertex) -> fn.Nodes | fn.Matching | None:
    """The relation of exactly the nodes of a vertex, if there is one."""
    if vertex.negations or draft.hanging.get(vertex.variable) or key_values(draft.catalog, vertex) is not None:
        return None
    conditions = [_condition(each) for each in vertex.filters]
    if any(each is None for each in conditions):
        return None
    if not conditions:
        return fn.Nodes(vertex.type)
    return fn.Matching(vertex.type, tuple(each for each in conditions if each is not None))


def _condition(compare: ir.Compare) -> tuple[str, Compared] | None:
    """A comparison of a property with a value, as column and what it is compared with."""
    left, right = compare.left, compare.right
    op: str = compare.op
    if isinstance(left, ir.ParamRef | ir.Constant):
        left, op, right = right, _MIRRORED.get(op, ""), left
    if op not in _MIRRORED or not isinstance(left, ir.PropertyRef) or not isinstance(right, ir.ParamRef | ir.Constant):
        return None
    if left.type.is_list or left.type.is_vector or left.type.is_blob:
        return None
    return left.property, Compared(right, op, left.type)
