"""Traversals for the SQL functions of a graph, from ids to ids."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_compiler import EdgeType
from omnigraph_sql.binding.context import BindContext
from omnigraph_sql.errors import BadRequest
from omnigraph_udfs.arrays import Positions
from omnigraph_udfs.reach import distances

_FARTHEST = 1 << 30
Find = Callable[[str], EdgeType]


def expand_ids(
    context: BindContext, edge: EdgeType, direction: str, ids: list[str], least: int, most: int
) -> list[pa.Array | pa.ChunkedArray]:
    """Return start and end ids, sorted by the position of the start in `ids`, then by the end; unknown ids are skipped."""
    start, end = _ends(edge, direction)
    if most > 1 and start != end:
        raise BadRequest(
            f"`{edge.name}` leads from {edge.source} to {edge.target}, so there is no second hop", hint="go one hop only"
        )
    start_ids = pa.array(list(dict.fromkeys(ids)), pa.string())
    at = context.table(f"node:{start}").find(start_ids, context.traversal)
    expander = context.expander(edge.name, direction)
    reached = expander.neighbours(at) if most == 1 else expander.reach(at, least, most)
    starts = start_ids.take(pa.array(reached.rows()))
    gather = context.table(f"node:{end}").gather("id", context.traversal, comparable=False)
    ends = gather(pa.array(reached.targets, pa.int64())).cast(pa.string())
    order = np.lexsort((_ranks(ends), reached.rows()))
    return [starts.take(pa.array(order)), ends.take(pa.array(order))]


def degrees_of(context: BindContext, find: Find, edges: pa.Array, ids: pa.Array, directions: pa.Array) -> pa.Array:
    """Return the number of neighbours of the node in each row."""
    out = np.full(len(ids), -1, np.int64)
    for edge, direction, rows in _groups(find, edges, directions):
        at = context.table(f"node:{_ends(edge, direction)[0]}").find(ids.take(pa.array(rows)), context.traversal)
        counted = context.expander(edge.name, direction).degrees(at, stored=False)
        out[rows] = np.where(at >= 0, counted, -1)
    return pa.array(out, mask=out < 0)


def fewest_hops(
    context: BindContext, find: Find, edges: pa.Array, starts: pa.Array, ends: pa.Array, directions: pa.Array
) -> pa.Array:
    """Return the number of hops from the start to the end in each row."""
    out = np.full(len(starts), -1, np.int64)
    for edge, direction, rows in _groups(find, edges, directions):
        here, there = _ends(edge, direction)
        at = context.table(f"node:{here}").find(starts.take(pa.array(rows)), context.traversal)
        to = context.table(f"node:{there}").find(ends.take(pa.array(rows)), context.traversal)
        out[rows] = _hops(context, edge, direction, at, to)
    return pa.array(out, mask=out < 0)


def _hops(context: BindContext, edge: EdgeType, direction: str, at: Positions, to: Positions) -> Positions:
    if edge.source == edge.target:
        return distances(context.index(edge.name).neighbours(direction), at, to, most=_FARTHEST)
    both_exist = (at >= 0) & (to >= 0)
    is_neighbour = context.expander(edge.name, direction).leads_to(np.where(both_exist, at, -1), to, 1, 1)
    return np.where(both_exist & is_neighbour, 1, -1)


def _groups(find: Find, edges: pa.Array, directions: pa.Array) -> Iterator[tuple[EdgeType, str, Positions]]:
    """Yield the rows of each pair of edge type and direction; rows with a null are left out."""
    words = pc.binary_join_element_wise(directions, edges, " ")
    for word in words.unique().drop_null().to_pylist():
        direction, _, name = word.partition(" ")
        if direction not in ("out", "in", "both"):
            raise BadRequest(f"`{direction}` is no direction", hint="write 'out', 'in' or 'both'")
        yield find(name), direction, np.flatnonzero(pc.equal(words, word).fill_null(False).to_numpy(zero_copy_only=False))


def _ends(edge: EdgeType, direction: str) -> tuple[str, str]:
    """Return the node types at the start and the end of a traversal."""
    if direction == "both" and edge.source != edge.target:
        hint = "walk 'out' or 'in'"
        raise BadRequest(f"`{edge.name}` leads from {edge.source} to {edge.target}, not both ways", hint=hint)
    return (edge.target, edge.source) if direction == "in" else (edge.source, edge.target)


def _ranks(texts: pa.Array) -> Positions:
    ranks = np.empty(len(texts), np.int64)
    ranks[pc.sort_indices(texts).to_numpy()] = np.arange(len(texts))
    return ranks
