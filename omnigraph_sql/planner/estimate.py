"""Estimates of rows from the sizes of tables and the kinds of conditions. They affect speed only."""

from __future__ import annotations

from collections.abc import Iterable

from omnigraph_compiler import Catalog, ir
from omnigraph_sql.planner.logical import Branch, Facts, Link, Vertex

_EQUAL = 0.05
_OTHER = 0.33
_NEGATION = 0.5
_ROW = 16.0
"""The estimated cost of one row of a walk, relative to sending a weight along an edge. Not measured."""


def selectivity(condition: ir.Compare, size: float = 1.0) -> float:
    """The share of rows that a condition is expected to keep; there are the more values the larger a table is."""
    if isinstance(condition.left, ir.TextMatch):
        return _OTHER
    kinds = [side.type for side in (condition.left, condition.right) if isinstance(side, ir.PropertyRef)]
    values = [len(kind.enum_values) for kind in kinds if kind.enum_values]
    if condition.op != "=":
        return _OTHER
    return 1.0 / values[0] if values else min(_EQUAL, size**-0.5)


def selectivity_of(op: str) -> float:
    return _EQUAL if op == "=" else _OTHER


def key_values(catalog: Catalog, vertex: Vertex) -> tuple[ir.ParamRef | ir.Constant, ...] | None:
    """The values that a vertex compares its whole key with, if it does."""
    key = catalog.nodes[vertex.type].key
    values = {
        equal.left.property: equal.right
        for equal in vertex.filters
        if equal.op == "=" and isinstance(equal.left, ir.PropertyRef) and isinstance(equal.right, ir.ParamRef | ir.Constant)
    }
    if key is None or not all(name in values for name in key):
        return None
    return tuple(values[name] for name in key)


class Estimate:
    """Expectations about one snapshot."""

    def __init__(self, catalog: Catalog, facts: Facts) -> None:
        self.catalog = catalog
        self.facts = facts

    def size(self, vertex: Vertex) -> float:
        """All nodes of the type of a vertex; at least one."""
        return max(1.0, self.facts.rows(vertex.table_key))

    def share(self, vertex: Vertex) -> float:
        """The share of the nodes of its type that a vertex allows."""
        if key_values(self.catalog, vertex) is not None:
            return 1.0 / self.size(vertex)
        share = _NEGATION ** len(vertex.negations)
        for condition in vertex.filters:
            share *= selectivity(condition, self.size(vertex))
        return max(share, 1.0 / self.size(vertex))

    def nodes(self, vertex: Vertex) -> float:
        return self.size(vertex) * self.share(vertex)

    def edges(self, edge: str) -> float:
        return max(1.0, self.facts.rows(f"edge:{edge}"))

    def edges_left(self, link: Link) -> float:
        """The edges that satisfy the conditions of a link."""
        edges = self.edges(link.edge)
        for condition in link.filters:
            edges *= selectivity(condition, edges)
        return edges

    def fan_out(self, link: Link, start: Vertex, end: Vertex) -> float:
        """The number of rows that one row becomes along a link."""
        around = self.edges_left(link) * (2.0 if link.direction == "both" else 1.0) / self.size(start)
        reached = sum(around**hops for hops in range(link.minimum, min(link.maximum, 12) + 1))
        return min(reached, self.size(end)) * self.share(end)

    def support(self, vertex: Vertex, branches: Iterable[Branch]) -> float:
        """The number of nodes that satisfy the conditions of a vertex and match its branches."""
        nodes = self.nodes(vertex)
        for branch in branches:
            nodes *= min(1.0, self._ways(branch, vertex))
        return max(nodes, 1.0)

    def _ways(self, branch: Branch, parent: Vertex) -> float:
        """The number of matches of a branch at one node."""
        ways = self.edges(branch.edge) / self.size(parent) * self.share(branch.tree.vertex)
        for condition in branch.conditions:
            ways *= selectivity_of(condition.op)
        for deeper in branch.tree.branches:
            ways *= self._ways(deeper, branch.tree.vertex)
        return ways

    def walking(self, branch: Branch, parent: Vertex) -> float:
        """The cost of walking along a branch from one node."""
        return _ROW * self._walked(branch, parent)

    def _walked(self, branch: Branch, parent: Vertex) -> float:
        width = self.edges(branch.edge) / self.size(parent)
        further = width * self.share(branch.tree.vertex)
        return width + further * sum(self._walked(deeper, branch.tree.vertex) for deeper in branch.tree.branches)

    def finding(self, vertex: Vertex) -> float:
        """The cost of finding the nodes that a vertex allows."""
        few = key_values(self.catalog, vertex) is not None
        return 0.0 if few or vertex.is_free else self.size(vertex)

    def weighing(self, branch: Branch, parent: Vertex) -> float:
        """The cost of the weights that a branch gives to the nodes of its parent: sent to all, or collected by walks."""
        if not is_walkable((branch,)):
            return self.sending(branch)
        return min(self.sending(branch), self.nodes(parent) * self.walking(branch, parent))

    def sending(self, branch: Branch) -> float:
        """The cost of sending weights along a branch, once for all nodes."""
        tree = branch.tree
        if is_degree(branch):
            return 0.0
        deeper = sum(self.sending(inner) for inner in tree.branches)
        own = self.finding(tree.vertex)
        sent = self.support(tree.vertex, tree.branches) / self.size(tree.vertex)
        reached = self.edges(branch.edge) * (1.0 if branch.conditions else sent)
        return own + reached + deeper


def is_degree(branch: Branch) -> bool:
    """True if a branch is a hop without conditions."""
    return branch.tree.vertex.is_free and not branch.tree.branches and not branch.conditions


def is_walkable(branches: tuple[Branch, ...]) -> bool:
    """True if all conditions on the way are plain comparisons, which can be evaluated for any nodes at any time."""
    return all(branch.is_plain for branch in branches)
