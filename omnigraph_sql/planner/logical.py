"""A query between its IR and its SQL: a pattern of variables and traversals, and the steps to match it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from typing import Protocol, TypeAlias

from omnigraph_compiler import ir
from omnigraph_sql.planner.conditions import Simple, split

Direction: TypeAlias = ir.Direction


@dataclass(frozen=True)
class Vertex:
    """A node variable, with the conditions that concern it alone."""

    variable: str
    type: str
    filters: tuple[ir.Compare, ...] = ()
    negations: tuple[NegatedPattern, ...] = ()
    branches: tuple[Branch, ...] = ()
    """Subtrees that were pruned from the pattern here: a row counts as often as they can be matched."""

    @property
    def table_key(self) -> str:
        return f"node:{self.type}"

    @cached_property
    def conditions(self) -> tuple[tuple[Simple, ...], tuple[ir.Compare, ...]]:
        """The plain comparisons among its conditions, and the others."""
        return split(self.filters)

    @property
    def is_free(self) -> bool:
        """True if every node of the type satisfies the conditions and negations."""
        return not self.filters and not self.negations


@dataclass(frozen=True)
class Link:
    """A traversal from the clause's own source to its target, with the conditions on its edge variable."""

    source: str
    target: str
    edge: str
    direction: Direction
    _: KW_ONLY
    minimum: int = 1
    maximum: int = 1
    edge_variable: str | None = None
    filters: tuple[ir.Compare, ...] = ()

    @property
    def ends(self) -> tuple[str, str]:
        return self.source, self.target

    @property
    def is_single(self) -> bool:
        """True if it is one hop."""
        return (self.minimum, self.maximum) == (1, 1)

    @property
    def is_hop(self) -> bool:
        """True if it is one hop to a set of neighbours."""
        return self.is_single and self.edge_variable is None

    @property
    def is_countable(self) -> bool:
        """True if its edges can be counted where they are stored: conditions on them are plain, and each counts once."""
        return not self.filters or (self.is_single and self.direction != "both" and not split(self.filters)[1])

    def other(self, variable: str) -> str:
        """The end that is not this one."""
        return self.target if variable == self.source else self.source

    def seen_from(self, variable: str) -> Direction:
        """The direction in which to leave one of the ends."""
        return self.direction if variable == self.source else ir.OPPOSITE[self.direction]


@dataclass(frozen=True)
class Branch:
    """A pruned subtree of a vertex: a hop to the root of a tree."""

    edge: str
    direction: Direction
    tree: Tree
    stored: bool = False
    """True if every stored edge counts, not every neighbour."""
    conditions: tuple[Simple, ...] = ()
    """The conditions on a stored edge that counts."""

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        # Weights are looked up by their branches in every run, and branches are deep.
        return hash((self.edge, self.direction, self.tree, self.stored))

    @cached_property
    def is_plain(self) -> bool:
        """True if all conditions on the way are plain."""
        vertex = self.tree.vertex
        return not vertex.negations and not vertex.conditions[1] and all(branch.is_plain for branch in self.tree.branches)


@dataclass(frozen=True)
class Tree:
    """A vertex with its branches."""

    vertex: Vertex
    branches: tuple[Branch, ...] = ()

    def find(self, variable: str) -> bool:
        """True if a variable is in the tree."""
        return variable == self.vertex.variable or any(branch.tree.find(variable) for branch in self.branches)


@dataclass(frozen=True)
class Fork:
    """A pruned vertex that is one hop from each of two others."""

    first: str
    second: str
    edges: tuple[str, str]
    directions: tuple[Direction, Direction]
    tree: Tree


@dataclass(frozen=True)
class Spread:
    """A pruned vertex that is several hops from another."""

    start: str
    link: Link
    tree: Tree

    @property
    def is_turned(self) -> bool:
        """True if the start is the far end of the clause."""
        return self.start != self.link.source


@dataclass(frozen=True)
class Pattern:
    """Variables, traversals and conditions to match. Seeds are variables that are bound already."""

    vertices: tuple[Vertex, ...]
    links: tuple[Link, ...] = ()
    filters: tuple[ir.Compare, ...] = ()
    """Conditions on several variables, or on none."""
    negations: tuple[NegatedPattern, ...] = ()
    """Negations that use several variables, or none."""
    seeds: tuple[str, ...] = ()

    def vertex(self, variable: str) -> Vertex:
        """The vertex of a node variable."""
        return next(vertex for vertex in self.vertices if vertex.variable == variable)

    def has_vertex(self, variable: str) -> bool:
        return any(vertex.variable == variable for vertex in self.vertices)


