"""Every failpoint, as an error in a living process and as the death of a real one, under every kind of write.

What the graph shows after reopening is stated exactly for each case: the rows from before or from after the operation, never
"one of the two".
"""

import json
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import lance
import pyarrow as pa
import pytest

import omnigraph_sql as og
from omnigraph_sql import errors, failpoints
from omnigraph_sql.manifest.snapshot import Entry
from tests.crash.racing import paused, resumed, wait_stopped
from tests.crash.world import (
    ACTOR,
    DIED,
    INSERT,
    OPERATIONS,
    RECOVERY,
    SCHEMA,
    TOUCHED,
    Rows,
    abandon,
    armed,
    assert_settled,
    assert_writable,
    audit,
    branch_of,
    expected_after,
    heads,
    kinds,
    log,
    names,
    node,
    pins,
    place_of,
    prepared,
    reopened,
    rows,
    run_child,
    seeded,
    sidecars,
    spawn,
    table_branches,
)
from tests.manifests import open_manifest

SOURCES = Path(og.__file__).parent
HIT = re.compile(r'failpoints\.(?:hit|fires)\("([a-z_.]+)"\)')
DOCUMENTED = Path(__file__).parents[2] / "docs" / "maintainers" / "writes.md"

WRITES = ["insert", "update", "delete", "append", "merge", "overwrite", "many", "many_merge", "many_overwrite"]
FIRST_TOUCHES = ["first_touch", "first_touch_many"]


class Case(NamedTuple):
    """What a write that stopped at a failpoint leaves, once the graph was reopened."""

    visible: bool
    """Whether the rows are there."""
    audited: str | None
    """The audit row, if there must be one."""
    by_recovery: bool = False
    """Whether recovery published the commit, so that it is the actor."""


BEFORE = Case(visible=False, audited=None)
UNDONE = Case(visible=False, audited="RolledBack")
FINISHED = Case(visible=True, audited="RolledForward", by_recovery=True)
FOUND = Case(visible=True, audited="RolledForward")
DONE = Case(visible=True, audited=None)

# After the death of the process.
ON_EXIT: dict[str, Case] = {
    "storage.object_list": BEFORE,
    "mutation.post_stage_pre_gates": BEFORE,
    "write.sidecar_write": BEFORE,
    "storage.object_write": BEFORE,
    "write.post_sidecar_pre_effect": UNDONE,
    "write.post_effects_pre_publish": FINISHED,
    "publish.before_merge": FINISHED,
    "publish.after_merge": FOUND,
    "journal.before_append": FOUND,
    "write.before_sidecar_delete": FOUND,
    "storage.object_delete": FOUND,
}

# After an error in a process that goes on living. The operation settles itself: nothing is left to recover, except where the
# sidecar could not be deleted.
ON_ERROR: dict[str, Case] = {
    "storage.object_list": BEFORE,
    "mutation.post_stage_pre_gates": BEFORE,
    "write.sidecar_write": BEFORE,
    "storage.object_write": BEFORE,
    "write.post_sidecar_pre_effect": UNDONE,
    "write.post_table_commit": UNDONE,
    "write.post_effects_pre_publish": UNDONE,
    "publish.before_merge@1": UNDONE,
    "publish.after_merge": DONE,
    "journal.before_append": DONE,
    "write.before_sidecar_delete": DONE,
    "storage.object_delete": FOUND,
}

ELSEWHERE = {
    "write.post_table_commit",
    "write.post_fork_pre_commit",
    "copy.after_claim",
    "copy.before_files",
    "copy.after_files",
    "copy.before_state",
    "copy.after_state",
    "init.after_claim",
    "init.after_schema_written",
    "init.after_contract_written",
    "init.after_manifest",
    "branch_create.before_record",
    "branch_create.after_ref",
    "branch_delete.before_record",
    "branch_delete.after_ref",
    "branch_delete.before_table_cleanup",
    "recovery.post_restore_pre_publish",
    "recovery.record_audit",
    "recovery.before_sidecar_delete",
    "publish.force_contention",
    "fork.ref_exists",
    "fork.before_reclaim",
    "classify.fresh_read",
    "stamp.after_records",
    "stamp.after_identity",
    "stamp.after_annotation",
    "stamp.after_run_branches",
    "pipeline.pre_note",
    "pipeline.post_target",
    "pipeline.post_stage",
    "pipeline.during_tests",
    "pipeline.post_tests_pre_publish",
    "remote.before_publish",
    "remote.after_publish",
    "cleanup.resolve_branch_snapshot",
    "cleanup.reconcile_fork",
    "cleanup.table_gc",
    "cleanup.after_note",
    "tag.before_merge",
    "merge.post_authority_capture",
    "merge.between_tables",
    "merge.post_effects_pre_publish",
}
"""Failpoints with tests of their own, below or in the files beside and under tests/invariants, pipeline and spark."""


