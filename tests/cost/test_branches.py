"""What branches cost: a reference each, and a fork for each table that is written."""

from pathlib import Path

import omnigraph_sql as og
from tests.cost.conftest import Golden
from tests.cost.counting import Cost, cost
from tests.cost.graphs import many_types, node

INSERT = "query q($name: String) { insert T0 { name: $name } }"


def test_creating_a_branch_does_not_depend_on_the_tables(tmp_path: Path, golden: Golden) -> None:
    costs: dict[int, Cost] = {}
    for tables in (1, 5, 50):
        graph = og.init(tmp_path / str(tables), many_types(tables))
        graph.snapshot()
        costs[tables] = cost(graph, graph.create_branch, "draft")

    golden("branch_create", {f"{tables} tables": each for tables, each in costs.items()})
    assert costs[1] == costs[5] == costs[50]
    assert not [call for call in costs[50] if call.startswith("tables.")]


def test_deleting_a_branch_depends_on_its_forks_only(tmp_path: Path, golden: Golden) -> None:
    graph = og.init(tmp_path / "g", many_types(20))
    costs: dict[int, Cost] = {}
    for forks in (0, 1, 3):
        graph.create_branch(f"b{forks}")
        if forks:
            graph.load([node(f"T{number}", name="x") for number in range(forks)], mode="append", branch=f"b{forks}")
        graph.snapshot(branch=f"b{forks}")
        costs[forks] = cost(graph, graph.delete_branch, f"b{forks}")

    golden("branch_delete", {f"{forks} of 20 forked": each for forks, each in costs.items()})
    for call in costs[3]:
        first, second = costs[1][call] - costs[0].get(call, 0), costs[3][call] - costs[1][call]
        assert first * 2 == second, f"{call} does not follow the forks"


def test_the_first_write_forks_one_table_whatever_their_number(tmp_path: Path, golden: Golden) -> None:
    costs: dict[int, tuple[Cost, Cost]] = {}
    for tables in (1, 20):
        graph = og.init(tmp_path / str(tables), many_types(tables))
        graph.create_branch("draft")
        graph.snapshot(branch="draft")
        costs[tables] = (
            cost(graph, graph.mutate, INSERT, params={"name": "a"}, branch="draft"),
            cost(graph, graph.mutate, INSERT, params={"name": "b"}, branch="draft"),
        )

    first, second = costs[20]
    golden("branch_write", {"first": first, "second": second})
    assert costs[1] == costs[20]
    assert (first["tables.fork"], second.get("tables.fork", 0)) == (1, 0)


def test_the_number_of_branches_does_not_matter_to_a_write_or_a_read(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", many_types(2))
    costs = []
    for number in range(0, 20, 5):
        for more in range(5):
            graph.create_branch(f"b{number + more}")
        graph.mutate(INSERT, params={"name": "x"}, branch=f"b{number}")
        read = cost(graph, graph.snapshot, branch=f"b{number}")
        write = cost(graph, graph.mutate, INSERT, params={"name": "y"}, branch=f"b{number}")
        costs.append((read, write))

    assert costs == costs[:1] * 4
