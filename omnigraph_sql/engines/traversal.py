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
from omnigraph_sql.planner.estimate import key_values
from omnigraph_sql.planner.logical import Vertex
from omnigraph_sql.planner.values import python_value
from omnigraph_udfs.csr import Csr
from omnigraph_udfs.expand import Expansion, expand, has_edge
from omnigraph_udfs.meet import meet
from omnigraph_udfs.reach import reach, reaches

POSITIONS = pa.large_list(pa.int64())
PAIRS = pa.large_list(pa.struct([("d", pa.int64()), ("e", pa.int64())]))


def nodes(scope: Scope, asked: fn.Nodes | fn.Lookup) -> npt.NDArray[np.int64]:
    """The positions of a relation of nodes."""
    size = scope.table(f"node:{asked.type}").size
    if isinstance(asked, fn.Nodes):
        return np.arange(size)
    found = _with_key(scope, scope.catalog.nodes[asked.type], [scope.values[name] for name in asked.values])
    return np.arange(size) if found is None else found  # of another type than the key: the comparison decides


def look_up(scope: Scope, vertex: Vertex) -> npt.NDArray[np.int64] | None:
    """The position of a vertex that is nothing but a key, if that can be told without comparing."""
    node = scope.catalog.nodes[vertex.type]
    given = key_values(scope.catalog, vertex)
    if given is None or vertex.negations or len(vertex.filters) != len(node.key or ()):
        return None
    if any(node.properties[name].type.scalar != "String" for name in node.key or ()):
        return None
    return _with_key(scope, node, [python_value(value, scope.params) for value in given])


def _with_key(scope: Scope, node: NodeType, values: list[Any]) -> npt.NDArray[np.int64] | None:
    assert node.key is not None
    if any(value is None for value in values):
        return np.empty(0, np.int64)
    try:
        found = entity_id(node, dict(zip(node.key, values, strict=True)))
    except (ValueError, TypeError):
        return None
    position = -1 if found is None else scope.table(f"node:{node.name}").ids.position(found)
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


def single(scope: Scope, asked: fn.Single) -> Bound:
    """Position to its only neighbour, or null."""
    targets = scope.index(asked.edge).single(asked.direction)
    assert targets is not None
    column = pa.array(targets, mask=targets < 0)
    return Bound((pa.int64(),), pa.int64(), column.take)


def common(scope: Scope, asked: fn.Common) -> Bound:
    """Two positions to the list of their common neighbours."""
    first, second = (
        scope.index(edge).neighbours(direction) for edge, direction in zip(asked.edges, asked.directions, strict=True)
    )
    return Bound(
        (pa.int64(), pa.int64()),
        POSITIONS,
        lambda us, vs: meet(first, second, numbers(us), numbers(vs)).to_list(),
    )


def joined(scope: Scope, asked: fn.Joined) -> Bound:
    """Two positions to whether the second is within some hops of the first."""
    index = scope.index(asked.edge)
    csr = index.neighbours(asked.direction)
    low, high = asked.minimum, asked.maximum

    def run(us: Array, vs: Array) -> Array:
        if low > 1 and not index.is_one_type:
            return pa.array(np.zeros(len(us), np.bool_))
        if high == 1 or not index.is_one_type:
            return pa.array(has_edge(csr, numbers(us), numbers(vs)))
        return pa.array(reaches(csr, numbers(us), numbers(vs), least=low, most=high))

    return Bound((pa.int64(), pa.int64()), pa.bool_(), run)


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