def rule(point: str, action: str) -> str:
    name, at, nth = point.partition("@")
    return f"{name}={action}{at}{nth}"


def assert_case(root: Path, operation: str, case: Case, before: Rows) -> None:
    graph = reopened(root)
    branch = branch_of(operation)
    after = expected_after(operation, before)

    assert rows(graph, branch) == (after if case.visible else before)
    if branch != "main":
        assert rows(graph) == before, "main shows a write of another branch"
    assert kinds(graph) == ([case.audited] if case.audited else [])
    if case.audited:
        assert audit(graph)[0]["recovery_for_actor"] == "op"
    if case.visible:
        commit = graph.commits(branch)[0]
        assert commit.actor_id == (RECOVERY if case.by_recovery else "op")
        assert [row["graph_commit_id"] for row in audit(graph)] == ([commit.graph_commit_id] if case.audited else [])
    assert_writable(graph, [branch])


def exits(root: Path, operation: str, point: str, case: Case) -> None:
    before = rows(prepared(root, operation))

    assert run_child(root, operation, rule(point, "exit")) == DIED

    assert_case(root, operation, case, before)


def fails(root: Path, operation: str, point: str, case: Case) -> None:
    graph = prepared(root, operation)
    before = rows(graph)

    with armed(rule(point, "error")):
        if case.visible:
            OPERATIONS[operation](graph)
        else:
            with pytest.raises(errors.Storage, match="failpoint"):
                OPERATIONS[operation](graph)

    if case is not FOUND:
        assert sidecars(root) == []
        assert_settled(graph)
        assert rows(graph, branch_of(operation)) == (expected_after(operation, before) if case.visible else before)
    assert_case(root, operation, case, before)


# In a living process ---------------------------------------------------------------------------------------------


_TELLING = ("write.post_table_commit", "write.post_effects_pre_publish", "publish.after_merge")
_ERRORS = [
    (operation, point)
    for operation in [*WRITES, *FIRST_TOUCHES]
    for point in ON_ERROR
    if operation in ("insert", "delete", "many", "overwrite", "first_touch_many") or point in _TELLING
]
_MORE_ERRORS = [
    (operation, point) for operation in [*WRITES, *FIRST_TOUCHES] for point in ON_ERROR if (operation, point) not in _ERRORS
]


@pytest.mark.parametrize(
    ("operation", "point"), [*_ERRORS, *(pytest.param(*pair, marks=pytest.mark.slow) for pair in _MORE_ERRORS)]
)
def test_an_error(tmp_path: Path, operation: str, point: str) -> None:
    fails(tmp_path / "g", operation, point, ON_ERROR[point])


@pytest.mark.parametrize("operation", FIRST_TOUCHES)
def test_an_error_after_a_fork(tmp_path: Path, operation: str) -> None:
    fails(tmp_path / "g", operation, "write.post_fork_pre_commit", UNDONE)


@pytest.mark.parametrize("operation", ["delete", "many", "many_merge", "many_overwrite", "first_touch_many"])
def test_an_error_between_tables_and_after_the_last(tmp_path: Path, operation: str) -> None:
    for turn in range(1, len(TOUCHED[operation]) + 1):
        fails(tmp_path / str(turn), operation, f"write.post_table_commit@{turn}", UNDONE)


def test_an_undone_write_succeeds_when_repeated_in_the_same_process(tmp_path: Path) -> None:
    for point in ("write.post_table_commit", "write.post_effects_pre_publish", "publish.before_merge@1"):
        for operation in ("update", "many", "first_touch_many"):
            root = tmp_path / f"{operation}-{point}"
            graph = prepared(root, operation)
            before = rows(graph)
            with armed(rule(point, "error")), pytest.raises(errors.Storage):
                OPERATIONS[operation](graph)

            OPERATIONS[operation](graph)

            assert rows(graph, branch_of(operation)) == expected_after(operation, before)
            assert_settled(graph)


