"""The adjacency of one edge type, in the forms that traversals need."""

from __future__ import annotations

import numpy as np

from omnigraph_sql.caches import OnceMap
from omnigraph_sql.topology.cost_model import CSR_BUILD_FACTOR, Meter
from omnigraph_sql.topology.derived_store import nbytes
from omnigraph_sql.topology.edge_topology import Ends, Topology, make_topology, stored_topology
from omnigraph_sql.topology.table_columns import TableData
from omnigraph_udfs import csr
from omnigraph_udfs.arrays import Ints, Mask, Positions
from omnigraph_udfs.csr import Csr
from omnigraph_udfs.expand import functional


class GraphIndex:
    """The adjacency of one edge table between versions of its node tables. Each form is built on first use."""

    def __init__(self, edges: TableData, sources: TableData, targets: TableData) -> None:
        self.ends = Ends(edges, sources, targets)
        self.is_one_type = sources is targets
        self.meter = Meter()
        self._memo = OnceMap()

    @property
    def nbytes(self) -> int:
        """The memory used, in bytes."""
        total = 0
        for form in self._memo.values():
            if isinstance(form, Topology):
                total += nbytes(form.file)
            elif isinstance(form, Csr):
                total += form.offsets.nbytes + form.targets.nbytes + (0 if form.edges is None else form.edges.nbytes)
        return total

    def is_cached(self) -> bool:
        """Return True if the adjacency is in memory or in a file."""
        if self._memo.peek("topology") is None and self._memo.peek("no file") is None:
            stored = stored_topology(self.ends)
            self._memo.get("no file" if stored is None else "topology", lambda: stored or "none")
        return self._memo.peek("topology") is not None

    def is_due(self) -> bool:
        """Return True if reading the tables instead has cost as much so far as building the adjacency."""
        return self.meter.spent >= CSR_BUILD_FACTOR * self.ends.edges.size

    @property
    def topology(self) -> Topology:
        """The topology of the edge type, loaded or built on first use."""
        self.is_cached()
        topology: Topology = self._memo.get("topology", lambda: make_topology(self.ends))
        return topology

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
        """True if every edge has both of its ends."""
        has_all: bool = self._memo.get("all ends", lambda: bool((self.tails >= 0).all() and (self.heads >= 0).all()))
        return has_all

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
        """Stored edges in both directions."""
        both: Csr = self._memo.get("both", lambda: csr.undirected(self.out, self.into))
        return both

    def edges(self, direction: str) -> Csr:
        """Return the stored edges in a direction."""
        return self.out if direction == "out" else self.into if direction == "in" else self.both

    def neighbours(self, direction: str) -> Csr:
        """Return the distinct neighbours in a direction."""
        if direction == "both":
            neighbours: Csr = self._memo.get("neighbours", lambda: csr.distinct(self.both))
            return neighbours
        return self.topology.out_set if direction == "out" else self.topology.in_set

    def single(self, direction: str) -> Positions | None:
        """Return the only neighbour of every vertex, -1 for none; None if a vertex has several."""
        boxed = self._memo.get(f"{direction} single", lambda: (functional(self.neighbours(direction)),))
        targets: Positions | None = boxed[0]
        return targets

    def without_loops(self, direction: str) -> Csr:
        """Return the distinct neighbours without the vertex itself."""
        plain: Csr = self._memo.get(f"{direction} without loops", lambda: without_loops(self.neighbours(direction)))
        return plain

    def loops(self, direction: str) -> Mask:
        """Return a mask of the vertices with a self-loop."""
        mask: Mask = self._memo.get(f"{direction} loops", lambda: loops(self.neighbours(direction)))
        return mask


def without_loops(whole: Csr) -> Csr:
    """Return the same neighbours without the vertex itself."""
    rows = np.repeat(np.arange(whole.sources), whole.degrees())
    is_plain = rows != whole.targets
    offsets = np.zeros(whole.sources + 1, np.int64)
    np.cumsum(np.bincount(rows[is_plain], minlength=whole.sources), out=offsets[1:])
    return Csr(offsets, whole.targets[is_plain], None, whole.width)


def loops(whole: Csr) -> Mask:
    """Return a mask of the vertices with a self-loop."""
    rows = np.repeat(np.arange(whole.sources), whole.degrees())
    mask = np.zeros(whole.sources, np.bool_)
    mask[rows[rows == whole.targets]] = True
    return mask
