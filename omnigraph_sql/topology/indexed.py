"""Neighbours of a few vertices, read from the edge table by key: no adjacency is built."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_sql.storage.filters import member_filter
from omnigraph_sql.topology.building import Ends
from omnigraph_sql.topology.modes import Settings
from omnigraph_sql.topology.tables import TableData
from omnigraph_udfs import csr
from omnigraph_udfs.arrays import Ints, Positions
from omnigraph_udfs.csr import Csr

CHUNK = 1024
"""Ids in the filter of one scan."""


def keyed(ends: Ends, direction: str) -> tuple[str, TableData, str, TableData]:
    """The key column of a direction and the table it points into, then those of the far end."""
    near, far = ("src", ends.sources), ("dst", ends.targets)
    return (*near, *far) if direction == "out" else (*far, *near)


def is_covered(ends: Ends, direction: str) -> bool:
    """Whether indexes know all edges by the keys that a direction needs."""
    return all(ends.edges.is_covered(keyed(ends, each)[0]) for each in _sides(direction))


def edges_of(ends: Ends, direction: str, at: Positions, given: Settings) -> Csr:
    """The stored edges of some vertices, which are different; a vertex is numbered by its place among them."""
    parts = [_read(ends, side, at, given) for side in _sides(direction)]
    rows, targets, edges = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    width = keyed(ends, _sides(direction)[0])[3].size
    if direction == "both":
        # A loop is found from both of its ends.
        _, once = np.unique(np.stack([rows, edges]), axis=1, return_index=True)
        rows, targets, edges = rows[once], targets[once], edges[once]
    order = np.lexsort((edges, targets, rows))
    offsets = np.zeros(len(at) + 1, np.int64)
    np.cumsum(np.bincount(rows, minlength=len(at)), out=offsets[1:])
    return Csr(offsets, targets[order], edges[order], width)


def surroundings(ends: Ends, direction: str, at: Positions, most: int, given: Settings) -> tuple[Positions, Csr] | None:
    """The vertices within some hops of the given ones, ascending, and the set of neighbours among them.

    Those at the last distance have no neighbours here. None if too many vertices are to be asked for.
    """
    known, frontier = at, at
    tails: list[Ints] = [np.empty(0, np.int64)]
    heads: list[Ints] = [np.empty(0, np.int64)]
    for _ in range(most):
        if given.mode is None and len(frontier) > given.max_frontier:
            return None
        found = edges_of(ends, direction, frontier, given)
        tails.append(np.repeat(frontier, found.degrees()))
        heads.append(found.targets)
        frontier = np.setdiff1d(found.targets, known)
        known = np.union1d(known, frontier)
        if len(frontier) == 0:
            break
    places = [np.searchsorted(known, np.concatenate(each)) for each in (tails, heads)]
    return known, csr.distinct(csr.build(*places, sources=len(known), width=len(known)))


def _sides(direction: str) -> tuple[str, ...]:
    return ("out", "in") if direction == "both" else (direction,)


def _read(ends: Ends, side: str, at: Positions, given: Settings) -> tuple[Positions, Positions, Positions]:
    key, near, other, far = keyed(ends, side)
    ids = near.gather("id", given, comparable=False)(pa.array(at))
    rows, far_ids, edges = [np.empty(0, np.int64)], [pa.array([], pa.string())], [np.empty(0, np.int64)]
    for start in range(0, len(ids), CHUNK):
        for batch in ends.edges.scan([key, other, "_rowoffset"], member_filter(key, ids.slice(start, CHUNK))):
            rows.append(pc.index_in(batch.column(key), value_set=ids).to_numpy().astype(np.int64))
            far_ids.append(batch.column(other))
            edges.append(batch.column("_rowoffset").to_numpy().astype(np.int64))
    targets = far.find(pa.concat_arrays(far_ids), given)
    there = targets >= 0
    return np.concatenate(rows)[there], targets[there], np.concatenate(edges)[there]
