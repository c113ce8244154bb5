"""Versions of rows: who made them, from when to when, and what is left of them after deletions and cleanups."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import omnigraph_sql as og
from omnigraph_sql.errors import BadRequest, NotFound
from tests.internals import store_of

SCHEMA = """
node Person { name: String @key  age: I32?  vec: Vector(2)?  photo: Blob? }
node Note { commit: String @key  operation: I32? }
edge Knows: Person -> Person { since: I32? }
"""


def person(name: str, **values: Any) -> str:
    return json.dumps({"type": "Person", "data": {"name": name, **values}})


def age(name: str, value: int) -> str:
    return f'query q() {{ update Person set {{ age: {value} }} where name = "{name}" }}'


def drop(name: str) -> str:
    return f'query q() {{ delete Person where name = "{name}" }}'


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    graph = og.init(tmp_path / "graph", SCHEMA, actor="ada")
    knows = '{"edge":"Knows","from":"Ann","to":"Bob","data":{}}'
    graph.load([person("Ann", age=1, vec=[1, 2], photo="base64:aGk="), person("Bob", age=2), knows], mode="append")
    return graph


def rows(result: og.Result) -> list[tuple[Any, ...]]:
    return [(row["id"], row["operation"], row["age"], row["actor"]) for row in result.to_pylist()]


def head(graph: og.Graph, branch: str = "main") -> str:
    return graph.commits(branch)[0].graph_commit_id


def test_every_version_of_every_row_is_listed_with_its_commit(graph: og.Graph) -> None:
    first = head(graph)
    graph.mutate(age("Ann", 5), actor="bea")
    second = head(graph)
    graph.mutate(drop("Bob"), actor="cem")

    assert rows(graph.history_of("Person")) == [
        ("Ann", "insert", 1, "ada"),
        ("Ann", "update", 5, "bea"),
        ("Bob", "insert", 2, "ada"),
        ("Bob", "delete", 2, "cem"),
    ]
    ann, deeper, bob, gone = graph.history_of("Person").to_pylist()
    times = [commit.created_at for commit in reversed(graph.commits())][1:]
    assert [round(row["valid_from"].timestamp() * 1e6) for row in (ann, deeper, gone)] == times
    assert (ann["commit"], deeper["commit"], gone["commit"]) == (first, second, head(graph))
    assert ann["valid_to"] == deeper["valid_from"]
    assert deeper["valid_to"] is None
    assert (bob["valid_to"], gone["valid_to"]) == (gone["valid_from"], gone["valid_from"])
    assert (deeper["vec"], deeper["photo"]) == ([1.0, 2.0], b"hi")
    assert all(row["is_exact"] for row in (ann, deeper, bob, gone))
    (edge, cascade) = graph.history_of("Knows").to_pylist()
    assert (edge["src"], edge["dst"], edge["operation"], cascade["operation"]) == ("Ann", "Bob", "insert", "delete")


def test_a_row_that_comes_back_is_inserted_again(graph: og.Graph) -> None:
    graph.mutate(drop("Ann"))
    graph.load([person("Ann", age=7)], mode="append")

    operations = [(row["operation"], row["valid_to"] is None) for row in graph.entity_history("Person", "Ann").to_pylist()]
    assert operations == [("insert", False), ("delete", False), ("insert", True)]


def test_what_changes_no_value_makes_no_version(graph: og.Graph) -> None:
    graph.load([person("Bob", age=2)], mode="merge")
    for number in range(40):  # enough for small fragments to be folded
        graph.load([person(f"P{number}")], mode="append")
        graph.mutate(drop(f"P{number}"))
    graph.ensure_indices()

    assert rows(graph.entity_history("Person", "Bob")) == [("Bob", "insert", 2, "ada")]
    assert len(graph.history_of("Person")) == 2 + 40 * 2


def test_states_of_the_past_have_their_own_history(graph: og.Graph) -> None:
    graph.mutate(age("Ann", 5))
    commit, version = head(graph), graph.snapshot().manifest_version
    graph.mutate(age("Ann", 6))

    assert [row[2] for row in rows(graph.entity_history("Person", "Ann", commit=commit))] == [1, 5]
    assert [row[2] for row in rows(graph.entity_history("Person", "Ann", version=version - 1))] == [1]
    assert [row[2] for row in rows(graph.entity_history("Person", "Ann"))] == [1, 5, 6]


# Merges --------------------------------------------------------------------------------------------------------------


def test_a_merge_is_not_credited_with_what_it_carried(graph: og.Graph) -> None:
    graph.create_branch("draft")
    graph.mutate(age("Ann", 5), branch="draft", actor="bea")
    changed = head(graph, "draft")
    graph.load([person("Cy", age=9)], mode="append", branch="draft", actor="cem")
    graph.mutate(age("Ann", 6), branch="draft", actor="dan")
    graph.mutate(age("Bob", 3), actor="eve")
    graph.merge("draft", actor="merger")

    assert rows(graph.history_of("Person")) == [
        ("Ann", "insert", 1, "ada"),
        ("Ann", "update", 5, "bea"),
        ("Ann", "update", 6, "dan"),
        ("Bob", "insert", 2, "ada"),
        ("Bob", "update", 3, "eve"),
        ("Cy", "insert", 9, "cem"),
    ]
    assert graph.history_of("Person").to_pylist()[1]["commit"] == changed


def test_a_fast_forward_is_not_credited_either(graph: og.Graph) -> None:
    graph.create_branch("draft")
    graph.mutate(drop("Bob"), branch="draft", actor="bea")
    assert graph.merge("draft", actor="merger").outcome == "fast_forward"

    assert rows(graph.entity_history("Person", "Bob")) == [("Bob", "insert", 2, "ada"), ("Bob", "delete", 2, "bea")]


def test_what_was_carried_to_and_fro_keeps_its_commit(graph: og.Graph) -> None:
    graph.create_branch("draft")
    graph.create_branch("deeper", "draft")
    graph.mutate(age("Ann", 5), branch="deeper", actor="bea")
    graph.merge("deeper", "draft", actor="merger")
    graph.mutate(age("Bob", 3), actor="cem")
    graph.merge("main", "draft", actor="merger")
    graph.merge("draft", "main", actor="merger")

    expected = [("Ann", "insert", 1, "ada"), ("Ann", "update", 5, "bea")]
    assert rows(graph.entity_history("Person", "Ann")) == expected
    assert rows(graph.entity_history("Person", "Ann", branch="draft")) == expected
    assert rows(graph.entity_history("Person", "Bob", branch="draft"))[1:] == [("Bob", "update", 3, "cem")]


def test_a_merge_is_credited_with_the_rows_that_it_wrote(graph: og.Graph) -> None:
    graph.create_branch("draft")
    graph.mutate(age("Ann", 5), branch="draft", actor="bea")
    graph.load([person("Ann", age=1, vec=[3, 4])], mode="merge", actor="cem")
    graph.merge("draft", granularity="column", actor="merger")

    history = graph.entity_history("Person", "Ann").to_pylist()
    assert [(row["age"], row["vec"], row["actor"]) for row in history] == [
        (1, [1.0, 2.0], "ada"),
        (1, [3.0, 4.0], "cem"),
        (5, [3.0, 4.0], "merger"),
    ]


def test_a_decision_for_theirs_keeps_what_the_branch_showed_until_then(graph: og.Graph) -> None:
    graph.create_branch("draft")
    graph.mutate(age("Ann", 5), branch="draft", actor="bea")
    graph.mutate(age("Ann", 6), actor="cem")
    graph.merge("draft", resolve="theirs", actor="merger")

    first, ours, theirs = graph.entity_history("Person", "Ann").to_pylist()
    assert (first["age"], ours["age"], theirs["age"]) == (1, 6, 5)
    assert (ours["actor"], theirs["actor"]) == ("cem", "bea")
    merged = graph.commits()[0].created_at
    assert round(theirs["valid_from"].timestamp() * 1e6) == merged, "until then the branch showed another version"
    assert (ours["valid_to"], theirs["valid_to"]) == (theirs["valid_from"], None)


def test_reverts_picks_and_restores_are_commits_like_others(graph: og.Graph) -> None:
    before = head(graph)
    wrong = graph.mutate(age("Ann", 5), actor="bea").commit
    assert wrong is not None
    graph.revert(wrong.graph_commit_id, actor="cem")
    graph.create_branch("draft", "main")
    graph.cherry_pick(wrong.graph_commit_id, actor="dan")
    graph.restore(before, actor="eve")

    assert [row[2:] for row in rows(graph.entity_history("Person", "Ann"))] == [
        *((1, "ada"), (5, "bea"), (1, "cem"), (5, "dan"), (1, "eve"))
    ]


# What cannot be read any more ----------------------------------------------------------------------------------------


def test_the_only_commit_of_a_deleted_branch_is_credited_as_a_guess(graph: og.Graph) -> None:
    graph.create_branch("draft")
    graph.mutate(age("Ann", 5), branch="draft", actor="bea")
    made = graph.commits("draft")[0]
    graph.mutate(age("Bob", 3), actor="cem")
    graph.merge("draft", delete_source=True, actor="merger")

    last = graph.entity_history("Person", "Ann").to_pylist()[-1]
    assert (last["commit"], last["actor"], last["age"], last["is_exact"]) == (made.graph_commit_id, "bea", 5, False)
    assert round(last["valid_from"].timestamp() * 1e6) == made.created_at
    assert graph.history_of("Person").to_pylist()[-1]["is_exact"], "that of main is known"


def test_a_merge_is_credited_where_the_commits_of_a_deleted_branch_cannot_be_told_apart(graph: og.Graph) -> None:
    graph.create_branch("draft")
    graph.mutate(age("Ann", 5), branch="draft", actor="bea")
    graph.mutate(age("Ann", 6), branch="draft", actor="cem")
    graph.merge("draft", delete_source=True, actor="merger")
    graph.create_branch("draft")  # another one of its name

    last = graph.entity_history("Person", "Ann").to_pylist()[-1]
    assert (last["commit"], last["actor"], last["age"], last["is_exact"]) == (head(graph), "merger", 6, False)
    assert graph.history_of("Person").to_pylist()[1] == last


def test_history_begins_at_the_oldest_state_that_a_cleanup_left(graph: og.Graph) -> None:
    graph.mutate(age("Ann", 5), actor="bea")
    graph.mutate(age("Bob", 3), actor="cem")
    oldest = graph.commits()[0]
    graph.mutate(age("Ann", 6), actor="dan")
    with pytest.warns(UserWarning, match="keep=2"):
        graph.cleanup(keep=2)

    versions = graph.history_of("Person").to_pylist()
    assert [(row["id"], row["operation"], row["age"], row["is_exact"]) for row in versions] == [
        ("Ann", "baseline", 5, False),
        ("Ann", "update", 6, True),
        ("Bob", "baseline", 3, False),
    ]
    assert {row["commit"] for row in versions if row["operation"] == "baseline"} == {oldest.graph_commit_id}
    assert graph.entity_history("Person", "Ann").to_pylist() == versions[:2]


# Names and arguments -------------------------------------------------------------------------------------------------


def test_columns_of_the_history_give_way_to_properties(graph: og.Graph) -> None:
    graph.load(['{"type": "Note", "data": {"commit": "x", "operation": 3}}'], mode="append")

    (note,) = graph.history_of("Note").to_pylist()
    assert (note["commit"], note["operation"], note["_operation"]) == ("x", 3, "insert")
    assert note["_commit"] == head(graph)


def test_wrong_names_are_errors_with_hints(graph: og.Graph) -> None:
    with pytest.raises(NotFound, match="did you mean `Person`"):
        graph.history_of("Persn")
    with pytest.raises(NotFound, match="nowhere"):
        graph.entity_history("Person", "Ann", branch="nowhere")
    with pytest.raises(BadRequest, match="entity_id"):
        graph.entity_history("Person", 3)  # type: ignore[arg-type]
    assert graph.entity_history("Person", "nobody").to_pylist() == []
    assert graph.history_of("node:Person").to_pylist() == graph.history_of("Person").to_pylist()


def test_histories_need_no_write_access(graph: og.Graph, tmp_path: Path) -> None:
    graph.create_branch("draft")
    graph.mutate(age("Ann", 5), branch="draft")
    graph.mutate(age("Ann", 6))
    files = sorted(tmp_path.rglob("*"))
    with og.connect(tmp_path / "graph", read_only=True) as reader:
        assert len(reader.history_of("Person")) == 3
        assert len(reader.sql("select * from merge_conflicts('draft', 'main')")) == 1

    assert sorted(tmp_path.rglob("*")) == files


# Cost ----------------------------------------------------------------------------------------------------------------


def _cost(place: Path, people: int, others: int) -> dict[str, dict[str, int]]:
    graph = og.init(place, SCHEMA)
    graph.load([person(f"p{number}", age=0) for number in range(people)], mode="append")
    for number in range(6):
        graph.mutate(age("p3", number + 1))
    for number in range(others):
        graph.load([json.dumps({"type": "Note", "data": {"commit": str(number)}})], mode="append")
    store = store_of(graph)
    before = {name: dict(calls) for name, calls in store.calls.items()}
    assert len(graph.entity_history("Person", "p3")) == 7
    return {
        name: {
            call: count - before[name].get(call, 0) for call, count in calls.items() if count != before[name].get(call, 0)
        }
        for name, calls in store.calls.items()
    }


def test_an_entity_costs_what_its_history_is_long(tmp_path: Path) -> None:
    small, large = _cost(tmp_path / "small", 2000, 2), _cost(tmp_path / "large", 9000, 15)

    assert large["tables"] == small["tables"], "neither rows nor versions of other types are looked at"
    assert large["manifest"] == small["manifest"]
    assert large["tables"]["rows"] < 40
