"""Cleanup of a graph on an object store."""

import time
from datetime import timedelta

import pytest

import omnigraph_sql as og
from omnigraph_sql import errors
from tests.cli.ogsql import ogsql
from tests.crash.world import INSERT, abandon, names, node, reopened, seeded
from tests.stores import S3Place

EVERYTHING = timedelta(0)


def objects(root: S3Place) -> set[str]:
    return {each.key for each in root._objects()}


def test_old_versions_and_forks_go_and_branches_stay(root: S3Place) -> None:
    graph = seeded(root)
    graph.create_branch("draft")
    graph.mutate(INSERT, params={"name": "cleo"}, branch="draft")
    graph.create_branch("gone")
    graph.mutate(INSERT, params={"name": "dora"}, branch="gone")
    abandon("branch_delete.before_table_cleanup", lambda: graph.delete_branch("gone"))
    for name in ("one", "two"):
        graph.mutate(INSERT, params={"name": name})
    graph.load([node("Person", name=name) for name in ("ann", "bob", "one")], mode="overwrite")
    before = objects(root)

    stats = {each.table_key: each for each in graph.cleanup(older_than=EVERYTHING)}

    assert [each.error for each in stats.values() if each.error] == []
    assert (stats["node:Person"].branches_removed, stats["node:Person"].versions_removed) == (1, 2)
    assert objects(root) < before
    again = reopened(root)
    assert names(again) == ["ann", "bob", "one"]
    assert names(again, "draft") == ["ann", "bob", "cleo"]
    with pytest.raises(errors.VersionReclaimed):
        names(again, version=1)
    assert all(each.is_empty for each in again.cleanup(older_than=EVERYTHING))


def test_a_staged_load_stays_for_the_grace(root: S3Place, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = seeded(root)
    graph.create_branch("draft")
    staged = graph.stage([node("Person", name="cleo")], mode="append")
    waiting = graph.stage([node("Person", name="dora")], mode="append", branch="draft")
    graph.cleanup(older_than=EVERYTHING)
    assert graph.publish(staged) is not None
    lost = graph.stage([node("Person", name="eve")], mode="append")

    time.sleep(2.5)
    monkeypatch.setenv("OMNIGRAPH_STAGING_GRACE", "1s")
    stats = {each.table_key: each for each in og.connect(root).cleanup(keep=10)}

    assert (stats["node:Person"].files_removed, stats["_staged"].files_removed) == (1, 1)
    for load in (lost, waiting):
        with pytest.raises(errors.NotFound, match="gone"):
            graph.publish(load)
    assert names(reopened(root)) == ["ann", "bob", "cleo"]


def test_a_cleanup_that_died_is_finished_by_the_next(root: S3Place) -> None:
    graph = seeded(root)
    graph.load([node("Person", name=name) for name in ("ann", "bob", "one")], mode="overwrite")
    abandon("storage.object_delete@8", lambda: graph.cleanup(older_than=EVERYTHING))
    assert [key for key in objects(root) if "/_cleanup/" in key]

    again = reopened(root)
    again.cleanup(older_than=EVERYTHING)

    path = again.snapshot().entries["node:Person"].path
    assert len([key for key in objects(root) if f"{path}/data/" in key]) == 1
    assert not [key for key in objects(root) if "/_cleanup/" in key]
    assert names(reopened(root)) == ["ann", "bob", "one"]


def test_the_command_asks_before_it_removes_anything(root: S3Place) -> None:
    graph = seeded(root)
    for name in ("one", "two", "three"):
        graph.mutate(INSERT, params={"name": name})

    shown = ogsql("cleanup", str(root), "--keep", "3")
    refused = ogsql("cleanup", str(root), "--keep", "3", "--confirm")
    removed = ogsql("cleanup", str(root), "--keep", "3", "--confirm", "--yes", "--json")

    assert (shown.status, "would be removed" in shown.out) == (0, True)
    assert (refused.status, "--yes" in refused.err) == (2, True)
    assert (removed.status, removed.document["removed"]) == (0, True)
    assert sum(each["versions_removed"] for each in removed.document["tables"]) == 2
    assert names(reopened(root)) == ["ann", "bob", "one", "three", "two"]
