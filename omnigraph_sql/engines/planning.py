"""Plans of queries as the text of one engine, kept as long as what they were made on is true."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from omnigraph_compiler import ir
from omnigraph_sql.engines.kept import Kept
from omnigraph_sql.engines.orders import Order
from omnigraph_sql.engines.scope import Scope
from omnigraph_sql.planner.build import build, build_positions
from omnigraph_sql.planner.dialects import DIALECTS, Statement
from omnigraph_sql.planner.logical import Direction, Facts, Vertex
from omnigraph_sql.planner.plan import SqlPlan

_PLANS = 256
T = TypeVar("T")


@dataclass(frozen=True)
class Planned(Generic[T]):
    """A query as SQL: what is the same whenever it runs on tables of which the same is known."""

    plan: SqlPlan
    query: Statement
    stages: tuple[tuple[str, Statement], ...]
    """Names of tables, each with the query that makes it."""
    facts: tuple[tuple[tuple[str, Direction], bool], ...]
    """What the planner asked about the data, besides sizes, and was told."""
    shelf: T
    """What the engine keeps for the next run."""


class Plans(Generic[T]):
    """The plans of one engine."""

    def __init__(self, dialect: str, new_shelf: Callable[[], T]) -> None:
        self.dialect = DIALECTS[dialect]
        self._new_shelf = new_shelf
        self._kept: Kept[Hashable, Planned[T]] = Kept(_PLANS)

    def of_query(self, order: Order, scope: Scope) -> Planned[T]:
        """The SQL of a query."""
        return self._plan(order, order.query.ir_hash, scope, lambda facts: build(order.read, order.catalog, facts))

    def of_positions(self, order: Order, scope: Scope, vertex: Vertex, value: ir.PropertyRef | None) -> Planned[T]:
        """The SQL of the nodes that a vertex of a query allows."""
        return self._plan(order, (vertex, value), scope, lambda facts: build_positions(vertex, value, scope.catalog, facts))

    def _plan(self, order: Order, what: Hashable, scope: Scope, make: Callable[[Facts], SqlPlan]) -> Planned[T]:
        """A plan that was made before, as long as what it was made on is still true; else a new one."""
        snapshot = order.snapshot
        key = (order.catalog.schema_hash, snapshot.branch, snapshot.incarnation, snapshot.manifest_version, what)
        kept = self._kept.peek(key)
        if kept is not None and all(scope.is_functional(*asked) == known for asked, known in kept.facts):
            return kept
        asked = AskedFacts(scope)
        plan = make(asked)
        text = self.dialect.statements(plan)
        return self._kept.put(key, Planned(plan, text.query, text.stages, tuple(asked.answers.items()), self._new_shelf()))


class AskedFacts:
    """Facts that remember what was asked."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self.answers: dict[tuple[str, Direction], bool] = {}

    def rows(self, table_key: str) -> int:
        """How many rows a table has."""
        return self._scope.rows(table_key)

    def is_functional(self, edge: str, direction: Direction) -> bool:
        """Whether every vertex is known to have one neighbour at most."""
        found = self.answers[edge, direction] = self._scope.is_functional(edge, direction)
        return found
