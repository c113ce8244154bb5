"""Read queries of one graph: compiled once, bound to a snapshot, run on an engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from omnigraph_compiler.deadline import checked_by
from omnigraph_sql.embeddings.handle import Embeddings
from omnigraph_sql.errors import BadRequest
from omnigraph_sql.graph.query_compiler import QueryCompiler
from omnigraph_sql.manifest.snapshot import Snapshot
from omnigraph_sql.runtime.limits import RunLimits
from omnigraph_sql.store.graph_store import GraphStore

if TYPE_CHECKING:
    from omnigraph_sql.engines.registry import Engines
    from omnigraph_sql.runtime.request import ReadRequest


class GraphQueries:
    """Compiles queries, binds them to snapshots, and holds the engines that run them."""

    def __init__(self, store: GraphStore, embeddings: Embeddings, *, saves: bool) -> None:
        self.compiler = QueryCompiler(store)
        self._store = store
        self._embeddings = embeddings
        self._saves = saves
        self._engines: Engines | None = None

    @property
    def engines(self) -> Engines:
        """The query engines of the graph; their packages are imported when one is first used."""
        if self._engines is None:
            from omnigraph_sql.engines.registry import Engines
            from omnigraph_sql.runtime.resources import Resources

            self._engines = Engines(Resources(self._store.storage, self._embeddings, saves=self._saves))
        return self._engines

    def request(
        self,
        source: Any,
        name: str | None,
        params: Mapping[str, Any] | None,
        snapshot: Callable[[], Snapshot],
        limits: RunLimits,
        *,
        ignore_unknown: bool = False,
    ) -> ReadRequest:
        """Compile a query, bind its parameters and tie it to a snapshot. Compile time counts towards the timeout."""
        from omnigraph_compiler import ir
        from omnigraph_sql.runtime.execution import RunClock
        from omnigraph_sql.runtime.parameters import bind_parameters
        from omnigraph_sql.runtime.request import ReadRequest

        clock = RunClock(limits.timeout, limits.spent)
        with clock.running(), checked_by(clock.check):
            query = self.compiler.query(source, name)
            clock.check()
        if not isinstance(query.plan, ir.ReadPlan):
            raise BadRequest(f"`{query.name}` is a mutation, not a read", hint="run it with mutate")
        values = bind_parameters(query, params, ignore_unknown=ignore_unknown)
        return ReadRequest(query, self._store.catalog, snapshot(), values, replace(limits, spent=clock.spent))

    def unsaved(self) -> GraphQueries:
        """Queries with the same compiler and engines of their own, of which nothing outlives them."""
        from omnigraph_sql.engines.registry import Engines

        other = GraphQueries(self._store, self._embeddings, saves=False)
        other.compiler, other._engines = self.compiler, Engines(self.engines.resources.unsaved())
        return other

    def clear_caches(self) -> None:
        """Drop what the engines have cached of table versions."""
        if self._engines is not None:
            self._engines.resources.clear()
