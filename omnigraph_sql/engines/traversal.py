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
from omnigraph_udfs.csr import Csr
from omnigraph_udfs.expand import Expansion, expand, has_any
from omnigraph_udfs.reach import reach

POSITIONS = pa.large_list(pa.int64())
PAIRS = pa.large_list(pa.struct([("d", pa.int64()), ("e", pa.int64())]))


def relation(scope: Scope, relation: fn.Nodes | fn.Lookup) -> npt.NDArray[np.int64]:
    """The positions of a relation."""
    table = scope.table(f"node:{relation.type}")
    if isinstance(relation, fn.Nodes):
        return np.arange(table.size)
    return _look_up(scope.catalog.nodes[relation.type], table, [scope.values[name] for name in relation.values])


def _look_up(node: NodeType, table: TableData, values: list[Any]) -> npt.NDArray[np.int64]:
    assert node.key is not None
    if any(value is None for value in values):
        return np.empty(0, np.int64)
    try:
        found = entity_id(node, dict(zip(node.key, values, strict=True)))
    except (ValueError, TypeError):
        return np.arange(table.size)  # of another type than the key: the comparison decides
    position = -1 if found is None else table.ids.position(found)
    return np.array([position] if position >= 0 else [], np.int64)


def hop(scope: Scope, asked: fn.Hop) -> Bound:
    index = scope.index(asked.edge)
    if not asked.with_edges:
        csr = index.neighbours(asked.direction)
        return Bound((pa.int64(),), POSITIONS, lambda v: expand(csr, numbers(v)).to_list())
    whole = index.edges(asked.direction)

    def pairs(v: Array) -> Array:
        found = expand(whole, numbers(v))
        fields = [pa.array(found.targets), pa.array(found.edges)]
        return pa.LargeListArray.from_arrays(found.offsets, pa.StructArray.from_arrays(fields, ["d", "e"]))

    return Bound((pa.int64(),), PAIRS, pairs)


def within(scope: Scope, bounds: fn.Reach) -> Bound:
    index = scope.index(bounds.edge)
    low, high = bounds.minimum, bounds.maximum
    csr = index.neighbours(bounds.direction)
    if not index.is_one_type:
        run: Callable[[Array], Array] = _nothing if low > 1 else lambda v: expand(csr, numbers(v)).to_list()
    elif bounds.reversed and low > 1:
        run = _reached_by(index.without_loops(bounds.direction), csr, low, high)
    else:
        run = lambda v: reach(csr, numbers(v), least=low, most=high).to_list()  # noqa: E731
    return Bound((pa.int64(),), POSITIONS, run)


def any_neighbour(scope: Scope, asked: fn.HasAny) -> Bound:
    """Position to whether it has a neighbour."""
    csr = scope.index(asked.edge).neighbours(asked.direction)
    return Bound((pa.int64(),), pa.bool_(), lambda v: pa.array(has_any(csr, numbers(v))))


def _nothing(v: Array) -> Array:
    return pa.LargeListArray.from_arrays(np.zeros(len(v) + 1, np.int64), pa.array([], pa.int64()))


def _reached_by(plain: Csr, whole: Csr, low: int, high: int) -> Callable[[Array], Array]:
    """From where a vertex is within some hops: a loop on it counts one hop more, loops on the way count for nothing."""
    rows = np.repeat(np.arange(whole.sources), whole.degrees())
    has_loop = np.zeros(whole.sources, np.bool_)
    has_loop[rows[rows == whole.targets]] = True

    def run(v: Array) -> Array:
        at = numbers(v)
        near = reach(plain, at, least=low, most=high)
        looped = np.where(has_loop[at], at, -1)
        return _union(len(at), [near, reach(plain, looped, least=low - 1, most=high - 1)])

    return run


def _union(count: int, expansions: list[Expansion]) -> Array:
    rows = np.concatenate([each.rows() for each in expansions])
    targets = np.concatenate([each.targets for each in expansions])
    pairs = np.unique(np.stack([rows, targets]), axis=1)
    offsets = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(pairs[0], minlength=count), out=offsets[1:])
    return pa.LargeListArray.from_arrays(offsets, pa.array(pairs[1]))
