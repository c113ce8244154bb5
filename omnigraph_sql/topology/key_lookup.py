"""Neighbours of a few vertices, read from the edge table by key, without building an adjacency."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_sql.storage.filters import member_filter
from omnigraph_sql.topology.cost_model import TraversalSettings
from omnigraph_sql.topology.edge_topology import Ends
from omnigraph_sql.topology.table_columns import TableData
from omnigraph_udfs import csr
from omnigraph_udfs.arrays import Ints, Positions
from omnigraph_udfs.csr import Csr

CHUNK = 1024
"""The maximum number of ids in the filter of one scan."""


def keyed(ends: Ends, direction: str) -> tuple[str, TableData, str, TableData]:
    """Return the key column of a direction and its node table, then those of the far end."""
    near, far = ("src", ends.sources), ("dst", ends.targets)
    return (*near, *far) if direction == "out" else (*far, *near)


def is_covered(ends: Ends, direction: str) -> bool:
    """Return True if indexes cover all edges by the key columns of a direction."""
    return all(ends.edges.is_covered(keyed(ends, side)[0]) for side in _sides(direction))


def edges_of(ends: Ends, direction: str, at: Positions, settings: TraversalSettings) -> Csr:
    """Return the stored edges of distinct vertices; a vertex is numbered by its index among them."""
    parts = [_read(ends, side, at, settings) for side in _sides(direction)]
    rows, targets, edges = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    width = keyed(ends, _sides(direction)[0])[3].size
    if direction == "both":
        # Both scans return a self-loop.
        _, distinct = np.unique(np.stack([rows, edges]), axis=1, return_index=True)
        rows, targets, edges = rows[distinct], targets[distinct], edges[distinct]
    order = np.lexsort((edges, targets, rows))
    offsets = np.zeros(len(at) + 1, np.int64)
    np.cumsum(np.bincount(rows, minlength=len(at)), out=offsets[1:])
    return Csr(offsets, targets[order], edges[order], width)


def surroundings(
    ends: Ends, direction: str, at: Positions, most: int, settings: TraversalSettings
) -> tuple[Positions, Csr] | None:
    """Return the vertices within `most` hops, ascending, and the adjacency among them.

    Vertices at the maximum distance have no neighbours in it. None if a frontier exceeds the limit of the settings.
    """
    visited, frontier = at, at
    tails: list[Ints] = [np.empty(0, np.int64)]
    heads: list[Ints] = [np.empty(0, np.int64)]
    for _ in range(most):
        if settings.mode is None and len(frontier) > settings.max_frontier:
            return None
        near = edges_of(ends, direction, frontier, settings)
        tails.append(np.repeat(frontier, near.degrees()))
        heads.append(near.targets)
        frontier = np.setdiff1d(near.targets, visited)
        visited = np.union1d(visited, frontier)
        if len(frontier) == 0:
            break
    places = [np.searchsorted(visited, np.concatenate(parts)) for parts in (tails, heads)]
    return visited, csr.distinct(csr.build(*places, sources=len(visited), width=len(visited)))


def _sides(direction: str) -> tuple[str, ...]:
    return ("out", "in") if direction == "both" else (direction,)


def _read(ends: Ends, side: str, at: Positions, settings: TraversalSettings) -> tuple[Positions, Positions, Positions]:
    key, near, other, far = keyed(ends, side)
    ids = near.gather("id", settings, comparable=False)(pa.array(at))
    rows, far_ids, edges = [np.empty(0, np.int64)], [pa.array([], pa.string())], [np.empty(0, np.int64)]
    for start in range(0, len(ids), CHUNK):
        for batch in ends.edges.scan([key, other, "_rowoffset"], member_filter(key, ids.slice(start, CHUNK))):
            rows.append(pc.index_in(batch.column(key), value_set=ids).to_numpy().astype(np.int64))
            far_ids.append(batch.column(other))
            edges.append(batch.column("_rowoffset").to_numpy().astype(np.int64))
    targets = far.find(pa.concat_arrays(far_ids), settings)
    exists = targets >= 0
    return np.concatenate(rows)[exists], targets[exists], np.concatenate(edges)[exists]
