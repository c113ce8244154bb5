"""Expansion along one direction of an edge type, by adjacency or by reading the edge table, whichever is cheaper."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from omnigraph_sql.topology import key_lookup
from omnigraph_sql.topology.adjacency import GraphIndex, loops, without_loops
from omnigraph_sql.topology.cost_model import REQUEST, ExpandCost, Mode, TraversalSettings, choose
from omnigraph_sql.topology.trace import Trace
from omnigraph_udfs import csr
from omnigraph_udfs.arrays import Mask, Positions
from omnigraph_udfs.csr import Csr
from omnigraph_udfs.expand import Expansion, expand, expand_few, has_edge
from omnigraph_udfs.reach import reach, reach_sums, reaches

OPPOSITE: Final = {"out": "in", "in": "out", "both": "both"}
MANY: Final = 16
"""Searches from more vertices than this also use the transposed adjacency."""


@dataclass(frozen=True)
class Expander:
    """Expands positions along an edge type. Both modes return the same rows."""

    index: GraphIndex
    direction: str
    settings: TraversalSettings
    trace: Trace
    name: str
    """The name of the edge type, for the trace."""

    @property
    def is_cached(self) -> bool:
        """True if the adjacency is used and is in memory or mapped."""
        return self.settings.mode != "indexed" and self.index.is_cached()

    def edges(self, at: Positions) -> Expansion:
        """Return the stored edges of each vertex and their other ends."""
        if self._mode(len(at), 1) == "csr":
            return expand(self.index.edges(self.direction), at)
        adjacency, rows = self._read(at)
        return expand(adjacency, rows)

    def neighbours(self, at: Positions) -> Expansion:
        """Return the distinct neighbours of each vertex."""
        if self._mode(len(at), 1) == "csr":
            return expand(self.index.neighbours(self.direction), at)
        adjacency, rows = self._read(at)
        return expand(csr.distinct(adjacency), rows)

    def degrees(self, at: Positions, *, stored: bool) -> Positions:
        """Return the number of neighbours, or of stored edges, of each vertex."""
        if self._mode(len(at), 1) != "csr":
            return np.diff((self.edges(at) if stored else self.neighbours(at)).offsets)
        near = self.index.edges(self.direction) if stored else self.index.neighbours(self.direction)
        vertices = np.maximum(at, 0)
        return np.where(at >= 0, near.offsets[vertices + 1] - near.offsets[vertices], 0)

    def count(self, at: Positions) -> int:
        """Return the number of edges of the vertices if the adjacency has it, else 0."""
        if self._chosen(len(at), 1) != "csr":
            return 0
        offsets, vertices = self.index.edges(self.direction).offsets, at[at >= 0]
        return int((offsets[vertices + 1] - offsets[vertices]).sum())

    def walk(self, at: Positions, *, stored: bool, most: float) -> Expansion | None:
        """Like `edges` or `neighbours`, but None if the adjacency has more than `most` of them."""
        if self._mode(len(at), 1) == "csr":
            near = self.index.edges(self.direction) if stored else self.index.neighbours(self.direction)
            return expand_few(near, at, most=most)
        adjacency, rows = self._read(at)
        return expand(adjacency if stored else csr.distinct(adjacency), rows)

    def leads_to(self, sources: Positions, destinations: Positions, least: int, most: int) -> Mask:
        """Return a mask of the rows whose destination is within `least` to `most` hops of the source."""
        if self._mode(len(sources), most) == "csr":
            near = self.index.neighbours(self.direction)
            if most == 1:
                back = self.index.neighbours(OPPOSITE[self.direction]) if len(sources) > MANY else None
                return has_edge(near, sources, destinations, back=back)
            return reaches(near, sources, destinations, least=least, most=most)
        expansion = self.neighbours(sources) if most == 1 else self.reach(sources, least, most)
        rows = expansion.rows()
        mask = np.zeros(len(sources), np.bool_)
        mask[rows[expansion.targets == destinations[rows]]] = True
        return mask

    def reach(self, at: Positions, least: int, most: int) -> Expansion:
        """Return the vertices within `least` to `most` hops of each vertex."""
        return self._searched(at, most, lambda near, rows: reach(near.neighbours(), rows, least=least, most=most))

    def reached_by(self, at: Positions, least: int, most: int) -> Expansion:
        """Return the vertices from which each vertex is within `least` to `most` hops, for `least` above 1.

        A self-loop on the vertex counts as one more hop; other self-loops do not count.
        """

        def search(near: _Near, rows: Positions) -> Expansion:
            plain_reach = reach(near.plain(), rows, least=least, most=most)
            looped = np.where((rows >= 0) & near.loops()[rows], rows, -1)
            return _union(len(rows), [plain_reach, reach(near.plain(), looped, least=least - 1, most=most - 1)])

        return self._searched(at, most, search)

    def reach_sums(self, at: Positions, least: int, most: int, weights: Positions | None, *, turned: bool) -> Positions:
        """Return the sum of weights within the hops of each vertex; `turned` if the vertices are the targets of clauses."""
        around = self._around(at, most)
        if around is None:
            near, rows = self.index.neighbours(self.direction), at
            back = self.index.neighbours(OPPOSITE[self.direction]) if len(at) > MANY else None
            looped = self.index.loops(self.direction) if turned and least > 1 else None
        else:
            vertices, near = around
            back, rows = None, _places(vertices, at)
            looped = loops(near) if turned and least > 1 else None
            weights = None if weights is None else weights[vertices]
        return reach_sums(near, rows, least=least, most=most, weights=weights, turned=looped, back=back)

    def _around(self, at: Positions, most: int) -> tuple[Positions, Csr] | None:
        """Return the renumbered surroundings of few vertices, if reading them is cheaper than the whole adjacency."""
        if self._mode(len(at), most) != "indexed":
            return None
        return key_lookup.surroundings(self.index.ends, self.direction, np.unique(at[at >= 0]), most, self.settings)

    def _searched(self, at: Positions, most: int, search: Callable[[_Near, Positions], Expansion]) -> Expansion:
        around = self._around(at, most)
        if around is None:
            index, direction = self.index, self.direction
            whole = _Near(
                lambda: index.neighbours(direction), lambda: index.without_loops(direction), lambda: index.loops(direction)
            )
            return search(whole, at)
        vertices, near = around
        rows = _places(vertices, at)
        expansion = search(_Near(lambda: near, lambda: without_loops(near), lambda: loops(near)), rows)
        return Expansion(expansion.first, expansion.offsets, vertices[expansion.targets], None)

    def _read(self, at: Positions) -> tuple[Csr, Positions]:
        """Read the edges of the distinct vertices; return them and the index of each row's vertex."""
        vertices = np.unique(at[at >= 0])
        return key_lookup.edges_of(self.index.ends, self.direction, vertices, self.settings), _places(vertices, at)

    def _mode(self, frontier: int, hops: int) -> Mode:
        mode = self._chosen(frontier, hops)
        self.trace.note(f"{self.name} {self.direction}", mode)
        return mode

    def _chosen(self, frontier: int, hops: int) -> Mode:
        index, settings = self.index, self.settings
        if settings.mode is None and index.is_cached():
            return "csr"  # a cached adjacency is always cheapest
        near = key_lookup.keyed(index.ends, "in" if self.direction == "in" else "out")[1]
        cost = ExpandCost(frontier, index.ends.edges.size, near.size, hops)
        if settings.mode is not None or hops > settings.max_hops or frontier > settings.max_frontier:
            return choose(cost, settings, covered=False, cached=False)
        covered = key_lookup.is_covered(index.ends, self.direction)
        mode = choose(cost, settings, covered=covered, cached=index.is_due())
        if mode == "indexed":
            index.meter.spent += max(REQUEST, cost.indexed_cost(covered=covered))
        return mode


@dataclass(frozen=True)
class _Near:
    """The adjacency of a search: with self-loops, without them, and the mask of vertices that have one."""

    neighbours: Callable[[], Csr]
    plain: Callable[[], Csr]
    loops: Callable[[], Mask]


def _places(vertices: Positions, at: Positions) -> Positions:
    """Return the index of each vertex among ascending ones; -1 stays -1."""
    return np.where(at >= 0, np.searchsorted(vertices, at), -1)


def _union(count: int, expansions: list[Expansion]) -> Expansion:
    rows = np.concatenate([expansion.rows() for expansion in expansions])
    targets = np.concatenate([expansion.targets for expansion in expansions])
    pairs = np.unique(np.stack([rows, targets]), axis=1)
    offsets = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(pairs[0], minlength=count), out=offsets[1:])
    return Expansion(0, offsets, pairs[1], None)
