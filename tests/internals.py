"""What tests look at inside of an open graph. No other module of the tests reads a private name of the product."""

from __future__ import annotations

from typing import Any

from omnigraph_sql.choices import EngineName
from omnigraph_sql.foreign.model import ForeignSource
from omnigraph_sql.graph import Graph
from omnigraph_sql.store.graph_store import GraphStore
from omnigraph_sql.topology.adjacency import GraphIndex
from omnigraph_sql.topology.cache import RuntimeCache


def store_of(graph: Graph) -> GraphStore:
    """The store of a graph, below its public methods. It counts calls."""
    return graph._store


def foreign_table(graph: Graph, name: str) -> ForeignSource:
    """A registered foreign table."""
    table = graph._sql.sessions.foreign.get(name)
    assert table is not None
    return table


def cached_adjacencies(graph: Graph) -> list[GraphIndex]:
    """The adjacencies in memory, the most recently used last."""
    return _topology(graph).indexes()


def cached_tables(graph: Graph) -> int:
    """The number of table versions with columns in memory."""
    return len(_topology(graph)._tables)


def clear_topology(graph: Graph) -> None:
    """Drop the tables and adjacencies in memory."""
    _topology(graph).clear()


def open_derived_files(graph: Graph) -> int:
    """The number of derived files that are mapped into memory."""
    return len(_topology(graph)._derived._alive)


def cached_plans(graph: Graph, engine: EngineName) -> int:
    """The number of finished plans that an engine has cached."""
    runner: Any = graph._queries.engines.get(engine)
    return len(runner.engine._plans._plans.items())


def _topology(graph: Graph) -> RuntimeCache:
    return graph._queries.engines.resources._cache
