"""The topology of an edge table between versions of its node tables: mapped from its file, grown, or built."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from omnigraph_sql.storage.derived import DerivedFile
from omnigraph_sql.topology.ids import begins_with, stored_ids
from omnigraph_sql.topology.shelf import Shelf, key_of
from omnigraph_sql.topology.tables import TableData
from omnigraph_udfs import csr
from omnigraph_udfs.arrays import Ints, Positions, index_type
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
        """What the topology depends on: exactly these versions."""
        return key_of(*([each.entry.table_key, *each.version] for each in self.tables))

    @property
    def shelf(self) -> Shelf:
        return self.edges.shelf


@dataclass(frozen=True)
class Topology:
    """Where every edge leads, in the order of the table, by source and by target.

    Attributes:
        tails: The position of each edge's source, -1 if it is missing.
        heads: The position of each edge's target, -1 if it is missing.
        out: Stored edges by source.
        into: Stored edges by target.
        out_set: Each target once by source.
        in_set: Each source once by target.
        file: What it is kept in.
    """

    tails: Ints
    heads: Ints
    out: Csr
    into: Csr
    out_set: Csr
    in_set: Csr
    file: DerivedFile

    def is_functional(self, direction: str) -> bool:
        """Whether no vertex has more than one neighbour."""
        return bool(self.file.facts[direction]["functional"])


def stored_topology(ends: Ends) -> Topology | None:
    """The topology, if it is kept."""
    file = ends.shelf.get(KIND, ends.key())
    return None if file is None else _read(file, ends)


def make_topology(ends: Ends) -> Topology:
    """The topology of versions that have none yet."""
    grown = _grown(ends)
    tails, heads, out, into = _built(ends) if grown is None else grown
    sets = {"out": csr.distinct(out), "in": csr.distinct(into)}
    arrays = {"tails": tails, "heads": heads}
    for name, whole in (("out", out), ("in", into)):
        assert whole.edges is not None
        arrays |= {f"{name}_offsets": whole.offsets, f"{name}_targets": whole.targets, f"{name}_edges": whole.edges}
        if sets[name].size != whole.size:
            arrays |= {f"{name}_set_offsets": sets[name].offsets, f"{name}_set_targets": sets[name].targets}
    facts = _facts(ends, tails, heads, sets, {"out": out, "in": into})
    made = _read(ends.shelf.put(KIND, ends.key(), facts, arrays), ends)
    assert made is not None
    return made


def _facts(ends: Ends, tails: Ints, heads: Ints, sets: dict[str, Csr], whole: dict[str, Csr]) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "table": ends.edges.entry.path,
        "paths": [each.entry.path for each in ends.tables],
        "layouts": [each.layout() for each in ends.tables],
        "nodes": [list(each.version) for each in ends.tables[1:]],
        "is_whole": bool((tails >= 0).all() and (heads >= 0).all()),
    }
    for name in ("out", "in"):
        facts[name] = {
            "functional": int(sets[name].degrees().max(initial=0)) <= 1,
            "max_degree": int(whole[name].degrees().max(initial=0)),
        }
    return facts


def _built(ends: Ends) -> tuple[Ints, Ints, Csr, Csr]:
    tails, heads = _read_edges(ends, 0)
    return tails, heads, *_both(tails, heads, ends)


def _both(tails: Ints, heads: Ints, ends: Ends) -> tuple[Csr, Csr]:
    out = csr.build(tails, heads, sources=ends.sources.size, width=ends.targets.size)
    return out, csr.transpose(out)


def _read_edges(ends: Ends, first: int) -> tuple[Ints, Ints]:
    """The ends of the edges from a position on; ids are looked up piece by piece and not kept."""
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


def _grown(ends: Ends) -> tuple[Ints, Ints, Csr, Csr] | None:
    """From the topology of an earlier version to whose edges others were only added."""
    paths, layout = [each.entry.path for each in ends.tables], ends.edges.layout()
    kept = [
        each
        for each in ends.shelf.earlier(KIND, paths[0])
        if each.facts.get("paths") == paths and each.facts["is_whole"] and begins_with(layout, each.facts["layouts"][0])
    ]
    nodes = [each.layout() for each in ends.tables[1:]]
    # Those whose vertices are where they were come first.
    moved = [
        sum(not begins_with(now, then) for now, then in zip(nodes, each.facts["layouts"][1:], strict=True)) for each in kept
    ]
    for _, file in sorted(zip(moved, kept, strict=True), key=lambda pair: pair[0]):
        earlier = _read(file, None)
        maps = None if earlier is None else _moves(ends, file)
        if earlier is not None and maps is not None:
            return _added(ends, earlier, maps)
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


def _moves(ends: Ends, file: DerivedFile) -> list[Positions | None] | None:
    """For each end, where the vertices went since, or None if they stayed; None as a whole if that cannot be told."""
    maps: list[Positions | None] = []
    for table, layout, version in zip(ends.tables[1:], file.facts["layouts"][1:], file.facts["nodes"], strict=True):
        if begins_with(table.layout(), layout):
            maps.append(None)
            continue
        then = stored_ids(ends.shelf, (version[0], version[1], version[2], version[3]))
        if then is None:
            return None
        maps.append(table.ids.find(then[1].ids.to_arrow()))
    return maps


def _read(file: DerivedFile, ends: Ends | None) -> Topology | None:
    """The topology in a file; None if it is not what these tables need."""
    try:
        return _checked(file, ends)
    except (KeyError, IndexError, TypeError, ValueError):
        return None


def _checked(file: DerivedFile, ends: Ends | None) -> Topology | None:
    arrays = file.arrays
    sources, targets = len(arrays["out_offsets"]) - 1, len(arrays["in_offsets"]) - 1
    found = {}
    for name, width in (("out", targets), ("in", sources)):
        found[name] = Csr(arrays[f"{name}_offsets"], arrays[f"{name}_targets"], arrays[f"{name}_edges"], width)
        if f"{name}_set_offsets" in arrays:
            found[f"{name}_set"] = Csr(arrays[f"{name}_set_offsets"], arrays[f"{name}_set_targets"], None, width)
        else:
            found[f"{name}_set"] = Csr(found[name].offsets, found[name].targets, None, width)
    if any(int(each.offsets[-1]) != each.size or int(each.offsets[0]) != 0 for each in found.values()):
        return None
    tails, heads = arrays["tails"], arrays["heads"]
    if ends is not None and (len(tails), sources, targets) != (ends.edges.size, ends.sources.size, ends.targets.size):
        return None
    return Topology(tails, heads, found["out"], found["in"], found["out_set"], found["in_set"], file)
