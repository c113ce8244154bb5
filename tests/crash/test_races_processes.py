"""The races of the write protocol between real processes, without leases: stopped, continued and killed at failpoints."""

import signal
from pathlib import Path

import pytest

import omnigraph_sql as og
from tests.crash.racing import LEASES, continued, continued_to_the_next, killed, stopped
from tests.crash.world import (
    INSERT,
    assert_writable,
    expected_after,
    kinds,
    log,
    names,
    prepared,
    reopened,
    rows,
    seeded,
    sidecars,
    spawn,
    table_branches,
)
from tests.manifests import record_place, reserve_branch

BEFORE_EFFECTS = "write.post_sidecar_pre_effect"
AFTER_EFFECTS = "write.post_effects_pre_publish"


@pytest.fixture(autouse=True)
def no_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LEASES, "off")


def leave(root: Path, operation: str, point: str) -> None:
    """An operation whose process was killed at a failpoint."""
    with stopped(root, operation, point) as process:
        killed(process)


def test_race_01_processes_of_one_table(tmp_path: Path) -> None:
    root = tmp_path / "g"
    seeded(root)
    processes = [spawn(root, "burst", **{LEASES: "off"}) for _ in range(3)]
    accepted: list[str] = []
    for process in processes:
        printed, complaints = process.communicate(timeout=240)
        assert process.returncode == 0, complaints
        accepted += printed.split()

    graph = reopened(root)
    assert names(graph) == sorted(["ann", "bob", *accepted])
    assert_writable(graph)


@pytest.mark.parametrize("point", ["recovery.post_restore_pre_publish", "recovery.record_audit"])
def test_race_02_an_opener_is_stopped_in_the_middle(tmp_path: Path, point: str) -> None:
    root = tmp_path / "g"
    prepared(root, "nodes")
    leave(root, "nodes", "write.post_table_commit@1")
    with stopped(root, "open", point, opening=True) as opener:
        graph = og.connect(root)
        graph.mutate(INSERT, params={"name": "dora"})
        continued(opener)

    graph = reopened(root)
    assert names(graph) == ["ann", "bob", "dora"]
    assert kinds(graph)[0] == "RolledBack"
    assert_writable(graph)


@pytest.mark.parametrize("operation", ["insert", "first_touch_many"])
def test_race_03_rolled_forward_while_stopped(tmp_path: Path, operation: str) -> None:
    root = tmp_path / "g"
    graph = prepared(root, operation)
    before = rows(graph)
    branch = "main" if operation == "insert" else "draft"
    with stopped(root, operation, AFTER_EFFECTS) as process:
        other = og.connect(root)
        assert rows(other, branch) == expected_after(operation, before)
        other.mutate(INSERT, params={"name": "dora"}, branch=branch)
        continued(process)

    graph = reopened(root)
    assert names(graph, branch) == ["ann", "bob", "cleo", "dora"]
    assert kinds(graph) == ["RolledForward"]
    assert len(graph.commits(branch)) == 4
    assert_writable(graph, [branch])


def test_race_04_a_stale_commit_lands_on_a_dead_one(tmp_path: Path) -> None:
    root = tmp_path / "g"
    prepared(root, "nodes")
    with stopped(root, "insert", BEFORE_EFFECTS) as stale:
        leave(root, "nodes", "write.post_table_commit@1")
        continued(stale)

    graph = reopened(root)
    assert rows(graph)["Person"][-1] == {"id": "cleo", "name": "cleo", "age": 1}, "the living writer's, not the dead one's"
    assert names(graph) == ["ann", "bob", "cleo"]
    assert names(graph, kind="Team") == ["red"]
    assert_writable(graph)


@pytest.mark.parametrize("operation", ["nodes", "first_touch_many"])
@pytest.mark.parametrize("point", [BEFORE_EFFECTS, "write.post_table_commit@1"])
def test_race_05_the_sidecar_of_a_stopped_process_is_removed(tmp_path: Path, operation: str, point: str) -> None:
    root = tmp_path / "g"
    prepared(root, operation)
    with stopped(root, operation, point) as process:
        og.connect(root)
        assert sidecars(root) == []
        continued(process)

    graph = reopened(root)
    branch = "main" if operation == "nodes" else "draft"
    assert names(graph, branch) == ["ann", "bob", "cleo"]
    assert kinds(graph) == ["RolledBack"]
    assert_writable(graph, [branch])


