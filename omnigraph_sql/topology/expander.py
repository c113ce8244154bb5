"""One direction of an edge type, followed the cheaper way: through the adjacency, or by asking the edge table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from omnigraph_sql.topology import indexed
from omnigraph_sql.topology.adjacency import GraphIndex, loops, without_loops
from omnigraph_sql.topology.modes import REQUEST, Expand, Mode, Settings, choose
from omnigraph_sql.topology.trace import Trace
from omnigraph_udfs import csr
from omnigraph_udfs.arrays import Mask, Positions
from omnigraph_udfs.csr import Csr
from omnigraph_udfs.expand import Expansion, expand, expand_few, has_edge
from omnigraph_udfs.reach import reach, reach_sums, reaches

OPPOSITE: Final = {"out": "in", "in": "out", "both": "both"}
MANY: Final = 16
"""Searches from more vertices than this may look at edges the other way round, too."""


@dataclass(frozen=True)
class Expander:
    """Positions to what lies along an edge type. Both ways give the same rows."""

    index: GraphIndex
    direction: str
    given: Settings
    trace: Trace
    name: str
    """Of the edge type, for the trace."""

    @property
    def is_at_hand(self) -> bool:
        """Whether the adjacency is in memory, or mapped, and used."""
        return self.given.mode != "indexed" and self.index.is_at_hand()

    def edges(self, at: Positions) -> Expansion:
        """Every stored edge of each vertex, with what it leads to."""
        if self._mode(len(at), 1) == "csr":
            return expand(self.index.edges(self.direction), at)
        found, rows = self._read(at)
        return expand(found, rows)

    def neighbours(self, at: Positions) -> Expansion:
        """Each neighbour of each vertex once."""
        if self._mode(len(at), 1) == "csr":
            return expand(self.index.neighbours(self.direction), at)
        found, rows = self._read(at)
        return expand(csr.distinct(found), rows)

    def degrees(self, at: Positions, *, stored: bool) -> Positions:
        """How many neighbours each vertex has, or how many stored edges."""
        if self._mode(len(at), 1) != "csr":
            return np.diff((self.edges(at) if stored else self.neighbours(at)).offsets)
        near = self.index.edges(self.direction) if stored else self.index.neighbours(self.direction)
        known = np.maximum(at, 0)
        return np.where(at >= 0, near.offsets[known + 1] - near.offsets[known], 0)

    def count(self, at: Positions) -> int:
        """How many edges leave the vertices, as far as that is known without reading any."""
        if self._chosen(len(at), 1) != "csr":
            return 0
        offsets, known = self.index.edges(self.direction).offsets, at[at >= 0]
        return int((offsets[known + 1] - offsets[known]).sum())

    def walk(self, at: Positions, *, stored: bool, most: float) -> Expansion | None:
        """As `edges` or `neighbours`; None if they are more than so many, as far as that is known without reading any."""
        if self._mode(len(at), 1) == "csr":
            near = self.index.edges(self.direction) if stored else self.index.neighbours(self.direction)
            return expand_few(near, at, most=most)
        found, rows = self._read(at)
        return expand(found if stored else csr.distinct(found), rows)

    def leads_to(self, sources: Positions, destinations: Positions, least: int, most: int) -> Mask:
        """Whether the destination of each row is within some hops of its source."""
        if self._mode(len(sources), most) == "csr":
            near = self.index.neighbours(self.direction)
            if most == 1:
                back = self.index.neighbours(OPPOSITE[self.direction]) if len(sources) > MANY else None
                return has_edge(near, sources, destinations, back=back)
            return reaches(near, sources, destinations, least=least, most=most)
        found = self.neighbours(sources) if most == 1 else self.reach(sources, least, most)
        rows = found.rows()
        mask = np.zeros(len(sources), np.bool_)
        mask[rows[found.targets == destinations[rows]]] = True
        return mask

    def reach(self, at: Positions, least: int, most: int) -> Expansion:
        """What is within some hops of each vertex."""
        return self._searched(at, most, lambda near, rows: reach(near.neighbours(), rows, least=least, most=most))

    def reached_by(self, at: Positions, least: int, most: int) -> Expansion:
        """From where each vertex is within some hops, against the edges, where the least is more than one.

        A loop on the vertex counts one hop more, loops on the way count for nothing.
        """

        def search(near: _Near, rows: Positions) -> Expansion:
            found = reach(near.plain(), rows, least=least, most=most)
            looped = np.where((rows >= 0) & near.loops()[rows], rows, -1)
            return _union(len(rows), [found, reach(near.plain(), looped, least=least - 1, most=most - 1)])

        return self._searched(at, most, search)

    def reach_sums(self, at: Positions, least: int, most: int, weights: Positions | None, *, turned: bool) -> Positions:
        """How much what is within some hops of each vertex weighs; `turned` if the vertices are the far ends of clauses."""
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
        """What is around a few vertices, renumbered, if asking for it costs less than all there is."""
        if self._mode(len(at), most) != "indexed":
            return None
        return indexed.surroundings(self.index.ends, self.direction, np.unique(at[at >= 0]), most, self.given)

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
        found = search(_Near(lambda: near, lambda: without_loops(near), lambda: loops(near)), rows)
        return Expansion(found.first, found.offsets, vertices[found.targets], None)

    def _read(self, at: Positions) -> tuple[Csr, Positions]:
        """The edges of the different vertices, and the place of each row's vertex among these."""
        vertices = np.unique(at[at >= 0])
        return indexed.edges_of(self.index.ends, self.direction, vertices, self.given), _places(vertices, at)

    def _mode(self, frontier: int, hops: int) -> Mode:
        mode = self._chosen(frontier, hops)
        self.trace.note(f"{self.name} {self.direction}", mode)
        return mode

    def _chosen(self, frontier: int, hops: int) -> Mode:
        index, given = self.index, self.given
        if given.mode is None and index.is_at_hand():
            return "csr"  # nothing is cheaper than what is there
        near = indexed.keyed(index.ends, "in" if self.direction == "in" else "out")[1]
        asked = Expand(frontier, index.ends.edges.size, near.size, hops)
        if given.mode is not None or hops > given.max_hops or frontier > given.max_frontier:
            return choose(asked, given, covered=False, cached=False)
        covered = indexed.is_covered(index.ends, self.direction)
        mode = choose(asked, given, covered=covered, cached=index.is_due())
        if mode == "indexed":
            index.meter.spent += max(REQUEST, asked.indexed_cost(covered=covered))
        return mode


@dataclass(frozen=True)
class _Near:
    """The neighbours that a search goes through: all of them, without loops, and who has one."""

    neighbours: Callable[[], Csr]
    plain: Callable[[], Csr]
    loops: Callable[[], Mask]


def _places(vertices: Positions, at: Positions) -> Positions:
    """The place of each vertex among ascending ones; -1 stays."""
    return np.where(at >= 0, np.searchsorted(vertices, at), -1)


def _union(count: int, expansions: list[Expansion]) -> Expansion:
    rows = np.concatenate([each.rows() for each in expansions])
    targets = np.concatenate([each.targets for each in expansions])
    pairs = np.unique(np.stack([rows, targets]), axis=1)
    offsets = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(pairs[0], minlength=count), out=offsets[1:])
    return Expansion(0, offsets, pairs[1], None)
