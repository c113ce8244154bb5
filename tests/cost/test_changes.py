"""Differences, changes of commits and polls cost what was changed, not what the graph or its history holds."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import omnigraph_sql as og
from tests.cost.counting import Cost, cost
from tests.cost.graphs import many_types, node

SCHEMA = """
node Person { name: String @key  age: I32?  vec: Vector(8)? }
edge Knows: Person -> Person
"""
CHANGED = 10


def people(count: int, first: int = 0, **values: Any) -> list[str]:
    return [node("Person", name=f"p{number:06}", vec=[1.0] * 8, **values) for number in range(first, first + count)]


def changed_graph(place: Path, rows: int) -> og.Graph:
    """A graph of so many rows whose last commit has updated, inserted and deleted a few; opened anew."""
    graph = og.init(place / f"g{rows}", SCHEMA)
    graph.load(people(rows), mode="append")
    graph.create_branch("draft")
    graph.load([*people(CHANGED - 2, age=1), *people(2, first=rows)], mode="merge", branch="draft")
    return og.connect(graph.uri, read_only=True)


OPERATIONS: dict[str, Callable[[og.Graph], object]] = {
    "diff": lambda graph: graph.diff("main", "draft"),
    "diff with images": lambda graph: graph.diff("main", "draft", images=True),
    "commit changes": lambda graph: graph.commit_changes(graph.snapshot(branch="draft").commit_id),
    "poll": lambda graph: graph.changes("draft", start=f"after:{graph.snapshot().commit_id}"),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_the_cost_follows_the_delta_and_not_the_table(tmp_path: Path, name: str) -> None:
    small, large = (cost(graph, OPERATIONS[name], graph) for graph in (changed_graph(tmp_path, n) for n in (50, 20_000)))

    assert small == large
    assert small["tables.rows"] <= 6 * CHANGED, "ids and values, before and after"


def test_a_diff_costs_the_same_with_more_types(tmp_path: Path) -> None:
    costs: list[Cost] = []
    for count in (1, 40):
        graph = og.init(tmp_path / f"g{count}", many_types(count))
        graph.load([node(f"T{number}", name="x") for number in range(count)], mode="append")
        graph.load([node("T0", name="y")], mode="append")
        reader = og.connect(graph.uri, read_only=True)
        costs.append(cost(reader, reader.diff, "main@2", "main"))
        last = graph.commits()[0].graph_commit_id
        reader = og.connect(graph.uri, read_only=True)
        costs.append(cost(reader, reader.commit_changes, last))

    assert costs[1] == costs[3]
    assert costs[0]["tables.rows"] == costs[2]["tables.rows"]
    assert costs[0]["manifest.read"] == costs[2]["manifest.read"]


def test_a_page_reads_the_values_of_its_own_rows(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", SCHEMA)
    graph.load(people(1000), mode="append")
    graph.load(people(500, age=1), mode="merge")
    last = graph.commits()[0].graph_commit_id
    reader = og.connect(graph.uri, read_only=True)

    first = cost(reader, reader.commit_changes, last, limit=5)
    token = reader.commit_changes(last, limit=5).next_page_token
    second = cost(reader, reader.commit_changes, last, limit=5, page_token=token)

    assert first["tables.rows"] == 2 * 500 + 2 * 5, "all ids, and the values of the page before and after"
    assert second["tables.rows"] == 2 * 5, "the ids are known by now"


def test_operations_that_are_not_selected_are_not_read(tmp_path: Path) -> None:
    graph = changed_graph(tmp_path, 100)
    last = graph.snapshot(branch="draft").commit_id
    kinds = cost(graph, graph.commit_changes, last, kinds=["edge"])
    inserts = cost(graph, graph.commit_changes, last, ops=["insert"])

    assert "tables.rows" not in kinds
    assert inserts["tables.rows"] == 2 * CHANGED - 2 + 2, "ids before and after, and two rows"


def test_a_poll_without_news_reads_no_history(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", SCHEMA)
    graph.load(people(3), mode="append")
    cursor = graph.changes().cursor
    reader = og.connect(graph.uri, read_only=True)
    reader.changes(cursor=cursor)

    quiet = cost(reader, reader.changes, cursor=cursor)
    assert not [call for call in quiet if call.startswith(("tables.", "commits.", "manifest.read"))]


def test_a_poll_costs_the_same_after_a_long_history(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", SCHEMA)
    graph.load(people(3), mode="append")
    costs = []
    for turn in range(2):
        cursor = graph.changes().cursor
        graph.load(people(2, first=10 * turn + 10), mode="append")
        reader = og.connect(graph.uri, read_only=True)
        costs.append(cost(reader, reader.changes, cursor=cursor))
        for number in range(20):
            graph.load([json.dumps({"type": "Person", "data": {"name": f"x{turn}-{number}"}})], mode="append")

    assert costs[0] == costs[1]
