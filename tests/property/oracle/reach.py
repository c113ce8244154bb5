"""What traversals reach."""

from __future__ import annotations

from collections.abc import Sequence

from tests.property.oracle.graph import Entity


def neighbours(edges: Sequence[Entity], direction: str, node: str) -> set[str]:
    """The ids at the other ends of the edges that leave a node, enter it, or either."""
    onwards = {edge.target for edge in edges if edge.source == node}
    backwards = {edge.source for edge in edges if edge.target == node}
    return {"out": onwards, "in": backwards, "both": onwards | backwards}[direction]


def reach(edges: Sequence[Entity], direction: str, source: str, least: int, most: int) -> set[str]:
    """The ids that a search finds at its hops `least` to `most`, over edges between nodes of one type."""
    visited, frontier, out = {source}, [source], set()
    hop = 0
    while hop < most and frontier:
        hop += 1
        following: list[str] = []
        for node in frontier:
            for neighbour in neighbours(edges, direction, node):
                if neighbour == node:
                    if hop >= least:
                        out.add(neighbour)
                elif neighbour not in visited:
                    visited.add(neighbour)
                    following.append(neighbour)
                    if hop >= least:
                        out.add(neighbour)
        frontier = following
    return out
