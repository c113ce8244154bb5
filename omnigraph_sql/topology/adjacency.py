"""Neighbours along one edge type, in each form that traversals need."""

from __future__ import annotations

import numpy as np

from omnigraph_sql.topology.building import Ends, Topology, make_topology, stored_topology
from omnigraph_sql.topology.kept import Kept
from omnigraph_sql.topology.modes import CSR_BUILD_FACTOR, Meter
from omnigraph_sql.topology.shelf import nbytes
from omnigraph_sql.topology.tables import TableData
from omnigraph_udfs import csr
from omnigraph_udfs.arrays import Ints, Mask, Positions
from omnigraph_udfs.csr import Csr
from omnigraph_udfs.expand import functional


class GraphIndex:
    """The adjacency of one edge table between versions of its node tables, each form made when it is first needed."""

    def __init__(self, edges: TableData, sources: TableData, targets: TableData) -> None:
        self.ends = Ends(edges, sources, targets)
        self.is_one_type = sources is targets
        self.meter = Meter()
        self._kept = Kept()

    @property
    def nbytes(self) -> int:
        """What is in memory."""
        found = 0
        for each in self._kept.values():
            if isinstance(each, Topology):
                found += nbytes(each.file)
            elif isinstance(each, Csr):
                found += each.offsets.nbytes + each.targets.nbytes + (0 if each.edges is None else each.edges.nbytes)
        return found

    def is_at_hand(self) -> bool:
        """Whether the adjacency is in memory or in a file."""
        if self._kept.peek("topology") is None and self._kept.peek("no file") is None:
            found = stored_topology(self.ends)
            self._kept.get("no file" if found is None else "topology", lambda: found or "none")
        return self._kept.peek("topology") is not None

    def is_due(self) -> bool:
        """Whether asking the tables instead has cost as much by now as building it."""
        return self.meter.spent >= CSR_BUILD_FACTOR * self.ends.edges.size

    @property
    def topology(self) -> Topology:
        """Everything that is kept about the edge type."""
        self.is_at_hand()
        found: Topology = self._kept.get("topology", lambda: make_topology(self.ends))
        return found

    @property
    def tails(self) -> Ints:
        """The source of every edge, in table order."""
        return self.topology.tails

    @property
    def heads(self) -> Ints:
        """The target of every edge, in table order."""
        return self.topology.heads

    @property
    def has_all_ends(self) -> bool:
        """Whether every edge has both of its ends."""
        found: bool = self._kept.get("all ends", lambda: bool((self.tails >= 0).all() and (self.heads >= 0).all()))
        return found

    @property
    def out(self) -> Csr:
        """Stored edges by source."""
        return self.topology.out

    @property
    def into(self) -> Csr:
        """Stored edges by target."""
        return self.topology.into

    @property
    def both(self) -> Csr:
        """Stored edges from both sides."""
        found: Csr = self._kept.get("both", lambda: csr.undirected(self.out, self.into))
        return found

    def edges(self, direction: str) -> Csr:
        """One entry per stored edge."""
        return self.out if direction == "out" else self.into if direction == "in" else self.both

    def neighbours(self, direction: str) -> Csr:
        """Each neighbour once."""
        if direction == "both":
            found: Csr = self._kept.get("neighbours", lambda: csr.distinct(self.both))
            return found
        return self.topology.out_set if direction == "out" else self.topology.in_set

    def single(self, direction: str) -> Positions | None:
        """The only neighbour of every vertex, -1 for none; None if some vertex has several."""
        found = self._kept.get(f"{direction} single", lambda: (functional(self.neighbours(direction)),))
        targets: Positions | None = found[0]
        return targets

    def without_loops(self, direction: str) -> Csr:
        """Each neighbour once, the vertex itself never."""
        found: Csr = self._kept.get(f"{direction} without loops", lambda: without_loops(self.neighbours(direction)))
        return found

    def loops(self, direction: str) -> Mask:
        """Which vertices have themselves as a neighbour."""
        found: Mask = self._kept.get(f"{direction} loops", lambda: loops(self.neighbours(direction)))
        return found


def without_loops(whole: Csr) -> Csr:
    """The same neighbours, the vertex itself never."""
    rows = np.repeat(np.arange(whole.sources), whole.degrees())
    kept = rows != whole.targets
    offsets = np.zeros(whole.sources + 1, np.int64)
    np.cumsum(np.bincount(rows[kept], minlength=whole.sources), out=offsets[1:])
    return Csr(offsets, whole.targets[kept], None, whole.width)


def loops(whole: Csr) -> Mask:
    """Which vertices have themselves as a neighbour."""
    rows = np.repeat(np.arange(whole.sources), whole.degrees())
    found = np.zeros(whole.sources, np.bool_)
    found[rows[rows == whole.targets]] = True
    return found
