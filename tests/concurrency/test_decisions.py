"""A write is prepared, others publish, then its turn comes: whether it goes on, and on what. One process, no chance."""

from collections.abc import Callable
from typing import Any

import pytest

import omnigraph_sql as og
from omnigraph_sql import errors
from omnigraph_sql.choices import LoadMode
from tests.crash.racing import paused, resumed
from tests.crash.world import assert_settled, edge, heads, names, node, rows, seeded
from tests.stores import Place

PREPARED = "mutation.post_stage_pre_gates"
ANN = 'query q() { update Person set { age: 31 } where name = "ann" }'
FORTIES = 'query q() { update Person set { mood: "glad" } where age >= 40 }'
NO_BOB = 'query q() { delete Person where name = "bob" }'


def between(graph: og.Graph, write: str, meanwhile: Callable[[og.Graph], object], **options: Any) -> Any:
    """Run a mutation, and something else after it was prepared and before its turn comes."""
    other = og.connect(graph.uri)
    with paused(PREPARED, lambda: graph.mutate(write, **options)) as (writer, pause):
        meanwhile(other)
        return resumed(writer, pause)


def mutation(text: str, **options: Any) -> Callable[[og.Graph], object]:
    return lambda graph: graph.mutate(f"query q() {{ {text} }}", **options)


def load(*records: str, mode: LoadMode = "merge") -> Callable[[og.Graph], object]:
    return lambda graph: graph.load(list(records), mode=mode)


def ages(graph: og.Graph, branch: str = "main") -> dict[str, Any]:
    return {row["id"]: row.get("age") for row in rows(graph, branch)["Person"]}


OTHER_ROWS: dict[str, Callable[[og.Graph], object]] = {
    "another row is updated": mutation('update Person set { age: 41 } where name = "bob"'),
    "another row is added": load(node("Person", name="cleo")),
    "another row goes": mutation('delete Person where name = "bob"'),
    "the row is written as it is": load(node("Person", name="ann", age=30)),
    "another row is updated, many times": lambda graph: [
        graph.mutate(f'query q() {{ update Person set {{ age: {age} }} where name = "bob" }}') for age in range(40, 45)
    ],
    "an index is built": og.Graph.ensure_indices,
    "edges are added": load(edge("Knows", "bob", "ann", id="k2")),
    "another table moves": load(node("Team", slug="blue")),
    "the row changes and changes back": lambda graph: [
        graph.mutate(f'query q() {{ update Person set {{ age: {age} }} where name = "ann" }}') for age in (32, 30)
    ],
}


@pytest.mark.parametrize("meanwhile", OTHER_ROWS)
@pytest.mark.parametrize("write", [ANN, 'query q() { delete Person where name = "ann" }'], ids=["update", "delete"])
def test_what_happens_to_other_rows_holds_up_nobody(place: Place, write: str, meanwhile: str) -> None:
    graph = seeded(place / "g")
    expected = seeded(place / "expected")
    OTHER_ROWS[meanwhile](expected)
    expected.mutate(write)

    result = between(graph, write, OTHER_ROWS[meanwhile])

    assert result.commit is not None
    assert rows(graph) == rows(expected)
    assert graph.commits()[0].graph_commit_id == result.commit.graph_commit_id
    assert_settled(graph)


OWN_ROWS = {
    "it is updated": (ANN, mutation('update Person set { age: 99 } where name = "ann"')),
    "it is replaced": (ANN, load(node("Person", name="ann", age=30, mood="sad"))),
    "it is deleted": (ANN, mutation('delete Person where name = "ann"')),
    "the table is replaced": (ANN, load(node("Person", name="ann", age=1), node("Person", name="bob"), mode="overwrite")),
    "another row fits by now": (FORTIES, mutation('update Person set { age: 44 } where name = "ann"')),
    "a new row fits": (FORTIES, load(node("Person", name="cleo", age=50))),
    "a row fits no more": (FORTIES, mutation('update Person set { age: 4 } where name = "bob"')),
    "what is deleted has changed": (NO_BOB, mutation('update Person set { age: 99 } where name = "bob"')),
    "what is deleted is gone": (NO_BOB, mutation('delete Person where name = "bob"')),
    "the edge is gone": (
        'query q() { delete Knows where from = "ann" }',
        mutation('delete Knows where to = "bob"'),
    ),
}


@pytest.mark.parametrize("case", OWN_ROWS)
def test_a_decision_on_rows_that_have_changed_is_refused(place: Place, case: str) -> None:
    write, meanwhile = OWN_ROWS[case]
    graph = seeded(place / "g")
    expected = seeded(place / "expected")
    meanwhile(expected)
    with pytest.raises(errors.ExpectedVersionMismatch, match="have changed") as refused:
        between(graph, write, meanwhile)

    key = "edge:Knows" if "Knows" in write else "node:Person"
    assert refused.value.table_key == key
    assert refused.value.actual > refused.value.expected
    assert rows(graph) == rows(expected)
    assert heads(graph) == heads(expected)
    assert_settled(graph)


