"""Adjacency of one edge table between the versions of its two node tables."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from omnigraph_sql.topology.tables import TableData
from omnigraph_udfs import csr
from omnigraph_udfs.arrays import Positions
from omnigraph_udfs.csr import Csr
from omnigraph_udfs.expand import functional


class GraphIndex:
    """Neighbours along one edge type, each form made when it is first needed."""

    def __init__(self, edges: TableData, sources: TableData, targets: TableData) -> None:
        self._edges = edges
        self._sources = sources
        self._targets = targets
        self._sets: dict[str, Csr] = {}
        self._single: dict[str, Positions | None] = {}
        self.is_one_type = sources is targets

    @cached_property
    def ends(self) -> tuple[Positions, Positions]:
        """The positions of the source and of the target of every edge, in the order of the edge table."""
        self._edges.load(["src", "dst"])
        tails = self._sources.ids.find(self._edges.column("src"))
        return tails, self._targets.ids.find(self._edges.column("dst"))

    @cached_property
    def out(self) -> Csr:
        """Stored edges by source."""
        return csr.build(*self.ends, sources=self._sources.size, width=self._targets.size)

    @cached_property
    def into(self) -> Csr:
        """Stored edges by target."""
        return csr.transpose(self.out)

    @cached_property
    def both(self) -> Csr:
        """Stored edges from both sides."""
        return csr.undirected(self.out, self.into)

    def edges(self, direction: str) -> Csr:
        """One entry per stored edge."""
        return self.out if direction == "out" else self.into if direction == "in" else self.both

    def neighbours(self, direction: str) -> Csr:
        """Each neighbour once."""
        if direction not in self._sets:
            self._sets[direction] = csr.distinct(self.edges(direction))
        return self._sets[direction]

    def single(self, direction: str) -> Positions | None:
        """The only neighbour of every vertex, -1 for none; None if some vertex has several."""
        if direction not in self._single:
            self._single[direction] = functional(self.neighbours(direction))
        return self._single[direction]

    def without_loops(self, direction: str) -> Csr:
        """Each neighbour once, the vertex itself never."""
        key = f"{direction} without loops"
        if key not in self._sets:
            whole = self.neighbours(direction)
            rows = np.repeat(np.arange(whole.sources), whole.degrees())
            kept = rows != whole.targets
            offsets = np.zeros(whole.sources + 1, np.int64)
            np.cumsum(np.bincount(rows[kept], minlength=whole.sources), out=offsets[1:])
            self._sets[key] = Csr(offsets, whole.targets[kept], None, whole.width)
        return self._sets[key]
