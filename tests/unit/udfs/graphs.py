"""Small graphs as Hypothesis draws them, and what the operators must say of them, in plain Python."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hypothesis import strategies as st

from omnigraph_udfs.csr import Csr, build, distinct, transpose, undirected


@dataclass(frozen=True)
class Graph:
    """Edges among so many vertices, each a pair; self-loops and parallel edges included."""

    vertices: int
    edges: tuple[tuple[int, int], ...]

    def stored(self) -> Csr:
        return build(
            [source for source, _ in self.edges],
            [target for _, target in self.edges],
            sources=self.vertices,
            width=self.vertices,
        )

    def adjacency(self, direction: str) -> Csr:
        """Neighbours as a set: `out`, `in` or `both`."""
        out = self.stored()
        return distinct(
            {"out": lambda: out, "in": lambda: transpose(out), "both": lambda: undirected(out, transpose(out))}[direction]()
        )

    def neighbours(self, vertex: int, direction: str) -> set[int]:
        forward = {target for source, target in self.edges if source == vertex}
        backward = {source for source, target in self.edges if target == vertex}
        return {"out": forward, "in": backward, "both": forward | backward}[direction]

    def touching(self, vertex: int, direction: str) -> list[tuple[int, int]]:
        """The other end and the number of every stored edge that leaves, enters or touches a vertex."""
        found = set()
        for number, (source, target) in enumerate(self.edges):
            if source == vertex and direction in ("out", "both"):
                found.add((target, number))
            if target == vertex and direction in ("in", "both"):
                found.add((source, number))
        return sorted(found)

    def reached(self, source: int, least: int, most: int, direction: str) -> set[int]:
        """Breadth-first search as the language defines it."""
        visited, frontier, out = {source}, [source], set()
        for hop in range(1, most + 1):
            following = []
            for vertex in frontier:
                for neighbour in self.neighbours(vertex, direction):
                    if neighbour == vertex:
                        if hop >= least:
                            out.add(neighbour)
                    elif neighbour not in visited:
                        visited.add(neighbour)
                        following.append(neighbour)
                        if hop >= least:
                            out.add(neighbour)
            frontier = following
        return out

    def distance(self, source: int, target: int, direction: str) -> int | None:
        seen = {source: 0}
        queue = [source]
        for vertex in queue:
            for neighbour in self.neighbours(vertex, direction):
                if neighbour not in seen:
                    seen[neighbour] = seen[vertex] + 1
                    queue.append(neighbour)
        return seen.get(target)


DIRECTIONS = st.sampled_from(["out", "in", "both"])


@st.composite
def graphs(draw: st.DrawFn, most: int = 9) -> Graph:
    vertices = draw(st.integers(1, most))
    vertex = st.integers(0, vertices - 1)
    edges = draw(st.lists(st.tuples(vertex, vertex), max_size=3 * most))
    return Graph(vertices, tuple(edges))


@st.composite
def frontiers(draw: st.DrawFn, graph: Graph) -> list[int]:
    """Vertices, some of them more than once, and -1 for none."""
    return draw(st.lists(st.integers(-1, graph.vertices - 1), max_size=12))


def listed(rows: Iterable[int], values: Iterable[int], count: int) -> list[list[int]]:
    """Values by row, sorted."""
    found: list[list[int]] = [[] for _ in range(count)]
    for row, value in zip(rows, values, strict=True):
        found[row].append(value)
    return [sorted(each) for each in found]
