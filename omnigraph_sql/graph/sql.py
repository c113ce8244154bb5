"""SQL on one graph: statements, sessions, previews and foreign tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from omnigraph_sql.graph.queries import GraphQueries
from omnigraph_sql.interrupt_safe_import import import_whole
from omnigraph_sql.manifest.coordinator import MAIN, public_name
from omnigraph_sql.manifest.refs import check_commit, check_version
from omnigraph_sql.manifest.relations import DEFAULT_SCHEMA, relations
from omnigraph_sql.manifest.snapshot import Snapshot
from omnigraph_sql.result import Result
from omnigraph_sql.runtime.limits import run_limits
from omnigraph_sql.store.graph_store import GraphStore

if TYPE_CHECKING:
    from omnigraph_sql.graph.sessions import SqlSessions
    from omnigraph_sql.sql.refs import CatalogPin, StateRef


class Preview:
    """A branch as it will be once a staged load is published. Made by `Graph.preview`."""

    def __init__(self, sessions: SqlSessions, branch: str) -> None:
        self._sessions = sessions
        self._branch = branch

    def sql(self, text: str, params: Mapping[str, Any] | None = None) -> Result:
        """Run an SQL statement that reads; names are resolved as in `Graph.sql`.

        Args:
            text: the statement.
            params: values for its `$name` parameters.

        Returns:
            The rows, with those of the staged load among them.

        Raises:
            BadRequest: the statement is not valid, or would change something.

        Example:
            >>> staged = graph.stage('{"type": "Port", "data": {"code": "GBFXT"}}', mode="append")
            >>> with graph.preview(staged) as preview:
            ...     preview.sql("select count(*) as n from Port").to_pylist()
            [{'n': 3}]
        """
        from omnigraph_sql.sql.refs import StateRef

        return self._sessions.sql(text, params, StateRef(self._branch), "datafusion", run_limits())

    def close(self) -> None:
        """Release what the statements hold. `Graph.preview` does it at the end of its block.

        Example:
            >>> staged = graph.stage('{"type": "Port", "data": {"code": "GBFXT"}}', mode="append")
            >>> with graph.preview(staged) as preview:
            ...     preview.close()
        """
        self._sessions.close()


class GraphSql:
    """Opens the SQL sessions of a graph when they are first used."""

    def __init__(self, store: GraphStore, queries: GraphQueries) -> None:
        self._store = store
        self._queries = queries
        self._sessions: SqlSessions | None = None

    @property
    def sessions(self) -> SqlSessions:
        """Statements, sessions and foreign tables."""
        if self._sessions is None:
            import_whole("datafusion")
            from omnigraph_sql.graph.sessions import SqlSessions

            self._sessions = SqlSessions(self._store, self._queries)
        return self._sessions

    def state(self, branch: str, version: int | None, commit: str | None) -> StateRef:
        """A branch, a version of it or a commit, as statements name it."""
        from omnigraph_sql.sql.refs import StateRef

        if commit is not None:
            return StateRef(commit=check_commit(commit))
        return StateRef(public_name(branch), None if version is None else check_version(version))

    def table_names(self) -> dict[str, str]:
        """The names of tables on the main branch, each with its kind: a foreign table may have none of them."""
        catalog, snapshot = self._store.catalog, self._store.coordinator.fresh(MAIN)
        named = {
            relation.name: f"relational {relation.kind}"
            for relation in relations(snapshot)
            if relation.schema == DEFAULT_SCHEMA
        }
        return named | dict.fromkeys((*catalog.nodes, *catalog.edges), "type")

    def preview(self, snapshot: Snapshot) -> Preview:
        """SQL on a snapshot that is not published."""
        import_whole("datafusion")
        from omnigraph_sql.graph.sessions import SqlSessions

        return Preview(SqlSessions(self._store, self._queries.unsaved(), lambda: snapshot), snapshot.branch)

    def pinned(self, pin: CatalogPin) -> SqlSessions:
        """Sessions whose schemas are the relational schemas of one branch."""
        from omnigraph_sql.graph.sessions import SqlSessions

        sessions = self.sessions
        return SqlSessions(self._store, self._queries, foreign=sessions.foreign, pin=pin, pools=sessions.pools)

    def close(self) -> None:
        """Release the sessions."""
        if self._sessions is not None:
            self._sessions.close()
