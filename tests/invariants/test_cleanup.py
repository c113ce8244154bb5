"""Invariants of cleanup: what is kept can be read as before, what is gone says so, and doubt removes nothing."""

import itertools
import os
import threading
import time
import warnings
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import omnigraph_sql as og
from omnigraph_sql import errors
from omnigraph_sql.storage.derived_files import derived_directory
from tests import stores
from tests.crash.racing import Writer, paused, resumed
from tests.crash.world import (
    INSERT,
    OPERATIONS,
    TABLES,
    UPDATE,
    abandon,
    armed,
    assert_settled,
    assert_writable,
    edge,
    names,
    node,
    pins,
    reopened,
    rows,
    seeded,
    sidecars,
    table_branches,
)
from tests.manifests import lineage_of
from tests.stores import Place

EVERYTHING = timedelta(0)
"""An age that every version has: what is left is what branches need."""
FRIENDS = "query q() { match { $p: Person $p knows $f } return { $p.name, $f.name } }"
PEOPLE = "query q() { match { $p: Person } return { $p.name } }"


def add(graph: og.Graph, *people: str, branch: str = "main") -> None:
    for name in people:
        graph.mutate(INSERT, params={"name": name}, branch=branch)


def files(root: Place) -> list[str]:
    """Every file of the tables and of what belongs to no table, past the engine."""
    found: list[Any] = [path for path in root.rglob("*") if path.is_file()]
    parts = ("nodes", "edges", "tables", "_staged", "_cleanup", "_derived")
    below = [str(path).removeprefix(f"{root}/") for path in found]
    return sorted(name for name in below if name.split("/", 1)[0] in parts)


def versions(root: Place, path: str, branch: str | None = None) -> list[int]:
    place = root / path if branch is None else root / path / "tree" / branch
    return [int(each["version"]) for each in lance.dataset(str(place)).versions()]


def path_of(graph: og.Graph, key: str = "node:Person") -> str:
    return graph.snapshot().entries[key].path


def stat(stats: list[Any], key: str = "node:Person") -> Any:
    (found,) = [each for each in stats if each.table_key == key]
    return found


def is_gone(graph: og.Graph, **at: Any) -> bool:
    """Whether a state was reclaimed; what was not must be whole."""
    try:
        rows(graph, **at)
    except errors.VersionReclaimed:
        return True
    return False


# What is kept --------------------------------------------------------------------------------------------------------


def test_invariant_51_what_branches_show_stays(tmp_path: Place) -> None:
    root = tmp_path / "g"
    graph = seeded(root)
    add(graph, "one", "two")
    graph.create_branch("idle")
    add(graph, "three")
    graph.create_branch("draft")
    add(graph, "four", branch="draft")
    add(graph, "five", "six")
    add(graph, "seven", branch="draft")
    before = {branch: rows(graph, branch) for branch in graph.branches()}
    shown = graph.snapshot(branch="idle").entries["node:Person"].version
    fork = graph.snapshot(branch="draft").entries["node:Person"].branch
    on_draft = len(versions(root, path_of(graph), fork))

    stats = graph.cleanup(older_than=EVERYTHING)

    assert all(each.error is None for each in stats)
    assert stat(stats).versions_removed == shown - 1 + on_draft - 1
    for other in (graph, og.connect(root), og.connect(root, read_only=True)):
        assert {branch: rows(other, branch) for branch in other.branches()} == before
    assert versions(root, path_of(graph))[0] == shown
    assert_writable(reopened(root), ["main", "draft", "idle"])

    graph.delete_branch("idle")
    graph.cleanup(older_than=EVERYTHING)

    assert versions(root, path_of(graph))[0] > shown, "nothing but the idle branch held these versions"
    assert fork in table_branches(root, path_of(graph))
    assert rows(graph, "draft") == rows(og.connect(root), "draft")


