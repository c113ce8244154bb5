"""Invariants of writes."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pytest

import omnigraph_sql as og
from omnigraph_sql import errors
from tests.crash.racing import paused, resumed
from tests.crash.world import (
    INSERT,
    INSERT_TEAM,
    OPERATIONS,
    SEED,
    UPDATE,
    abandon,
    armed,
    assert_settled,
    edge,
    heads,
    log,
    names,
    node,
    pins,
    place_of,
    prepared,
    rows,
    seeded,
    sidecars,
)
from tests.unit.storage.test_source_guard import EXEMPT, PACKAGES, sources, violations

State = tuple[Any, ...]


def state(graph: og.Graph) -> State:
    """Everything a refused write must leave as it was."""
    root = place_of(graph)
    journal = log(root, "_graph_commits.lance")
    return heads(graph), pins(graph), graph.snapshot().manifest_version, len(journal), sidecars(root), rows(graph)


def assert_refused(graph: og.Graph, kind: type[errors.OmnigraphError], write: Callable[[], object]) -> errors.OmnigraphError:
    """The write fails, changes nothing, and the next one succeeds."""
    before = state(graph)
    with pytest.raises(kind) as refused:
        write()
    assert state(graph) == before
    graph.mutate(INSERT_TEAM, params={"slug": f"after{before[2]}"})
    return refused.value


def test_invariant_11_staging_moves_no_head_and_a_commit_moves_it_by_one(tmp_path: Path) -> None:
    root = tmp_path / "g"
    graph = prepared(root, "many")
    data = [node("Person", name="cleo"), edge("Knows", "cleo", "ann", id="k2")]
    for mode in ("append", "merge", "overwrite"):
        before = heads(graph)
        staged = graph.stage(data if mode != "overwrite" else [edge("Knows", "ann", "bob")], mode=mode)
        assert heads(graph) == before
        graph.publish(staged)
        touched = {"edge:Knows"} if mode == "overwrite" else {"edge:Knows", "node:Person"}
        assert heads(graph) == {key: head + (key in touched) for key, head in before.items()}

    entry = graph.snapshot().entry("node:Person")
    transaction = lance.dataset(str(root / entry.path)).read_transaction(entry.version)
    assert transaction is not None
    assert transaction.uuid == entry.transaction_uuid
    assert (transaction.transaction_properties or {}).get("omnigraph.operation_id")
    assert_settled(graph)


def test_invariant_12_no_side_effect_commit_outside_storage_and_manifest() -> None:
    outside = [path for path in sources() if not path.relative_to(PACKAGES).as_posix().startswith(EXEMPT)]

    assert [path.name for path in outside if list(violations(path.read_text("utf-8")))] == []


def test_invariant_13_a_failing_write_leaves_everything_as_it_was(tmp_path: Path) -> None:
    graph = seeded(tmp_path / "g")
    second_fails = 'query q() { insert Person { name: "x" } insert Person { name: "y", age: 200 } }'
    assert_refused(graph, errors.ValidationFailed, lambda: graph.mutate(second_fails))
    lost = 'query q() { insert Knows { from: "ann", to: "nobody" } }'
    assert_refused(graph, errors.ValidationFailed, lambda: graph.mutate(lost))
    bad_line = [node("Person", name="x"), '{"type": "Person", "data": {"name": 7}}']
    assert_refused(graph, errors.OmnigraphError, lambda: graph.load(bad_line, mode="append"))
    assert_refused(graph, errors.OmnigraphError, lambda: graph.load([node("Nobody", name="x")], mode="append"))
    assert_refused(graph, errors.PreconditionFailed, lambda: graph.mutate(UPDATE, if_commit="01M00000000000000000000000"))
    assert_refused(graph, errors.NotFound, lambda: graph.mutate(UPDATE, branch="nowhere"))
    assert_settled(graph)


def test_invariant_14_the_sidecar_stands_before_the_first_head_moves_and_is_gone_after(tmp_path: Path) -> None:
    root = tmp_path / "g"
    graph = prepared(root, "many")
    before = heads(graph)
    abandon("write.sidecar_write", lambda: OPERATIONS["many"](graph))
    assert (heads(graph), sidecars(root)) == (before, [])
    abandon("write.post_sidecar_pre_effect", lambda: OPERATIONS["many"](graph))
    assert heads(graph) == before
    (sidecar,) = sidecars(root)
    named = [table["table_key"] for table in json.loads(sidecar.read_text("utf-8"))["tables"]]

    graph = og.connect(root)
    OPERATIONS["many"](graph)

    assert named == [key for key, head in heads(graph).items() if head != before[key]]
    assert sidecars(root) == []


def test_invariant_15_insert_and_delete_in_one_query_are_refused_before_any_io(tmp_path: Path) -> None:
    graph = seeded(tmp_path / "g")
    mixed = 'query both() { insert Team { slug: "blue" } delete Person where name = "ann" }'

    error = assert_refused(graph, errors.OmnigraphError, lambda: graph.mutate(mixed))

    assert error.http_status == 400
    assert "both" in str(error)
    assert "split" in str(error)
    with armed("storage.object_list=error"), pytest.raises(type(error)):
        graph.mutate(mixed)


def test_invariant_16_statements_see_what_earlier_ones_did(tmp_path: Path) -> None:
    graph = seeded(tmp_path / "g")
    chained = """query q() {
        insert Person { name: "cleo", age: 5 }
        update Person set { age: 6 } where age = 5
        update Person set { age: 7 } where age = 6
        update Person set { age: 99 } where age = 5
        insert Knows { from: "cleo", to: "ann" }
    }"""

    result = graph.mutate(chained)

    assert {row["id"]: row["age"] for row in rows(graph)["Person"]} == {"ann": 30, "bob": 40, "cleo": 7}
    assert result.affected_edges == 1
    assert ("cleo", "ann") in [(row["from"], row["to"]) for row in rows(graph)["Knows"]]


def test_invariant_16_a_pending_value_hides_the_committed_one(tmp_path: Path) -> None:
    graph = seeded(tmp_path / "g")
    graph.mutate("""query q() {
        update Person set { age: 40 } where age = 30
        update Person set { age: 50 } where age = 40
        update Person set { age: 1 } where age = 30
    }""")

    assert {row["id"]: row["age"] for row in rows(graph)["Person"]} == {"ann": 50, "bob": 50}


def test_invariant_17_many_statements_make_one_version_per_table_and_one_of_the_manifest(tmp_path: Path) -> None:
    graph = seeded(tmp_path / "g")
    before, version = heads(graph), graph.snapshot().manifest_version

    graph.mutate("""query q() {
        insert Person { name: "a" } insert Person { name: "b" } update Person set { age: 1 } where name = "a"
        insert Team { slug: "x" } insert Team { slug: "y" }
        insert Knows { from: "a", to: "b" } insert Knows { from: "b", to: "a" }
    }""")

    moved = {key: head - before[key] for key, head in heads(graph).items() if head != before[key]}
    assert moved == {"edge:Knows": 1, "node:Person": 1, "node:Team": 1}
    assert graph.snapshot().manifest_version == version + 1


def test_invariant_18_insert_upserts_and_append_is_strict(tmp_path: Path) -> None:
    graph = seeded(tmp_path / "g")
    graph.mutate('query q() { insert Person { name: "ann", mood: "glad" } }')
    assert rows(graph)["Person"][0] == {"id": "ann", "name": "ann", "mood": "glad"}, "the row is replaced as a whole"

    conflicts: list[tuple[str, list[str]]] = [
        ("ann", [node("Person", name="zoe"), node("Person", name="ann")]),
        ("k1", [edge("Knows", "bob", "ann", id="k1")]),
        ("k9", [edge("Knows", "bob", "ann", id="k9"), edge("Knows", "ann", "bob", id="k9")]),
    ]
    for expected, data in conflicts:
        error = assert_refused(graph, errors.KeyConflict, lambda data=data: graph.load(data, mode="append"))  # type: ignore[misc]
        assert isinstance(error, errors.KeyConflict)
        assert error.id == expected


def test_invariant_19_overwrite_replaces_touched_types_only(tmp_path: Path) -> None:
    graph = seeded(tmp_path / "g")
    before = rows(graph)
    graph.load([edge("Knows", "bob", "ann", id="k9")], mode="overwrite")
    assert rows(graph) == before | {"Knows": [{"from": "bob", "to": "ann", "id": "k9"}]}

    assert_refused(graph, errors.OmnigraphError, lambda: graph.load([edge("Knows", "bob", "nobody")], mode="overwrite"))
    dangling = [node("Person", name="bob")]
    assert_refused(graph, errors.OmnigraphError, lambda: graph.load(dangling, mode="overwrite"))


def test_invariant_19_an_empty_replacement_works(tmp_path: Path) -> None:
    graph = seeded(tmp_path / "g")
    before = rows(graph)
    schema = lance.dataset(str(tmp_path / "g" / graph.snapshot().entry("edge:Knows").path)).schema

    graph.load({"Knows": schema.empty_table()}, mode="overwrite")

    del before["Knows"]
    assert rows(graph) == before
    assert_settled(graph)


@pytest.mark.parametrize("branch", ["main", "draft"])
def test_invariant_20_deleting_a_node_takes_its_edges_of_every_type_with_it(tmp_path: Path, branch: str) -> None:
    graph = seeded(tmp_path / "g")
    graph.load([edge("Knows", "bob", "ann", id="k2"), edge("Knows", "bob", "bob", id="k3")], mode="append")
    if branch == "draft":
        graph.create_branch("draft")
    elsewhere, version = rows(graph), graph.snapshot(branch=branch).manifest_version

    result = graph.mutate('query q() { delete Person where name = "ann" }', branch=branch)

    assert (result.affected_nodes, result.affected_edges) == (1, 3)
    after = rows(graph, branch)
    assert [row["id"] for row in after["Knows"]] == ["k3"]
    assert "Member" not in after
    assert graph.snapshot(branch=branch).manifest_version == version + 1
    if branch == "draft":
        assert rows(graph) == elsewhere
    assert_settled(graph)


def test_invariant_21_keys_cannot_be_updated_and_no_match_publishes_nothing(tmp_path: Path) -> None:
    graph = seeded(tmp_path / "g")
    rename = 'query q() { update Person set { name: "eve" } where name = "ann" }'
    assert assert_refused(graph, errors.OmnigraphError, lambda: graph.mutate(rename)).http_status == 400
    before = state(graph)
    for text in (
        'query q() { update Person set { age: 1 } where name = "nobody" }',
        'query q() { delete Person where name = "nobody" }',
        'query q() { delete Knows where from = "nobody" }',
    ):
        result = graph.mutate(text)
        assert (result.affected_nodes, result.affected_edges, result.commit) == (0, 0, None)
    assert state(graph) == before


RULES: dict[str, tuple[str, list[str]]] = {
    "unique": (
        'query q() { insert Person { name: "a", email: "x" } insert Person { name: "b", email: "x" } }',
        [node("Person", name="a", email="x"), node("Person", name="b", email="x")],
    ),
    "unique against committed": (
        'query q() { insert Person { name: "a", email: "taken" } }',
        [node("Person", name="a", email="taken")],
    ),
    "range": ('query q() { insert Person { name: "a", age: 151 } }', [node("Person", name="a", age=151)]),
    "enum": ("query q($m: String) { insert Person { name: $m, mood: $m } }", [node("Person", name="odd", mood="odd")]),
    "endpoint": ('query q() { insert Knows { from: "ann", to: "x" } }', [edge("Knows", "ann", "x")]),
    "source": ('query q() { insert Knows { from: "x", to: "ann" } }', [edge("Knows", "x", "ann")]),
    "cardinality": (
        'query q() { insert Member { from: "ann", to: "red" } insert Member { from: "ann", to: "red" } }',
        [edge("Member", "ann", "red"), edge("Member", "ann", "red")],
    ),
}


@pytest.mark.parametrize("rule", RULES)
def test_invariant_22_mutate_and_load_give_the_same_verdict(tmp_path: Path, rule: str) -> None:
    graph = seeded(tmp_path / "g")
    graph.mutate('query q() { insert Person { name: "eve", email: "taken" } }')
    text, data = RULES[rule]
    params = {"m": "odd"} if "$m" in text else None

    by_mutation = assert_refused(graph, errors.ValidationFailed, lambda: graph.mutate(text, params=params))
    by_append = assert_refused(graph, errors.ValidationFailed, lambda: graph.load(data, mode="append"))
    by_merge = assert_refused(graph, errors.ValidationFailed, lambda: graph.load(data, mode="merge"))

    for error in (by_mutation, by_append, by_merge):
        assert isinstance(error, errors.ValidationFailed)
        assert (error.rule, error.table_key) == (by_mutation.rule, by_mutation.table_key)  # type: ignore[attr-defined]


def test_invariant_22_a_row_that_is_replaced_does_not_count_against_its_successor(tmp_path: Path) -> None:
    graph = seeded(tmp_path / "g")
    graph.mutate('query q() { insert Person { name: "eve", email: "taken" } }')

    graph.mutate('query q() { insert Person { name: "eve", email: "taken", age: 3 } }')
    graph.load([node("Person", name="eve", email="free"), node("Person", name="kim", email="taken")], mode="merge")

    assert [row.get("email") for row in rows(graph)["Person"]] == [None, None, "free", "taken"]


def test_invariant_23_inserts_through_a_stale_handle_succeed(tmp_path: Path) -> None:
    graph = seeded(tmp_path / "g")
    other = og.connect(tmp_path / "g")
    for turn in range(3):
        graph.mutate(INSERT, params={"name": f"a{turn}"})
        other.mutate(INSERT, params={"name": f"b{turn}"})

    assert names(graph) == names(other) == ["a0", "a1", "a2", "ann", "b0", "b1", "b2", "bob"]
    assert_settled(graph)


@pytest.mark.parametrize("operation", ["insert", "append", "update", "delete"])
def test_invariant_23_a_table_that_moves_under_a_prepared_write(tmp_path: Path, operation: str) -> None:
    """Other rows of it were written: every write is prepared again."""
    root = tmp_path / "g"
    graph = seeded(root)
    other = og.connect(root)
    other.load([node("Place", slug="warm")], mode="append")
    with paused("mutation.post_stage_pre_gates", lambda: OPERATIONS[operation](graph)) as (writer, pause):
        other.mutate('query q() { update Person set { age: 41 } where name = "bob" }')
        resumed(writer, pause)

    shown = {"insert": ["ann", "bob", "cleo"], "append": ["ann", "bob", "cleo"], "delete": ["bob"]}
    assert names(graph) == shown.get(operation, ["ann", "bob"])
    assert {row["id"]: row.get("age") for row in rows(graph)["Person"]}["bob"] == 41
    assert_settled(graph)


@pytest.mark.parametrize("operation", ["update", "delete"])
def test_invariant_23_what_a_prepared_write_chose_must_not_change(tmp_path: Path, operation: str) -> None:
    root = tmp_path / "g"
    graph = seeded(root)
    other = og.connect(root)
    with paused("mutation.post_stage_pre_gates", lambda: OPERATIONS[operation](graph)) as (writer, pause):
        other.mutate('query q() { update Person set { age: 41 } where name = "ann" }')
        with pytest.raises(errors.ExpectedVersionMismatch):
            resumed(writer, pause)

    assert {row["id"]: row.get("age") for row in rows(graph)["Person"]} == {"ann": 41, "bob": 40}
    assert len(rows(graph)["Knows"]) == 1
    assert_settled(graph)


def test_invariant_24_drift_is_never_folded_in(tmp_path: Path) -> None:
    graph = seeded(tmp_path / "g")
    place = str(tmp_path / "g" / graph.snapshot().entry("node:Team").path)
    schema = lance.dataset(place).schema
    row = schema.empty_table().from_pylist([{"id": "mallory", "slug": "mallory"}], schema=schema)
    lance.write_dataset(row, place, mode="append")
    drifted = heads(graph)

    for write in (
        lambda: graph.mutate(INSERT_TEAM, params={"slug": "blue"}),
        lambda: graph.load([node("Team", slug="blue")], mode="merge"),
        lambda: graph.load([node("Team", slug="red")], mode="overwrite"),
    ):
        with pytest.raises(errors.Conflict, match="the graph shows 2"):
            write()
    graph.mutate(INSERT, params={"name": "cleo"})

    assert names(graph, kind="Team") == ["red"]
    assert heads(graph)["node:Team"] == drifted["node:Team"]


def test_the_seed_is_one_commit_over_four_tables(tmp_path: Path) -> None:
    graph = seeded(tmp_path / "g")

    assert len(graph.commits()) == 2
    assert sum(len(entities) for entities in rows(graph).values()) == len(SEED)
