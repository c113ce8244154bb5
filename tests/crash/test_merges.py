"""Merges, reverts, picks and restores, interrupted at every failpoint: all of it or nothing, as a commit of two parents."""

from pathlib import Path
from typing import Any, NamedTuple

import pytest

import omnigraph_sql as og
from omnigraph_sql import errors
from omnigraph_sql.manifest.relations import relations
from tests.crash.racing import paused, resumed
from tests.crash.world import (
    DIED,
    INSERT,
    OPERATIONS,
    RECOVERY,
    Rows,
    armed,
    assert_settled,
    assert_writable,
    audit,
    diverged,
    first_parents,
    kinds,
    reopened,
    rows,
    run_child,
    sidecars,
)

MERGES = ["branch_merge", "branch_merge_down", "revert", "pick", "restore"]


class State(NamedTuple):
    """What a branch shows."""

    rows: Rows
    relations: list[tuple[object, ...]]
    commits: int


class Fate(NamedTuple):
    """What an interrupted merge leaves, once the graph was reopened."""

    visible: bool
    audited: str | None = None
    by_recovery: bool = False


BEFORE = Fate(visible=False)
UNDONE = Fate(visible=False, audited="RolledBack")
DONE = Fate(visible=True)
FOUND = Fate(visible=True, audited="RolledForward")
FINISHED = Fate(visible=True, audited="RolledForward", by_recovery=True)

ON_EXIT = {
    "mutation.post_stage_pre_gates": BEFORE,
    "write.sidecar_write": BEFORE,
    "write.post_sidecar_pre_effect": UNDONE,
    "write.post_table_commit": UNDONE,
    "merge.between_tables": UNDONE,
    "merge.between_tables@2": UNDONE,
    "merge.post_effects_pre_publish": FINISHED,
    "publish.before_merge": FINISHED,
    "publish.after_merge": FOUND,
    "journal.before_append": FOUND,
    "write.before_sidecar_delete": FOUND,
}
ON_ERROR = {
    "mutation.post_stage_pre_gates": BEFORE,
    "write.post_sidecar_pre_effect": UNDONE,
    "merge.between_tables": UNDONE,
    "merge.between_tables@3": UNDONE,
    "merge.post_effects_pre_publish": UNDONE,
    "publish.before_merge@1": UNDONE,
    "publish.after_merge": DONE,
    "journal.before_append": DONE,
    "write.before_sidecar_delete": DONE,
}


def branch_of(operation: str) -> str:
    return "draft" if operation == "branch_merge_down" else "main"


def state(graph: og.Graph, branch: str) -> State:
    shown: list[tuple[object, ...]] = [
        (each.kind, each.name, each.row_count) for each in relations(graph.snapshot(branch=branch))
    ]
    undone = sum((commit.message or "").startswith("undo of ") for commit in graph.commits(branch))
    return State(rows(graph, branch), shown, len(first_parents(graph, branch)) - undone)


def states(graph: og.Graph) -> dict[str, State]:
    return {branch: state(graph, branch) for branch in graph.branches()}


def rehearsed(root: Path, operation: str) -> State:
    """What the branch shows after the operation, in a graph where nothing goes wrong."""
    graph = diverged(root)
    OPERATIONS[operation](graph)
    assert_settled(graph)
    return state(graph, branch_of(operation))


def check(root: Path, operation: str, fate: Fate, before: dict[str, State], after: State) -> og.Graph:
    graph = reopened(root)
    branch = branch_of(operation)
    assert states(graph) == before | {branch: after if fate.visible else before[branch]}
    assert kinds(graph) == ([fate.audited] if fate.audited else [])
    if fate.audited:
        assert audit(graph)[0]["recovery_for_actor"] == "op"
    if fate.visible:
        commit = graph.commits(branch)[0]
        assert commit.actor_id == (RECOVERY if fate.by_recovery else "op")
        assert (len(commit.parents), commit.origin_commit_id is None) == (
            (2, True) if operation.startswith("branch") else (1, False)
        )
        repeated: Any = OPERATIONS[operation](graph)
        assert repeated.outcome == "already_up_to_date"
    else:
        OPERATIONS[operation](graph)
    assert state(graph, branch) == after
    assert_writable(graph, [branch])
    return graph