def test_a_sidecar_that_could_not_be_deleted_is_healed_by_the_next_write(tmp_path: Path) -> None:
    graph = seeded(tmp_path / "g")
    with armed("storage.object_delete=error"):
        graph.mutate(INSERT, params={"name": "cleo"})
    assert len(sidecars(tmp_path / "g")) == 1

    graph.mutate(INSERT, params={"name": "dora"})

    assert names(graph) == ["ann", "bob", "cleo", "dora"]
    assert kinds(graph) == ["RolledForward"]
    assert_settled(graph)


def test_a_failing_list_stops_opening_and_writing_but_not_reading(tmp_path: Path) -> None:
    graph = seeded(tmp_path / "g")
    with armed("storage.object_list=error"):
        entries: list[Callable[[], object]] = [
            lambda: og.connect(tmp_path / "g"),
            lambda: OPERATIONS["insert"](graph),
            graph.refresh,
        ]
        for entry in entries:
            with pytest.raises(errors.Storage, match=r"storage\.object_list"):
                entry()
        reader = og.connect(tmp_path / "g", read_only=True)
        assert names(reader) == ["ann", "bob"]

    assert_writable(graph)


# In a process that dies ------------------------------------------------------------------------------------------

_SHORT = [("insert", point) for point in ON_EXIT] + [
    (operation, point)
    for operation in ("delete", "many", "first_touch_many")
    for point in ("write.post_sidecar_pre_effect", "write.post_effects_pre_publish", "publish.after_merge")
]
_LONG = [
    (operation, point) for operation in [*WRITES, *FIRST_TOUCHES] for point in ON_EXIT if (operation, point) not in _SHORT
]


@pytest.mark.parametrize(("operation", "point"), [*_SHORT, *(pytest.param(*pair, marks=pytest.mark.slow) for pair in _LONG)])
def test_a_death(tmp_path: Path, operation: str, point: str) -> None:
    exits(tmp_path / "g", operation, point, ON_EXIT[point])


@pytest.mark.parametrize(
    ("operation", "turn"),
    [
        ("insert", 1),
        ("delete", 2),
        ("overwrite", 1),
        ("many", 1),
        ("many", 3),
        ("many", 4),
        ("many_merge", 1),
        ("many_overwrite", 1),
        ("first_touch", 1),
        ("first_touch_many", 1),
        *(pytest.param(*pair, marks=pytest.mark.slow) for pair in [("update", 1), ("append", 1), ("merge", 1)]),
        *(pytest.param("delete", turn, marks=pytest.mark.slow) for turn in (1, 3)),
        *(pytest.param(name, 2, marks=pytest.mark.slow) for name in ("many", "many_merge", "many_overwrite")),
        pytest.param("first_touch_many", 2, marks=pytest.mark.slow),
    ],
)
def test_a_death_between_tables_and_after_the_last(tmp_path: Path, operation: str, turn: int) -> None:
    """With every table moved the operation is finished; with fewer it is undone."""
    last = turn == len(TOUCHED[operation])

    exits(tmp_path / "g", operation, f"write.post_table_commit@{turn}", FINISHED if last else UNDONE)


@pytest.mark.parametrize(("operation", "turn"), [("first_touch", 1), ("first_touch_many", 2)])
def test_a_death_after_a_fork(tmp_path: Path, operation: str, turn: int) -> None:
    exits(tmp_path / "g", operation, f"write.post_fork_pre_commit@{turn}", UNDONE)


def test_a_death_while_opening(tmp_path: Path) -> None:
    root = tmp_path / "g"
    seeded(root)
    for point in ("storage.object_list", "storage.object_delete"):
        assert run_child(root, "insert", OMNIGRAPH_FAILPOINTS=f"{point}=exit") == DIED

    graph = reopened(root)
    assert names(graph) == ["ann", "bob"]
    assert kinds(graph) == []
    assert_writable(graph)


# A fork that is there already ----------------------------------------------------------------------------------------


def fork_beforehand(root: Path) -> tuple[str, str]:
    """Make the fork that a held operation is about to make, as a create leaves it that failed after its work was done."""
    (table,) = json.loads(sidecars(root)[0].read_text("utf-8"))["tables"]
    lance.dataset(str(root / table["table_path"])).create_branch(table["table_branch"], table["fork_from"][1])
    return table["table_path"], table["table_branch"]


