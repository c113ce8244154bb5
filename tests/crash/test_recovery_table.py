"""What recovery decides, cell by cell.

Opening read-write may undo; the next write of a living process may only finish.
"""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import omnigraph_sql as og
from omnigraph_sql import errors, failpoints
from tests.crash.world import (
    INSERT,
    INSERT_TEAM,
    OPERATIONS,
    RECOVERY,
    abandon,
    assert_settled,
    assert_writable,
    audit,
    expected_after,
    heads,
    kinds,
    names,
    node,
    pins,
    place_of,
    prepared,
    reopened,
    rows,
    seeded,
    sidecars,
    spawn,
    table_branches,
)
from tests.stores import Place

NO_EFFECT = "write.post_sidecar_pre_effect"
ALL_EFFECTS = "write.post_effects_pre_publish"
PUBLISHED = "publish.after_merge"


def leave(graph: og.Graph, point: str, operation: str = "insert") -> Place:
    """An operation that stopped at a failpoint; returns its sidecar."""
    abandon(point, lambda: OPERATIONS[operation](graph))
    (sidecar,) = sidecars(place_of(graph))
    return sidecar


def path_of(graph: og.Graph, key: str) -> Place:
    return place_of(graph) / graph.snapshot().entry(key).path


def foreign_row(graph: og.Graph, name: str = "mallory") -> None:
    """A version of the table of persons that no operation of the engine made."""
    place = str(path_of(graph, "node:Person"))
    schema = lance.dataset(place).schema
    row = {field.name: None for field in schema} | {"id": name, "name": name}
    lance.write_dataset(pa.Table.from_pylist([row], schema=schema), place, mode="append")


def heal(graph: og.Graph) -> None:
    graph.refresh()


def outcomes(graph: og.Graph) -> list[dict[str, Any]]:
    (row,) = audit(graph)
    found: list[dict[str, Any]] = json.loads(row["per_table_outcomes"])
    return found


# Row 1: a table behind what the manifest shows ----------------------------------------------------------------------


def behind_its_pin(root: Path) -> og.Graph:
    graph = seeded(root)
    leave(graph, NO_EFFECT)
    versions = path_of(graph, "node:Person") / "_versions"
    newest = lance.dataset(str(versions.parent)).version
    # Lance names version files by their distance from the greatest number, so that the newest sorts first.
    name = next(path for path in versions.iterdir() if path.stem in (str(2**64 - 1 - newest), str(newest)))
    name.unlink()
    return graph


