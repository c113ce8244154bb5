"""Clauses with their names resolved: which variable, of which type, in which direction."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count
from typing import Literal

from omnigraph_compiler import Catalog, EdgeType
from omnigraph_compiler.query import ast

Direction = Literal["out", "in", "both"]
_numbers = count(1)


@dataclass(frozen=True)
class Scope:
    """Bound variables and the types of their entities."""

    nodes: dict[str, str] = field(default_factory=dict)
    edges: dict[str, str] = field(default_factory=dict)

    def copy(self) -> Scope:
        return Scope(dict(self.nodes), dict(self.edges))

    def names(self) -> frozenset[str]:
        return frozenset((*self.nodes, *self.edges))


@dataclass(frozen=True, eq=False)
class Hop:
    """A traversal, seen from the clause's own source."""

    source: str
    target: str
    edge: EdgeType
    direction: Direction
    least: int
    most: int
    edge_variable: str | None


@dataclass
class Block:
    """A match, or the body of a `not`."""

    scope: Scope
    """What is bound at the end of the block, with what was visible at its beginning."""
    variables: dict[str, str] = field(default_factory=dict)
    """Node variables of this block itself, the anonymous ones under names that no query can use, and their types."""
    matches: list[tuple[str, ast.PropertyMatch]] = field(default_factory=list)
    hops: list[Hop] = field(default_factory=list)
    filters: list[ast.Filter | ast.TextClause] = field(default_factory=list)
    negations: list[tuple[frozenset[str], Block]] = field(default_factory=list)
    """Each with the names that are visible in it: those bound above it."""


def read_block(catalog: Catalog, clauses: Iterable[ast.Clause], outer: Scope) -> Block:
    block = Block(outer.copy())
    for clause in clauses:
        match clause:
            case ast.Binding():
                variable = _bind(block, clause.variable.text, clause.type.text)
                block.matches += [(variable, match) for match in clause.matches]
            case ast.Traversal():
                block.hops.append(_hop(catalog, block, clause))
            case ast.Negation():
                block.negations.append((block.scope.names(), read_block(catalog, clause.clauses, block.scope)))
            case _:
                block.filters.append(clause)
    return block


def _bind(block: Block, name: str, type_name: str) -> str:
    if name == "_":
        name = f"_#{next(_numbers)}"
    elif name in block.scope.nodes:
        return name
    else:
        block.scope.nodes[name] = type_name
    block.variables[name] = type_name
    return name


def _hop(catalog: Catalog, block: Block, clause: ast.Traversal) -> Hop:
    edge = catalog.edge_by_word(clause.edge.text)
    assert edge is not None
    forward = _goes_forward(block.scope, clause, edge)
    ends = (edge.source, edge.target) if forward else (edge.target, edge.source)
    source, target = _bind(block, clause.source.text, ends[0]), _bind(block, clause.target.text, ends[1])
    variable = clause.edge_variable.text if clause.edge_variable else "_"
    if variable != "_":
        block.scope.edges[variable] = edge.name
    least, most = (clause.hops.minimum, clause.hops.maximum or 0) if clause.hops else (1, 1)
    if edge.source != edge.target:
        most = min(most, 1)
    direction: Direction = "both" if clause.undirected else "out" if forward else "in"
    return Hop(source, target, edge, direction, least, most, None if variable == "_" else variable)


def _goes_forward(scope: Scope, clause: ast.Traversal, edge: EdgeType) -> bool:
    source, target = scope.nodes.get(clause.source.text), scope.nodes.get(clause.target.text)
    if source is not None:
        return source == edge.source
    return target is None or target == edge.target
