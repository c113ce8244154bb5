"""The races of the write protocol, each decided step by step, with leases and without.

With leases the interleaving is often prevented: then the test states that, and that nothing waits forever. Without them
everything happens, and must still be right.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

import omnigraph_sql as og
from omnigraph_sql import errors, failpoints
from tests.crash.racing import LEASES, Writer, paused, resumed
from tests.crash.world import (
    INSERT,
    INSERT_TEAM,
    OPERATIONS,
    abandon,
    armed,
    assert_settled,
    assert_writable,
    audit,
    branch_of,
    burst,
    expected_after,
    heads,
    kinds,
    log,
    names,
    node,
    prepared,
    reopened,
    rows,
    seeded,
    sidecars,
    table_branches,
)
from tests.manifests import open_manifest, record_place, reserve_branch

BEFORE_EFFECTS = "write.post_sidecar_pre_effect"
AFTER_EFFECTS = "write.post_effects_pre_publish"


@pytest.fixture
def no_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LEASES, "off")


def insert(graph: og.Graph, name: str, branch: str = "main") -> Callable[[], object]:
    return lambda: graph.mutate(INSERT, params={"name": name}, branch=branch, actor="op")


def insert_team(graph: og.Graph, slug: str) -> Callable[[], object]:
    return lambda: graph.mutate(INSERT_TEAM, params={"slug": slug}, actor="op")


def settled(root: Path) -> og.Graph:
    """Settled as it stands, and still so when reopened."""
    assert_settled(og.connect(root, read_only=True))
    return reopened(root)


# 1 ------------------------------------------------------------------------------------------------------------------


def test_race_01_eight_writers_of_one_table(tmp_path: Path, leases: bool) -> None:
    root = tmp_path / "g"
    seeded(root)

    def write(prefix: str) -> list[str]:
        return burst(og.connect(root), prefix, count=2, tries=1 if leases else 50)

    writers = [Writer(partial(write, f"w{at}")) for at in range(8)]
    accepted = [name for writer in writers for name in writer.join()]

    graph = reopened(root)
    assert names(graph) == sorted(["ann", "bob", *accepted])
    if leases:
        assert len(accepted) == 16, "a writer was turned away"
        assert len(graph.commits()) == 18
        assert kinds(graph) == []
    assert_writable(graph)


# 2 ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("left_at", "held_at", "verdict"),
    [
        (AFTER_EFFECTS, "publish.before_merge", "RolledForward"),
        (AFTER_EFFECTS, "recovery.record_audit", "RolledForward"),
        ("write.post_table_commit@1", "recovery.post_restore_pre_publish", "RolledBack"),
        ("write.post_table_commit@1", "recovery.record_audit", "RolledBack"),
        ("write.post_table_commit@1", "recovery.before_sidecar_delete", "RolledBack"),
    ],
)
def test_race_02_two_openers_and_a_writer(tmp_path: Path, leases: bool, left_at: str, held_at: str, verdict: str) -> None:
    root = tmp_path / "g"
    graph = prepared(root, "nodes")
    abandon(left_at, lambda: OPERATIONS["nodes"](graph))
    with paused(held_at, lambda: og.connect(root)) as (first, pause):
        second = og.connect(root)
        if leases:
            assert len(sidecars(root)) == 1, "the first opener is at work, the second leaves it to it"
        writer = Writer(insert(second, "dora"))
        if not leases:
            writer.join()
        resumed(first, pause)
        writer.join()

    graph = settled(root)
    came = ["cleo"] if verdict == "RolledForward" else []
    assert names(graph) == ["ann", "bob", *came, "dora"]
    assert [row["recovery_kind"] for row in audit(graph) if row["recovery_for_actor"] == "op"][:1] == [verdict]
    assert_writable(graph)


# 3 ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("operation", ["insert", "update", "many", "first_touch_many"])
@pytest.mark.parametrize("point", [AFTER_EFFECTS, "publish.before_merge"])
def test_race_03_rolled_forward_while_paused(tmp_path: Path, leases: bool, operation: str, point: str) -> None:
    root = tmp_path / "g"
    graph = prepared(root, operation)
    branch, before = branch_of(operation), rows(graph)
    with paused(point, lambda: OPERATIONS[operation](graph)) as (writer, pause):
        other = og.connect(root)
        assert (rows(other, branch) == before) is leases, "without leases the paused writer is taken for dead"
        other.load([node("Place", slug="here")], mode="append", branch=branch)
        if not leases:
            other.mutate(INSERT, params={"name": "dora"}, branch=branch)
        resumed(writer, pause)

    graph = settled(root)
    after = expected_after(operation, before)
    after["Place"] = [{"id": "here", "slug": "here"}]
    if not leases:
        after["Person"] = [*after["Person"], {"id": "dora", "name": "dora", "age": 1}]
        after["Person"].sort(key=lambda row: str(row["id"]))
    assert rows(graph, branch) == after
    assert kinds(graph) == ([] if leases else ["RolledForward"])
    assert len(graph.commits(branch)) == (4 if leases else 5)
    assert_writable(graph, [branch])


@pytest.mark.parametrize("operation", ["insert", "many", "first_touch_many"])
@pytest.mark.usefixtures("no_leases")
def test_race_03_an_error_after_being_rolled_forward_undoes_nothing(tmp_path: Path, operation: str) -> None:
    root = tmp_path / "g"
    graph = prepared(root, operation)
    branch, before = branch_of(operation), rows(graph)
    with paused(AFTER_EFFECTS, lambda: OPERATIONS[operation](graph)) as (writer, pause):
        og.connect(root)
        with armed("storage.object_list=error,publish.before_merge=error"):
            resumed(writer, pause)

    graph = settled(root)
    assert rows(graph, branch) == expected_after(operation, before)
    assert kinds(graph) == ["RolledForward"]
    assert len(graph.commits(branch)) == 3


@pytest.mark.parametrize("operation", ["insert", "many", "first_touch_many"])
@pytest.mark.usefixtures("no_leases")
def test_race_03_rolled_forward_in_the_middle_of_the_undo(tmp_path: Path, operation: str) -> None:
    """The writer looked, saw that it was not published, and restored; only then it was published."""
    root = tmp_path / "g"
    graph = prepared(root, operation)
    branch, before = branch_of(operation), rows(graph)

    with (
        failpoints.pause("recovery.post_restore_pre_publish") as undo,
        paused(AFTER_EFFECTS, lambda: OPERATIONS[operation](graph)) as (writer, pause),
        paused("publish.before_merge", lambda: og.connect(root)) as (opener, opener_pause),
    ):
        with armed("publish.before_merge=error"):
            pause.resume.set()
            assert undo.reached.wait(60), "the writer was to begin its undo"
        resumed(opener, opener_pause)
        assert rows(og.connect(root, read_only=True), branch) == expected_after(operation, before)
        undo.resume.set()
        writer.join()

    graph = settled(root)
    assert rows(graph, branch) == expected_after(operation, before)
    assert kinds(graph) == ["RolledForward"]
    assert_writable(graph, [branch])


# 4 ------------------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("no_leases")
def test_race_04_a_stale_commit_lands_on_a_dead_one(tmp_path: Path) -> None:
    """One of two tables committed, then the writer died; a commit staged before lands on top."""
    root = tmp_path / "g"
    graph = prepared(root, "nodes")
    other = og.connect(root)
    with paused(BEFORE_EFFECTS, insert(other, "dora")) as (stale, pause):
        abandon("write.post_table_commit@1", lambda: OPERATIONS["nodes"](graph))
        resumed(stale, pause)
        assert "cleo" not in names(other), "rows of the dead writer became visible"

    graph = reopened(root)
    assert names(graph) == ["ann", "bob", "dora"]
    assert names(graph, kind="Team") == ["red"]
    assert_writable(graph)


@pytest.mark.usefixtures("no_leases")
def test_race_04_a_stale_commit_lands_while_it_is_rolled_forward(tmp_path: Path) -> None:
    """The version that was proven is published, not what lies on top of it by then."""
    root = tmp_path / "g"
    graph = seeded(root)
    other = og.connect(root)
    with paused(BEFORE_EFFECTS, insert(other, "dora")) as (stale, stale_pause):
        abandon(AFTER_EFFECTS, lambda: OPERATIONS["insert"](graph))
        with (
            paused("publish.before_merge", lambda: og.connect(root)) as (opener, opener_pause),
            failpoints.pause("recovery.post_restore_pre_publish") as undo,
        ):
            stale_pause.resume.set()
            assert undo.reached.wait(60), "the stale writer was to find out that it is stale"
            resumed(opener, opener_pause)
            assert names(og.connect(root, read_only=True)) == ["ann", "bob", "cleo"]
            undo.resume.set()
        stale.join()

    graph = settled(root)
    assert names(graph) == ["ann", "bob", "cleo", "dora"]
    assert_writable(graph)


# 5 ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("operation", ["nodes", "first_touch_many"])
@pytest.mark.parametrize("then", ["lives", "dies"])
@pytest.mark.parametrize("point", [BEFORE_EFFECTS, "write.post_fork_pre_commit@1", "write.post_table_commit@1"])
@pytest.mark.usefixtures("no_leases")
def test_race_05_the_sidecar_of_a_paused_writer_is_removed(tmp_path: Path, operation: str, then: str, point: str) -> None:
    root = tmp_path / "g"
    graph = prepared(root, operation)
    branch, before = branch_of(operation), rows(graph)
    if "fork" in point and branch == "main":
        pytest.skip("nothing is forked on main")
    with paused(point, lambda: OPERATIONS[operation](graph)) as (writer, pause):
        other = og.connect(root)
        assert sidecars(root) == []
        assert kinds(other) == ["RolledBack"]
        if then == "lives":
            resumed(writer, pause)
        else:
            rule = "write.post_table_commit=panic" if "table" not in point else "recovery.record_audit=panic"
            with armed(rule), pytest.raises(failpoints.Panic):
                resumed(writer, pause)

    assert len(sidecars(root)) == (0 if then == "lives" else 1), "what it did must stay attributable"
    graph = reopened(root) if then == "dies" else settled(root)
    after = rows(graph, branch)
    person = {"id": "cleo", "name": "cleo"}
    assert (person in after["Person"]) is (then == "lives")
    if then == "dies":
        assert after == before
    assert len([row for row in audit(graph) if row["recovery_kind"] == "RolledForward"]) == 0
    assert_writable(graph, [branch])


@pytest.mark.usefixtures("leases")
def test_race_05_drift_without_a_sidecar_is_undone_by_the_next_writer(tmp_path: Path) -> None:
    root = tmp_path / "g"
    graph = prepared(root, "nodes")
    abandon("write.post_table_commit@1", lambda: OPERATIONS["nodes"](graph))
    sidecars(root)[0].unlink()
    assert heads(graph)["node:Person"] == graph.snapshot().entry("node:Person").version + 1

    insert(og.connect(root), "dora")()

    graph = settled(root)
    assert names(graph) == ["ann", "bob", "dora"]
    assert kinds(graph) == ["RolledBack"]


@pytest.mark.usefixtures("leases")
def test_race_05_a_restored_version_without_a_sidecar_is_undone_as_well(tmp_path: Path) -> None:
    """An undo that died between restoring and publishing, and whose sidecar is gone."""
    root = tmp_path / "g"
    graph = prepared(root, "nodes")
    abandon("write.post_table_commit@1", lambda: OPERATIONS["nodes"](graph))
    abandon("recovery.post_restore_pre_publish", lambda: og.connect(root))
    sidecars(root)[0].unlink()

    graph = og.connect(root)
    insert(graph, "dora")()
    insert_team(graph, "green")()

    graph = settled(root)
    assert names(graph) == ["ann", "bob", "dora"]
    assert names(graph, kind="Team") == ["green", "red"]


# 6 ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("point", [BEFORE_EFFECTS, "write.post_fork_pre_commit"])
def test_race_06_two_first_touches_of_one_table(tmp_path: Path, leases: bool, point: str) -> None:
    root = tmp_path / "g"
    graph = prepared(root, "first_touch")
    published = None
    with paused(point, insert(graph, "cleo", "draft")) as (loser, pause):
        winner = Writer(insert(graph, "dora", "draft"))
        if not leases:
            winner.join()
            published = graph.snapshot(branch="draft").entry("node:Person").branch
        resumed(loser, pause)
        winner.join()

    graph = settled(root)
    assert names(graph, "draft") == ["ann", "bob", "cleo", "dora"]
    assert names(graph) == ["ann", "bob"]
    entry = graph.snapshot(branch="draft").entry("node:Person")
    assert table_branches(root, entry.path) == [entry.branch]
    assert published in (None, entry.branch)
    assert kinds(graph) == ([] if leases else ["RolledBack"])
    assert_writable(graph, ["draft"])


# 7 ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("touched", [False, True], ids=["inherited", "forked"])
@pytest.mark.usefixtures("leases")
def test_race_07_a_staged_load_does_not_survive_its_branch(tmp_path: Path, touched: bool) -> None:
    root = tmp_path / "g"
    graph = prepared(root, "first_touch")
    if touched:
        insert(graph, "cleo", "draft")()
    staged = graph.stage([node("Person", name="late")], mode="append", branch="draft")
    graph.delete_branch("draft")
    graph.create_branch("draft")
    if touched:
        insert(graph, "cleo", "draft")()
    before, version = rows(graph, "draft"), graph.snapshot(branch="draft").manifest_version

    with pytest.raises(errors.Conflict, match="created again"):
        graph.publish(staged)

    assert rows(graph, "draft") == before
    assert graph.snapshot(branch="draft").manifest_version == version
    assert_settled(graph)


@pytest.mark.parametrize("operation", ["first_touch", "first_touch_many"])
@pytest.mark.parametrize("point", ["mutation.post_stage_pre_gates", AFTER_EFFECTS, "publish.before_merge"])
@pytest.mark.usefixtures("leases")
def test_race_07_a_paused_write_finds_another_branch_of_its_name(tmp_path: Path, operation: str, point: str) -> None:
    """It may write to the new branch only after looking at it; nothing of the old one comes with it."""
    root = tmp_path / "g"
    graph = prepared(root, operation)
    other = og.connect(root)
    with paused(point, lambda: OPERATIONS[operation](graph)) as (writer, pause):
        other.delete_branch("draft")
        insert(other, "dora")()
        other.create_branch("draft")
        before = rows(other, "draft")
        resumed(writer, pause)

    graph = settled(root)
    assert rows(graph, "draft") == expected_after(operation, before)
    assert names(graph) == ["ann", "bob", "dora"]
    assert_writable(graph, ["draft"])


@pytest.mark.usefixtures("leases")
def test_race_07_a_dead_write_does_not_come_back_on_another_branch_of_its_name(tmp_path: Path) -> None:
    root = tmp_path / "g"
    graph = prepared(root, "first_touch")
    abandon(AFTER_EFFECTS, lambda: OPERATIONS["first_touch"](graph))
    graph.delete_branch("draft")
    graph.create_branch("draft")

    graph = reopened(root)

    assert names(graph, "draft") == ["ann", "bob"]
    assert kinds(graph) == ["OrphanedBranchDiscarded"]
    assert_writable(graph, ["draft"])


# 8 ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("point", ["publish.after_merge", "journal.before_append"])
@pytest.mark.usefixtures("leases")
def test_race_08_the_journal_has_no_hole(tmp_path: Path, point: str) -> None:
    root = tmp_path / "g"
    graph = seeded(root)
    other = og.connect(root)
    with paused("mutation.post_stage_pre_gates", insert_team(other, "blue")) as (second, pause):
        abandon(point, insert(graph, "cleo"))
        assert len(log(root, "_graph_commits.lance")) == 2
        resumed(second, pause)
    assert len(log(root, "_graph_commits.lance")) == 4

    graph = reopened(root)
    assert (names(graph), names(graph, kind="Team")) == (["ann", "bob", "cleo"], ["blue", "red"])
    assert kinds(graph) == ["RolledForward"]
    assert len(graph.commits()) == 4


@pytest.mark.usefixtures("leases")
def test_race_08_a_branch_made_before_the_journal_follows_shares_the_commit(tmp_path: Path) -> None:
    root = tmp_path / "g"
    graph = seeded(root)
    other = og.connect(root)
    with paused("journal.before_append", insert(graph, "cleo")) as (writer, pause):
        other.create_branch("draft")
        insert(other, "dora", "draft")()
        resumed(writer, pause)

    graph = settled(root)
    assert names(graph, "draft") == ["ann", "bob", "cleo", "dora"]
    assert len(graph.commits()) == 3
    assert len(graph.commits("draft")) == 4


@pytest.mark.usefixtures("leases")
def test_race_08_the_journal_says_where_a_commit_landed_whoever_records_it(tmp_path: Path) -> None:
    """Upkeep adds versions to the manifest that publish nothing; a commit recorded after them is still the same commit."""
    root = tmp_path / "g"
    graph = seeded(root)
    other = og.connect(root)
    with paused("journal.before_append", insert(graph, "cleo")) as (writer, pause):
        landed = other.snapshot().manifest_version
        open_manifest(root).update_schema_metadata({"upkeep": "yes"})
        assert og.connect(root, read_only=True).commits()[0].manifest_version == landed
        insert_team(other, "blue")()
        resumed(writer, pause)

    graph = settled(root)
    assert graph.commits()[1].manifest_version == landed


# 9 ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("left_at", [BEFORE_EFFECTS, "write.post_table_commit@1"])
@pytest.mark.parametrize("held_at", ["recovery.record_audit", "recovery.before_sidecar_delete"])
@pytest.mark.usefixtures("leases")
def test_race_09_a_rollback_is_audited_once(tmp_path: Path, left_at: str, held_at: str) -> None:
    root = tmp_path / "g"
    graph = prepared(root, "nodes")
    before = rows(graph)
    abandon(left_at, lambda: OPERATIONS["nodes"](graph))
    abandon(held_at, lambda: og.connect(root))  # a crash inside the roll back
    with paused(held_at, lambda: og.connect(root)) as (first, pause):
        og.connect(root)
        resumed(first, pause)

    graph = settled(root)
    assert rows(graph) == before
    assert kinds(graph) == ["RolledBack"]
    assert_writable(graph)


@pytest.mark.usefixtures("no_leases")
def test_race_09_two_recoverers_that_both_found_no_audit_row(tmp_path: Path) -> None:
    root = tmp_path / "g"
    graph = prepared(root, "nodes")
    abandon(BEFORE_EFFECTS, lambda: OPERATIONS["nodes"](graph))
    openers = []
    with failpoints.pause("recovery.record_audit", 1) as one, failpoints.pause("recovery.record_audit", 2) as two:
        openers = [Writer(lambda: og.connect(root)) for _ in range(2)]
        assert one.reached.wait(60)
        assert two.reached.wait(60)
        one.resume.set()
        two.resume.set()
        for opener in openers:
            opener.join()

    assert kinds(settled(root)) == ["RolledBack"]


# 10 -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("operation", ["insert", "update", "many", "first_touch"])
@pytest.mark.usefixtures("leases")
def test_race_10_a_schema_change_begins_behind_a_writer(tmp_path: Path, operation: str) -> None:
    root = tmp_path / "g"
    graph = prepared(root, operation)
    branch, before = branch_of(operation), rows(graph)
    moved = heads(graph)
    with paused("mutation.post_stage_pre_gates", lambda: OPERATIONS[operation](graph)) as (writer, pause):
        reserve_branch(root, "__schema_apply_lock__")
        with pytest.raises(errors.Conflict) as refused:
            resumed(writer, pause)
    assert refused.value.reason == "schema apply"
    assert (rows(graph, branch), heads(graph), sidecars(root)) == (before, moved, [])

    record_place(root, "__schema_apply_lock__").unlink()
    OPERATIONS[operation](graph)
    assert rows(graph, branch) == expected_after(operation, before)
    assert_settled(graph)


# 11 -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("action", ["error", "interrupt"])
@pytest.mark.parametrize("operation", ["insert", "many", "first_touch_many"])
@pytest.mark.usefixtures("leases")
def test_race_11_an_exception_is_undone_at_once(tmp_path: Path, operation: str, action: str) -> None:
    for point in (BEFORE_EFFECTS, "write.post_table_commit", AFTER_EFFECTS, "publish.before_merge"):
        root = tmp_path / point
        graph = prepared(root, operation)
        branch, before = branch_of(operation), rows(graph)
        expected = errors.Storage if action == "error" else KeyboardInterrupt
        with armed(f"{point}={action}@1"), pytest.raises(expected):
            OPERATIONS[operation](graph)

        assert_settled(og.connect(root, read_only=True))
        assert rows(graph, branch) == before
        OPERATIONS[operation](graph)
        assert rows(graph, branch) == expected_after(operation, before)
        assert kinds(graph) == ["RolledBack"]
        assert_settled(graph)


@pytest.mark.usefixtures("leases")
def test_race_11_an_interrupt_after_the_publish_is_passed_on_and_the_write_stands(tmp_path: Path) -> None:
    root = tmp_path / "g"
    graph = seeded(root)
    for turn, point in enumerate(("publish.after_merge", "journal.before_append", "write.before_sidecar_delete")):
        with armed(f"{point}=interrupt@1"), pytest.raises(KeyboardInterrupt):
            insert(graph, f"c{turn}")()
        assert_settled(og.connect(root, read_only=True))

    assert names(settled(root)) == ["ann", "bob", "c0", "c1", "c2"]
    assert kinds(graph) == []


@pytest.mark.usefixtures("no_leases")
def test_race_11_an_undo_does_not_take_away_what_others_published(tmp_path: Path) -> None:
    """The table was published above our version while we were undoing it."""
    root = tmp_path / "g"
    graph = seeded(root)
    other = og.connect(root)
    with paused(BEFORE_EFFECTS, insert(graph, "cleo")) as (loser, pause):
        insert(other, "dora")()
        resumed(loser, pause)  # lands on the other's version, undoes that, and comes again

    graph = settled(root)
    assert names(graph) == ["ann", "bob", "cleo", "dora"]
    assert kinds(graph) == ["RolledBack"]


# 12 -----------------------------------------------------------------------------------------------------------------

CUTS = [
    "write.sidecar_write",
    BEFORE_EFFECTS,
    "write.post_fork_pre_commit@1",
    "write.post_table_commit@1",
    "write.post_fork_pre_commit@2",
    "write.post_table_commit@2",
    AFTER_EFFECTS,
    "publish.before_merge",
    "publish.after_merge",
    "journal.before_append",
    "write.before_sidecar_delete",
]
VISIBLE_FROM = CUTS.index("write.post_table_commit@2")


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.usefixtures("leases")
def test_race_12_a_first_touch_cut_after_every_durable_write(tmp_path: Path, cut: str) -> None:
    root = tmp_path / "g"
    graph = prepared(root, "first_touch_many")
    before = rows(graph)
    abandon(cut, lambda: OPERATIONS["first_touch_many"](graph))

    graph = reopened(root)

    came = CUTS.index(cut) >= VISIBLE_FROM
    assert rows(graph, "draft") == (expected_after("first_touch_many", before) if came else before)
    assert rows(graph) == before
    assert_writable(graph, ["draft", "main"])


# What a write relied on ---------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("leases")
def test_recovery_does_not_finish_a_write_whose_ground_has_gone(tmp_path: Path) -> None:
    """An edge was written but not published; then the node it leads to was deleted by a writer that had begun earlier."""
    root = tmp_path / "g"
    graph = seeded(root)
    insert(graph, "zed")()
    other = og.connect(root)
    remove = 'query q() { delete Person where name = "zed" }'
    with paused("mutation.post_stage_pre_gates", lambda: other.mutate(remove)) as (writer, pause):
        abandon(AFTER_EFFECTS, lambda: graph.mutate('query q() { insert Knows { from: "ann", to: "zed" } }', actor="op"))
        resumed(writer, pause)

    graph = reopened(root)
    assert names(graph) == ["ann", "bob"]
    assert names(graph, kind="Knows") == ["k1"], "an edge leads nowhere"
    assert kinds(graph) == ["RolledBack"]
    assert_writable(graph)
