"""Attaching graphs to sessions of DataFusion and DuckDB that the caller owns."""

from __future__ import annotations

import sys
from typing import Any

from omnigraph_sql.errors import BadRequest, Conflict
from omnigraph_sql.sql.refs import StateRef, check_type
from omnigraph_sql.sql.resolver import SqlSource
from omnigraph_sql.sql.session_graphs import graphs_of


def attach(session: Any, source: SqlSource, alias: str | None, default_state: StateRef) -> str:
    """Attach a graph to a session of DataFusion or DuckDB, and return its alias."""
    name = alias or "graph"
    check_type("alias", name, str, "a text")
    make = _datafusion if _is("datafusion", "SessionContext", session) else _duckdb
    if make is _duckdb and not _is("duckdb", "DuckDBPyConnection", session):
        hint = "give a datafusion.SessionContext or a connection of duckdb.connect()"
        raise BadRequest(f"a graph cannot be attached to a {type(session).__name__}", hint=hint)
    attached = graphs_of(session)
    if not _is_of(attached[name], source) if name in attached else name.lower() in _catalogs(session):
        text = f"the session has a catalog `{name}` already"
        raise Conflict(text, reason="name_taken", hint="attach the graph with another alias=")
    plain = ("",) if next(iter(attached), name) == name else ()
    named = (f"{name}_",) if alias is not None or not plain else ()
    prefixes = (*plain, *named)
    attached[name] = make(session, source, name, default_state, prefixes)
    return name


def _is_of(graph: Any, source: SqlSource) -> bool:
    """True if an attached graph has the same root as a source."""
    return str(graph.resolver.source.storage.objects.root) == str(source.storage.objects.root)


def _catalogs(session: Any) -> set[str]:
    if _is("datafusion", "SessionContext", session):
        return {name.lower() for name in session.catalog_names()}
    rows = session.execute("SELECT database_name FROM duckdb_databases()").fetchall()
    return {name.lower() for (name,) in rows}


def _is(module: str, kind: str, session: Any) -> bool:
    """True if a session is an instance of a class. The package of an existing session is imported already."""
    loaded = sys.modules.get(module)
    return loaded is not None and isinstance(session, getattr(loaded, kind))


def _datafusion(session: Any, source: SqlSource, alias: str, default_state: StateRef, prefixes: tuple[str, ...]) -> Any:
    from omnigraph_sql.engines.datafusion.sessions import AttachedGraph

    return AttachedGraph(session, source, alias, default_state, prefixes)


def _duckdb(session: Any, source: SqlSource, alias: str, default_state: StateRef, prefixes: tuple[str, ...]) -> Any:
    from omnigraph_sql.engines.duckdb.sessions import AttachedDuckDBGraph

    return AttachedDuckDBGraph(session, source, alias, default_state, prefixes)