def test_invariant_51_a_branch_keeps_the_indexes_that_it_was_forked_with(tmp_path: Place) -> None:
    root = tmp_path / "g"
    graph = seeded(root)
    add(graph, "one")
    graph.ensure_indices()
    graph.create_branch("draft")
    add(graph, "two", branch="draft")
    graph.load([node("Person", name="bob")], mode="merge")
    graph.load([node("Person", name="new"), node("Person", name="ann"), node("Person", name="bob")], mode="overwrite")
    before = rows(graph, "draft")
    fork = graph.snapshot(branch="draft").entries["node:Person"]

    graph.cleanup(older_than=EVERYTHING)
    graph.cleanup(older_than=EVERYTHING)

    assert rows(og.connect(root), "draft") == before
    table = lance.dataset(str(root / fork.path / "tree" / str(fork.branch)))
    assert table.to_table(filter="id = 'one'").num_rows == 1
    assert "ScalarIndexQuery" in table.scanner(filter="id = 'one'").explain_plan()
    assert_writable(reopened(root), ["main", "draft"])


@pytest.mark.parametrize("keep", [3, 5])
def test_so_many_versions_of_each_table_are_kept(tmp_path: Place, keep: int) -> None:
    root = tmp_path / "g"
    graph = seeded(root)
    add(graph, *(f"p{number}" for number in range(6)))
    newest = versions(root, path_of(graph))
    seen = {version: rows(graph, version=version) for version in range(1, graph.snapshot().manifest_version + 1)}
    held = {version: graph.snapshot(version=version).entries["node:Person"].version for version in seen}

    stats = graph.cleanup(keep=keep)

    assert versions(root, path_of(graph)) == newest[-keep:]
    assert stat(stats).versions_removed == len(newest) - keep
    assert (stat(stats, "node:Team").versions_removed, stat(stats, "node:Team").bytes_removed) == (0, 0)
    for version, before in seen.items():
        if held[version] in newest[-keep:]:
            assert rows(og.connect(root), version=version) == before
        else:
            assert is_gone(og.connect(root), version=version)


def test_with_both_policies_a_version_goes_only_if_neither_keeps_it(tmp_path: Place) -> None:
    root = tmp_path / "g"
    graph = seeded(root)
    add(graph, "one", "two")
    age = 2 * stores.patience
    time.sleep(age + 1)
    add(graph, "three", "four")
    before = versions(root, path_of(graph))

    assert stat(graph.cleanup(keep=10, older_than=f"{age}s")).versions_removed == 0
    assert stat(graph.cleanup(keep=3, older_than="1w")).versions_removed == 0
    assert versions(root, path_of(graph)) == before
    stats = graph.cleanup(keep=4, older_than=timedelta(seconds=age))

    assert versions(root, path_of(graph)) == before[-4:]
    assert stat(stats).versions_removed == len(before) - 4
    graph.cleanup(older_than=f"{age}s")
    assert versions(root, path_of(graph)) == before[-2:]


def test_a_tag_of_a_table_holds_its_version_and_later_ones(tmp_path: Place) -> None:
    root = tmp_path / "g"
    graph = seeded(root)
    add(graph, "one", "two", "three")
    place = str(root / path_of(graph))
    lance.dataset(place).tags.create("audit", 3)

    graph.cleanup(older_than=EVERYTHING)

    assert versions(root, path_of(graph)) == [3, 4, 5]
    assert sorted(lance.dataset(place, version="audit").to_table()["name"].to_pylist()) == ["ann", "bob", "one"]


def test_a_cleanup_needs_a_policy_and_warns_of_one_that_keeps_hardly_anything(tmp_path: Place) -> None:
    graph = seeded(tmp_path / "g")
    for policy in ({}, {"keep": 0}, {"keep": -1}, {"older_than": "soon"}, {"older_than": timedelta(seconds=-1)}):
        with pytest.raises(errors.BadRequest):
            graph.cleanup(**policy)
    with pytest.warns(UserWarning, match="keep=2 leaves almost nothing"):
        graph.cleanup(keep=2)
    with pytest.raises(errors.BadRequest, match="read-only"):
        og.connect(tmp_path / "g", read_only=True).cleanup(keep=3)


def test_a_dry_run_says_what_goes_and_removes_nothing(tmp_path: Place) -> None:
    root = tmp_path / "g"
    graph = seeded(root)
    add(graph, "one", "two")
    before = files(root)

    told = og.connect(root, read_only=True).cleanup(older_than=EVERYTHING, dry_run=True)

    assert files(root) == before
    done = graph.cleanup(older_than=EVERYTHING)
    assert [each.to_dict() for each in told] == [each.to_dict() for each in done]
    assert stat(done).bytes_removed > 0
    assert all(each.is_empty for each in graph.cleanup(older_than=EVERYTHING))
    assert len(files(root)) < len(before)