CASES = [(operation, point) for operation in MERGES for point in ON_EXIT]


@pytest.mark.parametrize(("operation", "point"), CASES)
def test_a_death(tmp_path: Path, operation: str, point: str) -> None:
    root = tmp_path / "g"
    before = states(diverged(root))
    name, at, nth = point.partition("@")

    assert run_child(root, operation, f"{name}=exit{at}{nth}") == DIED

    check(root, operation, ON_EXIT[point], before, rehearsed(tmp_path / "other", operation))


@pytest.mark.parametrize(("operation", "point"), [(operation, point) for operation in MERGES for point in ON_ERROR])
def test_an_error(tmp_path: Path, operation: str, point: str) -> None:
    root = tmp_path / "g"
    graph = diverged(root)
    before, after = states(graph), rehearsed(tmp_path / "other", operation)
    name, at, nth = point.partition("@")
    fate, branch = ON_ERROR[point], branch_of(operation)

    with armed(f"{name}=error{at}{nth}"):
        if fate.visible:
            OPERATIONS[operation](graph)
        else:
            with pytest.raises(errors.Storage, match="failpoint"):
                OPERATIONS[operation](graph)

    assert sidecars(root) == []
    assert_settled(graph)
    assert states(graph) == before | {branch: after if fate.visible else before[branch]}
    check(root, operation, fate, before, after)


RECOVERY_POINTS = ["recovery.post_restore_pre_publish", "recovery.record_audit", "recovery.before_sidecar_delete"]


@pytest.mark.parametrize("operation", MERGES)
@pytest.mark.parametrize("point", RECOVERY_POINTS)
def test_a_death_while_a_merge_is_undone(tmp_path: Path, operation: str, point: str) -> None:
    root = tmp_path / "g"
    before = states(diverged(root))
    assert run_child(root, operation, "merge.between_tables=exit") == DIED
    for _ in range(2):
        assert run_child(root, "open", OMNIGRAPH_FAILPOINTS=f"{point}=exit") == DIED

    check(root, operation, UNDONE, before, rehearsed(tmp_path / "other", operation))


@pytest.mark.parametrize("operation", MERGES)
@pytest.mark.parametrize("point", ["publish.before_merge", "publish.after_merge", *RECOVERY_POINTS[1:]])
def test_a_death_while_a_merge_is_finished(tmp_path: Path, operation: str, point: str) -> None:
    root = tmp_path / "g"
    before = states(diverged(root))
    assert run_child(root, operation, "merge.post_effects_pre_publish=exit") == DIED
    assert run_child(root, "open", OMNIGRAPH_FAILPOINTS=f"{point}=exit") == DIED

    check(root, operation, FINISHED, before, rehearsed(tmp_path / "other", operation))


def test_invariant_43_a_merge_that_recovery_finished_is_up_to_date_and_goes_on(tmp_path: Path) -> None:
    root = tmp_path / "g"
    diverged(root)
    assert run_child(root, "branch_merge", "merge.post_effects_pre_publish=exit") == DIED

    graph = reopened(root)

    commit = graph.commits()[0]
    assert commit.merged_parent_commit_id == graph.snapshot(branch="draft").commit_id
    assert commit.message == "both"
    assert graph.merge("draft").outcome == "already_up_to_date"
    graph.mutate(INSERT, params={"name": "late"}, branch="draft")
    again = graph.merge("draft")
    assert {key: counts.inserts for key, counts in again.changes.items()} == {"node:Person": 1}
    assert graph.merge("main", "draft").outcome == "fast_forward"
    assert rows(graph) == rows(graph, "draft")


def test_a_merge_that_was_undone_leaves_room_for_others_and_succeeds_later(tmp_path: Path) -> None:
    """The target moves between the crash and the recovery; what was decided for the old state must not be published."""
    root = tmp_path / "g"
    graph = diverged(root)
    with paused("merge.post_effects_pre_publish", lambda: graph.merge("draft")) as (writer, pause):
        other = og.connect(root)
        other.load(['{"type": "Place", "data": {"slug": "here"}}'], mode="append")
        result = resumed(writer, pause)

    assert result.outcome == "merged"
    assert rows(graph)["Place"] == [{"id": "here", "slug": "here"}]
    assert len(rows(graph)["Person"]) == 4
    assert_settled(reopened(root))