def test_a_broken_table_keeps_its_sidecar_and_nobody_from_other_tables(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    root = tmp_path / "g"
    behind_its_pin(root)
    kept = sidecars(root)

    for number in range(2):
        caplog.clear()
        graph = og.connect(root)
        assert kept[0].stem in caplog.text
        assert "node:Person lacks versions that the graph shows" in caplog.text
        graph.mutate(INSERT_TEAM, params={"slug": f"blue{number}"})
        with pytest.raises(errors.OmnigraphError):
            graph.mutate(INSERT, params={"name": "cleo"})

    assert sidecars(root) == kept
    assert len(list(og.connect(root, read_only=True).export(types=["Team"]))) == 3
    assert audit(og.connect(root, read_only=True)) == []


def test_a_broken_table_is_left_by_the_heal(tmp_path: Path) -> None:
    root = tmp_path / "g"
    graph = behind_its_pin(root)
    kept = sidecars(root)

    heal(graph)
    graph.mutate(INSERT_TEAM, params={"slug": "blue"})

    assert len(list(graph.export(types=["Team"]))) == 2
    assert sidecars(root) == kept


# Row 2: the branch is gone ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("recover", [lambda graph: og.connect(graph.uri), heal], ids=["full", "heal"])
@pytest.mark.parametrize("point", [NO_EFFECT, "write.post_fork_pre_commit", ALL_EFFECTS])
def test_an_operation_of_a_deleted_branch_is_discarded(
    tmp_path: Path, point: str, recover: Callable[[og.Graph], object]
) -> None:
    root = tmp_path / "g"
    graph = prepared(root, "first_touch")
    before = rows(graph)
    leave(graph, point, "first_touch")
    graph.delete_branch("draft")

    recover(graph)
    recover(graph)

    assert sidecars(root) == []
    assert kinds(graph) == ["OrphanedBranchDiscarded"]
    assert audit(graph)[0]["recovery_for_actor"] == "op"
    assert audit(graph)[0]["graph_commit_id"] is None
    assert rows(graph) == before
    graph.create_branch("draft")
    assert rows(graph, "draft") == before
    OPERATIONS["first_touch"](graph)
    assert names(graph, "draft") == ["ann", "bob", "cleo"]


# Row 3: stale -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("recover", [lambda graph: og.connect(graph.uri), heal], ids=["full", "heal"])
@pytest.mark.parametrize("point", [PUBLISHED, "journal.before_append", "write.before_sidecar_delete"])
def test_a_published_operation_is_not_published_again(
    tmp_path: Path, point: str, recover: Callable[[og.Graph], object]
) -> None:
    root = tmp_path / "g"
    graph = prepared(root, "many")
    before = rows(graph)
    leave(graph, point, "many")
    version = graph.snapshot().manifest_version

    recover(graph)

    assert rows(graph) == expected_after("many", before)
    assert graph.snapshot().manifest_version == version
    assert kinds(graph) == ["RolledForward"]
    assert audit(graph)[0]["graph_commit_id"] == graph.commits()[0].graph_commit_id
    assert graph.commits()[0].actor_id == "op"
    assert_writable(reopened(root))


@pytest.mark.parametrize("recover", [lambda graph: og.connect(graph.uri), heal], ids=["full", "heal"])
def test_an_operation_that_moved_nothing_and_was_overtaken_is_stale(
    tmp_path: Path, recover: Callable[[og.Graph], object]
) -> None:
    root = tmp_path / "g"
    graph = seeded(root)
    leave(graph, NO_EFFECT)
    graph.mutate(INSERT, params={"name": "dora"})

    recover(graph)

    assert sidecars(root) == []
    assert names(graph) == ["ann", "bob", "dora"]
    assert kinds(graph) == ["RolledBack"]
    assert outcomes(graph) == []
    assert_writable(reopened(root))


# Row 4: everything moved --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("recover", [lambda graph: og.connect(graph.uri), heal], ids=["full", "heal"])
@pytest.mark.parametrize("operation", ["insert", "update", "delete", "overwrite", "many", "first_touch_many"])
def test_a_complete_operation_is_finished(tmp_path: Path, operation: str, recover: Callable[[og.Graph], object]) -> None:
    root = tmp_path / "g"
    graph = prepared(root, operation)
    branch = "draft" if operation.startswith("first") else "main"
    before = rows(graph, branch)
    pinned = pins(graph, branch)
    intent = json.loads(leave(graph, ALL_EFFECTS, operation).read_text("utf-8"))["intent"]

    recover(graph)

    assert rows(graph, branch) == expected_after(operation, before)
    assert kinds(graph) == ["RolledForward"]
    commit = graph.commits(branch)[0]
    assert (commit.graph_commit_id, commit.actor_id) == (intent["graph_commit_id"], RECOVERY)
    assert audit(graph)[0]["graph_commit_id"] == commit.graph_commit_id
    for outcome in outcomes(graph):
        key = outcome["table_key"]
        assert outcome["from_version"] == outcome["to_version"] == pinned[key] + 1 == pins(graph, branch)[key]
    assert_writable(reopened(root), [branch])


def test_a_stale_commit_on_top_is_not_published(tmp_path: Path) -> None:
    """What is not proven to be ours never becomes visible, neither alone nor with our rows."""
    root = tmp_path / "g"
    graph = seeded(root)
    leave(graph, ALL_EFFECTS)
    foreign_row(graph)

    heal(graph)
    assert names(graph) == ["ann", "bob"]

    graph = reopened(root)
    assert "mallory" not in names(graph)
    assert_writable(graph)


# Row 6: a mixture ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("turn", [1, 2, 3])
def test_an_incomplete_operation_is_undone_by_opening(tmp_path: Path, turn: int) -> None:
    root = tmp_path / "g"
    graph = prepared(root, "many")
    before, pinned = rows(graph), pins(graph)
    leave(graph, f"write.post_table_commit@{turn}", "many")
    moved = [key for key, version in heads(graph).items() if version != pinned[key]]
    assert len(moved) == turn

    graph = reopened(root)

    assert rows(graph) == before
    assert kinds(graph) == ["RolledBack"]
    assert [each["table_key"] for each in outcomes(graph)] == moved
    assert all(each["to_version"] == pinned[each["table_key"]] for each in outcomes(graph))
    assert all(each["from_version"] == pinned[each["table_key"]] + 1 for each in outcomes(graph))
    assert graph.commits()[0].actor_id == RECOVERY
    assert audit(graph)[0]["graph_commit_id"] == graph.commits()[0].graph_commit_id
    assert_writable(graph)


def test_an_incomplete_operation_is_left_by_the_heal(tmp_path: Path) -> None:
    root = tmp_path / "g"
    graph = prepared(root, "many")
    sidecar = leave(graph, "write.post_table_commit@2", "many")
    before = heads(graph)

    heal(graph)

    assert sidecars(root) == [sidecar]
    assert heads(graph) == before
    assert kinds(graph) == []
    with pytest.raises(errors.Conflict, match="reopen the graph read-write"):
        OPERATIONS["many"](graph)
    assert_writable(reopened(root))


def test_tables_that_did_not_move_are_fenced_as_well(tmp_path: Path) -> None:
    root = tmp_path / "g"
    graph = prepared(root, "many_overwrite")
    pinned = pins(graph)
    leave(graph, "write.post_table_commit@1", "many_overwrite")

    graph = reopened(root)

    assert pins(graph)["edge:Member"] == pinned["edge:Member"] + 2
    assert pins(graph)["node:Team"] == pinned["node:Team"] + 1


def test_undoing_keeps_what_others_wrote_to_the_tables_that_did_not_move(tmp_path: Path) -> None:
    root = tmp_path / "g"
    graph = prepared(root, "many_overwrite")
    leave(graph, "write.post_table_commit@1", "many_overwrite")
    graph.mutate(INSERT_TEAM, params={"slug": "green"})
    before = rows(graph)
    assert names(graph, kind="Team") == ["green", "red"]

    graph = reopened(root)

    assert rows(graph) == before
    assert kinds(graph) == ["RolledBack"]
    assert_writable(graph)


def test_an_unexpected_version_is_undone_with_ours(tmp_path: Path) -> None:
    root = tmp_path / "g"
    graph = prepared(root, "many_overwrite")
    before = rows(graph)
    leave(graph, ALL_EFFECTS, "many_overwrite")
    place = str(path_of(graph, "node:Team"))
    dataset = lance.dataset(place)
    lance.write_dataset(pa.Table.from_pylist([{"id": "x", "slug": "x"}], schema=dataset.schema), place, mode="append")

    graph = reopened(root)

    assert rows(graph) == before
    assert kinds(graph) == ["RolledBack"]
    assert_writable(graph)


# Row 7: nothing moved -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("operation", ["insert", "many", "first_touch_many"])
def test_an_operation_without_effect_is_forgotten_by_opening(tmp_path: Path, operation: str) -> None:
    root = tmp_path / "g"
    graph = prepared(root, operation)
    before, version = rows(graph), graph.snapshot().manifest_version
    leave(graph, NO_EFFECT, operation)

    graph = reopened(root)

    assert rows(graph) == before
    assert graph.snapshot().manifest_version == version
    assert kinds(graph) == ["RolledBack"]
    assert outcomes(graph) == []
    assert audit(graph)[0]["graph_commit_id"] is None


def test_an_untouched_fork_is_dropped(tmp_path: Path) -> None:
    root = tmp_path / "g"
    graph = prepared(root, "first_touch")
    leave(graph, "write.post_fork_pre_commit", "first_touch")
    path = graph.snapshot().entry("node:Person").path
    assert len(table_branches(root, path)) == 1

    graph = reopened(root)

    assert table_branches(root, path) == []
    assert graph.snapshot(branch="draft").entry("node:Person").branch is None
    assert kinds(graph) == ["RolledBack"]
    assert_writable(graph, ["draft"])


def test_an_operation_without_effect_is_left_by_the_heal_and_blocks_nobody(tmp_path: Path) -> None:
    root = tmp_path / "g"
    graph = seeded(root)
    sidecar = leave(graph, NO_EFFECT)

    heal(graph)

    assert sidecars(root) == [sidecar]
    graph.mutate(INSERT, params={"name": "dora"})
    assert names(graph) == ["ann", "bob", "dora"]
    assert_writable(reopened(root))


# Several at once ----------------------------------------------------------------------------------------------------


def test_several_sidecars_are_recovered_in_order_and_see_each_other(tmp_path: Path) -> None:
    """The second was prepared on the first one's table before anybody knew how the first one ends."""
    root = tmp_path / "g"
    graph = seeded(root)
    graph.create_branch("draft")
    abandon("write.post_table_commit@1", lambda: OPERATIONS["many_overwrite"](graph))
    abandon(NO_EFFECT, lambda: OPERATIONS["insert"](graph))
    abandon("write.post_table_commit@1", lambda: OPERATIONS["first_touch_many"](graph))
    # Recovered on the way in by the next writer of this process, as it can be finished.
    abandon(ALL_EFFECTS, lambda: graph.mutate(UPDATE_BOB, actor="late"))
    assert len(sidecars(root)) == 4
    before = rows(graph)

    graph = reopened(root)

    assert kinds(graph) == ["RolledBack", "RolledBack", "RolledBack", "RolledForward"]
    assert [row["recovery_for_actor"] for row in audit(graph)] == ["op", "op", "op", "late"]
    before["Person"][1]["age"] = 41
    assert rows(graph) == before
    assert names(graph, "draft") == ["ann", "bob"]
    assert_writable(graph, ["main", "draft"])


UPDATE_BOB = 'query q() { update Person set { age: 41 } where name = "bob" }'


# Sidecars that cannot be read ---------------------------------------------------------------------------------------


def _truncated(text: str) -> bytes:
    return text.encode()[: len(text) // 2]


def _foreign(_: str) -> bytes:
    return b'{"hello": "world"}'


def _newer(text: str) -> bytes:
    return json.dumps(json.loads(text) | {"schema_version": 2}).encode()


def _not_text(_: str) -> bytes:
    return b"\xff\xfe\x00garbage"


def _empty(_: str) -> bytes:
    return b""


def _list(_: str) -> bytes:
    return b"[1]"


def _lacks_fields(text: str) -> bytes:
    return json.dumps({key: value for key, value in json.loads(text).items() if key != "intent"}).encode()


def _wrong_kind(text: str) -> bytes:
    return json.dumps(json.loads(text) | {"tables": 7}).encode()


def _wrong_intent(text: str) -> bytes:
    return json.dumps(json.loads(text) | {"intent": ["x"]}).encode()


DAMAGES = [_truncated, _foreign, _newer, _not_text, _empty, _list, _lacks_fields, _wrong_kind, _wrong_intent]


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__.strip("_"))
def test_a_sidecar_that_cannot_be_read_is_put_aside_and_reported(tmp_path: Path, damage: Callable[[str], bytes]) -> None:
    root = tmp_path / "g"
    graph = seeded(root)
    sidecar = leave(graph, NO_EFFECT)
    content = damage(sidecar.read_text("utf-8"))
    sidecar.write_bytes(content)
    reader = og.connect(root, read_only=True)
    assert sidecar.read_bytes() == content
    assert names(reader) == ["ann", "bob"]

    for _ in range(2):
        graph = og.connect(root)
        assert graph.recoveries()["pending"] == []
        assert graph.recoveries()["quarantined"] == [sidecar.name]
    assert sidecars(root) == [root / "__recovery" / "quarantine" / sidecar.name]
    assert sidecars(root)[0].read_bytes() == content
    assert kinds(graph) == []
    graph.mutate(INSERT, params={"name": "cleo"})
    assert names(graph) == ["ann", "bob", "cleo"]


def test_only_tables_a_quarantined_operation_had_moved_refuse_writes(tmp_path: Path) -> None:
    root = tmp_path / "g"
    graph = prepared(root, "many_overwrite")
    before = rows(graph)
    sidecar = leave(graph, "write.post_table_commit@1", "many_overwrite")
    sidecar.write_bytes(_truncated(sidecar.read_text("utf-8")))
    drifted = heads(graph)

    graph = og.connect(root)
    graph.mutate(INSERT, params={"name": "cleo"})
    graph.mutate(INSERT_TEAM, params={"slug": "green"})
    with pytest.raises(errors.Conflict, match="the graph shows") as refused:
        OPERATIONS["many_overwrite"](graph)

    assert refused.value.reason == "drift"
    assert rows(graph)["Member"] == before["Member"]
    assert heads(graph)["edge:Member"] == drifted["edge:Member"]


def test_the_heal_puts_an_unreadable_sidecar_aside_as_well(tmp_path: Path) -> None:
    root = tmp_path / "g"
    graph = seeded(root)
    sidecar = leave(graph, NO_EFFECT)
    sidecar.write_bytes(b"{")

    graph.mutate(INSERT, params={"name": "cleo"})

    assert graph.recoveries()["quarantined"] == [sidecar.name]
    assert names(graph) == ["ann", "bob", "cleo"]


# Drift without a sidecar ----------------------------------------------------------------------------------------------


def test_foreign_drift_is_neither_adopted_nor_undone(tmp_path: Path) -> None:
    root = tmp_path / "g"
    graph = seeded(root)
    foreign_row(graph)
    drifted = heads(graph)

    for attempt in (graph, og.connect(root)):
        with pytest.raises(errors.Conflict, match="the graph shows") as refused:
            attempt.mutate(INSERT, params={"name": "cleo"})
        assert refused.value.reason == "drift"
        assert names(attempt) == ["ann", "bob"]
    assert heads(graph) == drifted
    assert sidecars(root) == []
    graph.mutate(INSERT_TEAM, params={"slug": "blue"})


@pytest.mark.parametrize("operation", ["insert", "update"])
def test_drift_of_a_dead_operation_whose_sidecar_is_gone_is_undone(tmp_path: Path, operation: str) -> None:
    root = tmp_path / "g"
    graph = seeded(root)
    leave(graph, ALL_EFFECTS).unlink()

    graph = og.connect(root)
    before = names(graph)
    assert before == ["ann", "bob"]
    OPERATIONS[operation](graph)

    assert names(graph) == (["ann", "bob", "cleo"] if operation == "insert" else ["ann", "bob"])
    assert kinds(graph) == ["RolledBack"]
    assert_writable(reopened(root))


# Live owners ----------------------------------------------------------------------------------------------------------


def wait_for_sidecar(root: Place, seconds: float = 60) -> Place:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = [path for path in sidecars(root) if path.name.endswith(".json")]
        if found:
            return found[0]
        time.sleep(0.01)
    raise AssertionError("the other process wrote no sidecar")


@pytest.mark.parametrize("point", [NO_EFFECT, "write.post_table_commit@1", ALL_EFFECTS])
def test_the_sidecar_of_a_living_process_is_left_alone(tmp_path: Path, point: str) -> None:
    root = tmp_path / "g"
    before = rows(prepared(root, "nodes"))
    name, at, nth = point.partition("@")
    process = spawn(root, "nodes", f"{name}=sleep(5000){at}{nth}")
    try:
        sidecar = wait_for_sidecar(root)
        og.connect(root)
        graph = og.connect(root)
        graph.refresh()
        assert graph.recoveries()["pending"] == [sidecar.stem]
        assert rows(graph) == before
        graph.load([node("Place", slug="here")], mode="append")  # another table: nobody waits
        assert process.poll() is None, "the other process was to sleep longer"
        assert kinds(graph) == []
        graph.mutate(INSERT_TEAM, params={"slug": "green"})  # a table the other process holds: waits for it
        assert process.wait(60) == 0, process.communicate()[1]
    finally:
        process.kill()
        process.communicate()

    graph = reopened(root)
    assert names(graph) == ["ann", "bob", "cleo"]
    assert names(graph, kind="Team") == ["blue", "green", "red"]
    assert names(graph, kind="Place") == ["here"]
    assert kinds(graph) == []
    assert len(graph.commits()) == 5


def test_the_sidecar_of_a_killed_process_is_recovered(tmp_path: Path) -> None:
    root = tmp_path / "g"
    before = rows(prepared(root, "many_overwrite"))
    process = spawn(root, "many_overwrite", "write.post_table_commit=sleep(60000)@1")
    wait_for_sidecar(root)
    process.kill()
    process.communicate()

    graph = reopened(root)

    assert rows(graph) == before
    assert kinds(graph) == ["RolledBack"]
    assert_writable(graph)


# Contention -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("times", [1, 5])
def test_lost_races_up_to_the_budget_are_invisible(tmp_path: Path, times: int, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = seeded(tmp_path / "g")
    commits = len(graph.commits())
    failpoints.reset()
    monkeypatch.setenv(failpoints.VARIABLE, f"publish.force_contention=times({times})")

    graph.mutate(INSERT, params={"name": "cleo"})

    assert names(graph) == ["ann", "bob", "cleo"]
    assert len(graph.commits()) == commits + 1
    assert_settled(graph)


def test_losing_more_often_is_a_conflict_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "g"
    graph = seeded(root)
    failpoints.reset()
    monkeypatch.setenv(failpoints.VARIABLE, "publish.force_contention=times(6)")
    with pytest.raises(errors.Conflict) as lost:
        graph.mutate(INSERT, params={"name": "cleo"})
    assert lost.value.reason == "contention"
    monkeypatch.delenv(failpoints.VARIABLE)

    graph = reopened(root)
    assert names(graph) == ["ann", "bob"]
    assert kinds(graph) == ["RolledBack"]
    assert_writable(graph)
