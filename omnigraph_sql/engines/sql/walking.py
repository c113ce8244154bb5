"""Walks along edges for the functions of SQL: from ids to ids."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_compiler import EdgeType
from omnigraph_sql.engines.scope import Scope
from omnigraph_sql.errors import BadRequest
from omnigraph_udfs.arrays import Positions
from omnigraph_udfs.reach import distances

_FARTHEST = 1 << 30
Find = Callable[[str], EdgeType]


def expanded(
    scope: Scope, edge: EdgeType, direction: str, ids: list[str], least: int, most: int
) -> list[pa.Array | pa.ChunkedArray]:
    """Starts and ends of walks, in the order of the ids given, then of the ends; an id that is not there leads nowhere."""
    start, end = _ends(edge, direction)
    if most > 1 and start != end:
        raise BadRequest(
            f"`{edge.name}` leads from {edge.source} to {edge.target}, so there is no second hop", hint="go one hop only"
        )
    asked = pa.array(list(dict.fromkeys(ids)), pa.string())
    at = scope.table(f"node:{start}").find(asked, scope.given)
    along = scope.expander(edge.name, direction)
    found = along.neighbours(at) if most == 1 else along.reach(at, least, most)
    starts = asked.take(pa.array(found.rows()))
    gather = scope.table(f"node:{end}").gather("id", scope.given, comparable=False)
    ends = gather(pa.array(found.targets, pa.int64())).cast(pa.string())
    order = np.lexsort((_ranks(ends), found.rows()))
    return [starts.take(pa.array(order)), ends.take(pa.array(order))]


def degrees(scope: Scope, find: Find, edges: pa.Array, ids: pa.Array, directions: pa.Array) -> pa.Array:
    """How many neighbours the node of each row has."""
    out = np.full(len(ids), -1, np.int64)
    for edge, direction, rows in _groups(find, edges, directions):
        at = scope.table(f"node:{_ends(edge, direction)[0]}").find(ids.take(pa.array(rows)), scope.given)
        counted = scope.expander(edge.name, direction).degrees(at, stored=False)
        out[rows] = np.where(at >= 0, counted, -1)
    return pa.array(out, mask=out < 0)


def fewest_hops(
    scope: Scope, find: Find, edges: pa.Array, starts: pa.Array, ends: pa.Array, directions: pa.Array
) -> pa.Array:
    """How far the end of each row is from its start."""
    out = np.full(len(starts), -1, np.int64)
    for edge, direction, rows in _groups(find, edges, directions):
        here, there = _ends(edge, direction)
        at = scope.table(f"node:{here}").find(starts.take(pa.array(rows)), scope.given)
        to = scope.table(f"node:{there}").find(ends.take(pa.array(rows)), scope.given)
        out[rows] = _hops(scope, edge, direction, at, to)
    return pa.array(out, mask=out < 0)


def _hops(scope: Scope, edge: EdgeType, direction: str, at: Positions, to: Positions) -> Positions:
    if edge.source == edge.target:
        return distances(scope.index(edge.name).neighbours(direction), at, to, most=_FARTHEST)
    there = (at >= 0) & (to >= 0)
    known = scope.expander(edge.name, direction).leads_to(np.where(there, at, -1), to, 1, 1)
    return np.where(there & known, 1, -1)


def _groups(find: Find, edges: pa.Array, directions: pa.Array) -> Iterator[tuple[EdgeType, str, Positions]]:
    """The rows for each edge type and direction; a row without one of them is in no group."""
    words = pc.binary_join_element_wise(directions, edges, " ")
    for word in words.unique().drop_null().to_pylist():
        direction, _, name = word.partition(" ")
        if direction not in ("out", "in", "both"):
            raise BadRequest(f"`{direction}` is no direction", hint="write 'out', 'in' or 'both'")
        yield find(name), direction, np.flatnonzero(pc.equal(words, word).fill_null(False).to_numpy(zero_copy_only=False))


def _ends(edge: EdgeType, direction: str) -> tuple[str, str]:
    """The types that a walk begins and ends with."""
    if direction == "both" and edge.source != edge.target:
        hint = "walk 'out' or 'in'"
        raise BadRequest(f"`{edge.name}` leads from {edge.source} to {edge.target}, not both ways", hint=hint)
    return (edge.target, edge.source) if direction == "in" else (edge.source, edge.target)


def _ranks(texts: pa.Array) -> Positions:
    found = np.empty(len(texts), np.int64)
    found[pc.sort_indices(texts).to_numpy()] = np.arange(len(texts))
    return found
