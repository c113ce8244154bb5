"""Nodes, hops and reach of a plan, bound to the topology of one snapshot."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph_compiler import CompileError, NodeType, entity_id
from omnigraph_sql.engines.masks import matching
from omnigraph_sql.engines.scope import Array, Bound, Scope, numbers
from omnigraph_sql.planner import functions as fn
from omnigraph_sql.planner.conditions import Simple
from omnigraph_sql.planner.estimate import key_values
from omnigraph_sql.planner.logical import Vertex
from omnigraph_sql.planner.values import python_value
from omnigraph_udfs.arrays import Ints
from omnigraph_udfs.meet import meet

POSITIONS = pa.large_list(pa.int64())
PAIRS = pa.large_list(pa.struct([("d", pa.int64()), ("e", pa.int64())]))


def nodes(scope: Scope, asked: fn.Nodes | fn.Lookup) -> npt.NDArray[np.int64]:
    """The positions of a relation of nodes."""
    if isinstance(asked, fn.Nodes):
        return matching(scope, f"node:{asked.type}", asked.conditions)
    found = with_key(scope, scope.catalog.nodes[asked.type], [scope.values[name] for name in asked.values])
    if found is not None:
        return found
    return np.arange(scope.table(f"node:{asked.type}").size)  # of another type than the key: the comparison decides


def stored_edges(scope: Scope, edge: str, conditions: Sequence[Simple]) -> tuple[Ints, Ints, Ints]:
    """The positions of the edges that satisfy conditions, and those of their ends."""
    index = scope.index(edge)
    at = matching(scope, f"edge:{edge}", conditions)
    tails, heads = (index.tails[at], index.heads[at]) if conditions else (index.tails, index.heads)
    if not index.has_all_ends:
        known = (tails >= 0) & (heads >= 0)
        return at[known], tails[known], heads[known]
    return at, tails, heads


def look_up(scope: Scope, vertex: Vertex) -> npt.NDArray[np.int64] | None:
    """The position of a vertex that is nothing but a key, if that can be told without comparing."""
    node = scope.catalog.nodes[vertex.type]
    given = key_values(scope.catalog, vertex)
    if given is None or vertex.negations or len(vertex.filters) != len(node.key or ()):
        return None
    if any(node.properties[name].type.scalar != "String" for name in node.key or ()):
        return None
    return with_key(scope, node, [python_value(value, scope.params) for value in given])


def with_key(scope: Scope, node: NodeType, values: list[Any]) -> npt.NDArray[np.int64] | None:
    """The position of the node with a key, if there is one. None if they are no values of the key: comparing decides."""
    assert node.key is not None
    if any(value is None for value in values):
        return np.empty(0, np.int64)
    try:
        found = entity_id(node, dict(zip(node.key, map(_as_json, values), strict=True)))
    except CompileError:
        return None
    assert found is not None
    position = scope.table(f"node:{node.name}").position(found, scope.given)
    return np.array([position] if position >= 0 else [], np.int64)


def _as_json(value: Any) -> Any:
    """A value as a load record has it."""
    if isinstance(value, datetime.datetime):
        return value.isoformat().replace("+00:00", "Z")
    return value.isoformat() if isinstance(value, datetime.date) else value


def hop(scope: Scope, asked: fn.Hop) -> Bound:
    along = scope.expander(asked.edge, asked.direction)
    if not asked.with_edges:
        run_hop: Callable[[Array], Array] = lambda v: along.neighbours(numbers(v)).to_list()  # noqa: E731
        return Bound((pa.int64(),), POSITIONS, run_hop, lambda v: along.count(numbers(v)), at_hand=along.is_at_hand)

    def pairs(v: Array) -> Array:
        found = along.edges(numbers(v))
        fields = [pa.array(found.targets), pa.array(found.edges)]
        return pa.LargeListArray.from_arrays(found.offsets, pa.StructArray.from_arrays(fields, ["d", "e"]))

    return Bound((pa.int64(),), PAIRS, pairs, lambda v: along.count(numbers(v)), at_hand=along.is_at_hand)


def within(scope: Scope, bounds: fn.Reach) -> Bound:
    along = scope.expander(bounds.edge, bounds.direction)
    low, high = bounds.minimum, bounds.maximum
    if not along.index.is_one_type:
        run: Callable[[Array], Array] = _nothing if low > 1 else lambda v: along.neighbours(numbers(v)).to_list()
    elif bounds.reversed and low > 1:
        run = lambda v: along.reached_by(numbers(v), low, high).to_list()  # noqa: E731
    else:
        run = lambda v: along.reach(numbers(v), low, high).to_list()  # noqa: E731
    return Bound((pa.int64(),), POSITIONS, run, is_search=True)


def single(scope: Scope, asked: fn.Single) -> Bound:
    """Position to its only neighbour, or null."""
    targets = scope.index(asked.edge).single(asked.direction)
    assert targets is not None
    column = pa.array(targets, mask=targets < 0)
    return Bound((pa.int64(),), pa.int64(), column.take, at_hand=True)


def common(scope: Scope, asked: fn.Common) -> Bound:
    """Two positions to the list of their common neighbours."""
    first, second = (
        scope.index(edge).neighbours(direction) for edge, direction in zip(asked.edges, asked.directions, strict=True)
    )
    return Bound(
        (pa.int64(), pa.int64()),
        POSITIONS,
        lambda us, vs: meet(first, second, numbers(us), numbers(vs)).to_list(),
        is_search=True,
    )


def joined(scope: Scope, asked: fn.Joined) -> Bound:
    """Two positions to whether the second is within some hops of the first."""
    along = scope.expander(asked.edge, asked.direction)
    low, high = asked.minimum, asked.maximum if along.index.is_one_type else 1

    def run(us: Array, vs: Array) -> Array:
        if low > high:
            return pa.array(np.zeros(len(us), np.bool_))
        return pa.array(along.leads_to(numbers(us), numbers(vs), low, high))

    return Bound((pa.int64(), pa.int64()), pa.bool_(), run, at_hand=high == 1 and along.is_at_hand)


def _nothing(v: Array) -> Array:
    return pa.LargeListArray.from_arrays(np.zeros(len(v) + 1, np.int64), pa.array([], pa.int64()))