FORK_POINTS = ["fork.ref_exists", "classify.fresh_read", "fork.before_reclaim"]
HELD = "write.post_sidecar_pre_effect"


def test_a_fork_left_by_a_create_that_failed_is_removed_and_made_again(tmp_path: Path) -> None:
    root = tmp_path / "g"
    graph = prepared(root, "first_touch")
    before = rows(graph)
    with paused(HELD, lambda: OPERATIONS["first_touch"](graph)) as (writer, pause):
        path, name = fork_beforehand(root)
        resumed(writer, pause)

    assert rows(graph, "draft") == expected_after("first_touch", before)
    assert table_branches(root, path) == [name]
    assert kinds(graph) == []
    assert_settled(graph)


@pytest.mark.parametrize("point", FORK_POINTS)
def test_an_error_over_a_fork_that_exists_is_undone(tmp_path: Path, point: str) -> None:
    root = tmp_path / "g"
    graph = prepared(root, "first_touch")
    before = rows(graph)
    with paused(HELD, lambda: OPERATIONS["first_touch"](graph)) as (writer, pause):
        fork_beforehand(root)
        with armed(f"{point}=error"), pytest.raises(errors.OmnigraphError, match="failpoint") as raised:
            resumed(writer, pause)
    if point == "classify.fresh_read":
        assert isinstance(raised.value, errors.Conflict)
        assert raised.value.reason == "indeterminate"
    assert_settled(graph)

    assert_case(root, "first_touch", UNDONE, before)


@pytest.mark.parametrize("point", FORK_POINTS)
def test_a_death_over_a_fork_that_exists_is_undone(tmp_path: Path, point: str) -> None:
    root = tmp_path / "g"
    before = rows(prepared(root, "first_touch"))
    process = spawn(root, "first_touch", f"{HELD}=stop,{point}=exit")
    wait_stopped(process)
    path, name = fork_beforehand(root)
    process.send_signal(signal.SIGCONT)
    _, complaints = process.communicate(timeout=120)
    assert process.returncode == DIED, complaints
    assert table_branches(root, path) == [name], "nothing is removed before it is certain whose it is"

    assert_case(root, "first_touch", UNDONE, before)


def test_a_fork_that_the_manifest_shows_is_never_removed(tmp_path: Path) -> None:
    """Two operations would need the same random name for this; even then no data is lost."""
    root = tmp_path / "g"
    graph = prepared(root, "first_touch")
    with paused(HELD, lambda: OPERATIONS["first_touch"](graph)) as (writer, pause):
        path, name = fork_beforehand(root)
        show(root, graph.snapshot(branch="draft").entry("node:Person"), name)
        resumed(writer, pause)

    assert names(graph, "draft") == ["ann", "bob", "cleo", "shown"]
    assert table_branches(root, path) == [name]
    assert sidecars(root) == []


def show(root: Path, entry: Entry, fork: str) -> None:
    """Write a row on a fork and make it visible on `draft`, past the engine."""
    place = str(root / entry.path / "tree" / fork)
    schema = lance.dataset(place).schema
    row = {field.name: None for field in schema} | {"id": "shown", "name": "shown"}
    written: Any = lance.write_dataset(pa.Table.from_pylist([row], schema=schema), place, mode="append")
    manifest = open_manifest(root, "draft")
    pin = {
        "object_id": f"{entry.table_key}${written.version:020d}",
        "object_type": "table_version",
        "table_key": entry.table_key,
        "metadata": json.dumps({"transaction_uuid": written.read_transaction(written.version).uuid}),
        "table_version": written.version,
        "table_branch": fork,
        "row_count": written.count_rows(),
    }
    lance.write_dataset(pa.Table.from_pylist([pin], schema=manifest.schema), manifest, mode="append")


# Contention ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("times", "case"), [(1, DONE), (5, DONE), (6, UNDONE)])
@pytest.mark.parametrize("operation", ["insert", "many", "first_touch_many"])
def test_forced_contention(tmp_path: Path, operation: str, times: int, case: Case) -> None:
    """Lost up to five times nobody notices; once more is a conflict, and the write is undone."""
    root = tmp_path / "g"
    graph = prepared(root, operation)
    before = rows(graph)
    with armed(f"publish.force_contention=times({times})"):
        if case.visible:
            OPERATIONS[operation](graph)
        else:
            with pytest.raises(errors.Conflict) as lost:
                OPERATIONS[operation](graph)
            assert lost.value.reason == "contention"
    assert_settled(graph)

    assert_case(root, operation, case, before)


