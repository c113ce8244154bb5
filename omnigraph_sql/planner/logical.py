"""A query between its IR and its SQL: a pattern of variables and traversals, what hangs on it, and the steps to match it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol, TypeAlias

from omnigraph_compiler import ir
from omnigraph_sql.planner.conditions import Simple, split

Direction: TypeAlias = ir.Direction

_OPPOSITE: dict[Direction, Direction] = {"out": "in", "in": "out", "both": "both"}


@dataclass(frozen=True)
class Vertex:
    """A node variable, with the conditions that concern it alone."""

    variable: str
    type: str
    filters: tuple[ir.Compare, ...] = ()
    negations: tuple[Negation, ...] = ()

    @property
    def table_key(self) -> str:
        return f"node:{self.type}"

    @cached_property
    def conditions(self) -> tuple[tuple[Simple, ...], tuple[ir.Compare, ...]]:
        """The plain comparisons among its conditions, and the others."""
        return split(self.filters)

    @property
    def is_free(self) -> bool:
        """Whether every node of the type will do."""
        return not self.filters and not self.negations


@dataclass(frozen=True)
class Link:
    """A traversal from the clause's own source to its target, with the conditions on its edge variable."""

    source: str
    target: str
    edge: str
    direction: Direction
    minimum: int = 1
    maximum: int = 1
    edge_variable: str | None = None
    filters: tuple[ir.Compare, ...] = ()

    @property
    def ends(self) -> tuple[str, str]:
        return self.source, self.target

    @property
    def is_single(self) -> bool:
        """Whether it is one hop."""
        return (self.minimum, self.maximum) == (1, 1)

    @property
    def is_hop(self) -> bool:
        """Whether it is one hop to a set of neighbours."""
        return self.is_single and self.edge_variable is None

    @property
    def is_countable(self) -> bool:
        """Whether its edges can be counted where they are stored: conditions on them are plain, and each counts once."""
        return not self.filters or (self.is_single and self.direction != "both" and not split(self.filters)[1])

    def other(self, variable: str) -> str:
        """The end that is not this one."""
        return self.target if variable == self.source else self.source

    def seen_from(self, variable: str) -> Direction:
        """The direction in which to leave one of the ends."""
        return self.direction if variable == self.source else _OPPOSITE[self.direction]


@dataclass(frozen=True)
class Branch:
    """What hangs on a vertex: a hop to the root of a tree."""

    edge: str
    direction: Direction
    tree: Tree
    stored: bool = False
    """Whether every stored edge counts, not every neighbour."""
    conditions: tuple[Simple, ...] = ()
    """What a stored edge must satisfy to count."""

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        # What is sent along branches is looked up by them in every run, and they are deep.
        return hash((self.edge, self.direction, self.tree, self.stored))

    @cached_property
    def is_plain(self) -> bool:
        """Whether all conditions on the way are plain."""
        vertex = self.tree.vertex
        return not vertex.negations and not vertex.conditions[1] and all(each.is_plain for each in self.tree.branches)


@dataclass(frozen=True)
class Tree:
    """A vertex with what hangs on it."""

    vertex: Vertex
    branches: tuple[Branch, ...] = ()

    def find(self, variable: str) -> bool:
        """Whether a variable is in the tree."""
        return variable == self.vertex.variable or any(branch.tree.find(variable) for branch in self.branches)


@dataclass(frozen=True)
class Fork:
    """A vertex that hangs on two others: one hop from each leads to it."""

    first: str
    second: str
    edges: tuple[str, str]
    directions: tuple[Direction, Direction]
    tree: Tree


@dataclass(frozen=True)
class Spread:
    """A vertex that hangs on another by several hops."""

    start: str
    link: Link
    tree: Tree

    @property
    def is_turned(self) -> bool:
        """Whether the start is the far end of the clause."""
        return self.start != self.link.source


@dataclass(frozen=True)
class Pattern:
    """What has to match. Seeds are variables that are bound already, with their types."""

    vertices: tuple[Vertex, ...]
    links: tuple[Link, ...] = ()
    filters: tuple[ir.Compare, ...] = ()
    """Conditions on several variables, or on none."""
    negations: tuple[Negation, ...] = ()
    """Negations that use several variables, or none."""
    seeds: tuple[str, ...] = ()

    def vertex(self, variable: str) -> Vertex:
        """The vertex of a node variable."""
        return next(each for each in self.vertices if each.variable == variable)

    def has_vertex(self, variable: str) -> bool:
        return any(each.variable == variable for each in self.vertices)

    def links_of(self, variable: str) -> tuple[Link, ...]:
        """The traversals that begin or end at a variable."""
        return tuple(link for link in self.links if variable in link.ends)