@dataclass(frozen=True)
class NegatedPattern:
    """A pattern that must not match; its seeds are variables of the block around it."""

    pattern: Pattern
    steps: tuple[Step, ...] = ()
    branches: tuple[Branch, ...] | None = None
    """The whole pattern as branches of its only seed, to be matched in no way; None if it is more than that."""
    is_condition: bool = False
    """True if the steps are conditions on the rows, so that no rows are matched again."""
    stores_rows: bool = False
    """True if the rows so far become a table before they are matched again."""

    @property
    def outer(self) -> tuple[str, ...]:
        return self.pattern.seeds


# Steps -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scan:
    """All nodes that a vertex allows; a cross product with the rows so far."""

    vertex: Vertex
    top_k: int | None = None
    """The number of nodes that suffice: those with the most matches of the branches, and all that tie with the last."""


@dataclass(frozen=True)
class ScanEdges:
    """All edges that a link allows, with both ends."""

    link: Link
    source: Vertex
    target: Vertex


@dataclass(frozen=True)
class HopStep:
    """Along a link from an end that is bound to one that is not."""

    link: Link
    start: str
    vertex: Vertex
    functional: bool = False
    """True if there is at most one neighbour."""


@dataclass(frozen=True)
class MeetStep:
    """To the common neighbours along two links, from ends that are bound."""

    links: tuple[Link, Link]
    vertex: Vertex


@dataclass(frozen=True)
class CloseStep:
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
    negation: NegatedPattern


Step: TypeAlias = Scan | ScanEdges | HopStep | MeetStep | CloseStep | Where | Restrict | Without


@dataclass(frozen=True)
class CountShortcut:
    """A vertex whose number of matches, with its branches, is the answer in every column of a query."""

    vertex: Vertex
    key: tuple[ir.ParamRef | ir.Constant, ...] | None
    """The values of the vertex's whole key, if the query compares with them."""


@dataclass(frozen=True, kw_only=True)
class Logical:
    """A read query between its IR and its SQL."""

    pattern: Pattern
    output: ir.Project | ir.Aggregate
    order: ir.Order | None = None
    limit: ir.Limit | None = None
    forks: tuple[Fork, ...] = ()
    spreads: tuple[Spread, ...] = ()
    steps: tuple[Step, ...] = ()
    numbered: tuple[ir.PropertyRef, ...] = ()
    """Texts to group by, whose dictionary codes make one number."""
    edge_groups: Link | None = None
    """The link whose edges are the rows to group: its relation has the group keys and the aggregated values as columns."""
    ranked_nodes: Vertex | None = None
    """The only vertex of the match, if search ranks its nodes before rows are made."""
    is_ordered_by_search: bool = False
    """True if the order in which search returns the first nodes is that of the rows."""
    shortcut: CountShortcut | None = None
    """The shortcut that answers the query without running SQL, if there is one."""
    applied: tuple[str, ...] = ()
    """The notes of the rules that changed the query, for `explain`."""

    @property
    def weighted(self) -> tuple[Vertex, ...]:
        """The vertices that branches were pruned from."""
        return tuple(vertex for vertex in self.pattern.vertices if vertex.branches)

    @property
    def may_be_void(self) -> bool:
        """True if rows may have no match: a fork or a spread drops none."""
        return bool(self.forks or self.spreads)

    def with_note(self, note: str) -> Logical:
        return replace(self, applied=(*self.applied, note))


class Facts(Protocol):
    """Facts about the data that need no reading of rows."""

    def rows(self, table_key: str) -> int:
        """The number of rows of a table."""
        ...

    def is_functional(self, edge: str, direction: Direction) -> bool:
        """True if every vertex is known to have one neighbour at most."""
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


def is_constant_rank(rank: ir.Nearest | ir.Bm25 | ir.Rrf) -> bool:
    """True if an entity has the same rank in all rows."""
    if isinstance(rank, ir.Rrf):
        return all(map(is_constant_rank, (rank.first, rank.second))) and isinstance(rank.k, ir.ParamRef | ir.Constant | None)
    return isinstance(rank.query, ir.ParamRef | ir.Constant)


def used_by(condition: ir.Compare) -> frozenset[str]:
    """The variables that a condition uses."""
    return variables_of(condition.left) | variables_of(condition.right)


def components(pattern: Pattern) -> Iterator[tuple[Vertex, ...]]:
    """Connected vertices, in the order of their first one; all seeds are in one component."""
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
        yield tuple(vertex for vertex in left if vertex.variable in names)
        left = [vertex for vertex in left if vertex.variable not in names]
