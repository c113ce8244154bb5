"""A graph in SQL: what sessions need of it, and the sessions themselves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from omnigraph_compiler import Catalog, ir
from omnigraph_compiler.diagnostics import did_you_mean
from omnigraph_compiler.query.parse import parse_queries
from omnigraph_sql.compiling import Compiler
from omnigraph_sql.engines.choosing import Engines
from omnigraph_sql.engines.foreign.registry import ForeignTables
from omnigraph_sql.engines.limits import Limits, limits
from omnigraph_sql.engines.orders import Order
from omnigraph_sql.engines.scope import Scope
from omnigraph_sql.engines.sql.choosing import Statements, statements_of
from omnigraph_sql.engines.sql.functions import CHANGES
from omnigraph_sql.engines.sql.names import Ref, check_given
from omnigraph_sql.engines.sql.orders import Statement
from omnigraph_sql.errors import BadRequest, NotFound
from omnigraph_sql.history.commits import history
from omnigraph_sql.history.diff import Filter, diff
from omnigraph_sql.manifest.journal import Commit
from omnigraph_sql.manifest.snapshot import Snapshot
from omnigraph_sql.result import Result
from omnigraph_sql.storage.tables import TableStorage
from omnigraph_sql.writes.engine import Engine
from omnigraph_sql.writes.mutation import bind_or_raise

if TYPE_CHECKING:
    from omnigraph_sql.engines.sql.context import GraphContext
    from omnigraph_sql.engines.sql.duck.session import DuckDBPyConnection


@dataclass(frozen=True)
class GraphSource:
    """What SQL needs of a graph (`omnigraph_sql.engines.sql.pins.Source`).

    Engines hold on to it where Python does not see it, so nothing that holds on to an engine may be part of it.
    """

    engine: Engine
    engines: Engines
    compiler: Compiler
    shown: Snapshot | None = None
    """What a branch shows in place of what it is at."""
    foreign: ForeignTables = field(default_factory=ForeignTables)
    files: dict[Path, None] = field(default_factory=dict)
    """Files with `.gq` queries that can be called by name."""

    @property
    def catalog(self) -> Catalog:
        """The accepted schema."""
        return self.engine.catalog

    @property
    def storage(self) -> TableStorage:
        """Where the tables are."""
        return self.engine.storage

    def state(self, ref: Ref) -> Snapshot:
        """What a ref shows now."""
        coordinator = self.engine.coordinator
        if ref.commit is not None:
            return coordinator.at_commit(ref.commit)
        if self.shown is not None and ref == Ref(self.shown.branch):
            return self.shown
        return coordinator.fresh(ref.branch) if ref.version is None else coordinator.at_version(ref.branch, ref.version)

    def branches(self) -> list[str]:
        """The names of the branches."""
        return self.engine.coordinator.branches()

    def commits(self, branch: str) -> list[Commit]:
        """The history of a branch, newest first."""
        return history(self.engine.coordinator, self.engine.coordinator.fresh(branch))

    def changes(self, start: Snapshot, end: Snapshot) -> pa.Table:
        """What differs between two states."""
        found = diff(self.storage, self.catalog, start, end, Filter())
        rows = [
            {name: getattr(each, name) for name in ("kind", "type_name", "id", "op")}
            | ({} if each.endpoints is None else vars(each.endpoints))
            for each in found.changes
        ]
        return pa.Table.from_pylist(rows, CHANGES)

    def named(self, query: str) -> tuple[str, str | None]:
        """The text of a `.gq` query that was given as a text or by its name."""
        if not query.isidentifier():
            return query, None
        texts = {path: path.read_text("utf-8") for path in self.files}
        names = {path: [each.name.text for each in parse_queries(text).queries] for path, text in texts.items()}
        having = [path for path, known in names.items() if query in known]
        if len(having) > 1:
            where = " and ".join(map(str, having))
            raise BadRequest(f"there are several queries `{query}`: in {where}", hint="rename one, or give the text")
        if not having:
            known = sorted({name for each in names.values() for name in each})
            hint = did_you_mean(query, known) or (
                "give its text" if known else "give its text, or use the files of a project"
            )
            raise NotFound(f"there is no query `{query}`", what="query", name=query, hint=hint)
        return texts[having[0]], query

    def query(self, text: str, name: str | None, params: Mapping[str, Any], snapshot: Snapshot) -> Result:
        """The rows of a `.gq` query."""
        query = self.compiler.query(text, name)
        if not isinstance(query.plan, ir.ReadPlan):
            raise BadRequest(f"`{query.name}` is a mutation, not a read", hint="run it with mutate")
        order = Order(query, self.catalog, snapshot, bind_or_raise(query, params), limits())
        return Result(order.schema, lambda: self.engines.get("datafusion").start(order), graph_commit_id=snapshot.commit_id)

    def scope(self, snapshot: Snapshot) -> Scope:
        """What is known of a state besides its tables."""
        return self.engines.resources.bare_scope(self.catalog, snapshot)


class Sessions:
    """Statements on a graph, and sessions of DataFusion and DuckDB."""

    def __init__(self, engine: Engine, engines: Engines, compiler: Compiler, shown: Snapshot | None = None) -> None:
        self._source = GraphSource(engine, engines, compiler, shown)
        self._statements: dict[str, Statements] = {}
        self.foreign = self._source.foreign
        """The foreign tables that statements and sessions show."""

    def sql(self, text: str, params: Mapping[str, Any] | None, own: Ref, engine: str, allowed: Limits) -> Result:
        """Run a statement that only reads."""
        check_given("an SQL statement", text, str, "a text")
        check_given("params", params or {}, Mapping, "a mapping from names to values")
        if engine not in self._statements:
            self._statements[engine] = statements_of(engine, self._source)
        runner = self._statements[engine]
        state = self._source.state(own)
        statement = Statement(text, dict(params or {}), own, allowed, {own: state})
        schema, first = runner.start(statement)
        started = [first]
        return Result(
            schema,
            lambda: started.pop() if started else runner.start(statement)[1],
            graph_commit_id=state.commit_id,
            query_name="sql",
            target=str(own),
        )

    def use_files(self, files: Iterable[Path]) -> None:
        """Let `gq` call the queries of files by name."""
        for path in files:
            self._source.files[path] = None

    def close(self) -> None:
        """Let go of what is kept for the next statements."""
        for each in self._statements.values():
            each.close()

    def datafusion(self, own: Ref, allowed: Limits) -> GraphContext:
        """A session of DataFusion."""
        from omnigraph_sql.engines.sql.context import GraphContext

        self._source.state(own)
        return GraphContext(self._source, own, allowed.memory)

    def duckdb(self, own: Ref, allowed: Limits) -> DuckDBPyConnection:
        """A connection of DuckDB."""
        from omnigraph_sql.engines.choosing import require_duckdb

        require_duckdb()
        from omnigraph_sql.engines.sql.duck.session import open_connection

        self._source.state(own)
        return open_connection(self._source, own, allowed.memory)

    def attach(self, session: Any, alias: str | None, own: Ref) -> str:
        """Make the graph known in a session that is somebody else's."""
        from omnigraph_sql.engines.sql.attaching import attach

        self._source.state(own)
        return attach(session, self._source, alias, own)