def test_blobs_and_relational_tables_stay_with_the_versions_that_show_them(tmp_path: Place) -> None:
    root = tmp_path / "g"
    graph = og.init(root, "node Picture { name: String @key  bytes: Blob? }")
    image = os.urandom(300_000)
    graph.load(
        {"Picture": pa.table({"name": ["a"], "bytes": pa.array([image], pa.binary())})},
        mode="append",
    )
    graph.load([node("Picture", name="b")], mode="append")
    tables = graph.tables()
    tables.create_table("main", "orders", pa.table({"n": [1]}))
    tables.append("main", "orders", pa.table({"n": [2]}))
    tables.create_table("main", "dropped", pa.table({"n": [1]}))
    tables.append("main", "dropped", pa.table({"n": [2]}))
    tables.drop("main", "dropped")

    stats = graph.cleanup(older_than=EVERYTHING)

    assert [each.error for each in stats if each.error] == []
    again = og.connect(root)
    assert again.entity_at("node:Picture", "a") is not None
    assert again.sql("SELECT bytes FROM \"Picture\" WHERE name = 'a'").to_arrow().column(0).to_pylist() == [image]
    assert again.sql("SELECT n FROM orders ORDER BY n").to_arrow().column(0).to_pylist() == [1, 2]
    again.tables().create_table("main", "dropped", pa.table({"n": [7]}))
    assert again.sql("SELECT n FROM dropped").to_arrow().column(0).to_pylist() == [7]
    again.cleanup(older_than=EVERYTHING)
    assert og.connect(root).sql("SELECT n FROM dropped").to_arrow().column(0).to_pylist() == [7]


# What is gone says so ------------------------------------------------------------------------------------------------


def test_a_version_that_is_gone_says_so_in_every_way_to_read_it(tmp_path: Place) -> None:
    root = tmp_path / "g"
    graph = seeded(root)
    old = graph.snapshot()
    old_commit = old.commit_id
    add(graph, "one")
    graph.load([node("Person", name="ann"), node("Person", name="bob")], mode="overwrite")
    another = og.connect(root)
    assert another.sql('SELECT id FROM "Person"', version=old.manifest_version).to_arrow().num_rows == 2
    assert another.entity_at("node:Person", "ann", version=old.manifest_version) is not None

    graph.cleanup(older_than=EVERYTHING)

    version = old.manifest_version
    fresh = og.connect(root)
    reads: list[Callable[[og.Graph], Any]] = [
        lambda g: g.query(PEOPLE, version=version).to_arrow(),
        lambda g: g.query(PEOPLE, snapshot=old_commit).to_arrow(),
        lambda g: g.query(FRIENDS, version=version).to_arrow(),
        lambda g: list(g.export(version=version)),
        lambda g: g.entity_at("node:Person", "ann", version=version),
        lambda g: g.diff(f"main@{version}", "main").changes,
        lambda g: g.sql('SELECT name, age FROM "Person"', version=version).to_arrow(),
    ]
    for read in reads:
        for handle in (fresh, graph):
            with pytest.raises(errors.VersionReclaimed) as gone:
                read(handle)
            assert "read a later version" in str(gone.value.hint)
    # A handle that has the version open finds out when it needs a file.
    for read in reads[:-1]:
        with pytest.raises(errors.VersionReclaimed):
            read(another)
    with pytest.raises(errors.Storage, match="lacks a file") as lost:
        reads[-1](another)
    assert "read a later one" in str(lost.value.hint)
    assert graph.commit(old_commit).graph_commit_id == old_commit
    assert [each.graph_commit_id for each in graph.commits()][-2] == old_commit
    with pytest.raises(errors.NotFound):
        graph.snapshot(version=1000)


