"""SQL sessions of a graph, and the source from which they read it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset as pads

from omnigraph_compiler import Catalog, EdgeType, NodeType
from omnigraph_compiler.deadline import checked_by
from omnigraph_compiler.diagnostics import did_you_mean
from omnigraph_sql.arguments import instance
from omnigraph_sql.binding.context import BindContext
from omnigraph_sql.caches import SharedPools
from omnigraph_sql.engines.registry import StatementEngine, check_engine, infer_file_schema, statement_engine
from omnigraph_sql.errors import BadRequest, NotFound
from omnigraph_sql.foreign.registry import ForeignTables
from omnigraph_sql.graph.queries import GraphQueries
from omnigraph_sql.history.commits import history
from omnigraph_sql.isolation.pool import ProcessPool
from omnigraph_sql.manifest.journal import Commit
from omnigraph_sql.manifest.snapshot import Snapshot
from omnigraph_sql.manifest.tags import Tag
from omnigraph_sql.result import Result
from omnigraph_sql.runtime.execution import RunClock
from omnigraph_sql.runtime.limits import RunLimits
from omnigraph_sql.source_files import read_source
from omnigraph_sql.sql.functions import CHANGES
from omnigraph_sql.sql.history_relation import history_columns
from omnigraph_sql.sql.refs import CatalogPin, StateRef, check_type
from omnigraph_sql.sql.resolver import NameResolver, resolver_of, type_columns
from omnigraph_sql.sql.signatures import statement_params
from omnigraph_sql.sql.statement import SqlRequest, parameter_scalar
from omnigraph_sql.sql.states import state_of
from omnigraph_sql.sqltext.parameter_limits import check_parameters
from omnigraph_sql.sqltext.text_limits import check_sql
from omnigraph_sql.storage.tables import TableStorage
from omnigraph_sql.store.graph_store import GraphStore
from omnigraph_sql.table_keys import TableKey

if TYPE_CHECKING:
    from omnigraph_sql.engines.datafusion.sessions import GraphContext
    from omnigraph_sql.engines.duckdb.sessions import DuckDBPyConnection
    from omnigraph_sql.history.version_rows import TypeHistory
    from omnigraph_sql.isolation.wire import IsolatedRequest


@dataclass(frozen=True, kw_only=True)
class GraphSqlSource:
    """The graph as SQL reads it (`omnigraph_sql.sql.resolver.SqlSource`).

    Engines keep references to it that Python's garbage collector does not see, so it must not refer to an engine.
    """

    store: GraphStore
    queries: GraphQueries
    shown: Callable[[], Snapshot] | None = None
    """The snapshot to show for its branch instead of the head, for previews and transactions."""
    reads: set[str] | None = None
    """The keys of the tables of `shown` that statements read; None if nobody asks."""
    pin: CatalogPin | None = None
    """What a pinned session shows as its catalog; None if the names of schemas are states."""
    foreign: ForeignTables = field(default_factory=lambda: ForeignTables(infer_file_schema))
    files: dict[Path, None] = field(default_factory=dict)
    """The files with `.gq` queries that `gq` calls by name."""
    staged_rows: dict[str, pads.Dataset] = field(default_factory=dict)
    """Rows that a statement is about to write, by names that no table has."""

    @property
    def catalog(self) -> Catalog:
        """The accepted schema."""
        return self.store.catalog

    @property
    def storage(self) -> TableStorage:
        """The storage of the tables."""
        return self.store.storage

    def state(self, ref: StateRef) -> Snapshot:
        """Return the snapshot that a state reference names now."""
        shown = None if self.shown is None else self.shown()
        if shown is not None and ref == StateRef(shown.branch):
            return shown
        return state_of(self.store.coordinator, ref)

    def note(self, ref: StateRef, key: str) -> None:
        """Note that a statement reads a table of the shown snapshot."""
        if self.reads is not None and self.shown is not None and ref == StateRef(self.shown().branch):
            self.reads.add(key)

    def confirm(self) -> None:
        """Raise if the graph was removed or replaced by another one."""
        self.store.coordinator.require_same_graph()

    def branches(self) -> list[str]:
        """The names of the branches."""
        return self.store.coordinator.branches()

    def tags(self) -> list[Tag]:
        """The tags of the graph, by name."""
        return list(self.store.coordinator.tags().values())

    def commits(self, branch: str) -> list[Commit]:
        """The history of a branch, newest first."""
        return history(self.store.coordinator, self.store.coordinator.fresh(branch))

    def changes(self, start: Snapshot, end: Snapshot) -> pa.Table:
        """The changes between two states, as a table."""
        from omnigraph_sql.history.diff import ChangeFilter, diff

        changes = diff(self.storage, self.catalog, start, end, ChangeFilter()).changes
        rows = [
            {name: getattr(change, name) for name in ("kind", "type_name", "id", "op")}
            | ({} if change.endpoints is None else vars(change.endpoints))
            for change in changes
        ]
        return pa.Table.from_pylist(rows, CHANGES)

    def merge_conflicts(self, theirs: Snapshot, ours: Snapshot, *, of_all_types: bool) -> pa.Table:
        """The conflicts that merging one branch into another would meet. Nothing is written."""
        from omnigraph_sql.writes.merge.conflict_relation import conflicts_table
        from omnigraph_sql.writes.merge.merges import MergeRequest, preview_merge

        request = MergeRequest(source=theirs.branch, target=ours.branch)
        conflicts = preview_merge(self.store, request, theirs, ours).conflicts
        return conflicts_table(self.catalog, conflicts, of_all_types=of_all_types)

    def history_of(self, type_: NodeType | EdgeType, snapshot: Snapshot) -> TypeHistory:
        """The versions of the rows of a type that led to a state."""
        from omnigraph_sql.history.version_rows import TypeHistory

        return TypeHistory(self.store.coordinator, self.storage, type_, snapshot, history_columns(type_columns(type_)))

    def named(self, query: str) -> tuple[str, str | None]:
        """Resolve an argument of `gq`, the text or the name of a query: the text of its file, and the name."""
        if not query.isidentifier():
            return query, None
        from omnigraph_compiler.query.parse import parse_queries

        texts = {path: read_source(path) for path in self.files}
        names = {path: [parsed.name.text for parsed in parse_queries(text).queries] for path, text in texts.items()}
        having = [path for path, known in names.items() if query in known]
        if len(having) > 1:
            where = " and ".join(map(str, having))
            raise BadRequest(f"there are several queries `{query}`: in {where}", hint="rename one, or give the text")
        if not having:
            known = sorted({name for declared in names.values() for name in declared})
            hint = did_you_mean(query, known) or (
                "give its text" if known else "give its text, or use the files of a project"
            )
            raise NotFound(f"there is no query `{query}`", what="query", name=query, hint=hint)
        return texts[having[0]], query

    def query(
        self, text: str, name: str | None, params: Mapping[str, Any], snapshot: Snapshot, allowed: RunLimits
    ) -> Result:
        """Run a `.gq` query on a snapshot."""
        self._note_types()
        request = self.queries.request(text, name, params, lambda: snapshot, allowed)
        engine = self.queries.engines.get("datafusion")
        return Result(request.schema, lambda: engine.start(request), graph_commit_id=snapshot.commit_id)

    def scope(self, snapshot: Snapshot) -> BindContext:
        """Return the binding context of a state."""
        self._note_types()
        return self.queries.engines.resources.bare_scope(self.catalog, snapshot)

    def _note_types(self) -> None:
        """Note all types: a query or a function of the graph may read any of them."""
        if self.reads is not None:
            noted: set[str] = {TableKey.of_node(name) for name in self.catalog.nodes}
            noted |= {TableKey.of_edge(name) for name in self.catalog.edges}
            for key in noted:
                self.reads.add(key)


def _check(text: object, params: object) -> None:
    check_type("an SQL statement", text, str, "a text")
    check_type("params", {} if params is None else params, Mapping, "a mapping from names to values")


def _checked_parameters(text: str, params: Mapping[str, Any], clock: RunClock, *, ignore_unknown: bool) -> dict[str, Any]:
    """Return the parameters that a statement mentions; raise if statement or parameters are too large."""
    with clock.running(), checked_by(clock.check):
        check_sql(text)
        check_parameters(params)
        return statement_params(text, params, ignore_unknown=ignore_unknown)


class SqlSessions:
    """Statements on a graph, and sessions of DataFusion and DuckDB."""

    def __init__(
        self,
        store: GraphStore,
        queries: GraphQueries,
        shown: Callable[[], Snapshot] | None = None,
        foreign: ForeignTables | None = None,
        reads: set[str] | None = None,
        pin: CatalogPin | None = None,
        pools: SharedPools | None = None,
    ) -> None:
        """With `shown`, a snapshot in place of the head of its branch; `reads` collects its tables that statements read.

        Idle sessions of the engines are in `pools`, which belong to somebody else, or in pools of its own.
        """
        self._own_pools = SharedPools() if pools is None else None
        self.pools = pools or self._own_pools or SharedPools()
        self._source = GraphSqlSource(store=store, queries=queries, shown=shown, reads=reads, pin=pin)
        if foreign is not None:
            self._source = replace(self._source, foreign=foreign)
        self._statements: dict[str, StatementEngine] = {}
        self._processes = ProcessPool()
        self.foreign = self._source.foreign
        """The foreign tables that statements and sessions show."""
        self.staged_rows = self._source.staged_rows
        """Rows that a statement is about to write, by names that no table has."""

    def isolated_sql(
        self,
        text: str,
        params: Mapping[str, Any] | None,
        default_state: StateRef,
        engine: str,
        allowed: RunLimits,
        *,
        ignore_unknown: bool = False,
    ) -> Result:
        """Run a statement that only reads in a separate process."""
        from omnigraph_sql.isolation.rows import IsolatedRows
        from omnigraph_sql.isolation.wire import ForeignRegistration, IsolatedRequest, sendable

        _check(text, params)
        check_engine(engine)
        clock = RunClock(allowed.timeout)
        values = _checked_parameters(text, params or {}, clock, ignore_unknown=ignore_unknown)
        source, state = self._source, self._source.state(default_state)
        request = IsolatedRequest(
            uri=source.queries.engines.resources.root,
            schema_hash=source.catalog.schema_hash,
            text=text,
            params={name: sendable(name, value, parameter_scalar) for name, value in values.items()},
            default_state=default_state,
            pinned=(
                StateRef(default_state.branch, state.manifest_version)
                if default_state.commit is None
                else StateRef(commit=state.commit_id)
            ),
            engine=engine,
            limits=allowed,
            foreign=tuple(ForeignRegistration(*origin) for origin in self.foreign.origins(text)),
            files=tuple(path.absolute() for path in source.files),
            embedder=source.queries.engines.resources.embedder,
        )
        started = [IsolatedRows(self._processes, request, clock.spent)]
        return Result(
            started[0].schema,
            lambda: started.pop() if started else IsolatedRows(self._processes, request),
            graph_commit_id=state.commit_id,
            query_name="sql",
            target=str(default_state),
        )

    def answer(self, request: IsolatedRequest) -> Result:
        """Run a statement for another process."""
        from omnigraph_sql.isolation.wire import IsolatedRequest

        request = instance(IsolatedRequest, "a request")("request", request)
        state = self._source.state(request.pinned)
        return self._run(request.text, request.params, request.default_state, request.engine, request.limits, state)

    def sql(
        self,
        text: str,
        params: Mapping[str, Any] | None,
        default_state: StateRef,
        engine: str,
        allowed: RunLimits,
        *,
        ignore_unknown: bool = False,
    ) -> Result:
        """Run a statement that only reads."""
        _check(text, params)
        return self._run(text, params or {}, default_state, engine, allowed, None, ignore_unknown=ignore_unknown)

    def _run(
        self,
        text: str,
        params: Mapping[str, Any],
        default_state: StateRef,
        engine: str,
        allowed: RunLimits,
        state: Snapshot | None,
        *,
        ignore_unknown: bool = False,
    ) -> Result:
        if engine not in self._statements:
            self._statements[engine] = statement_engine(engine, self._source, self.pools)
        runner = self._statements[engine]
        state = self._source.state(default_state) if state is None else state
        clock = RunClock(allowed.timeout)
        values = _checked_parameters(text, params, clock, ignore_unknown=ignore_unknown) if params else {}
        statement = SqlRequest(
            text=text,
            params=values,
            default_state=default_state,
            limits=allowed,
            spent=clock.spent,
            states={default_state: state},
        )
        schema, first = runner.start(statement)
        started = [first]
        return Result(
            schema,
            lambda: started.pop() if started else runner.start(statement)[1],
            graph_commit_id=state.commit_id,
            query_name="sql",
            target=str(default_state),
        )

    def resolver(self, default_state: StateRef) -> NameResolver:
        """Return a resolver of the present names."""
        return resolver_of(self._source, default_state)

    def use_files(self, files: Iterable[Path]) -> None:
        """Let `gq` call the queries of files by name."""
        for path in files:
            self._source.files[path] = None

    def close(self) -> None:
        """Close the pooled processes and engines."""
        self._processes.close()
        if self._own_pools is not None:
            self._own_pools.clear()

    def datafusion(self, default_state: StateRef, allowed: RunLimits) -> GraphContext:
        """Open a DataFusion session."""
        from omnigraph_sql.engines.datafusion.sessions import GraphContext

        self._source.state(default_state)
        return GraphContext(self._source, default_state, allowed.memory)

    def duckdb(self, default_state: StateRef, allowed: RunLimits) -> DuckDBPyConnection:
        """Open a DuckDB connection."""
        from omnigraph_sql.engines.registry import require_duckdb

        require_duckdb()
        from omnigraph_sql.engines.duckdb.sessions import open_connection

        self._source.state(default_state)
        return open_connection(self._source, default_state, allowed.memory)

    def attach(self, session: Any, alias: str | None, default_state: StateRef) -> str:
        """Register the graph in a session of the caller."""
        from omnigraph_sql.engines.attachments import attach

        self._source.state(default_state)
        return attach(session, self._source, alias, default_state)
