"""Graphs and databases for tests of SQL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import omnigraph_sql as og
from omnigraph_sql.graph import Graph
from tests.sql.postgres import Server, postgres_server

SCHEMA = """
node Person { name: String @key  age: I32? }
edge Knows: Person -> Person { since: I32? }
"""
PEOPLE = [("ann", 30), ("bob", 41), ("cem", None), ("Dän", 25)]


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    """Four people, of whom Ann knows two."""
    import json

    records = [{"type": "Person", "data": {"name": name, "age": age}} for name, age in PEOPLE]
    records += [{"edge": "Knows", "from": "ann", "to": other, "data": {"since": 2020}} for other in ("bob", "cem")]
    with og.init(tmp_path / "graph", SCHEMA) as graph:
        graph.load("\n".join(map(json.dumps, records)), mode="append")
        yield graph


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """A Postgres that runs during all tests that need it."""
    with postgres_server() as server:
        yield server
