"""Graphs in sessions that belong to somebody else."""

from __future__ import annotations

import sys
import weakref
from typing import Any

from omnigraph_sql.engines.sql.names import Ref, check_given
from omnigraph_sql.engines.sql.pins import Source
from omnigraph_sql.errors import BadRequest, Conflict

_GRAPHS: weakref.WeakKeyDictionary[Any, dict[str, Any]] = weakref.WeakKeyDictionary()
"""The graphs that sessions have, by alias. Functions without the name of a graph are those of the first.

Those of a graph that was given a name have it, too.
"""


def attach(session: Any, source: Source, alias: str | None, own: Ref) -> str:
    """Make a graph known in a session of DataFusion or DuckDB."""
    name = alias or "graph"
    check_given("alias", name, str, "a text")
    make = _datafusion if _is("datafusion", "SessionContext", session) else _duckdb
    if make is _duckdb and not _is("duckdb", "DuckDBPyConnection", session):
        hint = "give a datafusion.SessionContext or a connection of duckdb.connect()"
        raise BadRequest(f"a graph cannot be attached to a {type(session).__name__}", hint=hint)
    known = _GRAPHS.setdefault(session, {})
    if not _is_of(known[name], source) if name in known else name.lower() in _catalogs(session):
        text = f"the session has a catalog `{name}` already"
        raise Conflict(text, reason="name_taken", hint="attach the graph with another alias=")
    plain = ("",) if next(iter(known), name) == name else ()
    named = (f"{name}_",) if alias is not None or not plain else ()
    prefixes = (*plain, *named)
    known[name] = make(session, source, name, own, prefixes)
    return name


def opened(session: Any, name: str, graph: Any) -> None:
    """A session of our own has a graph: to attach it again shows it anew."""
    _GRAPHS.setdefault(session, {})[name] = graph


def _is_of(graph: Any, source: Source) -> bool:
    """Whether an attached graph is that of a source, through whichever handle."""
    return str(graph.pins.source.storage.objects.root) == str(source.storage.objects.root)


def _catalogs(session: Any) -> set[str]:
    if _is("datafusion", "SessionContext", session):
        return {name.lower() for name in session.catalog_names()}
    rows = session.execute("SELECT database_name FROM duckdb_databases()").fetchall()
    return {name.lower() for (name,) in rows}


def _is(module: str, kind: str, session: Any) -> bool:
    """Whether a session is of a package, which is imported then: whoever made it did so."""
    loaded = sys.modules.get(module)
    return loaded is not None and isinstance(session, getattr(loaded, kind))


def _datafusion(session: Any, source: Source, alias: str, own: Ref, prefixes: tuple[str, ...]) -> Any:
    from omnigraph_sql.engines.sql.context import Attached

    return Attached(session, source, alias, own, prefixes)


def _duckdb(session: Any, source: Source, alias: str, own: Ref, prefixes: tuple[str, ...]) -> Any:
    from omnigraph_sql.engines.sql.duck.session import AttachedDuck

    return AttachedDuck(session, source, alias, own, prefixes)
