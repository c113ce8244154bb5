"""Handles that outlive their graph, and writes that arrive after their branch or graph is gone."""

import json
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import datafusion
import duckdb
import pyarrow as pa
import pytest

import omnigraph_sql as og
from omnigraph_sql import errors
from omnigraph_sql.graph import resumption
from omnigraph_sql.writes.load.staged_load import StagedLoad
from tests.crash.racing import paused, resumed
from tests.crash.world import (
    DELETE,
    INSERT,
    SCHEMA,
    UPDATE,
    assert_settled,
    assert_writable,
    edge,
    log,
    names,
    node,
    reopened,
    rows,
    seeded,
)
from tests.manifests import lineage_place, manifest_place, record_place

pytestmark = pytest.mark.local

PEOPLE = "query q() { match { $p: Person } return { $p.name } }"
HOPS = "query q() { match { $p: Person $p knows $q } return { $p.name, $q.name } }"
COUNT = "query q() { match { $p: Person } return { count($p) as n } }"
USES: dict[str, Callable[[og.Graph], object]] = {
    "snapshot": lambda graph: graph.snapshot(),
    "snapshot of a version": lambda graph: graph.snapshot(version=2),
    "query": lambda graph: graph.query(PEOPLE).to_pylist(),
    "count": lambda graph: graph.query(COUNT).to_pylist(),
    "hops": lambda graph: graph.query(HOPS).to_pylist(),
    "sql": lambda graph: graph.sql("select name from Person").to_pylist(),
    "duckdb": lambda graph: graph.sql("select name from Person", engine="duckdb").to_pylist(),
    "duckdb session": lambda graph: graph.duckdb(),
    "datafusion session": lambda graph: graph.datafusion(),
    "attach": lambda graph: graph.attach(duckdb.connect(), alias="g"),
    "export": lambda graph: list(graph.export()),
    "commits": lambda graph: graph.commits(),
    "branches": lambda graph: graph.branches(),
    "refresh": lambda graph: graph.refresh(),
    "load": lambda graph: graph.load([node("Person", name="late")], mode="append"),
    "merge": lambda graph: graph.load([node("Person", name="late")], mode="merge"),
    "overwrite": lambda graph: graph.load([node("Team", slug="late")], mode="overwrite"),
    "insert": lambda graph: graph.mutate(INSERT, params={"name": "late"}),
    "update": lambda graph: graph.mutate(UPDATE),
    "delete": lambda graph: graph.mutate(DELETE),
    "stage": lambda graph: graph.stage([node("Person", name="late")], mode="append"),
    "create_branch": lambda graph: graph.create_branch("late"),
    "delete_branch": lambda graph: graph.delete_branch("draft"),
    "create_table": lambda graph: graph.tables().create_table("main", "late", pa.table({"x": [1]})),
    "ensure_indices": lambda graph: graph.ensure_indices(),
    "cleanup": lambda graph: graph.cleanup(keep=10),
    "recoveries": lambda graph: graph.recoveries(),
}


def used(graph: og.Graph) -> None:
    """Fill every cache."""
    for use in ("query", "count", "hops", "sql", "duckdb", "export", "commits"):
        USES[use](graph)


@pytest.mark.parametrize("use", USES)
def test_a_handle_notices_that_another_graph_took_the_place_of_its_own(tmp_path: Path, use: str) -> None:
    root = tmp_path / "g"
    graph = seeded(root)
    used(graph)
    shutil.rmtree(root)
    other = seeded(root)
    other.mutate(INSERT, params={"name": "other"})
    before = rows(other)

    with pytest.raises(errors.NotFound, match="replaced by another") as noticed:
        USES[use](graph)

    assert (noticed.value.what, noticed.value.hint) == ("graph", "open it again")
    assert rows(other) == before
    assert other.branches() == ["main"]
    assert_settled(reopened(root))
    assert_writable(og.connect(root))


def attached(graph: og.Graph, session: Any) -> Any:
    graph.attach(session, alias="g")
    return session


SESSIONS: dict[str, Callable[[og.Graph], Callable[[str], Any]]] = {
    "duckdb": lambda graph: partial(read_duckdb, graph.duckdb()),
    "duckdb attached": lambda graph: partial(read_duckdb, attached(graph, duckdb.connect())),
    "datafusion": lambda graph: partial(read_datafusion, graph.datafusion()),
    "datafusion attached": lambda graph: partial(read_datafusion, attached(graph, datafusion.SessionContext())),
}
STATEMENTS = ('select name from {}."Person"', 'select count(*) from {}."Person"', "select id from expand('Knows', 'ann')")


def read_duckdb(session: Any, text: str) -> int:
    return len(session.sql(text).fetchall())


def read_datafusion(session: Any, text: str) -> int:
    return sum(batch.num_rows for batch in session.sql(text).collect())