@pytest.mark.parametrize("case", OWN_ROWS)
def test_with_retries_it_is_decided_anew(place: Place, case: str) -> None:
    write, meanwhile = OWN_ROWS[case]
    graph = seeded(place / "g")
    expected = seeded(place / "expected")
    meanwhile(expected)
    expected.mutate(write)

    between(graph, write, meanwhile, retries=1)

    assert rows(graph) == rows(expected)
    assert_settled(graph)


@pytest.mark.parametrize("meanwhile", ["another row is updated", "another table moves"])
def test_a_commit_that_was_asked_for_must_be_the_newest(place: Place, meanwhile: str) -> None:
    graph = seeded(place / "g")
    with pytest.raises(errors.PreconditionFailed):
        between(graph, ANN, OTHER_ROWS[meanwhile], if_commit=graph.commits()[0].graph_commit_id, retries=5)

    assert ages(graph)["ann"] == 30


@pytest.mark.parametrize("retries", [-1, True, 1.5, "3", None])
def test_retries_are_a_number(place: Place, retries: Any) -> None:
    graph = seeded(place / "g")

    with pytest.raises(errors.BadRequest, match="retries"):
        graph.mutate(ANN, retries=retries)


def test_statements_that_build_on_each_other_are_all_looked_at(place: Place) -> None:
    graph = seeded(place / "g")
    both = """query q() {
      update Person set { age: 50 } where name = "ann"
      update Person set { mood: "sad" } where age >= 50
    }"""
    result = between(graph, both, mutation('update Person set { age: 45 } where name = "bob"'))

    assert result.affected_nodes == 2
    assert {row["id"]: row.get("mood") for row in rows(graph)["Person"]} == {"ann": "sad", "bob": None}
    with pytest.raises(errors.ExpectedVersionMismatch):
        between(graph, both, mutation('update Person set { age: 60 } where name = "bob"'))


def test_a_node_goes_with_the_edges_that_it_has_when_its_turn_comes(place: Place) -> None:
    """Also with those of a table that had none of it when the removal was prepared, and whose lock it did not ask for."""
    graph = seeded(place / "g")

    result = between(
        graph,
        NO_BOB,
        load(edge("Knows", "bob", "ann", id="k2"), edge("Member", "bob", "red", id="m2")),
    )

    assert (result.affected_nodes, result.affected_edges) == (1, 3)
    assert names(graph) == ["ann"]
    assert names(graph, kind="Knows") == []
    assert names(graph, kind="Member") == ["m1"]
    assert_settled(graph)


def test_rules_are_checked_again_on_what_is_there_by_then(place: Place) -> None:
    graph = seeded(place / "g")
    write = 'query q() { update Person set { email: "one" } where name = "ann" }'
    with pytest.raises(errors.ValidationFailed, match="@unique"):
        between(graph, write, mutation('update Person set { email: "one" } where name = "bob"'))

    assert_settled(graph)


def test_the_first_writes_of_a_branch_do_not_stand_in_each_others_way(place: Place) -> None:
    graph = seeded(place / "g")
    graph.create_branch("draft")

    between(graph, ANN, mutation('update Person set { age: 41 } where name = "bob"', branch="draft"), branch="draft")

    assert ages(graph, "draft") == {"ann": 31, "bob": 41}
    assert ages(graph) == {"ann": 30, "bob": 40}
    with pytest.raises(errors.ExpectedVersionMismatch):
        between(graph, ANN, mutation('update Person set { age: 1 } where name = "ann"', branch="draft"), branch="draft")
    assert_settled(graph)


def replaced(graph: og.Graph, kind: str, meanwhile: Callable[[og.Graph], object]) -> None:
    """An overwrite with something else between its preparation and its turn."""
    records = {
        "Person": [node("Person", name="ann"), node("Person", name="bob")],
        "Team": [node("Team", slug="red"), node("Team", slug="blue")],
    }
    other = og.connect(graph.uri)
    with paused(PREPARED, lambda: graph.load(records[kind], mode="overwrite")) as (writer, pause):
        meanwhile(other)
        resumed(writer, pause)


def test_an_overwrite_rests_on_the_whole_table(place: Place) -> None:
    graph = seeded(place / "g")
    with pytest.raises(errors.ExpectedVersionMismatch):
        replaced(graph, "Person", load(node("Person", name="cleo")))

    assert names(graph) == ["ann", "bob", "cleo"]
    assert_settled(graph)


def test_an_overwrite_is_checked_again_when_other_tables_move(place: Place) -> None:
    graph = seeded(place / "g")
    replaced(graph, "Person", load(edge("Knows", "bob", "ann", id="k2")))
    assert ages(graph) == {"ann": None, "bob": None}

    graph.load([node("Team", slug="gold")], mode="append")
    with pytest.raises(errors.ValidationFailed, match="gold"):
        replaced(graph, "Team", load(edge("Member", "bob", "gold", id="m2")))
    assert_settled(graph)