# Init ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "point", ["init.after_schema_written", "init.after_contract_written", "storage.object_write", "storage.object_write@3"]
)
def test_an_error_in_init_leaves_nothing_and_init_can_be_repeated(tmp_path: Path, point: str) -> None:
    root = tmp_path / "g"
    with armed(rule(point, "error")), pytest.raises(errors.Storage, match="failpoint"):
        og.init(root, SCHEMA)

    assert [path for path in root.rglob("*") if path.is_file()] == []
    assert_writable_after_init(og.init(root, SCHEMA, actor=ACTOR))


@pytest.mark.parametrize("action", ["error", "exit"])
def test_init_interrupted_after_the_manifest_gives_a_graph(tmp_path: Path, action: str) -> None:
    root = tmp_path / "g"
    if action == "exit":
        assert run_child(root, "init", OMNIGRAPH_FAILPOINTS="init.after_manifest=exit") == DIED
    else:
        with armed("init.after_manifest=error"), pytest.raises(errors.Storage, match="failpoint"):
            og.init(root, SCHEMA, actor=ACTOR)

    with pytest.raises(errors.AlreadyInitialized):
        og.init(root, SCHEMA)
    graph = reopened(root)
    assert [commit.actor_id for commit in graph.commits()] == [ACTOR]
    assert_writable_after_init(graph)
    with pytest.raises(errors.AlreadyInitialized):
        og.init(root, SCHEMA, force=True)


def assert_writable_after_init(graph: og.Graph) -> None:
    assert rows(graph) == {}
    assert not (place_of(graph) / "__init_claim.json").exists()
    graph.load([node("Person", name="bob")], mode="append")
    assert_writable(graph)


# Branches --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("action", ["error", "exit"])
def test_a_branch_whose_creation_was_interrupted_exists(tmp_path: Path, action: str) -> None:
    root = tmp_path / "g"
    graph = seeded(root)
    if action == "exit":
        assert run_child(root, "create_branch", "branch_create.after_ref=exit") == DIED
    else:
        with armed("branch_create.after_ref=error"), pytest.raises(errors.Storage, match="failpoint"):
            graph.create_branch("new")

    graph = reopened(root)
    assert graph.branches() == ["main", "new"]
    assert rows(graph, "new") == rows(graph)
    assert_writable(graph, ["new", "main"])
    graph.delete_branch("new")
    graph.create_branch("new")
    assert rows(graph, "new") == rows(graph)


@pytest.mark.parametrize("action", ["error", "exit"])
@pytest.mark.parametrize("point", ["branch_delete.after_ref", "branch_delete.before_table_cleanup"])
def test_a_branch_whose_deletion_was_interrupted_is_gone(tmp_path: Path, point: str, action: str) -> None:
    root = tmp_path / "g"
    graph = prepared(root, "delete_branch")
    OPERATIONS["first_touch_many"](graph)
    if action == "exit":
        assert run_child(root, "delete_branch", rule(point, "exit")) == DIED
    else:
        with armed(rule(point, "error")), pytest.warns(UserWarning, match="`draft` is deleted, but .* failpoint"):
            graph.delete_branch("draft")
        assert graph.branches() == ["main"]

    for _ in range(2):
        graph = og.connect(root)
        assert graph.branches() == ["main"]
        with pytest.raises(errors.NotFound):
            graph.snapshot(branch="draft")
    assert names(graph) == ["ann", "bob"]
    graph.create_branch("draft")
    assert rows(graph, "draft") == rows(graph), "the name came back with rows of its former life"
    OPERATIONS["first_touch_many"](graph)
    assert names(graph, "draft") == ["ann", "bob", "cleo"]
    assert names(graph) == ["ann", "bob"]


# Recovery of recovery --------------------------------------------------------------------------------------------

RECOVERY_POINTS = ["recovery.post_restore_pre_publish", "recovery.record_audit", "recovery.before_sidecar_delete"]


def left_half_done(root: Path, operation: str, point: str) -> Rows:
    graph = prepared(root, operation)
    before = rows(graph)
    abandon(point, lambda: OPERATIONS[operation](graph))
    assert len(sidecars(root)) == 1
    return before