def test_derived_files_go_with_the_versions_that_they_were_made_for(tmp_path: Path) -> None:
    graph = seeded(tmp_path / "g")
    derived = derived_directory(graph.uri)

    def kept() -> set[str]:
        return {f"{path.parent.name}/{path.name}" for path in derived.glob("*/*.arrays")}

    def ask() -> int:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("OMNIGRAPH_TRAVERSAL_MODE", "csr")
            return len(og.connect(tmp_path / "g").query(FRIENDS).to_arrow())

    assert ask() == 1
    first = kept()
    add(graph, "one")
    assert ask() == 1
    both = kept()
    assert first < both

    stats = graph.cleanup(keep=10)

    assert stat(stats, "_derived").files_removed == len(first & both) - len(first & kept())
    assert both - first <= kept()
    assert kept() < both
    again = kept()
    assert ask() == 1
    assert kept() == again


# Doubt removes nothing -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("operation", ["insert", "many", "first_touch"])
@pytest.mark.parametrize("point", ["write.post_sidecar_pre_effect", "write.post_effects_pre_publish"])
def test_invariant_34_cleanup_refuses_while_a_sidecar_is_pending(tmp_path: Place, operation: str, point: str) -> None:
    root = tmp_path / "g"
    graph = seeded(root)
    add(graph, "one", "two")
    graph.create_branch("draft")
    abandon(point, lambda: OPERATIONS[operation](graph))
    before = files(root)

    for dry_run in (False, True):
        with pytest.raises(errors.RecoveryRequired) as refused:
            graph.cleanup(older_than=EVERYTHING, dry_run=dry_run)
        assert refused.value.operation_id == sidecars(root)[0].stem
    assert files(root) == before

    graph = og.connect(root)
    assert stat(graph.cleanup(older_than=EVERYTHING)).versions_removed > 0
    assert_writable(reopened(root), ["main", "draft"])


def test_invariant_34_a_live_writer_is_waited_for(tmp_path: Place) -> None:
    root = tmp_path / "g"
    graph = seeded(root)
    add(graph, "one", "two")
    with paused("write.post_effects_pre_publish", lambda: add(og.connect(root), "late")) as (writer, pause):
        cleaner = Writer(lambda: graph.cleanup(older_than=EVERYTHING))
        time.sleep(0.5)
        assert cleaner.is_running, "the writer has the lock of node:Person until it is done"
        resumed(writer, pause)
        assert (stat(cleaner.join()).error, stat(cleaner.join()).versions_removed) == (None, 3)
    assert "late" in names(og.connect(root))
    assert_writable(reopened(root))


def test_invariant_51_a_branch_made_while_branches_are_read_stays_whole(tmp_path: Place) -> None:
    root = tmp_path / "g"
    graph = seeded(root)
    add(graph, "one")
    cleaner = og.connect(root)
    with paused("cleanup.resolve_branch_snapshot", lambda: cleaner.cleanup(older_than=EVERYTHING)) as (cleaning, pause):
        graph.create_branch("idle")
        graph.load([node("Person", name=name) for name in ("ann", "bob")], mode="overwrite")
        before = rows(graph, "idle")
        resumed(cleaning, pause)
    assert rows(og.connect(root), "idle") == before
    assert_writable(reopened(root), ["main", "idle"])


def test_drift_is_not_interpreted(tmp_path: Place) -> None:
    root = tmp_path / "g"
    graph = seeded(root)
    add(graph, "one")
    place = str(root / path_of(graph, "node:Team"))
    lance.write_dataset(pa.table({"id": ["x"], "slug": ["x"]}), place, mode="append")
    before = files(root)

    with pytest.raises(errors.Conflict, match="node:Team has version") as refused:
        graph.cleanup(older_than=EVERYTHING)

    assert refused.value.reason == "drift"
    assert files(root) == before


def test_a_branch_that_cannot_be_read_keeps_everything(tmp_path: Place) -> None:
    root = tmp_path / "g"
    graph = seeded(root)
    add(graph, "one", "two")
    graph.create_branch("draft")
    before = files(root)

    for point in ("cleanup.resolve_branch_snapshot=error@2", "storage.object_list=error@1"):
        with armed(point), pytest.raises(errors.Storage):
            graph.cleanup(older_than=EVERYTHING)
        assert files(root) == before


