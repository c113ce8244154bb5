"""What writes cost."""

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from tests.cost.conftest import Golden
from tests.cost.counting import Cost, cost
from tests.cost.graphs import edge, node, seeded

STATEMENTS = {
    "insert": 'insert Note { text: "x" }',
    "upsert new": 'insert Person { name: "new" }',
    "upsert old": 'insert Person { name: "p3", age: 4 }',
    "update": 'update Person set { age: 31 } where name = "p3"',
    "no match": 'update Person set { age: 31 } where name = "nobody"',
    "edge": 'insert Knows { from: "p3", to: "p9" }',
    "edge @card": 'insert Member { from: "p3", to: "red" }',
    "delete edge": 'delete Knows where from = "p4"',
    "delete": 'delete Person where name = "p9"',
}


def test_one_row_writes(tmp_path: Path, golden: Golden) -> None:
    graph = seeded(tmp_path / "g")

    golden("mutations", {name: cost(graph, graph.mutate, f"query q() {{ {text} }}") for name, text in STATEMENTS.items()})


def records(prefix: str, people: int) -> Iterable[str]:
    """Of three types, `people` of each node type and of edges."""
    yield from (node("Person", name=f"{prefix}{number}") for number in range(people))
    yield from (node("Team", slug=f"{prefix}{number}") for number in range(people))
    yield from (edge("Knows", f"{prefix}{number}", f"{prefix}{people - 1 - number}") for number in range(people))


def calls(each: Cost) -> Cost:
    """Without the rows that scans handed out, which may follow the input. Looking ids up and scanning them is one call."""
    lookups = each.get("tables.ids", 0) + each.get("tables.scan", 0)
    own = ("tables.rows", "tables.ids", "tables.scan")
    return {call: count for call, count in each.items() if call not in own} | {"lookups": lookups}


@pytest.mark.parametrize("mode", ["append", "merge", "overwrite"])
def test_a_load_costs_the_same_for_one_row_and_for_a_thousand(tmp_path: Path, golden: Golden, mode: str) -> None:
    costs = {}
    for rows in (1, 1000):
        graph = seeded(tmp_path / str(rows))
        graph.load([node("Note", text="the handles are warm")], mode="append")
        graph.mutate('query q() { delete Member where from = "p0" }')
        costs[rows] = cost(graph, graph.load, records("x", rows), mode=mode)

    golden(f"load_{mode}", {f"3 x {rows}": each for rows, each in costs.items()})
    assert calls(costs[1]) == calls(costs[1000])


def test_a_staged_load(tmp_path: Path, golden: Golden) -> None:
    graph = seeded(tmp_path / "g")
    graph.create_branch("draft")
    staged = {}

    def stage(branch: str) -> Callable[[], object]:
        return lambda: staged.update({branch: graph.stage([node("Note", text="x")], mode="append", branch=branch)})

    golden(
        "staged",
        {
            "stage": cost(graph, stage("main")),
            "publish": cost(graph, lambda: graph.publish(staged["main"])),
            "stage on a branch": cost(graph, stage("draft")),
            "publish with fork": cost(graph, lambda: graph.publish(staged["draft"])),
        },
    )
