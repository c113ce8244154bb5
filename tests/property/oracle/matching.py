"""The rows of a match: every way to give an entity to every variable."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from omnigraph_compiler.query import ast
from tests.property.oracle.blocks import Block, Hop
from tests.property.oracle.graph import Entity, OracleGraph
from tests.property.oracle.reach import neighbours, reach
from tests.property.oracle.undecided import TooLarge

Row = dict[str, Entity]


@dataclass
class Matcher:
    """Solves blocks on one graph. The two functions say whether an entity or a row passes a clause."""

    graph: OracleGraph
    passes_match: Callable[[Entity, ast.PropertyMatch], bool]
    passes_filter: Callable[[ast.Filter | ast.TextClause, Row], bool]
    budget: int
    """How many rows may be looked at."""
    _reached: dict[tuple[Hop, str], frozenset[str]] = field(default_factory=dict)

    def solve(self, block: Block, outer: Row) -> Iterator[Row]:
        """The solutions of a block that agree with the outer row."""
        for nodes in self._nodes(block, outer, list(block.variables)):
            for row in self._edges(block, nodes, [hop for hop in block.hops if hop.edge_variable]):
                if all(self.passes_filter(clause, row) for clause in block.filters) and not any(
                    self._has_solution(inner, {name: row[name] for name in visible}) for visible, inner in block.negations
                ):
                    yield row

    def _has_solution(self, block: Block, outer: Row) -> bool:
        return any(True for _ in self.solve(block, outer))

    def _nodes(self, block: Block, row: Row, rest: list[str]) -> Iterator[Row]:
        """All ways to choose the remaining node variables. What is wrong already is given up early."""
        self.budget -= 1
        if self.budget < 0:
            raise TooLarge
        if not self._is_possible(block, row):
            return
        if not rest:
            yield row
            return
        for entity in self.graph.nodes.get(block.variables[rest[0]], ()):
            yield from self._nodes(block, {**row, rest[0]: entity}, rest[1:])

    def _is_possible(self, block: Block, row: Row) -> bool:
        return all(self.passes_match(row[name], match) for name, match in block.matches if name in row) and all(
            row[hop.target].id in self.reached(hop, row[hop.source].id)
            for hop in block.hops
            if hop.source in row and hop.target in row
        )

    def _edges(self, block: Block, row: Row, hops: list[Hop]) -> Iterator[Row]:
        """All ways to choose the edge variables: one row for every stored edge."""
        if not hops:
            yield row
            return
        hop = hops[0]
        assert hop.edge_variable is not None
        source, target = row[hop.source].id, row[hop.target].id
        for edge in self.graph.edges.get(hop.edge.name, ()):
            forward, backward = (
                (edge.source, edge.target) == (source, target),
                (edge.target, edge.source) == (source, target),
            )
            if (forward and hop.direction != "in") or (backward and hop.direction != "out"):
                yield from self._edges(block, {**row, hop.edge_variable: edge}, hops[1:])

    def reached(self, hop: Hop, source: str) -> frozenset[str]:
        """The ids of the destinations of a traversal, each once."""
        if (hop, source) not in self._reached:
            edges = self.graph.edges.get(hop.edge.name, [])
            if hop.edge.source == hop.edge.target:
                found = reach(edges, hop.direction, source, hop.least, hop.most)
            else:
                found = neighbours(edges, hop.direction, source) if hop.least <= 1 <= hop.most else set()
            self._reached[hop, source] = frozenset(found)
        return self._reached[hop, source]