@dataclass(frozen=True)
class Negation:
    """What must not match; its seeds are variables of the block around it."""

    pattern: Pattern
    steps: tuple[Step, ...] = ()
    branches: tuple[Branch, ...] | None = None
    """All there is to it, if that hangs on its only seed."""

    @property
    def outer(self) -> tuple[str, ...]:
        return self.pattern.seeds


# Steps -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scan:
    """All nodes that a vertex allows; a cross product with the rows so far."""

    vertex: Vertex


@dataclass(frozen=True)
class ScanEdges:
    """All edges that a link allows, with both ends."""

    link: Link
    source: Vertex
    target: Vertex


@dataclass(frozen=True)
class Hop:
    """Along a link from an end that is bound to one that is not."""

    link: Link
    start: str
    vertex: Vertex
    functional: bool = False
    """Whether there is at most one neighbour."""


@dataclass(frozen=True)
class Meet:
    """To what one hop along each of two links, from ends that are bound, leads to."""

    links: tuple[Link, Link]
    vertex: Vertex


@dataclass(frozen=True)
class Close:
    """A link whose ends are both bound."""

    link: Link


@dataclass(frozen=True)
class Where:
    condition: ir.Compare


@dataclass(frozen=True)
class Restrict:
    """The conditions of a vertex on rows that have it already."""

    vertex: Vertex


@dataclass(frozen=True)
class Without:
    negation: Negation


Step: TypeAlias = Scan | ScanEdges | Hop | Meet | Close | Where | Restrict | Without


@dataclass(frozen=True)
class Logical:
    """A read query on its way to SQL."""

    pattern: Pattern
    output: ir.Project | ir.Aggregate
    order: ir.Order | None = None
    limit: ir.Limit | None = None
    hanging: tuple[tuple[str, tuple[Branch, ...]], ...] = ()
    """What was taken from the pattern and hangs on its vertices: a row counts as often as it can be matched."""
    forks: tuple[Fork, ...] = ()
    spreads: tuple[Spread, ...] = ()
    steps: tuple[Step, ...] = ()
    numbered: tuple[ir.PropertyRef, ...] = ()
    """Texts that groups are told by, which have one number together."""
    applied: tuple[str, ...] = ()
    """What the rules did, for people."""

    def branches(self, variable: str) -> tuple[Branch, ...]:
        """What hangs on a vertex."""
        return dict(self.hanging).get(variable, ())

    @property
    def may_be_void(self) -> bool:
        """Whether there may be rows that match in no way at all: nothing is dropped for want of a fork or a spread."""
        return bool(self.forks or self.spreads)

    def with_note(self, note: str) -> Logical:
        return replace(self, applied=(*self.applied, note))


class Facts(Protocol):
    """What is known of the data without reading it."""

    def rows(self, table_key: str) -> int:
        """How many rows a table has."""
        ...

    def is_functional(self, edge: str, direction: Direction) -> bool:
        """Whether every vertex is known to have one neighbour at most."""
        ...


# Variables -------------------------------------------------------------------------------------------------------


def variables_of(expr: ir.Expr | None) -> frozenset[str]:
    """The variables that an expression uses."""
    match expr:
        case ir.PropertyRef() | ir.IdRef():
            return frozenset({expr.variable})
        case ir.TextMatch():
            return variables_of(expr.field) | variables_of(expr.query) | variables_of(expr.max_edits)
        case ir.Nearest() | ir.Bm25():
            return variables_of(expr.field) | variables_of(expr.query)
        case ir.Rrf():
            return variables_of(expr.first) | variables_of(expr.second) | variables_of(expr.k)
        case ir.AggregateCall():
            return variables_of(expr.argument)
    return frozenset()


def used_by(condition: ir.Compare) -> frozenset[str]:
    """The variables that a condition uses."""
    return variables_of(condition.left) | variables_of(condition.right)


def components(pattern: Pattern) -> Iterator[tuple[Vertex, ...]]:
    """Vertices that hang together, in the order of their first one; seeds are all together."""
    left = list(pattern.vertices)
    while left:
        names = {left[0].variable}
        if left[0].variable in pattern.seeds:
            names |= set(pattern.seeds)
        grown = True
        while grown:
            new = {end for link in pattern.links if names & set(link.ends) for end in link.ends}
            if new & set(pattern.seeds):
                new |= set(pattern.seeds)
            grown = not new <= names
            names |= new
        yield tuple(each for each in left if each.variable in names)
        left = [each for each in left if each.variable not in names]
