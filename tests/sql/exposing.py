"""Foreign tables through DuckDB."""

from __future__ import annotations

from typing import Any

import duckdb

from omnigraph_sql.engines.duckdb import foreign_views
from omnigraph_sql.foreign.model import ForeignRead
from omnigraph_sql.graph import Graph
from tests.internals import foreign_table


def through_duckdb(graph: Graph, name: str, text: str) -> list[tuple[Any, ...]]:
    """The rows of a statement on a foreign table, which is called `it` there."""
    with duckdb.connect() as connection:
        expose(graph, connection, name)
        found: list[tuple[Any, ...]] = connection.execute(text).fetchall()
        return found


def expose(graph: Graph, connection: duckdb.DuckDBPyConnection, name: str, to: str = "it") -> None:
    """Make a foreign table visible in a connection."""
    table = foreign_table(graph, name)
    foreign_views.expose(table, connection, "main", to, ForeignRead())
