"""Functions of a plan that follow edges: from positions to positions, or to whether there is a way."""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph_sql.planner.logical import Direction


@dataclass(frozen=True)
class HopFunction:
    """Position to the list of its neighbours; with edges, to pairs of neighbour `d` and edge `e`, one per stored edge."""

    edge: str
    direction: Direction
    with_edges: bool

    @property
    def wish(self) -> str:
        return f"{self.edge}_{self.direction}{'_edges' if self.with_edges else ''}"

    @property
    def tables(self) -> tuple[str, ...]:
        return (f"edge:{self.edge}",)

    def __str__(self) -> str:
        return f"neighbours along {self.edge} ({self.direction}{', with edges' if self.with_edges else ''})"


@dataclass(frozen=True)
class Reach:
    """Position to the list of what is within some hops."""

    edge: str
    direction: Direction
    minimum: int
    maximum: int
    reversed: bool

    @property
    def wish(self) -> str:
        return f"{self.edge}_{self.direction}_{self.minimum}_{self.maximum}"

    @property
    def tables(self) -> tuple[str, ...]:
        return (f"edge:{self.edge}",)

    def __str__(self) -> str:
        return f"within {self.minimum} to {self.maximum} hops along {self.edge} ({self.direction})"


@dataclass(frozen=True)
class Single:
    """Position to its only neighbour, or null."""

    edge: str
    direction: Direction

    @property
    def wish(self) -> str:
        return f"{self.edge}_{self.direction}_only"

    @property
    def tables(self) -> tuple[str, ...]:
        return (f"edge:{self.edge}",)

    def __str__(self) -> str:
        return f"the only neighbour along {self.edge} ({self.direction})"


@dataclass(frozen=True)
class Common:
    """Two positions to the list of what one hop from each of them leads to."""

    edges: tuple[str, str]
    directions: tuple[Direction, Direction]

    @property
    def wish(self) -> str:
        return f"common_{self.edges[0]}_{self.edges[1]}"

    @property
    def tables(self) -> tuple[str, ...]:
        return tuple(f"edge:{edge}" for edge in self.edges)

    def __str__(self) -> str:
        return f"common neighbours along {both(self.edges, self.directions)}"


@dataclass(frozen=True)
class JoinedPath:
    """Two positions to whether the second is within some hops of the first."""

    edge: str
    direction: Direction
    minimum: int
    maximum: int

    @property
    def wish(self) -> str:
        return f"joined_{self.edge}_{self.direction}"

    @property
    def tables(self) -> tuple[str, ...]:
        return (f"edge:{self.edge}",)

    def __str__(self) -> str:
        hops = "a hop" if self.maximum == 1 else f"{self.minimum} to {self.maximum} hops"
        return f"whether one node is {hops} from another along {self.edge} ({self.direction})"


def both(edges: tuple[str, str], directions: tuple[Direction, Direction]) -> str:
    """Two traversals, for people."""
    return " and ".join(f"{edge} ({direction})" for edge, direction in zip(edges, directions, strict=True))
