"""What a graph offers to those who speak SQL: statements, sessions, and tables that live elsewhere."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omnigraph_sql.compiling import Compiler
from omnigraph_sql.engines.limits import limits
from omnigraph_sql.importing import import_whole
from omnigraph_sql.manifest.coordinator import MAIN, public_name
from omnigraph_sql.manifest.relations import DEFAULT_SCHEMA, relations
from omnigraph_sql.manifest.snapshot import Snapshot
from omnigraph_sql.project import Project, find_project, load_project
from omnigraph_sql.result import Result
from omnigraph_sql.writes.engine import Engine

if TYPE_CHECKING:
    from omnigraph_sql.engines.choosing import Engines
    from omnigraph_sql.engines.foreign.model import ForeignTable
    from omnigraph_sql.engines.sql.context import GraphContext
    from omnigraph_sql.engines.sql.duck.session import DuckDBPyConnection
    from omnigraph_sql.engines.sql.names import Ref
    from omnigraph_sql.sessions import Sessions


class Preview:
    """A branch as it will be, for those who ask in SQL. Made by `Graph.preview`."""

    def __init__(self, sessions: Sessions, branch: str) -> None:
        self._sessions = sessions
        self._branch = branch

    def sql(self, text: str, params: Mapping[str, Any] | None = None) -> Result:
        """Run an SQL statement that reads; names mean what they mean in `Graph.sql`."""
        from omnigraph_sql.engines.sql.names import Ref

        return self._sessions.sql(text, params, Ref(self._branch), "datafusion", limits())

    def close(self) -> None:
        """Let go of what statements left."""
        self._sessions.close()


class SqlDoor:
    """The part of a graph that speaks SQL."""

    def __init__(self, engine: Engine, engines: Callable[[], Engines], compiler: Compiler) -> None:
        self._asked = engine
        self._engines_for_sql = engines
        self._compiler_for_sql = compiler
        self._sql: Sessions | None = None

    def sql(
        self,
        text: str,
        params: Mapping[str, Any] | None = None,
        *,
        branch: str = MAIN,
        snapshot: str | None = None,
        version: int | None = None,
        engine: str = "datafusion",
        timeout: float | None = None,
        memory_limit: int | None = None,
    ) -> Result:
        """Run an SQL statement that reads, with `$name` for its parameters.

        Tables are the types of the graph, as they are on a branch, at an earlier version of it, or at a commit (`snapshot`);
        `"feature/x"."Person"`, `"main@42"."Person"` and `"@COMMIT"."Person"` name other states. All of them are what they
        are when the statement starts.
        """
        return self._sessions().sql(
            text, params, self._ref(branch, version, snapshot), engine, limits(timeout, memory_limit)
        )

    def datafusion(
        self, *, branch: str = MAIN, snapshot: str | None = None, version: int | None = None, memory_limit: int | None = None
    ) -> GraphContext:
        """A DataFusion session on the graph, in which a branch or version is the default schema.

        Each statement reads the newest state of the branches that it names, and none can change anything.
        """
        return self._sessions().datafusion(self._ref(branch, version, snapshot), limits(None, memory_limit))

    def duckdb(
        self, *, branch: str = MAIN, snapshot: str | None = None, version: int | None = None, memory_limit: int | None = None
    ) -> DuckDBPyConnection:
        """A DuckDB connection on the graph, in which a branch or version is the default schema.

        It shows what the branches show now; attach the graph to it again to see it anew.
        """
        return self._sessions().duckdb(self._ref(branch, version, snapshot), limits(None, memory_limit))

    def attach(
        self,
        session: Any,
        *,
        alias: str | None = None,
        branch: str = MAIN,
        snapshot: str | None = None,
        version: int | None = None,
    ) -> str:
        """Make the graph a catalog of a session of DataFusion or DuckDB that is yours; returns what it is called there.

        The session keeps seeing every branch as it was when it was first named there; attach the graph again to see it anew.
        """
        return self._sessions().attach(session, alias, self._ref(branch, version, snapshot))

    def register(self, name: str, source: Any, **options: Any) -> ForeignTable:
        """Make data that lives elsewhere a table for SQL, joined with the graph's own: `foreign."NAME"`, or just `NAME`.

        A source is a path, pattern or directory of Parquet or CSV files (`format`, `delimiter`, `header`, `schema`,
        `types`), a `postgresql://` address or a DuckDB file (`table="SCHEMA.TABLE"`), or Arrow data: a table, a reader, a
        data frame. Its columns are looked up now; its rows are read when a statement needs them.
        """
        return self._sessions().foreign.add(name, source, options, self._table_names())

    def unregister(self, name: str) -> None:
        """Forget a foreign table. Its source stays as it is."""
        self._sessions().foreign.remove(name)

    def foreign(self) -> list[ForeignTable]:
        """The foreign tables of this handle, by name."""
        return self._sessions().foreign.all()

    def use_project(self, path: str | os.PathLike[str] | None = None) -> Project:
        """Use an `omnigraph.yaml`, a given one or the nearest from the working directory upwards.

        Its foreign tables are registered, and the queries of its files can be called by name: `gq('NAME')`.
        """
        project = find_project() if path is None else load_project(Path(path))
        self.use_queries(*project.queries)
        for table in project.foreign:
            self.register(table.name, table.source, **table.options)
        return project

    def use_queries(self, *files: str | os.PathLike[str]) -> None:
        """Let `gq` in SQL call the queries of `.gq` files by name."""
        self._sessions().use_files(map(Path, files))

    def _table_names(self) -> dict[str, str]:
        """The names of tables on the main branch, each with what it is."""
        catalog, snapshot = self._asked.catalog, self._asked.coordinator.fresh(MAIN)
        named = {each.name: f"relational {each.kind}" for each in relations(snapshot) if each.schema == DEFAULT_SCHEMA}
        return named | dict.fromkeys((*catalog.nodes, *catalog.edges), "type")

    def _ref(self, branch: str, version: int | None, commit: str | None) -> Ref:
        from omnigraph_sql.engines.sql.names import Ref

        return Ref(commit=commit) if commit is not None else Ref(public_name(branch), version)

    def _sessions(self) -> Sessions:
        if self._sql is None:
            import_whole("datafusion")
            from omnigraph_sql.sessions import Sessions

            self._sql = Sessions(self._asked, self._engines_for_sql(), self._compiler_for_sql)
        return self._sql

    def _previewed(self, snapshot: Snapshot) -> Preview:
        import_whole("datafusion")
        from omnigraph_sql.engines.choosing import Engines
        from omnigraph_sql.sessions import Sessions

        engines = Engines(self._engines_for_sql().resources.unsaved())
        return Preview(Sessions(self._asked, engines, self._compiler_for_sql, snapshot), snapshot.branch)

    def _close_sessions(self) -> None:
        if self._sql is not None:
            self._sql.close()