@pytest.mark.parametrize("writes", [None, 0, 2], ids=["gone", "as many versions", "more versions"])
@pytest.mark.parametrize("session", SESSIONS)
def test_a_session_notices_that_another_graph_took_the_place_of_its_own(
    tmp_path: Path, session: str, writes: int | None
) -> None:
    root = tmp_path / "g"
    read = SESSIONS[session](seeded(root))
    texts = [text.format("g.main" if "attached" in session else "main") for text in STATEMENTS]
    assert [read(text) for text in texts][:2] == [2, 1]
    shutil.rmtree(root)
    if writes is not None:
        other = seeded(root)
        for number in range(writes):
            other.mutate(INSERT, params={"name": f"other{number}"})

    for text in texts:
        with pytest.raises(Exception, match="replaced by another one"):
            read(text)


def test_a_handle_tells_and_notes_nothing_of_the_graph_that_is_gone(tmp_path: Path) -> None:
    root = tmp_path / "g"
    graph = seeded(root)
    commit = graph.commits()[0].graph_commit_id
    staged = graph.stage([node("Person", name="late")], mode="append")
    shutil.rmtree(root)
    seeded(root)

    with pytest.raises(errors.NotFound, match="replaced by another"):
        graph.commit(commit)
    with pytest.raises(errors.NotFound, match="replaced by another"):
        resumption.note_staged(graph, staged, {"step": 1})
    assert not (root / "_staged").exists()


@pytest.mark.parametrize("use", USES)
def test_a_handle_notices_that_its_graph_was_removed(tmp_path: Path, use: str) -> None:
    root = tmp_path / "g"
    graph = seeded(root)
    used(graph)
    shutil.rmtree(root)

    with pytest.raises(errors.NotFound):
        USES[use](graph)

    assert not (root / "nodes").exists()
    og.init(root, SCHEMA)


@pytest.mark.parametrize("writes", [0, 1, 2])
@pytest.mark.parametrize("lost", [0, 1, 2])
def test_a_handle_goes_on_with_a_copy_that_was_restored(tmp_path: Path, lost: int, writes: int) -> None:
    """Whatever it has read of versions that are not there any more, it shows and extends the state of the copy."""
    root = tmp_path / "g"
    seeded(root).create_branch("draft")
    graph = og.connect(root)
    shutil.copytree(root, tmp_path / "backup")
    for number in range(lost):
        for branch in ("main", "draft"):
            graph.mutate(INSERT, params={"name": f"lost{number}"}, branch=branch)
    used(graph)
    rows(graph, "draft")
    shutil.rmtree(root)
    shutil.copytree(tmp_path / "backup", root)
    other = og.connect(root)
    for number in range(writes):
        for branch in ("main", "draft"):
            other.mutate(INSERT, params={"name": f"new{number}"}, branch=branch)
    expected = ["ann", "bob", *(f"new{number}" for number in range(writes))]

    for branch in ("main", "draft"):
        assert names(graph, branch) == expected
        assert sorted(name for row in graph.query(PEOPLE, branch=branch).to_pylist() for name in row.values()) == expected
        assert sorted(row["name"] for row in graph.sql("select name from Person", branch=branch).to_pylist()) == expected
    graph.mutate(INSERT, params={"name": "zoe"})
    graph.mutate(INSERT, params={"name": "zoe"}, branch="draft")

    for handle in (graph, og.connect(root)):
        assert names(handle) == names(handle, "draft") == [*expected, "zoe"]
    assert_settled(reopened(root))
    assert_writable(og.connect(root), ["main", "draft"])


def test_a_staged_load_is_not_published_to_another_graph_in_the_place_of_its_own(tmp_path: Path) -> None:
    root = tmp_path / "g"
    text = seeded(root).stage([node("Person", name="late")], mode="append").to_json()
    shutil.rmtree(root)
    other = seeded(root)

    with pytest.raises(errors.OmnigraphError):
        other.publish(StagedLoad.from_json(text))

    assert names(other) == ["ann", "bob"]
    assert_writable(reopened(root))


@pytest.mark.parametrize("operation", ["insert", "update", "define"])
@pytest.mark.parametrize("again", [False, True], ids=["gone", "made again"])
@pytest.mark.usefixtures("leases")
def test_a_publish_that_lands_in_a_branch_that_is_gone_is_not_acknowledged(
    tmp_path: Path, operation: str, again: bool
) -> None:
    root = tmp_path / "g"
    graph = seeded(root)
    graph.create_branch("draft")
    writes: dict[str, Callable[[], object]] = {
        "insert": lambda: graph.mutate(INSERT, params={"name": "late"}, branch="draft"),
        "update": lambda: graph.mutate(UPDATE, branch="draft"),
        "define": lambda: graph.tables("draft").create_schema("late"),
    }
    other = og.connect(root)
    with paused("publish.after_merge", writes[operation]) as (writer, pause):
        other.delete_branch("draft")
        if again:
            other.create_branch("draft")
        if again:
            resumed(writer, pause)  # it looked at the new branch, and wrote to that
        else:
            with pytest.raises(errors.NotFound, match="there is no branch `draft`"):
                resumed(writer, pause)

    graph = reopened(root)
    if again:
        assert names(graph, "draft") == (["ann", "bob", "late"] if operation == "insert" else ["ann", "bob"])
        assert len(graph.commits("draft")) == len(graph.commits()) + 1
    assert_settled(graph)
    assert_writable(graph, ["main", "draft"] if again else ["main"])