@pytest.mark.parametrize("action", ["error", "exit"])
@pytest.mark.parametrize("point", RECOVERY_POINTS)
def test_an_interrupted_roll_back_converges(tmp_path: Path, point: str, action: str) -> None:
    root = tmp_path / "g"
    before = left_half_done(root, "many", "write.post_table_commit@2")
    for _ in range(2):
        if action == "exit":
            assert run_child(root, "open", OMNIGRAPH_FAILPOINTS=rule(point, "exit")) == DIED
        else:
            with armed(rule(point, "error")), pytest.raises(errors.Storage, match="failpoint"):
                og.connect(root)

    assert_case(root, "many", UNDONE, before)


@pytest.mark.parametrize("action", ["error", "exit"])
@pytest.mark.parametrize("point", ["publish.before_merge", "publish.after_merge", *RECOVERY_POINTS[1:]])
def test_an_interrupted_roll_forward_converges(tmp_path: Path, point: str, action: str) -> None:
    root = tmp_path / "g"
    before = left_half_done(root, "many", "write.post_effects_pre_publish")
    if action == "exit":
        assert run_child(root, "open", OMNIGRAPH_FAILPOINTS=rule(point, "exit")) == DIED
    else:
        with armed(rule(point, "error")), pytest.raises(errors.Storage, match="failpoint"):
            og.connect(root)

    assert_case(root, "many", FINISHED, before)


def test_an_interrupted_roll_back_of_a_fork_beside_an_owned_table_converges(tmp_path: Path) -> None:
    """The fork is gone before the restored tables are published; the second recovery must still publish them."""
    root = tmp_path / "g"
    graph = prepared(root, "first_touch")
    OPERATIONS["first_touch"](graph)
    before = rows(graph, "draft")
    abandon("write.post_table_commit@1", lambda: OPERATIONS["first_touch_mixed"](graph))
    with armed("recovery.post_restore_pre_publish=error"), pytest.raises(errors.Storage, match="failpoint"):
        og.connect(root)

    graph = reopened(root)

    assert rows(graph, "draft") == before
    assert kinds(graph) == ["RolledBack"]
    assert_writable(graph, ["draft"])


@pytest.mark.parametrize("point", RECOVERY_POINTS)
def test_an_undo_that_fails_itself_is_finished_on_reopening(tmp_path: Path, point: str) -> None:
    root = tmp_path / "g"
    graph = prepared(root, "many")
    before = rows(graph)
    rules = f"write.post_table_commit=error@2,{point}=error"
    with armed(rules), pytest.raises(errors.RecoveryRequired, match="failpoint") as failed:
        OPERATIONS["many"](graph)
    assert failed.value.operation_id == sidecars(root)[0].stem

    assert_case(root, "many", UNDONE, before)


# Panic: past every handler, in a process that lives on ------------------------------------------------------------


def test_after_a_panic_the_same_process_finishes_what_can_be_finished(tmp_path: Path) -> None:
    graph = seeded(tmp_path / "g")
    abandon("write.post_effects_pre_publish", lambda: OPERATIONS["insert"](graph))

    graph.mutate(INSERT, params={"name": "dora"})

    assert names(graph) == ["ann", "bob", "cleo", "dora"]
    assert kinds(graph) == ["RolledForward"]
    assert_settled(graph)


def test_after_a_panic_a_half_done_write_blocks_its_tables_until_the_graph_is_reopened(tmp_path: Path) -> None:
    root = tmp_path / "g"
    graph = seeded(root)
    abandon("write.post_table_commit@1", lambda: OPERATIONS["many_overwrite"](graph))
    moved, pinned = heads(graph), pins(graph)
    assert [key for key in moved if moved[key] != pinned[key]] == ["edge:Member"]

    with pytest.raises(errors.Conflict, match="reopen the graph read-write") as refused:
        OPERATIONS["many_overwrite"](graph)
    assert refused.value.reason == "drift"
    graph.mutate(INSERT, params={"name": "cleo"})
    assert names(graph) == ["ann", "bob", "cleo"]
    assert (heads(graph) | {"node:Person": 0}) == (moved | {"node:Person": 0})

    graph = reopened(root)
    assert kinds(graph) == ["RolledBack"]
    assert_writable(graph)


# Indexes ---------------------------------------------------------------------------------------------------------