def test_a_table_that_fails_is_reported_and_keeps_nobody_from_the_others(tmp_path: Place) -> None:
    root = tmp_path / "g"
    graph = seeded(root)
    add(graph, "one", "two")
    graph.mutate('query q() { insert Team { slug: "blue" } }')

    with armed("cleanup.table_gc=error@3"):  # edge:Knows, edge:Member, node:Person
        stats = graph.cleanup(older_than=EVERYTHING)

    assert "cleanup.table_gc" in str(stat(stats).error)
    assert (stat(stats).versions_removed, stat(stats, "node:Team").versions_removed) == (0, 2)
    assert og.connect(root).entity_at("node:Person", "one", version=3) is not None
    done = graph.cleanup(older_than=EVERYTHING)
    assert (stat(done).error, stat(done).versions_removed) == (None, 3)


# Table branches ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("point", ["branch_delete.after_ref", "branch_delete.before_table_cleanup"])
def test_invariant_51_the_table_branches_of_a_deleted_branch_are_reclaimed(tmp_path: Place, point: str) -> None:
    root = tmp_path / "g"
    graph = seeded(root)
    for branch in ("draft", "draft.v2", "feature/x"):
        graph.create_branch(branch)
        add(graph, f"on-{branch}", branch=branch)
    abandon(point, lambda: graph.delete_branch("draft"))
    path = path_of(graph)
    left = table_branches(root, path)
    assert len(left) == 3

    with armed("cleanup.reconcile_fork=error"):
        failed = graph.cleanup(keep=10)
    assert "cleanup.reconcile_fork" in str(stat(failed).error)
    assert table_branches(root, path) == left

    told = graph.cleanup(keep=10, dry_run=True)
    stats = graph.cleanup(keep=10)

    assert (stat(stats).branches_removed, stat(stats).versions_removed) == (1, 0)
    assert stat(told) == stat(stats)
    shown = {graph.snapshot(branch=branch).entries["node:Person"].branch for branch in ("draft.v2", "feature/x")}
    assert set(table_branches(root, path)) == shown
    for branch in ("draft.v2", "feature/x"):
        assert names(og.connect(root), branch) == ["ann", "bob", f"on-{branch}"]
    assert_settled(graph)
    graph.create_branch("draft")
    assert_writable(graph, ["draft"])


def test_invariant_51_a_branch_made_again_loses_only_what_the_earlier_one_left(tmp_path: Place) -> None:
    root = tmp_path / "g"
    graph = seeded(root)
    graph.create_branch("draft")
    add(graph, "first", branch="draft")
    abandon("branch_delete.before_table_cleanup", lambda: graph.delete_branch("draft"))
    (earlier,) = table_branches(root, path_of(graph))
    time.sleep(1.1)  # branches are told apart by the second of their birth
    graph.create_branch("draft")
    add(graph, "second", branch="draft")

    stats = graph.cleanup(keep=10)

    assert stat(stats).branches_removed == 1
    (left,) = table_branches(root, path_of(graph))
    assert left != earlier
    assert names(og.connect(root), "draft") == ["ann", "bob", "second"]


