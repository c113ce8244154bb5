"""The topology of an edge table between versions of its node tables: mapped from a file, extended, or built."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from omnigraph_sql.storage.derived_files import Arrays, DerivedFile
from omnigraph_sql.topology.derived_store import DerivedStore, TableVersion, key_of
from omnigraph_sql.topology.id_index import begins_with, stored_ids
from omnigraph_sql.topology.table_columns import TableData
from omnigraph_udfs import csr
from omnigraph_udfs.arrays import Ints, Positions, index_type
from omnigraph_udfs.checks import require_index, require_positions, require_type
from omnigraph_udfs.csr import Csr

KIND = "topology"


@dataclass(frozen=True)
class Ends:
    """An edge table and the tables of its two ends."""

    edges: TableData
    sources: TableData
    targets: TableData

    @property
    def tables(self) -> tuple[TableData, TableData, TableData]:
        return self.edges, self.sources, self.targets

    def key(self) -> str:
        """Return the key of the topology: the versions of the three tables."""
        return key_of(*([table.entry.table_key, *table.version] for table in self.tables))

    @property
    def derived(self) -> DerivedStore:
        return self.edges.derived


@dataclass(frozen=True, kw_only=True)
class Topology:
    """The edges of a table in table order, by source and by target.

    Attributes:
        tails: The position of each edge's source, -1 if it is missing.
        heads: The position of each edge's target, -1 if it is missing.
        out: Stored edges by source.
        into: Stored edges by target.
        out_set: Distinct targets by source.
        in_set: Distinct sources by target.
        file: The file of the arrays.
        functional: For each direction, True if no vertex has more than one neighbour.
    """

    tails: Ints
    heads: Ints
    out: Csr
    into: Csr
    out_set: Csr
    in_set: Csr
    file: DerivedFile
    functional: dict[str, bool]

    def is_functional(self, direction: str) -> bool:
        """Return True if no vertex has more than one neighbour."""
        return self.functional[direction]


def stored_topology(ends: Ends) -> Topology | None:
    """Return the stored topology, or None."""
    file = ends.derived.get(KIND, ends.key())
    return None if file is None else _read(file, ends)


def make_topology(ends: Ends) -> Topology:
    """Build the topology, or extend that of an earlier version, and store it."""
    extended = _extended(ends)
    tails, heads, out, into = _built(ends) if extended is None else extended
    sets = {"out": csr.distinct(out), "in": csr.distinct(into)}
    arrays = {"tails": tails, "heads": heads}
    for name, whole in (("out", out), ("in", into)):
        assert whole.edges is not None
        arrays |= {f"{name}_offsets": whole.offsets, f"{name}_targets": whole.targets, f"{name}_edges": whole.edges}
        if sets[name].size != whole.size:
            arrays |= {f"{name}_set_offsets": sets[name].offsets, f"{name}_set_targets": sets[name].targets}
    file = ends.derived.put(KIND, ends.key(), _facts(ends, tails, heads), arrays)
    return _read(file, ends) or _topology(file, (tails, heads), {"out": out, "in": into}, sets)


def _facts(ends: Ends, tails: Ints, heads: Ints) -> dict[str, Any]:
    return {
        "table": ends.edges.entry.path,
        "paths": [table.entry.path for table in ends.tables],
        "layouts": [table.layout() for table in ends.tables],
        "nodes": [list(table.version) for table in ends.tables[1:]],
        "is_whole": bool((tails >= 0).all() and (heads >= 0).all()),
    }


def _built(ends: Ends) -> tuple[Ints, Ints, Csr, Csr]:
    tails, heads = _read_edges(ends, 0)
    return tails, heads, *_both(tails, heads, ends)


def _both(tails: Ints, heads: Ints, ends: Ends) -> tuple[Csr, Csr]:
    out = csr.build(tails, heads, sources=ends.sources.size, width=ends.targets.size)
    return out, csr.transpose(out)


def _read_edges(ends: Ends, first: int) -> tuple[Ints, Ints]:
    """Read the ends of the edges from a position on; ids are looked up batch by batch."""
    count = ends.edges.size - first
    kind = index_type(max(ends.sources.size, ends.targets.size))
    tails, heads = np.empty(count, kind), np.empty(count, kind)
    if count == 0:
        return tails, heads
    done = 0
    for batch in ends.edges.scan(["src", "dst"], first_row=first):
        tails[done : done + batch.num_rows] = ends.sources.ids.find(batch.column("src"))
        heads[done : done + batch.num_rows] = ends.targets.ids.find(batch.column("dst"))
        done += batch.num_rows
    return tails, heads


def _extended(ends: Ends) -> tuple[Ints, Ints, Csr, Csr] | None:
    """Extend the topology of an earlier version to which edges were only added; None if there is no such version."""
    candidates = []
    for description in ends.derived.earlier(KIND, ends.edges.entry.path):
        origin = _origin(ends, description.facts)
        if origin is not None:
            candidates.append((sum(is_moved for is_moved, _ in origin), description.key, origin))
    # Prefer versions whose vertices have not moved.
    for _, key, origin in sorted(candidates, key=lambda candidate: candidate[0]):
        file = ends.derived.get(KIND, key)
        earlier = None if file is None else _read(file, None)
        maps = None if earlier is None else _moves(ends, origin)
        if earlier is not None and maps is not None and len(earlier.tails) <= ends.edges.size:
            return _added(ends, earlier, maps)
    return None


Origin = list[tuple[bool, TableVersion]]
"""For each end: True if its vertices have moved since, and the version that they were in."""


def _origin(ends: Ends, facts: dict[str, Any]) -> Origin | None:
    """Return the origin of an earlier topology; None if it cannot be extended or its description is invalid."""
    try:
        layouts, versions = facts["layouts"], [(str(path), branch, int(v), str(t)) for path, branch, v, t in facts["nodes"]]
        fits = facts["paths"] == [table.entry.path for table in ends.tables] and facts["is_whole"] is True
        if not fits or not begins_with(ends.edges.layout(), layouts[0]):
            return None
        moved = [not begins_with(table.layout(), then) for table, then in zip(ends.tables[1:], layouts[1:], strict=True)]
        return list(zip(moved, versions, strict=True))
    except (KeyError, IndexError, TypeError, ValueError):
        return None


def _added(ends: Ends, earlier: Topology, maps: list[Positions | None]) -> tuple[Ints, Ints, Csr, Csr]:
    first = len(earlier.tails)
    new_tails, new_heads = _read_edges(ends, first)
    kind = new_tails.dtype
    old = [
        ids if moves is None else moves[ids].astype(kind)
        for ids, moves in zip((earlier.tails, earlier.heads), maps, strict=True)
    ]
    tails, heads = (np.concatenate(pair) for pair in ((old[0], new_tails), (old[1], new_heads)))
    if any(moves is not None for moves in maps):
        return tails, heads, *_both(tails, heads, ends)
    sizes = {"sources": ends.sources.size, "width": ends.targets.size}
    turned = {"sources": ends.targets.size, "width": ends.sources.size}
    out = csr.extend(earlier.out, new_tails, new_heads, **sizes, first_edge=first)
    return tails, heads, out, csr.extend(earlier.into, new_heads, new_tails, **turned, first_edge=first)


def _moves(ends: Ends, origin: Origin) -> list[Positions | None] | None:
    """Return for each end the new positions of moved vertices, or None if none moved; None if they are unknown."""
    maps: list[Positions | None] = []
    for table, (is_moved, version) in zip(ends.tables[1:], origin, strict=True):
        if not is_moved:
            maps.append(None)
            continue
        earlier = stored_ids(ends.derived, version)
        if earlier is None:
            return None
        maps.append(table.ids.find(earlier[1].ids.to_arrow()))
    return maps


def _read(file: DerivedFile, ends: Ends | None) -> Topology | None:
    """Read the topology from a file; None if it does not match these tables."""
    try:
        return _checked(file, ends)
    except (KeyError, IndexError, TypeError, ValueError):
        return None


def _checked(file: DerivedFile, ends: Ends | None) -> Topology | None:
    """Check the arrays of a file, so that compiled code stays within bounds."""
    arrays = file.arrays
    tails, heads = require_index(arrays["tails"]), require_index(arrays["heads"])
    out_offsets, in_offsets = (require_type(arrays[name], np.int64) for name in ("out_offsets", "in_offsets"))
    sources, targets = len(out_offsets) - 1, len(in_offsets) - 1
    sizes = len(tails), sources, targets
    if len(heads) != len(tails) or (ends is not None and sizes != (ends.edges.size, ends.sources.size, ends.targets.size)):
        return None
    require_positions(tails, sources, least=-1)
    require_positions(heads, targets, least=-1)
    sides = ("out", out_offsets, targets), ("in", in_offsets, sources)
    checked = {name: _side(arrays, name, offsets, width, len(tails)) for name, offsets, width in sides}
    whole, sets = {name: pair[0] for name, pair in checked.items()}, {name: pair[1] for name, pair in checked.items()}
    return _topology(file, (tails, heads), whole, sets)


def _side(arrays: Arrays, name: str, offsets: Positions, width: int, edges: int) -> tuple[Csr, Csr]:
    """Return stored edges and sets of neighbours in one direction. Raises `ValueError` for positions out of range."""
    targets = require_index(arrays[f"{name}_targets"])
    whole = Csr(offsets, targets, require_index(arrays[f"{name}_edges"]), width)
    whole.require_sound(edges)
    neighbours = Csr(offsets, targets, None, width)
    if f"{name}_set_offsets" in arrays:
        begins = require_type(arrays[f"{name}_set_offsets"], np.int64)
        neighbours = Csr(begins, require_index(arrays[f"{name}_set_targets"]), None, width)
    if neighbours.sources != whole.sources:
        raise ValueError(f"{neighbours.sources} and {whole.sources} vertices")
    neighbours.require_sound(edges)
    return whole, neighbours


def _topology(file: DerivedFile, ends: tuple[Ints, Ints], whole: dict[str, Csr], sets: dict[str, Csr]) -> Topology:
    functional = {name: int(adjacency.degrees().max(initial=0)) <= 1 for name, adjacency in sets.items()}
    tails, heads = ends
    return Topology(
        tails=tails,
        heads=heads,
        out=whole["out"],
        into=whole["in"],
        out_set=sets["out"],
        in_set=sets["in"],
        file=file,
        functional=functional,
    )
