"""A write on an old graph costs what it costs on a new one."""

from pathlib import Path

import pytest

import omnigraph_sql as og
from tests.cost.conftest import Golden
from tests.cost.counting import Cost, cost, counted
from tests.cost.graphs import seeded

STATEMENTS = {
    "append": "query q($name: String) { insert Note { text: $name } }",
    "upsert": "query q($name: String) { insert Person { name: $name } }",
}
UPKEEP = ("manifest.compact", "manifest.refresh", "commits.compact", "actors.compact", "tables.id_indexes", "tables.take")
"""Compaction and folding now and then, and what is looked at after them."""


def export(graph: og.Graph) -> None:
    assert len(list(graph.export(types=["Team"]))) == 1


def without_upkeep(each: Cost) -> Cost:
    probes = {"manifest.probe": each["manifest.probe"] - each.get("manifest.compact", 0)}
    return {call: count for call, count in {**each, **probes}.items() if call not in UPKEEP}


@pytest.mark.parametrize("kind", ["append", "upsert"])
def test_the_200th_commit_costs_what_the_10th_did(tmp_path: Path, golden: Golden, kind: str) -> None:
    seeded(tmp_path / "g")
    graph = og.connect(tmp_path / "g", actor="ada")
    costs = []
    for number in range(200):
        costs.append(cost(graph, graph.mutate, STATEMENTS[kind], params={"name": f"x{number}"}))

    busy = [number for number, each in enumerate(costs) if each != costs[9]]
    golden(f"history_{kind}", {"10th": costs[9], "200th": costs[199]})
    assert {tuple(without_upkeep(each).items()) for each in costs[1:]} == {tuple(without_upkeep(costs[9]).items())}
    assert len(busy) < 200 / 8, f"upkeep in {busy}"


def test_opening_and_reading_do_not_depend_on_history(tmp_path: Path) -> None:
    writer = seeded(tmp_path / "g")
    costs = []
    for turn in range(2):
        graph = og.connect(tmp_path / "g")
        opening = dict(counted(graph))
        costs.append((opening, cost(graph, export, graph)))
        for number in range(40):
            writer.mutate(STATEMENTS["append"], params={"name": f"{turn}-{number}"})

    assert costs[0] == costs[1]