@pytest.mark.parametrize(
    "name", ["release.2024010100/_tmp", "release.2024010100/data", "A.BCDEFGHIJK/_versions/L.MNOPQRSTUV"]
)
def test_invariant_51_a_name_that_looks_like_that_of_a_lineage_costs_no_branch(
    tmp_path: Place, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("OMNIGRAPH_STAGING_GRACE", "1ms")
    root = tmp_path / "g"
    graph = seeded(root)
    graph.create_branch(name)
    add(graph, "one", branch=name)
    before = rows(graph, name)
    time.sleep(0.01)

    stats = graph.cleanup(older_than=EVERYTHING)

    assert [(stat.branches_removed, stat.error) for stat in stats if stat.branches_removed or stat.error] == []
    assert rows(og.connect(root), name) == before
    add(graph, "two", branch=name)
    graph.delete_branch(name)
    time.sleep(0.01)
    graph.cleanup(older_than=EVERYTHING)
    assert table_branches(root, path_of(graph)) == []
    assert_settled(reopened(root))


def test_a_branch_below_the_files_of_another_one_outlives_it(tmp_path: Place) -> None:
    root = tmp_path / "g"
    graph = seeded(root)
    graph.create_branch("draft")
    add(graph, "one", branch="draft")
    fork = graph.snapshot(branch="draft").entries["node:Person"].branch
    below = [f"{lineage_of(root, 'draft')}/x", f"{fork}/y"]
    for name in below:
        graph.create_branch(name)
        add(graph, "two", branch=name)
    before = [rows(graph, name) for name in below]

    with warnings.catch_warnings(action="ignore"):  # the table branch is left until the other one is gone
        graph.delete_branch("draft")

    assert [rows(og.connect(root), name) for name in below] == before
    for name in below:
        add(graph, "three", branch=name)
        graph.delete_branch(name)
    graph.cleanup(older_than=EVERYTHING)
    assert table_branches(root, path_of(graph)) == []
    assert_settled(reopened(root))


def test_branches_of_branches_are_reclaimed_child_first(tmp_path: Place) -> None:
    root = tmp_path / "g"
    graph = seeded(root)
    names = ["main", "d", "c", "b", "a"]
    for base, name in itertools.pairwise(names):
        graph.create_branch(name, base)
        add(graph, f"in {name}", branch=name)
    before = rows(graph, "a")
    graph.cleanup(older_than=EVERYTHING)
    assert rows(og.connect(root), "a") == before

    for name in reversed(names[1:]):
        abandon("branch_delete.before_table_cleanup", partial(graph.delete_branch, name))
    done = stat(graph.cleanup(older_than=EVERYTHING))

    assert (done.branches_removed, done.error) == (4, None)
    assert table_branches(root, path_of(graph)) == []


def test_tables_that_a_cleanup_went_over_take_every_kind_of_write(tmp_path: Place) -> None:
    root = tmp_path / "g"
    graph = seeded(root)
    for _ in range(2):
        graph.mutate(UPDATE)
        graph.ensure_indices()
        graph.load([edge("Knows", "bob", "ann", id="k9")], mode="merge")
        graph.cleanup(older_than=EVERYTHING)
    for operation in ("insert", "update", "merge", "overwrite", "delete"):
        OPERATIONS[operation](graph)
        graph.cleanup(older_than=EVERYTHING)
        assert_settled(graph)
    assert set(pins(graph)) >= set(TABLES)
    assert len(graph.query(FRIENDS).to_arrow()) == 0


def test_writers_do_not_notice_cleanups_that_keep_nothing(tmp_path: Place) -> None:
    root = tmp_path / "g"
    seeded(root).create_branch("draft")
    done = threading.Event()
    count = stores.repetitions(15)

    def write(own: str, branch: str) -> None:
        graph = og.connect(root)
        for number in range(count):
            graph.mutate(INSERT, params={"name": f"{own}-{number}"}, branch=branch)
            graph.load([node("Person", name="bob", age=number)], mode="merge", branch=branch)

    def clean() -> int:
        graph, removed = og.connect(root), 0
        while not done.is_set():
            stats = graph.cleanup(older_than=EVERYTHING)
            assert [each.error for each in stats if each.error] == []
            removed += stat(stats).versions_removed
        return removed

    cleaner = Writer(clean)
    writers = [Writer(partial(write, own, branch)) for own, branch in (("a", "main"), ("b", "main"), ("c", "draft"))]
    try:
        for writer in writers:
            writer.join()
    finally:
        done.set()
    assert cleaner.join() > 0
    graph = reopened(root)
    assert set(names(graph)) == {"ann", "bob", *(f"{own}-{number}" for own in "ab" for number in range(count))}
    assert set(names(graph, "draft")) == {"ann", "bob", *(f"c-{number}" for number in range(count))}


def test_a_write_whose_base_is_removed_under_it_looks_again(tmp_path: Place) -> None:
    root = tmp_path / "g"
    graph = seeded(root)
    with paused("mutation.post_stage_pre_gates", lambda: graph.mutate(UPDATE)) as (writer, pause):
        og.connect(root).load([node("Person", name=name) for name in ("ann", "bob", "cleo")], mode="overwrite")
        og.connect(root).cleanup(older_than=EVERYTHING)
        with pytest.raises(errors.ExpectedVersionMismatch):
            resumed(writer, pause)
    with paused("mutation.post_stage_pre_gates", lambda: add(graph, "dora")) as (writer, pause):
        og.connect(root).load([node("Person", name=name) for name in ("ann", "bob", "cleo")], mode="overwrite")
        og.connect(root).cleanup(older_than=EVERYTHING)
        resumed(writer, pause)
    assert names(reopened(root)) == ["ann", "bob", "cleo", "dora"]
