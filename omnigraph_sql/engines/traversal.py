"""Nodes, hops and reach of a plan, bound to the topology of one snapshot."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph_compiler import NodeType, entity_id
from omnigraph_sql.engines.scope import Array, Bound, Scope, numbers
from omnigraph_sql.planner import functions as fn
from omnigraph_sql.topology.tables import TableData

POSITIONS = pa.large_list(pa.int64())
PAIRS = pa.large_list(pa.struct([("d", pa.int64()), ("e", pa.int64())]))


def relation(scope: Scope, relation: fn.Relation) -> npt.NDArray[np.int64]:
    """The positions of a relation."""
    table = scope.table(f"node:{relation.type}")
    if isinstance(relation, fn.Nodes):
        return np.arange(table.size)
    return _look_up(scope, scope.catalog.nodes[relation.type], table, [scope.values[name] for name in relation.values])


def _look_up(scope: Scope, node: NodeType, table: TableData, values: list[Any]) -> npt.NDArray[np.int64]:
    assert node.key is not None
    if any(value is None for value in values):
        return np.empty(0, np.int64)
    try:
        found = entity_id(node, dict(zip(node.key, values, strict=True)))
    except (ValueError, TypeError):
        return np.arange(table.size)  # of another type than the key: the comparison decides
    positions = table.find(pa.array([found], pa.string()), scope.given)
    return positions[positions >= 0]


def hop(scope: Scope, asked: fn.Hop) -> Bound:
    along = scope.expander(asked.edge, asked.direction)
    if not asked.with_edges:
        return Bound((pa.int64(),), POSITIONS, lambda v: along.neighbours(numbers(v)).to_list())

    def pairs(v: Array) -> Array:
        found = along.edges(numbers(v))
        fields = [pa.array(found.targets), pa.array(found.edges)]
        return pa.LargeListArray.from_arrays(found.offsets, pa.StructArray.from_arrays(fields, ["d", "e"]))

    return Bound((pa.int64(),), PAIRS, pairs)


def within(scope: Scope, bounds: fn.Reach) -> Bound:
    along = scope.expander(bounds.edge, bounds.direction)
    low, high = bounds.minimum, bounds.maximum
    if not along.index.is_one_type:
        run: Callable[[Array], Array] = _nothing if low > 1 else lambda v: along.neighbours(numbers(v)).to_list()
    elif bounds.reversed and low > 1:
        run = lambda v: along.reached_by(numbers(v), low, high).to_list()  # noqa: E731
    else:
        run = lambda v: along.reach(numbers(v), low, high).to_list()  # noqa: E731
    return Bound((pa.int64(),), POSITIONS, run)


def any_neighbour(scope: Scope, asked: fn.HasAny) -> Bound:
    """Position to whether it has a neighbour."""
    along = scope.expander(asked.edge, asked.direction)
    return Bound((pa.int64(),), pa.bool_(), lambda v: pa.array(along.has_any(numbers(v))))


def _nothing(v: Array) -> Array:
    return pa.LargeListArray.from_arrays(np.zeros(len(v) + 1, np.int64), pa.array([], pa.int64()))
