"""What it costs to create, open and look at a graph."""

from pathlib import Path

import pytest

import omnigraph_sql as og
from tests.cost.conftest import Golden
from tests.cost.counting import cost, counted
from tests.cost.graphs import SCHEMA, many_types, seeded

INSERT = "query q($text: String) { insert Note { text: $text } }"


def test_init_costs_the_same_for_each_further_type(tmp_path: Path, golden: Golden) -> None:
    costs = {}
    for types in (1, 5, 20):
        costs[types] = dict(counted(og.init(tmp_path / str(types), many_types(types))))

    golden("init", {f"{types} types": each for types, each in costs.items()})
    for call in costs[20]:
        first, second = costs[5].get(call, 0) - costs[1].get(call, 0), costs[20][call] - costs[5].get(call, 0)
        assert first * 15 == second * 4, f"{call} does not grow evenly"


def test_opening_does_not_depend_on_types_or_history(tmp_path: Path, golden: Golden) -> None:
    """The schema files are read before there is anything that counts."""
    for name, types in (("small", 1), ("large", 30)):
        og.init(tmp_path / name, many_types(types))
    long = seeded(tmp_path / "long")
    for number in range(12):
        long.mutate(INSERT, params={"text": f"t{number}"})
    branched = og.init(tmp_path / "branched", SCHEMA)
    for number in range(3):
        branched.create_branch(f"b{number}")

    opened = {name: dict(counted(og.connect(tmp_path / name))) for name in ("small", "large", "long", "branched")}
    reader = dict(counted(og.connect(tmp_path / "long", read_only=True)))

    golden(
        "connect",
        {
            "1 type": opened["small"],
            "30 types": opened["large"],
            "14 commits": opened["long"],
            "3 branches": opened["branched"],
            "read-only": reader,
        },
    )
    assert opened["small"] == opened["large"] == opened["long"]


def test_a_warm_snapshot_is_one_probe(tmp_path: Path, golden: Golden) -> None:
    writer = seeded(tmp_path / "g")
    writer.create_branch("draft")
    graph = og.connect(tmp_path / "g", read_only=True)
    past = writer.commits()[-1]

    cases = {
        "cold": cost(graph, graph.snapshot),
        "warm": cost(graph, graph.snapshot),
        "branch cold": cost(graph, graph.snapshot, branch="draft"),
        "branch warm": cost(graph, graph.snapshot, branch="draft"),
        "version cold": cost(graph, graph.snapshot, version=1),
        "version warm": cost(graph, graph.snapshot, version=1),
        "commit warm": cost(graph, graph.snapshot, commit=past.graph_commit_id),
    }
    writer.mutate(INSERT, params={"text": "x"})
    cases["after own write"] = cost(writer, writer.snapshot)
    cases["after another's write"] = cost(graph, graph.snapshot)

    golden("snapshot", cases)
    assert cases["warm"] == cases["after own write"] == {"manifest.probe": 1}
    assert cases["branch warm"] == {"manifest.probe": 1, "objects.read": 1}
    assert cases["version warm"] == {}
    assert cases["after another's write"] == {"manifest.probe": 1, "manifest.refresh": 1}


@pytest.mark.parametrize("branch", ["main", "draft"])
def test_a_warm_read_opens_no_table(tmp_path: Path, branch: str) -> None:
    writer = seeded(tmp_path / "g")
    writer.create_branch("draft")
    graph = og.connect(tmp_path / "g", read_only=True)

    cold = cost(graph, lambda: list(graph.export(branch)))
    warm = cost(graph, lambda: list(graph.export(branch)))

    assert cold["tables.open"] == 5
    assert not {"tables.open", "manifest.read", "manifest.open"} & set(warm)
    assert (warm["manifest.probe"], warm["tables.scan"], warm["tables.rows"]) == (1, 5, 46)
