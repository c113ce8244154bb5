"""Connections to DuckDB that belong to somebody else, with a graph as one of their databases."""

from __future__ import annotations

import duckdb
from duckdb import DuckDBPyConnection

from omnigraph_sql.engines.duckdb_connections import heeding_keyboard
from omnigraph_sql.engines.sql.attaching import opened
from omnigraph_sql.engines.sql.context import CATALOG
from omnigraph_sql.engines.sql.duck.functions import Current, create_functions
from omnigraph_sql.engines.sql.duck.naming import quoted
from omnigraph_sql.engines.sql.duck.tables import Tables
from omnigraph_sql.engines.sql.names import Ref
from omnigraph_sql.engines.sql.pins import Pins, Source

__all__ = ["AttachedDuck", "DuckDBPyConnection", "open_connection"]


class AttachedDuck:
    """A graph in a connection. It shows what the branches showed when it was attached."""

    @heeding_keyboard()
    def __init__(
        self, duck: DuckDBPyConnection, source: Source, alias: str, own: Ref, prefixes: tuple[str, ...] = ("",)
    ) -> None:
        self.pins = pins = Pins(source, own)
        tables = Tables(duck, alias)
        catalog, schema = duck.execute("SELECT current_catalog(), current_schema()").fetchall()[0]
        tables.everything(pins, pins.schema_names())
        duck.execute(f"USE {quoted(catalog, schema)}")
        create_functions(duck, Current(pins), prefixes)


@heeding_keyboard()
def open_connection(source: Source, own: Ref, memory: int) -> DuckDBPyConnection:
    """A connection on a graph, in which a state is the default schema."""
    duck = duckdb.connect(":memory:", config={"memory_limit": f"{memory}B"})
    duck.execute("SET TimeZone = 'UTC'")
    opened(duck, CATALOG, AttachedDuck(duck, source, CATALOG, own))
    duck.execute(f"USE {quoted(CATALOG, str(own))}")
    return duck
