"""Foreign tables through DuckDB."""

from __future__ import annotations

from typing import Any

import duckdb

from omnigraph_sql.engines.foreign.model import Reading
from omnigraph_sql.graph import Graph


def through_duckdb(graph: Graph, name: str, text: str) -> list[tuple[Any, ...]]:
    """The rows of a statement on a foreign table, which is called `it` there."""
    with duckdb.connect() as connection:
        expose(graph, connection, name)
        found: list[tuple[Any, ...]] = connection.execute(text).fetchall()
        return found


def expose(graph: Graph, connection: duckdb.DuckDBPyConnection, name: str, to: str = "it") -> None:
    """Make a foreign table visible in a connection."""
    table = graph._sessions().foreign.get(name)
    assert table is not None
    table.expose(connection, "main", to, Reading())