@pytest.mark.parametrize("steps", [0, 1, 3])
def test_a_version_that_arrives_late_lands_where_nobody_looks(tmp_path: Path, steps: int) -> None:
    """A request of a writer that is long dead may be carried out at any time: here, after its branch was made anew."""
    root = tmp_path / "g"
    graph = seeded(root)
    graph.create_branch("draft")
    graph.mutate(INSERT, params={"name": "old"}, branch="draft")
    place = lineage_place(root, "draft")
    shutil.copytree(place, tmp_path / "late")
    graph.delete_branch("draft")
    for number in range(steps):
        graph.mutate(INSERT, params={"name": f"main{number}"})
    graph.create_branch("draft")
    before = rows(graph, "draft")
    shutil.copytree(tmp_path / "late", place)

    for handle in (graph, reopened(root), og.connect(root, read_only=True)):
        assert rows(handle, "draft") == before
    assert_writable(og.connect(root), ["main", "draft"])


def test_a_version_of_a_graph_that_was_removed_arrives_in_the_next_one(tmp_path: Path) -> None:
    root = tmp_path / "g"
    graph = seeded(root)
    graph.mutate(INSERT, params={"name": "old"})
    shutil.copytree(manifest_place(root), tmp_path / "late")
    place, table = manifest_place(root), graph.snapshot().entry("node:Person").path
    versions = sorted((root / table / "_versions").glob("*.manifest"))
    shutil.copy(versions[0], tmp_path / versions[0].name)  # the newest one sorts first
    shutil.rmtree(root)
    other = seeded(root)
    before = rows(other)
    shutil.copytree(tmp_path / "late", place)
    shutil.copy(tmp_path / versions[0].name, root / table / "_versions" / versions[0].name)

    for handle in (other, og.connect(root)):
        assert rows(handle) == before
    assert_writable(og.connect(root))  # the version of the table above the one that is shown is taken back
    assert_settled(reopened(root))


def test_a_branch_is_not_made_from_one_that_is_deleted_meanwhile(tmp_path: Path) -> None:
    root = tmp_path / "g"
    graph = seeded(root)
    graph.create_branch("base")
    graph.mutate(INSERT, params={"name": "cleo"}, branch="base")
    other = og.connect(root)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMNIGRAPH_LEASES", "off")
        with paused("branch_create.before_record", lambda: graph.create_branch("child", "base")) as (writer, pause):
            other.delete_branch("base")
            with pytest.raises((errors.NotFound, errors.Conflict)):
                resumed(writer, pause)

    assert og.connect(root).branches() == ["main"]
    graph.create_branch("base")
    graph.create_branch("child", "base")
    assert_writable(reopened(root), ["main", "base", "child"])


def test_a_branch_that_two_create_at_once_is_created_by_one(tmp_path: Path) -> None:
    root = tmp_path / "g"
    graph = seeded(root)
    graph.create_branch("other")
    graph.mutate(INSERT, params={"name": "cleo"}, branch="other")
    second = og.connect(root)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMNIGRAPH_LEASES", "off")
        with paused("branch_create.before_record", lambda: graph.create_branch("draft")) as (writer, pause):
            second.create_branch("draft", "other")
            with pytest.raises(errors.Conflict, match="exists already"):
                resumed(writer, pause)

    assert names(reopened(root), "draft") == ["ann", "bob", "cleo"]
    assert len(list((manifest_place(root) / "tree").iterdir())) == 2, "the loser left no lineage"


def test_the_identity_is_kept_in_the_state_and_in_every_commit(tmp_path: Path) -> None:
    root = tmp_path / "g"
    graph = seeded(root)
    graph.create_branch("draft")
    graph_id = json.loads((root / "__schema_state.json").read_text())["graph_id"]

    assert graph.snapshot().incarnation == graph_id
    first = graph.snapshot(branch="draft").incarnation
    graph.delete_branch("draft")
    graph.create_branch("draft")
    assert graph.snapshot(branch="draft").incarnation not in (first, graph_id)
    assert json.loads(record_place(root, "draft").read_text())["lineage"].startswith("draft.")
    assert len(log(root, "_graph_commits.lance")) == len(graph.commits())
    graph.load([edge("Knows", "ann", "bob")], mode="append", branch="draft")
    for branch in ("main", "draft"):
        head = og.connect(root).snapshot(branch=branch).head
        assert head is not None
        assert head.graph_id == graph_id
