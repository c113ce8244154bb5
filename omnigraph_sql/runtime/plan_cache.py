"""Cache of rendered plans, valid while the planner facts they were built on hold."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from omnigraph_compiler import ir
from omnigraph_compiler.deadline import check_deadline
from omnigraph_sql.binding.context import BindContext
from omnigraph_sql.caches import LruCache
from omnigraph_sql.planner.build import build, build_positions
from omnigraph_sql.planner.dialects import DIALECTS, SqlStatement
from omnigraph_sql.planner.logical import Direction, Facts, Vertex
from omnigraph_sql.planner.plan import SqlPlan
from omnigraph_sql.runtime.request import ReadRequest

_PLANS = 256
T = TypeVar("T")


@dataclass(frozen=True)
class PlannedQuery(Generic[T]):
    """A query rendered as SQL."""

    plan: SqlPlan
    query: SqlStatement
    stages: tuple[tuple[str, SqlStatement], ...]
    """Names of temporary tables, each with the query that fills it."""
    facts: tuple[tuple[tuple[str, Direction], bool], ...]
    """The facts that the planner looked up, besides row counts: arguments and result of `is_functional`."""
    engine_state: T
    """State that the engine reuses in the next run, such as prepared plans."""


class PlanCache(Generic[T]):
    """LRU cache of the plans of one engine."""

    def __init__(self, dialect: str, new_engine_state: Callable[[], T]) -> None:
        self.dialect = DIALECTS[dialect]
        self._new_engine_state = new_engine_state
        self._plans: LruCache[Hashable, PlannedQuery[T]] = LruCache(_PLANS)

    def of_query(self, request: ReadRequest, context: BindContext) -> PlannedQuery[T]:
        """Return the plan of a query."""
        # The limit is part of the SQL text, and an input of the planner.
        identity = request.query.ir_hash, request.read.limit
        return self._plan(request, identity, context, lambda facts: build(request.read, request.catalog, facts))

    def of_positions(
        self, request: ReadRequest, context: BindContext, vertex: Vertex, value: ir.PropertyRef | None
    ) -> PlannedQuery[T]:
        """Return the plan that computes the nodes which satisfy the conditions on one vertex of a query."""
        return self._plan(
            request, (vertex, value), context, lambda facts: build_positions(vertex, value, context.catalog, facts)
        )

    def _plan(
        self, request: ReadRequest, identity: Hashable, context: BindContext, make: Callable[[Facts], SqlPlan]
    ) -> PlannedQuery[T]:
        """Return the cached plan if its facts still hold, else a new plan."""
        snapshot = request.snapshot
        key = (request.catalog.schema_hash, snapshot.branch, snapshot.incarnation, snapshot.manifest_version, identity)
        cached = self._plans.peek(key)
        if cached is not None and all(context.is_functional(*arguments) == answer for arguments, answer in cached.facts):
            return cached
        facts = RecordedFacts(context)
        plan = make(facts)
        check_deadline()
        text = self.dialect.statements(plan)
        return self._plans.put(
            key, PlannedQuery(plan, text.query, text.stages, tuple(facts.answers.items()), self._new_engine_state())
        )


class RecordedFacts:
    """Planner facts that record each look-up."""

    def __init__(self, context: BindContext) -> None:
        self._context = context
        self.answers: dict[tuple[str, Direction], bool] = {}

    def rows(self, table_key: str) -> int:
        """Return the number of rows of a table."""
        return self._context.rows(table_key)

    def is_functional(self, edge: str, direction: Direction) -> bool:
        """True if every vertex is known to have at most one neighbour."""
        answer = self.answers[edge, direction] = self._context.is_functional(edge, direction)
        return answer