INDEXES = ["indexes", "first_touch_indexes"]


@pytest.mark.parametrize("operation", INDEXES)
def test_an_error_while_indexes_are_built(tmp_path: Path, operation: str) -> None:
    fails(tmp_path / "a", operation, "mutation.post_stage_pre_gates", BEFORE)
    fails(tmp_path / "b", operation, "write.post_effects_pre_publish", UNDONE)


@pytest.mark.parametrize("operation", INDEXES)
@pytest.mark.parametrize(
    ("point", "case"), [("mutation.post_stage_pre_gates", BEFORE), ("write.post_effects_pre_publish", FINISHED)]
)
def test_a_death_while_indexes_are_built(tmp_path: Path, operation: str, point: str, case: Case) -> None:
    root = tmp_path / "g"
    before = rows(prepared(root, operation))
    assert run_child(root, operation, rule(point, "exit")) == DIED

    with og.connect(root) as graph:
        commits = len(graph.commits(branch_of(operation)))
        OPERATIONS[operation](graph)
        assert (len(graph.commits(branch_of(operation))) == commits) == case.visible, "what was finished is not built again"
        assert rows(graph, branch_of(operation)) == before
        assert_writable(graph, [branch_of(operation)])
        assert kinds(graph) == ([case.audited] if case.audited else [])


# The list of names -----------------------------------------------------------------------------------------------


def used_in_code() -> set[str]:
    return {name for path in SOURCES.rglob("*.py") for name in HIT.findall(path.read_text("utf-8"))}


def test_every_failpoint_of_the_code_is_tested_and_every_tested_one_exists() -> None:
    tested = {point.partition("@")[0] for point in [*ON_EXIT, *ON_ERROR]} | ELSEWHERE

    assert tested == used_in_code()


def test_every_failpoint_named_elsewhere_is_used_in_a_test() -> None:
    tests = Path(__file__).parents[1]
    parts = ("crash", "invariants", "pipeline", "spark")
    files = [path for part in parts for path in sorted((tests / part).glob("test_*.py"))]
    text = "".join(path.read_text("utf-8") for path in files)

    assert [name for name in sorted(ELSEWHERE) if text.count(name) < 2] == []


def test_every_failpoint_is_documented_and_every_documented_one_exists() -> None:
    section = DOCUMENTED.read_text("utf-8").partition("## Failpoints")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("|")]

    assert sorted(re.findall(r"`([a-z_]+\.[a-z_]+)`", "".join(rows))) == sorted(used_in_code())


def test_failpoints_are_called_by_literal_names_only() -> None:
    calls = [line.strip() for path in SOURCES.rglob("*.py") for line in path.read_text("utf-8").splitlines()]

    assert [line for line in calls if re.search(r"failpoints\.(hit|fires)\(", line) and not HIT.search(line)] == []


@pytest.mark.parametrize("broken", ["nonsense", "a.b=explode", "a.b=sleep", "a.b=error@x"])
def test_a_rule_that_cannot_be_read_is_an_error(broken: str) -> None:
    with armed(broken), pytest.raises(ValueError, match="cannot read"):
        failpoints.hit("a.b")


def test_the_log_of_actors_follows_the_journal(tmp_path: Path) -> None:
    """A crash between the two appends must not lose the actor; it is part of the commit row itself."""
    root = tmp_path / "g"
    seeded(root)
    assert run_child(root, "insert", "journal.before_append=exit") == DIED

    graph = reopened(root)

    assert {row["actor_id"] for row in log(root, "_graph_commits.lance")} == {ACTOR, "op"}
    assert graph.commits()[0].actor_id == "op"


def test_a_branch_whose_lineage_cannot_be_removed_is_deleted(tmp_path: Path) -> None:
    root = tmp_path / "g"
    graph = prepared(root, "delete_branch")
    (lineage,) = (root / "__manifest").glob("*/_refs/branches/draft.*.json")
    lineage.unlink()
    (lineage / "something").mkdir(parents=True)

    with pytest.warns(UserWarning, match="`draft` is deleted, but not everything of it could be removed"):
        graph.delete_branch("draft")

    assert graph.branches() == ["main"]
    with pytest.raises(errors.NotFound):
        graph.delete_branch("draft")
    graph.create_branch("draft")
    assert rows(og.connect(root), "draft") == rows(graph)
