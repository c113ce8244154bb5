"""Invariants of recovery; tests/crash has the failpoints and the decision table in full."""

import json
from pathlib import Path
from typing import Any

import pytest

import omnigraph_sql as og
from omnigraph_sql import errors
from omnigraph_sql.storage.table_names import table_path
from tests.crash.racing import paused, resumed
from tests.crash.world import (
    INSERT,
    INSERT_TEAM,
    OPERATIONS,
    RECOVERY,
    TABLES,
    abandon,
    armed,
    assert_settled,
    assert_writable,
    audit,
    branch_of,
    expected_after,
    heads,
    kinds,
    names,
    pins,
    prepared,
    reopened,
    rows,
    seeded,
    sidecars,
    table_branches,
)

INCOMPLETE = "write.post_table_commit@1"
COMPLETE = "write.post_effects_pre_publish"
SEVERAL = ["delete", "many", "many_merge", "many_overwrite", "first_touch_many"]


@pytest.mark.parametrize("operation", SEVERAL)
@pytest.mark.parametrize("point", [INCOMPLETE, COMPLETE])
def test_invariant_25_pins_are_heads_and_no_sidecar_is_left(tmp_path: Path, operation: str, point: str) -> None:
    root = tmp_path / "g"
    graph = prepared(root, operation)
    abandon(point, lambda: OPERATIONS[operation](graph))
    (sidecar,) = sidecars(root)
    named = {table["table_key"] for table in json.loads(sidecar.read_text("utf-8"))["tables"]}
    assert len(named) > 1

    graph = og.connect(root)

    assert sidecars(root) == []
    assert_settled(graph)
    if branch_of(operation) == "main":
        assert {key: heads(graph)[key] for key in named} == {key: pins(graph)[key] for key in named}


@pytest.mark.parametrize("turn", [1, 2, 3, 4])
def test_invariant_26_an_operation_is_recovered_as_a_whole(tmp_path: Path, turn: int) -> None:
    root = tmp_path / "g"
    graph = prepared(root, "many")
    before = rows(graph)
    abandon(f"write.post_table_commit@{turn}", lambda: OPERATIONS["many"](graph))

    graph = reopened(root)

    assert rows(graph) == (expected_after("many", before) if turn == len(TABLES) else before)
    assert kinds(graph) == (["RolledForward"] if turn == len(TABLES) else ["RolledBack"])


@pytest.mark.parametrize("operation", SEVERAL)
def test_invariant_27_a_retried_operation_succeeds_at_the_first_try(tmp_path: Path, operation: str) -> None:
    root = tmp_path / "g"
    graph = prepared(root, operation)
    before = rows(graph)
    abandon(INCOMPLETE, lambda: OPERATIONS[operation](graph))
    graph = og.connect(root)

    OPERATIONS[operation](graph)

    assert rows(graph, branch_of(operation)) == expected_after(operation, before)
    assert_settled(graph)


def test_invariant_28_rolling_forward_publishes_the_whole_intent(tmp_path: Path) -> None:
    root = tmp_path / "g"
    graph = seeded(root)
    abandon(COMPLETE, lambda: graph.mutate(INSERT, params={"name": "cleo"}, actor="op"))
    (sidecar,) = sidecars(root)
    entry: dict[str, Any] = json.loads(sidecar.read_text("utf-8"))
    entry["registrations"] = [{"table_key": "node:Extra", "path": table_path("node:Extra")}]
    entry["tombstones"] = [{"table_key": "node:Place", "version": pins(graph)["node:Place"] + 1}]
    place = graph.snapshot().entries["node:Place"]
    pin = {"version": place.version, "branch": place.branch, "transaction_uuid": place.transaction_uuid}
    entry["expected"].append({"table_key": "node:Place", **pin})
    entry["intent"] |= {"message": "as a whole", "idempotency_key": "once"}
    sidecar.write_text(json.dumps(entry), encoding="utf-8")
    version = graph.snapshot().manifest_version

    snapshot = og.connect(root).snapshot()

    assert snapshot.manifest_version == version + 1
    assert snapshot.locations["node:Extra"] == table_path("node:Extra")
    assert "node:Place" not in snapshot.entries
    assert snapshot.head is not None
    assert snapshot.head.graph_commit_id == entry["intent"]["graph_commit_id"]
    assert (snapshot.head.message, snapshot.head.idempotency_key) == ("as a whole", "once")
    assert names(og.connect(root)) == ["ann", "bob", "cleo"]


@pytest.mark.parametrize(
    ("point", "kind"), [(INCOMPLETE, "RolledBack"), (COMPLETE, "RolledForward"), ("publish.after_merge", "RolledForward")]
)
def test_invariant_29_one_audit_row_that_keeps_the_actor(tmp_path: Path, point: str, kind: str) -> None:
    root = tmp_path / "g"
    graph = prepared(root, "many")
    abandon(point, lambda: OPERATIONS["many"](graph))
    (sidecar,) = sidecars(root)
    for _ in range(3):
        graph = og.connect(root)
        graph.refresh()

    (row,) = audit(graph)
    assert row["operation_id"] == sidecar.stem
    assert (row["recovery_kind"], row["recovery_for_actor"], row["sidecar_writer_kind"]) == (kind, "op", "Load")
    commit = graph.commit(row["graph_commit_id"])
    assert commit.actor_id == ("op" if point == "publish.after_merge" else RECOVERY)


