"""Graphs attached to connections of DuckDB: the caller's, and connections opened on a graph."""

from __future__ import annotations

import os
import tempfile
import weakref
from contextlib import suppress

import duckdb
from duckdb import DuckDBPyConnection

from omnigraph_sql.engines.duckdb.connections import keyboard_interrupts, remove_spills
from omnigraph_sql.engines.duckdb.functions import CurrentResolver, create_functions
from omnigraph_sql.engines.duckdb.typed_functions import create_typed_functions
from omnigraph_sql.engines.duckdb.views import GraphViews
from omnigraph_sql.errors import NotFound, Storage
from omnigraph_sql.sql.refs import CATALOG, StateRef
from omnigraph_sql.sql.resolver import NameResolver, SqlSource
from omnigraph_sql.sql.session_graphs import graphs_of
from omnigraph_sql.sqltext.identifiers import quoted

__all__ = ["AttachedDuckDBGraph", "DuckDBPyConnection", "open_connection"]


class AttachedDuckDBGraph:
    """A graph in a connection. It shows the branches and tags as they were when it was attached."""

    @keyboard_interrupts()
    def __init__(
        self,
        duck: DuckDBPyConnection,
        source: SqlSource,
        alias: str,
        default_state: StateRef,
        prefixes: tuple[str, ...] = ("",),
    ) -> None:
        self.resolver = resolver = NameResolver(source, default_state)
        current = CurrentResolver(resolver)
        tables = GraphViews(duck, alias, current)
        catalog, schema = duck.execute("SELECT current_catalog(), current_schema()").fetchall()[0]
        tables.create_all(resolver, resolver.schema_names())
        for name in resolver.tag_schemas():
            with suppress(NotFound, Storage):  # a tag whose state was lost stops no session
                tables.create_all(resolver, [name])
        duck.execute(f"USE {quoted(catalog, schema)}")
        create_functions(duck, current, prefixes)
        create_typed_functions(duck, current, prefixes)


@keyboard_interrupts()
def open_connection(source: SqlSource, default_state: StateRef, memory: int) -> DuckDBPyConnection:
    """Open a connection on a graph, with a state as the default schema."""
    # DuckDB's default spill directory is `.tmp` in the working directory, readable by every user.
    spills = tempfile.mkdtemp(prefix="omnigraph-duckdb-")
    duck = duckdb.connect(":memory:", config={"memory_limit": f"{memory}B", "temp_directory": spills})
    weakref.finalize(duck, remove_spills, spills, os.getpid())
    duck.execute("SET TimeZone = 'UTC'")
    graphs_of(duck)[CATALOG] = AttachedDuckDBGraph(duck, source, CATALOG, default_state)
    duck.execute(f"USE {quoted(CATALOG, str(default_state))}")
    return duck