def test_race_05_it_goes_on_for_one_table_and_is_killed(tmp_path: Path) -> None:
    root = tmp_path / "g"
    before = rows(prepared(root, "nodes"))
    with stopped(root, "nodes", BEFORE_EFFECTS, "write.post_table_commit@1") as process:
        og.connect(root)
        assert sidecars(root) == []
        continued_to_the_next(process)
        killed(process)
    assert len(sidecars(root)) == 1

    graph = reopened(root)
    assert rows(graph) == before
    assert kinds(graph) == ["RolledBack"]
    assert_writable(graph)


def test_race_06_two_first_touches_of_one_table(tmp_path: Path) -> None:
    root = tmp_path / "g"
    graph = prepared(root, "first_touch")
    with stopped(root, "first_touch", "write.post_fork_pre_commit") as loser:
        graph.mutate(INSERT, params={"name": "dora"}, branch="draft")
        published = graph.snapshot(branch="draft").entry("node:Person")
        continued(loser)

    graph = reopened(root)
    assert names(graph, "draft") == ["ann", "bob", "cleo", "dora"]
    assert table_branches(root, published.path) == [published.branch]
    assert_writable(graph, ["draft"])


@pytest.mark.parametrize("point", [AFTER_EFFECTS, "publish.before_merge"])
def test_race_07_the_branch_is_replaced(tmp_path: Path, point: str) -> None:
    root = tmp_path / "g"
    graph = prepared(root, "first_touch")
    with stopped(root, "first_touch", point) as process:
        graph.delete_branch("draft")
        graph.mutate(INSERT, params={"name": "dora"})
        graph.create_branch("draft")
        continued(process)

    graph = reopened(root)
    assert names(graph, "draft") == ["ann", "bob", "cleo", "dora"]
    assert names(graph) == ["ann", "bob", "dora"]
    assert_writable(graph, ["draft"])


def test_race_08_the_journal_has_no_hole(tmp_path: Path) -> None:
    root = tmp_path / "g"
    seeded(root)
    with stopped(root, "team", "mutation.post_stage_pre_gates") as second:
        leave(root, "insert", "journal.before_append")
        assert len(log(root, "_graph_commits.lance")) == 2
        continued(second)
    assert len(log(root, "_graph_commits.lance")) == 4

    graph = reopened(root)
    assert (names(graph), names(graph, kind="Team")) == (["ann", "bob", "cleo"], ["blue", "red"])
    assert len(graph.commits()) == 4


@pytest.mark.parametrize("left_at", [BEFORE_EFFECTS, "write.post_table_commit@1"])
def test_race_09_a_rollback_that_is_killed_is_audited_once(tmp_path: Path, left_at: str) -> None:
    root = tmp_path / "g"
    before = rows(prepared(root, "nodes"))
    leave(root, "nodes", left_at)
    for point in ("recovery.record_audit", "recovery.before_sidecar_delete"):
        with stopped(root, "open", point, opening=True) as opener:
            killed(opener)

    graph = reopened(root)
    assert rows(graph) == before
    assert kinds(graph) == ["RolledBack"]
    assert_writable(graph)


def test_race_10_a_schema_change_begins_behind_a_writer(tmp_path: Path) -> None:
    root = tmp_path / "g"
    before = rows(prepared(root, "many"))
    with stopped(root, "many", "mutation.post_stage_pre_gates") as process:
        reserve_branch(root, "__schema_apply_lock__")
        process.send_signal(signal.SIGCONT)
        _, complaints = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "a schema change is being applied" in complaints
    record_place(root, "__schema_apply_lock__").unlink()

    graph = reopened(root)
    assert rows(graph) == before
    assert_writable(graph)


@pytest.mark.parametrize("point", ["write.post_table_commit@2", "publish.before_merge"])
def test_race_11_an_interrupted_process_undoes_and_lives_on(tmp_path: Path, point: str) -> None:
    root = tmp_path / "g"
    before = rows(prepared(root, "many"))
    with stopped(root, "stubborn", point) as process:
        process.send_signal(signal.SIGINT)
        continued(process)

    graph = reopened(root)
    assert rows(graph) == expected_after("many", before)
    assert kinds(graph) == ["RolledBack"]
    assert_writable(graph)


@pytest.mark.parametrize(
    ("cut", "came"),
    [
        ("write.post_fork_pre_commit@2", False),
        ("write.post_table_commit@2", True),
        ("publish.after_merge", True),
    ],
)
def test_race_12_a_first_touch_is_killed(tmp_path: Path, cut: str, came: bool) -> None:
    root = tmp_path / "g"
    before = rows(prepared(root, "first_touch_many"))
    leave(root, "first_touch_many", cut)

    graph = reopened(root)
    assert rows(graph, "draft") == (expected_after("first_touch_many", before) if came else before)
    assert rows(graph) == before
    assert_writable(graph, ["draft", "main"])
