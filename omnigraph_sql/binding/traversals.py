"""Nodes, hops and reach of a plan, bound to the topology of one snapshot."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph_compiler import CompileError, NodeType, entity_id
from omnigraph_sql.binding.context import Array, BindContext, BoundFunction, numbers
from omnigraph_sql.binding.filters import matching
from omnigraph_sql.planner import plan_functions as fn
from omnigraph_sql.planner.conditions import Simple
from omnigraph_sql.planner.estimate import key_values
from omnigraph_sql.planner.logical import Vertex
from omnigraph_sql.planner.values import python_value
from omnigraph_udfs.arrays import Ints
from omnigraph_udfs.common_neighbours import meet

POSITIONS = pa.large_list(pa.int64())
PAIRS = pa.large_list(pa.struct([("d", pa.int64()), ("e", pa.int64())]))


def nodes(context: BindContext, relation: fn.Nodes | fn.Lookup) -> npt.NDArray[np.int64]:
    """The positions of a relation of nodes."""
    if isinstance(relation, fn.Nodes):
        return matching(context, f"node:{relation.type}", relation.conditions)
    at = with_key(context, context.catalog.nodes[relation.type], [context.values[name] for name in relation.values])
    if at is not None:
        return at
    return np.arange(context.table(f"node:{relation.type}").size)  # of another type than the key: the comparison decides


def stored_edges(context: BindContext, edge: str, conditions: Sequence[Simple]) -> tuple[Ints, Ints, Ints]:
    """The positions of the edges that satisfy conditions, and those of their ends."""
    index = context.index(edge)
    at = matching(context, f"edge:{edge}", conditions)
    tails, heads = (index.tails[at], index.heads[at]) if conditions else (index.tails, index.heads)
    if not index.has_all_ends:
        has_ends = (tails >= 0) & (heads >= 0)
        return at[has_ends], tails[has_ends], heads[has_ends]
    return at, tails, heads


def look_up(context: BindContext, vertex: Vertex) -> npt.NDArray[np.int64] | None:
    """Return the position of a vertex that is given by its key alone; None if comparing has to decide."""
    node = context.catalog.nodes[vertex.type]
    values = key_values(context.catalog, vertex)
    if values is None or vertex.negations or len(vertex.filters) != len(node.key or ()):
        return None
    if any(node.properties[name].type.scalar != "String" for name in node.key or ()):
        return None
    return with_key(context, node, [python_value(value, context.params) for value in values])


def with_key(context: BindContext, node: NodeType, values: list[Any]) -> npt.NDArray[np.int64] | None:
    """Return the position of the node with a key, if it exists; None for values of another type: comparing decides."""
    assert node.key is not None
    if any(value is None for value in values):
        return np.empty(0, np.int64)
    try:
        id_ = entity_id(node, dict(zip(node.key, map(_as_json, values), strict=True)))
    except CompileError:
        return None
    assert id_ is not None
    position = context.table(f"node:{node.name}").position(id_, context.traversal)
    return np.array([position] if position >= 0 else [], np.int64)


def _as_json(value: Any) -> Any:
    """Return a value as load records represent it."""
    if isinstance(value, datetime.datetime):
        return value.isoformat().replace("+00:00", "Z")
    return value.isoformat() if isinstance(value, datetime.date) else value


def hop(context: BindContext, function: fn.HopFunction) -> BoundFunction:
    along = context.expander(function.edge, function.direction)
    if not function.with_edges:
        run_hop: Callable[[Array], Array] = lambda v: along.neighbours(numbers(v)).to_list()  # noqa: E731
        return BoundFunction(
            (pa.int64(),), POSITIONS, run_hop, destinations=lambda v: along.count(numbers(v)), is_cached=along.is_cached
        )

    def pairs(v: Array) -> Array:
        reached = along.edges(numbers(v))
        fields = [pa.array(reached.targets), pa.array(reached.edges)]
        return pa.LargeListArray.from_arrays(reached.offsets, pa.StructArray.from_arrays(fields, ["d", "e"]))

    return BoundFunction(
        (pa.int64(),), PAIRS, pairs, destinations=lambda v: along.count(numbers(v)), is_cached=along.is_cached
    )


def within(context: BindContext, bounds: fn.Reach) -> BoundFunction:
    along = context.expander(bounds.edge, bounds.direction)
    low, high = bounds.minimum, bounds.maximum
    if not along.index.is_one_type:
        run: Callable[[Array], Array] = _nothing if low > 1 else lambda v: along.neighbours(numbers(v)).to_list()
    elif bounds.reversed and low > 1:
        run = lambda v: along.reached_by(numbers(v), low, high).to_list()  # noqa: E731
    else:
        run = lambda v: along.reach(numbers(v), low, high).to_list()  # noqa: E731
    return BoundFunction((pa.int64(),), POSITIONS, run, is_search=True)


def single(context: BindContext, function: fn.Single) -> BoundFunction:
    """Bind a function from a position to its only neighbour, or null."""
    targets = context.index(function.edge).single(function.direction)
    assert targets is not None
    column = pa.array(targets, mask=targets < 0)
    return BoundFunction((pa.int64(),), pa.int64(), column.take, is_cached=True)


def common(context: BindContext, function: fn.Common) -> BoundFunction:
    """Bind a function from two positions to the list of their common neighbours."""
    first, second = (
        context.index(edge).neighbours(direction)
        for edge, direction in zip(function.edges, function.directions, strict=True)
    )
    return BoundFunction(
        (pa.int64(), pa.int64()),
        POSITIONS,
        lambda us, vs: meet(first, second, numbers(us), numbers(vs)).to_list(),
        is_search=True,
    )


def joined(context: BindContext, function: fn.JoinedPath) -> BoundFunction:
    """Bind a function from two positions to whether the second is within some hops of the first."""
    along = context.expander(function.edge, function.direction)
    low, high = function.minimum, function.maximum if along.index.is_one_type else 1

    def run(us: Array, vs: Array) -> Array:
        if low > high:
            return pa.array(np.zeros(len(us), np.bool_))
        return pa.array(along.leads_to(numbers(us), numbers(vs), low, high))

    return BoundFunction((pa.int64(), pa.int64()), pa.bool_(), run, is_cached=high == 1 and along.is_cached)


def _nothing(v: Array) -> Array:
    return pa.LargeListArray.from_arrays(np.zeros(len(v) + 1, np.int64), pa.array([], pa.int64()))