def test_invariant_29_an_undo_by_the_writer_itself_is_audited_once(tmp_path: Path) -> None:
    root = tmp_path / "g"
    graph = prepared(root, "many")
    with armed(f"{INCOMPLETE.partition('@')[0]}=error@1"), pytest.raises(errors.Storage):
        OPERATIONS["many"](graph)

    graph = reopened(root)

    assert kinds(graph) == ["RolledBack"]
    assert audit(graph)[0]["recovery_for_actor"] == "op"
    assert graph.commits()[0].actor_id == RECOVERY


def test_invariant_30_a_sidecar_is_judged_on_its_own_branch(tmp_path: Path) -> None:
    """Main has moved the same tables on; the branch has not."""
    root = tmp_path / "g"
    graph = prepared(root, "first_touch_many")
    before = rows(graph)
    abandon(COMPLETE, lambda: OPERATIONS["first_touch_many"](graph))
    (sidecar,) = sidecars(root)
    content = sidecar.read_text("utf-8")
    sidecar.unlink()  # out of sight while main is written
    graph.mutate(INSERT, params={"name": "main-only"})
    sidecar.write_text(content, encoding="utf-8")

    graph = reopened(root)

    assert kinds(graph) == ["RolledForward"]
    assert rows(graph, "draft") == expected_after("first_touch_many", before)
    assert names(graph) == ["ann", "bob", "main-only"]
    assert_writable(graph, ["main", "draft"])


def test_invariant_30_later_sidecars_see_what_recovering_earlier_ones_did(tmp_path: Path) -> None:
    root = tmp_path / "g"
    graph = prepared(root, "first_touch_many")
    abandon(INCOMPLETE, lambda: OPERATIONS["many_overwrite"](graph))
    abandon(INCOMPLETE, lambda: OPERATIONS["first_touch_many"](graph))
    abandon(COMPLETE, lambda: OPERATIONS["insert"](graph))

    graph = reopened(root)

    assert kinds(graph) == ["RolledBack", "RolledBack", "RolledForward"]
    assert names(graph) == ["ann", "bob", "cleo"]
    assert names(graph, "draft") == ["ann", "bob"]
    chain = graph.commits()
    assert [commit.actor_id for commit in chain[:2]] == [RECOVERY, RECOVERY]
    assert_writable(graph, ["main", "draft"])


def test_invariant_31_an_unreadable_sidecar_is_loud_and_harmless(tmp_path: Path) -> None:
    root = tmp_path / "g"
    graph = prepared(root, "many_overwrite")
    abandon("write.post_sidecar_pre_effect", lambda: OPERATIONS["many_overwrite"](graph))
    (sidecar,) = sidecars(root)
    sidecar.write_text(sidecar.read_text("utf-8").replace('"schema_version": 1', '"schema_version": 9'), encoding="utf-8")
    files = {path: path.stat().st_mtime_ns for path in root.rglob("*") if path.is_file()}

    reader = og.connect(root, read_only=True)
    assert names(reader) == ["ann", "bob"]
    assert {path: path.stat().st_mtime_ns for path in root.rglob("*") if path.is_file()} == files

    graph = og.connect(root)
    assert graph.recoveries()["quarantined"] == [sidecar.name]
    OPERATIONS["many_overwrite"](graph)
    assert names(graph, kind="Team") == ["blue", "red"]


@pytest.mark.parametrize("point", ["write.post_sidecar_pre_effect", "write.post_table_commit", COMPLETE])
def test_invariant_32_the_heal_leaves_a_running_operation_of_this_process_alone(tmp_path: Path, point: str) -> None:
    root = tmp_path / "g"
    graph = prepared(root, "nodes")
    other = og.connect(root)
    with paused(point, lambda: OPERATIONS["nodes"](graph)) as (writer, pause):
        other.refresh()
        og.connect(root)
        assert len(other.recoveries()["pending"]) == 1
        resumed(writer, pause)

    assert names(other) == ["ann", "bob", "cleo"]
    assert kinds(other) == []
    assert_settled(other)


def test_invariant_32_the_heal_never_restores(tmp_path: Path) -> None:
    root = tmp_path / "g"
    graph = prepared(root, "many")
    abandon("write.post_table_commit@2", lambda: OPERATIONS["many"](graph))
    before = heads(graph)

    graph.refresh()

    assert heads(graph) == before
    assert len(sidecars(root)) == 1


def test_invariant_33_a_sidecar_of_a_deleted_branch_blocks_nothing(tmp_path: Path) -> None:
    root = tmp_path / "g"
    graph = prepared(root, "first_touch_many")
    abandon(COMPLETE, lambda: OPERATIONS["first_touch_many"](graph))
    graph.delete_branch("draft")

    graph.mutate(INSERT, params={"name": "cleo"})
    graph.mutate(INSERT_TEAM, params={"slug": "blue"})

    assert sidecars(root) == []
    assert kinds(graph) == ["OrphanedBranchDiscarded"]
    og.connect(root)
    assert kinds(graph) == ["OrphanedBranchDiscarded"]


def test_invariant_34_a_pending_sidecar_is_reported(tmp_path: Path) -> None:
    """What maintenance must refuse on; a read-only handle sees it and leaves it."""
    root = tmp_path / "g"
    graph = prepared(root, "many")
    abandon(INCOMPLETE, lambda: OPERATIONS["many"](graph))
    (sidecar,) = sidecars(root)

    reader = og.connect(root, read_only=True)

    assert reader.recoveries()["pending"] == [sidecar.stem]
    assert sidecars(root) == [sidecar]
    assert table_branches(root, graph.snapshot().entry("node:Person").path) == []
    with pytest.raises(errors.BadRequest, match="read-only"):
        reader.mutate(INSERT, params={"name": "cleo"})
