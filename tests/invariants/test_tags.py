"""Tags: readable wherever a commit is, never moved, kept by cleanups, safe against whoever works beside them."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import lance
import pyarrow as pa
import pytest

import omnigraph_sql as og
from omnigraph_sql import errors
from omnigraph_sql.manifest.snapshot import reconstruct
from tests.crash.racing import LEASES, Writer, paused, resumed
from tests.crash.world import (
    DIED,
    INSERT,
    armed,
    assert_settled,
    assert_writable,
    edge,
    names,
    node,
    reopened,
    rows,
    run_child,
    seeded,
)
from tests.internals import store_of
from tests.manifests import manifest_place
from tests.stores import Place

EVERYTHING = timedelta(0)
COUNT = "select count(*) as n from Person"
PEOPLE = "query q() { match { $p: Person } return { $p.name } order { $p.name } }"


def add(graph: og.Graph, *people: str, branch: str = "main") -> None:
    for name in people:
        graph.mutate(INSERT, params={"name": name}, branch=branch)


def versions(graph: og.Graph, branch: str | None = None) -> list[int]:
    entry = graph.snapshot(branch=branch or "main").entries["node:Person"]
    place = f"{graph.uri}/{entry.path}" + (f"/tree/{entry.branch}" if entry.branch else "")
    return [int(each["version"]) for each in lance.dataset(place).versions()]


@pytest.fixture(params=["leases", "no leases"])
def leases(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    if request.param == "no leases":
        monkeypatch.setenv(LEASES, "off")
    return bool(request.param == "leases")


# Names ---------------------------------------------------------------------------------------------------------------


def test_a_tag_names_the_commit_and_says_who_made_it(tmp_path: Place) -> None:
    graph = seeded(tmp_path / "g")
    head = graph.commits()[0]

    made = graph.tag("release/1.0", message="first", actor="bo")

    assert (made.name, made.graph_commit_id, made.branch) == ("release/1.0", head.graph_commit_id, "main")
    assert (made.manifest_version, made.message, made.actor_id) == (head.manifest_version, "first", "bo")
    for other in (graph, og.connect(tmp_path / "g"), og.connect(tmp_path / "g", read_only=True)):
        assert other.tags() == [made]
    assert graph.commits()[0] == head, "a tag is no commit"


def test_a_tag_never_moves(tmp_path: Place) -> None:
    graph = seeded(tmp_path / "g")
    made = graph.tag("v1")
    add(graph, "cleo")

    for ref in ("main", "v1"):
        with pytest.raises(errors.Conflict, match="tags do not move") as refused:
            graph.tag("v1", ref)
        assert refused.value.reason == "exists"
    assert graph.tags() == [made]
    graph.delete_tag("v1")
    assert graph.tag("v1").graph_commit_id == graph.snapshot().commit_id != made.graph_commit_id


@pytest.mark.parametrize(
    "name",
    [
        *("", " ", "a b", "main@3", "@v1", "v1@2", "a//b", ".", "..", "a/./b", "x.lock", "v$1", "a:b", "x" * 201, "é" * 30),
        *("01M7TX5C783FWMVW3QNZDABCS3", "01m7tx5c783fwmvw3qnzdabcs3", "unreadable-0123456789abcdef"),
        "__schema_apply_lock__",
    ],
)
def test_names_that_could_be_something_else_are_refused(tmp_path: Place, name: str) -> None:
    graph = seeded(tmp_path / "g")

    with pytest.raises(errors.BadRequest):
        graph.tag(name)

    assert graph.tags() == []


def test_a_name_is_a_branch_or_a_tag(tmp_path: Place) -> None:
    graph = seeded(tmp_path / "g")
    graph.create_branch("draft")
    graph.tag("v1")

    for name in ("main", "draft"):
        with pytest.raises(errors.Conflict, match="is a branch") as refused:
            graph.tag(name)
        assert refused.value.reason == "name_taken"
    with pytest.raises(errors.Conflict, match="is a tag") as taken:
        graph.create_branch("v1")
    assert taken.value.reason == "name_taken"
    assert (graph.branches(), [tag.name for tag in graph.tags()]) == (["draft", "main"], ["v1"])


def test_the_name_of_a_tag_where_only_a_branch_or_a_commit_will_do(tmp_path: Place) -> None:
    graph = seeded(tmp_path / "g")
    tag = graph.tag("v1")

    for write in (lambda: graph.merge("v1"), lambda: graph.commits("v1"), lambda: graph.sql("select 1 as n", branch="v1")):
        with pytest.raises(errors.NotFound, match="there is no branch `v1`") as refused:
            write()
        assert "`v1` is a tag: write `@v1`" in str(refused.value.hint)
    for read in (lambda: graph.commit("v1"), lambda: graph.revert("v1"), lambda: graph.commit_changes("v1")):
        with pytest.raises(errors.NotFound, match="there is no commit `v1`") as refused:
            read()
        assert refused.value.hint == f"it is a tag of the commit `{tag.graph_commit_id}`"


def test_a_tag_that_is_not_there_cannot_be_deleted_or_read(tmp_path: Place) -> None:
    graph = seeded(tmp_path / "g")
    graph.tag("v1")

    with pytest.raises(errors.NotFound, match="there is no tag `v11`") as missing:
        graph.delete_tag("v11")
    assert missing.value.what == "tag"
    for read in (
        lambda: graph.snapshot(commit="v11"),
        lambda: graph.diff("v11", "main"),
        lambda: graph.sql('select * from "@v11"."Person"'),
        lambda: graph.restore("v11"),
        lambda: graph.create_branch("b", "v11"),
        lambda: graph.tag("v2", "v11"),
    ):
        with pytest.raises(errors.NotFound, match="v1"):
            read()
    with pytest.raises(errors.BadRequest, match="read-only"):
        og.connect(tmp_path / "g", read_only=True).tag("v2")


# Reading -------------------------------------------------------------------------------------------------------------

READS: dict[str, Callable[[og.Graph, str], Any]] = {
    "query": lambda graph, ref: len(graph.query(PEOPLE, snapshot=ref).to_pylist()),
    "duckdb query": lambda graph, ref: len(graph.query(PEOPLE, snapshot=ref, engine="duckdb").to_pylist()),
    "sql": lambda graph, ref: graph.sql(COUNT, snapshot=ref).to_pylist()[0]["n"],
    "duckdb sql": lambda graph, ref: graph.sql(COUNT, snapshot=ref, engine="duckdb").to_pylist()[0]["n"],
    "isolated sql": lambda graph, ref: graph.sql(COUNT, snapshot=ref, isolated=True).to_pylist()[0]["n"],
    "schema": lambda graph, ref: graph.sql(f'select count(*) as n from "@{ref}"."Person"').to_pylist()[0]["n"],
    "duckdb schema": lambda graph, ref: graph.sql(
        f'select count(*) as n from "@{ref}"."Person"', engine="duckdb"
    ).to_pylist()[0]["n"],
    "session": lambda graph, ref: graph.datafusion(snapshot=ref).sql(COUNT).to_pylist()[0]["n"],
    "session schema": lambda graph, ref: (
        graph.datafusion().sql(f'select count(*) as n from "@{ref}"."Person"').to_pylist()[0]["n"]
    ),
    "duckdb session": lambda graph, ref: graph.duckdb(snapshot=ref).sql(COUNT).fetchall()[0][0],
    "attached": lambda graph, ref: attached(graph, ref).fetchall()[0][0],
    "export": lambda graph, ref: len(list(graph.export(types=["Person"], commit=ref))),
    "entity": lambda graph, ref: 2 if graph.entity_at("node:Person", "cleo", commit=ref) is None else 3,
    "snapshot": lambda graph, ref: graph.snapshot(commit=ref).entry("node:Person").row_count,
    "diff": lambda graph, ref: 3 - len(graph.diff(ref, "main", types=["Person"]).changes),
    "changes": lambda graph, ref: 3 - graph.sql(f"select * from changes('@{ref}')").to_arrow().num_rows,
}


def attached(graph: og.Graph, ref: str) -> Any:
    import duckdb

    session = duckdb.connect()
    if ref in [tag.name for tag in graph.tags()]:
        alias = graph.attach(session)
        return session.sql(f'select count(*) from {alias}."@{ref}"."Person"')
    alias = graph.attach(session, snapshot=ref)
    return session.sql(f'select count(*) from {alias}."@{ref}"."Person"')


@pytest.mark.parametrize("read", READS)
def test_a_tag_can_be_read_wherever_a_commit_can(tmp_path: Place, read: str) -> None:
    graph = seeded(tmp_path / "g")
    commit = graph.tag("rel/v.1").graph_commit_id
    add(graph, "cleo")

    assert READS[read](graph, "rel/v.1") == READS[read](graph, commit) == 2


def test_explain_takes_a_tag(tmp_path: Place) -> None:
    graph = seeded(tmp_path / "g")
    graph.tag("v1")

    assert "Person" in str(graph.explain(PEOPLE, snapshot="v1"))


def test_a_tag_that_was_made_again_is_read_as_what_it_is_now(tmp_path: Place) -> None:
    graph = seeded(tmp_path / "g")
    session = graph.datafusion()
    text = 'select count(*) as n from "@v1"."Person"'
    graph.tag("v1")
    assert session.sql(text).to_pylist() == [{"n": 2}]
    add(graph, "cleo")

    graph.delete_tag("v1")
    graph.tag("v1")

    for engine in ("datafusion", "duckdb"):
        assert graph.sql(text, engine=engine).to_pylist() == [{"n": 3}]
    assert session.sql(text).to_pylist() == [{"n": 3}]
    graph.delete_tag("v1")
    with pytest.raises(errors.NotFound):
        graph.sql(text)


def test_every_kind_of_state_can_be_tagged(tmp_path: Place) -> None:
    graph = seeded(tmp_path / "g")
    first = graph.commits()[0]
    add(graph, "cleo")
    graph.create_branch("draft")
    add(graph, "dora", branch="draft")

    graph.tag("by_commit", first.graph_commit_id)
    graph.tag("by_version", f"main@{first.manifest_version}")
    graph.tag("by_tag", "by_commit")
    graph.tag("by_at", f"@{first.graph_commit_id}")
    graph.tag("by_branch", "draft")
    add(graph, "eve", branch="draft")

    early = {tag.name: tag.graph_commit_id for tag in graph.tags() if tag.name != "by_branch"}
    assert set(early.values()) == {first.graph_commit_id}
    assert names(graph, commit="by_tag") == ["ann", "bob"]
    assert names(graph, commit="by_branch") == ["ann", "bob", "cleo", "dora"]


def test_a_branch_without_commits_of_its_own_is_tagged_where_its_commit_was_made(tmp_path: Place) -> None:
    graph = seeded(tmp_path / "g")
    graph.create_branch("draft")

    assert graph.tag("v1", "draft").branch == "main"

    graph.delete_branch("draft")
    assert names(graph, commit="v1") == ["ann", "bob"]


def test_a_branch_inherits_no_tags(tmp_path: Place) -> None:
    graph = seeded(tmp_path / "g")
    graph.tag("v1")
    graph.create_branch("draft")
    add(graph, "cleo", branch="draft")
    graph.delete_tag("v1")

    assert graph.snapshot(branch="draft").tags == {}
    for other in (graph, og.connect(tmp_path / "g")):
        assert other.tags() == []
        assert other.sql("select name from tags()", branch="draft").to_pylist() == []
    graph.tag("v1", "draft")
    assert names(graph, commit="v1") == ["ann", "bob", "cleo"]


@pytest.mark.parametrize("engine", ["datafusion", "duckdb"])
def test_tags_are_a_table_function(tmp_path: Place, engine: Any) -> None:
    graph = seeded(tmp_path / "g")
    made = graph.tag("v1", message="first", actor="bo")

    (row,) = graph.sql("select * from tags()", engine=engine).to_pylist()

    assert row.pop("created_at").timestamp() == pytest.approx(made.created_at / 1e6)
    assert row == {name: value for name, value in made.to_dict().items() if name != "created_at"}


def test_restore_takes_a_tag(tmp_path: Place) -> None:
    graph = seeded(tmp_path / "g")
    before = rows(graph)
    graph.tag("v1")
    add(graph, "cleo")

    graph.restore("v1")

    assert rows(graph) == before


# Beside publishes ----------------------------------------------------------------------------------------------------


def test_what_is_published_after_a_tag_is_seen_at_once_and_whole(tmp_path: Place) -> None:
    root = tmp_path / "g"
    graph, other = seeded(root), og.connect(root)
    for number in range(6):
        graph.tag(f"v{number}")
        add(other if number % 2 else graph, f"p{number}")
        other.tag(f"w{number}")
        anew = og.connect(root).snapshot()
        for handle in (graph, other):
            shown = handle.snapshot()
            assert (shown, shown.head_version) == (anew, shown.head_version)
            assert dict(shown.tags) == dict(anew.tags)
    assert len(graph.commits()) == 8
    assert [commit.manifest_version for commit in graph.commits()] == sorted(
        (commit.manifest_version for commit in graph.commits()), reverse=True
    )
    assert_settled(graph)
    for number in range(6):
        assert len(names(graph, commit=f"v{number}")) == 2 + number


def test_a_publish_that_comes_first_is_not_lost(tmp_path: Place, leases: bool) -> None:
    root = tmp_path / "g"
    graph, other = seeded(root), og.connect(root)

    with paused("tag.before_merge", lambda: graph.tag("v1")) as (tagging, pause):
        add(other, "cleo")
        if not leases:
            other.tag("v2")
        made = resumed(tagging, pause)
        if leases:
            other.tag("v2")

    assert names(graph) == ["ann", "bob", "cleo"]
    assert names(graph, commit="v1") == ["ann", "bob"], "what was meant when the tag was asked for"
    assert names(graph, commit="v2") == ["ann", "bob", "cleo"]
    assert made.graph_commit_id == graph.commits()[1].graph_commit_id
    assert_writable(reopened(root))


@pytest.mark.usefixtures("leases")
def test_a_tag_that_comes_first_holds_up_no_publish(tmp_path: Place) -> None:
    root = tmp_path / "g"
    graph, other = seeded(root), og.connect(root)

    with paused("publish.before_merge", lambda: add(graph, "cleo")) as (writing, pause):
        other.tag("v1")
        resumed(writing, pause)

    assert names(graph) == ["ann", "bob", "cleo"]
    assert [tag.name for tag in og.connect(root).tags()] == ["v1"]
    assert_writable(reopened(root))


def test_of_two_tags_of_one_name_one_is_made(tmp_path: Place, leases: bool) -> None:
    root = tmp_path / "g"
    graph, other = seeded(root), og.connect(root)

    with paused("tag.before_merge", lambda: graph.tag("v1", actor="one")) as (tagging, pause):
        rival = Writer(lambda: other.tag("v1", actor="two"))
        if not leases:
            rival.join()
        pause.resume.set()
        outcomes = []
        for writer in (tagging, rival):
            try:
                outcomes.append(writer.join().actor_id)
            except errors.Conflict:
                continue

    assert outcomes == [tag.actor_id for tag in graph.tags()]


def test_a_tag_whose_outcome_was_lost_is_there_once(tmp_path: Place) -> None:
    graph = seeded(tmp_path / "g")

    with armed("publish.after_merge=error"):
        made = graph.tag("v1")
    assert graph.tags() == og.connect(tmp_path / "g").tags() == [made]
    with armed("publish.after_merge=error"):
        graph.delete_tag("v1")
    assert graph.tags() == []
    with armed("publish.force_contention=times(2)"):
        graph.tag("v1")
    with armed("tag.before_merge=error"), pytest.raises(errors.Storage, match="failpoint"):
        graph.tag("v2")
    assert [tag.name for tag in graph.tags()] == ["v1"]


@pytest.mark.parametrize(("point", "made"), [("tag.before_merge", False), ("publish.after_merge", True)])
@pytest.mark.parametrize("operation", ["tag", "delete_tag"])
def test_a_process_that_dies_leaves_a_tag_or_none(tmp_path: Place, operation: str, point: str, made: bool) -> None:
    root = tmp_path / "g"
    seeded(root).tag("v0")

    assert run_child(root, operation, f"{point}=exit") == DIED

    graph = reopened(root)
    expected = {"tag": ["v0", "v1"], "delete_tag": []} if made else {"tag": ["v0"], "delete_tag": ["v0"]}
    assert [tag.name for tag in graph.tags()] == expected[operation]
    for tag in graph.tags():
        assert names(graph, commit=tag.name) == ["ann", "bob"]
    assert_writable(graph)


def test_what_a_newer_release_wrote_is_not_overwritten(tmp_path: Place) -> None:
    root = tmp_path / "g"
    graph = seeded(root)
    graph.tag("v1")
    dataset = lance.dataset(str(manifest_place(root)))
    dataset.update({"metadata": "'[]'"}, where="object_id = 'tag$v1'")

    other = og.connect(root)

    for write in (lambda: other.tag("v2"), lambda: add(other, "cleo"), lambda: other.delete_tag("v1")):
        with pytest.raises(errors.UnsupportedFormat, match="tag"):
            write()
    assert names(other) == ["ann", "bob"]


def test_many_tags_do_not_fill_the_manifest_with_fragments(tmp_path: Place) -> None:
    graph = seeded(tmp_path / "g")
    for number in range(40):
        graph.tag(f"v{number}")

    fragments = len(lance.dataset(str(manifest_place(tmp_path / "g"))).get_fragments())

    assert fragments < 33
    assert len(og.connect(tmp_path / "g").tags()) == 40


# Cleanup -------------------------------------------------------------------------------------------------------------


def test_a_cleanup_keeps_what_tags_name_and_nothing_more(tmp_path: Place) -> None:
    root = tmp_path / "g"
    graph = seeded(root)
    add(graph, "one")
    graph.tag("v1")
    add(graph, "two", "three")
    graph.tag("v2")
    add(graph, "four")
    before = {tag.name: rows(graph, commit=tag.name) for tag in graph.tags()}
    pinned = [graph.snapshot(commit=name).entries["node:Person"].version for name in ("v1", "v2")]

    stats = graph.cleanup(older_than=EVERYTHING)

    assert [each.error for each in stats if each.error] == []
    assert versions(graph) == [*pinned, graph.snapshot().entries["node:Person"].version]
    for other in (graph, og.connect(root), og.connect(root, read_only=True)):
        assert {tag.name: rows(other, commit=tag.name) for tag in other.tags()} == before
    with pytest.raises(errors.VersionReclaimed):
        rows(graph, version=graph.snapshot(commit="v1").manifest_version + 2)
    assert_writable(reopened(root))

    graph.delete_tag("v1")
    graph.cleanup(older_than=EVERYTHING)

    assert versions(graph)[0] == pinned[1]
    assert rows(og.connect(root), commit="v2") == before["v2"]
    with pytest.raises(errors.VersionReclaimed):
        rows(graph, commit=graph.commits()[3].graph_commit_id)


def test_a_cleanup_keeps_what_tags_name_on_branches(tmp_path: Place) -> None:
    root = tmp_path / "g"
    graph = seeded(root)
    graph.create_branch("draft")
    add(graph, "one", branch="draft")
    graph.tag("d1", "draft")
    add(graph, "two", "three", branch="draft")
    add(graph, "four", "five")
    before = rows(graph, commit="d1")

    stats = graph.cleanup(older_than=EVERYTHING)

    assert [each.error for each in stats if each.error] == []
    assert rows(graph, commit="d1") == rows(og.connect(root), commit="d1") == before
    entry = graph.snapshot(commit="d1").entries["node:Person"]
    assert versions(graph, "draft") == [entry.version, graph.snapshot(branch="draft").entries["node:Person"].version]
    assert_writable(reopened(root), ["main", "draft"])


def test_a_cleanup_keeps_a_table_that_was_dropped(tmp_path: Place) -> None:
    graph = seeded(tmp_path / "g")
    graph.tables().create_table("main", "fees", pa.table({"fee": [1, 2]}))
    graph.tag("v1")
    graph.tables().append("main", "fees", pa.table({"fee": [3]}))
    graph.tables().drop("main", "fees")

    graph.cleanup(older_than=EVERYTHING)

    for engine in ("datafusion", "duckdb"):
        assert og.connect(tmp_path / "g").sql('select sum(fee) as n from "@v1".fees', engine=engine).to_pylist() == [
            {"n": 3}
        ]


def test_a_state_that_is_gone_can_be_neither_tagged_nor_branched(tmp_path: Place) -> None:
    graph = seeded(tmp_path / "g")
    lost = graph.snapshot()
    add(graph, "one", "two")
    graph.cleanup(older_than=EVERYTHING)

    for handle in (graph, og.connect(tmp_path / "g")):
        for ref in (lost.commit_id, f"main@{lost.manifest_version}"):
            with pytest.raises(errors.VersionReclaimed):
                handle.tag("v1", ref)
            with pytest.raises(errors.VersionReclaimed):
                handle.create_branch("old", ref)
    assert (graph.tags(), graph.branches()) == ([], ["main"])


def test_tags_of_a_lost_version_stop_the_cleanup_of_the_table_alone(tmp_path: Place) -> None:
    graph = seeded(tmp_path / "g")
    graph.tag("v1")
    entry = graph.snapshot().entries["node:Person"]
    add(graph, "one", "two")
    lost = next(
        path
        for path in (tmp_path / "g" / entry.path / "_versions").iterdir()
        if path.name == f"{(1 << 64) - 1 - entry.version:020}.manifest"
    )
    lost.unlink()

    stats = {each.table_key: each for each in og.connect(tmp_path / "g").cleanup(older_than=EVERYTHING)}

    assert "the tag `v1`" in (stats["node:Person"].error or "")
    assert stats["node:Team"].error is None


@pytest.mark.usefixtures("leases")
def test_a_tag_that_is_made_while_a_cleanup_begins_is_kept(tmp_path: Place) -> None:
    graph = seeded(tmp_path / "g")
    state = graph.commits()[0].graph_commit_id
    add(graph, "one", "two")
    other = og.connect(tmp_path / "g")

    with paused("cleanup.table_gc@3", lambda: graph.cleanup(older_than=EVERYTHING)) as (cleaning, pause):
        other.tag("v1", state)
        other.create_branch("old", state)
        stats = {each.table_key: each for each in resumed(cleaning, pause)}

    assert "needs version" in (stats["node:Person"].error or "")
    assert not [each for each in (tmp_path / "g").rglob("_cleanup/*") if each.is_file()]
    for handle in (graph, og.connect(tmp_path / "g")):
        assert names(handle, commit="v1") == names(handle, "old") == ["ann", "bob"]
    assert [each.error for each in graph.cleanup(older_than=EVERYTHING) if each.error] == []
    assert names(og.connect(tmp_path / "g"), commit="v1") == ["ann", "bob"]


@pytest.mark.usefixtures("leases")
@pytest.mark.parametrize("operation", ["tag", "create_branch"])
@pytest.mark.parametrize("after", [False, True], ids=["looked before", "looked after"])
def test_what_a_cleanup_is_about_to_remove_gets_no_tag_or_branch(tmp_path: Place, operation: str, after: bool) -> None:
    graph = seeded(tmp_path / "g")
    state = graph.commits()[0].graph_commit_id
    add(graph, "one", "two")
    other = og.connect(tmp_path / "g")
    rows(other, commit=state)  # it has the tables open
    before = "tag.before_merge" if operation == "tag" else "branch_create.before_record"

    def make() -> object:
        return other.tag("v1", state) if operation == "tag" else other.create_branch("old", state)

    def clean() -> Any:
        return graph.cleanup(older_than=EVERYTHING)

    if after:
        with paused("cleanup.after_note@3", clean) as (cleaning, pause):
            with pytest.raises(errors.VersionReclaimed):
                make()
            resumed(cleaning, pause)
    else:
        with paused(before, make) as (making, pause):
            clean()
            with pytest.raises(errors.VersionReclaimed):
                resumed(making, pause)

    for handle in (graph, og.connect(tmp_path / "g")):
        assert (handle.tags(), handle.branches()) == ([], ["main"])
    assert_writable(reopened(tmp_path / "g"))


# Deleted branches ----------------------------------------------------------------------------------------------------


def test_a_branch_with_tagged_states_stays(tmp_path: Place) -> None:
    graph = seeded(tmp_path / "g")
    graph.create_branch("draft")
    add(graph, "one", branch="draft")
    graph.tag("d1", "draft")

    with pytest.raises(errors.Conflict, match="the tag `d1`") as refused:
        graph.delete_branch("draft")
    assert refused.value.reason == "tagged"
    assert "delete the tag `d1` first" in str(refused.value)
    merged = graph.merge("draft", delete_source=True)
    assert (merged.branch_deleted, graph.branches()) == (False, ["draft", "main"])
    assert names(og.connect(tmp_path / "g"), commit="d1") == ["ann", "bob", "one"]

    graph.delete_tag("d1")
    graph.delete_branch("draft")
    assert graph.branches() == ["main"]


def test_a_branch_that_goes_while_it_is_tagged_takes_the_tag_with_it(tmp_path: Place, leases: bool) -> None:
    graph = seeded(tmp_path / "g")
    graph.create_branch("draft")
    add(graph, "one", branch="draft")
    other = og.connect(tmp_path / "g")

    with paused("tag.before_merge", lambda: graph.tag("d1", "draft")) as (tagging, pause):
        deleting = Writer(lambda: other.delete_branch("draft"))
        if not leases:
            deleting.join()
            with pytest.raises((errors.NotFound, errors.Conflict)):
                resumed(tagging, pause)
        else:
            resumed(tagging, pause)
            with pytest.raises(errors.Conflict, match="d1"):
                deleting.join()

    assert [tag.name for tag in graph.tags()] == (["d1"] if leases else [])
    assert graph.branches() == (["draft", "main"] if leases else ["main"])
    assert_writable(og.connect(tmp_path / "g"))


def test_a_tag_that_a_deletion_did_not_see_stays_readable(tmp_path: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LEASES, "off")
    root = tmp_path / "g"
    graph = seeded(root)
    graph.create_branch("draft")
    add(graph, "one", branch="draft")
    store = store_of(graph)
    record = store.coordinator.table.record("draft")
    before = rows(graph, "draft")
    other = og.connect(root)
    other.tag("d1", "draft")
    # The tag came after the look of the deletion at the tags, and before it removed the record.
    store.coordinator.table.delete_branch("draft", record)

    for handle in (og.connect(root), og.connect(root, read_only=True)):
        assert handle.branches() == ["main"]
        assert rows(handle, commit="d1") == before
    monkeypatch.setenv("OMNIGRAPH_STAGING_GRACE", "1ms")
    cleaner = og.connect(root)
    add(cleaner, "two")
    assert [each.error for each in cleaner.cleanup(older_than=EVERYTHING) if each.error] == []
    assert rows(og.connect(root), commit="d1") == before
    with pytest.raises(errors.Conflict, match="earlier branch") as taken:
        cleaner.create_branch("draft")
    assert taken.value.reason == "tagged"

    cleaner.delete_tag("d1")
    cleaner.cleanup(older_than=EVERYTHING)
    assert cleaner.create_branch("draft") == "draft"
    assert_writable(reopened(root), ["main", "draft"])


def test_a_tag_that_is_made_while_its_branch_goes_stays_readable(tmp_path: Place, leases: bool) -> None:
    root = tmp_path / "g"
    graph, other = seeded(root), og.connect(root)
    graph.create_branch("draft")
    add(graph, "one", branch="draft")
    before = rows(graph, "draft")

    with paused("branch_delete.before_record", lambda: graph.delete_branch("draft")) as (deleting, pause):
        tagging = Writer(lambda: other.tag("d1", "draft"))
        if not leases:
            tagging.join()  # the deletion has looked for tags already
        resumed(deleting, pause)
        if leases:
            with pytest.raises((errors.NotFound, errors.Conflict)):
                tagging.join()

    for handle in (graph, og.connect(root)):
        assert handle.branches() == ["main"]
        assert [rows(handle, commit=tag.name) for tag in handle.tags()] == ([] if leases else [before])


@pytest.mark.parametrize("again", [False, True])
def test_a_branch_that_goes_while_it_is_read_is_not_there(
    tmp_path: Place, monkeypatch: pytest.MonkeyPatch, again: bool
) -> None:
    root = tmp_path / "g"
    graph = seeded(root)
    graph.create_branch("draft")
    add(graph, "one", branch="draft")
    other = og.connect(root)

    def gone(*_: Any) -> Any:
        graph.delete_branch("draft")
        if again:
            graph.create_branch("draft")
        patch.undo()
        raise errors.Storage("draft lacks a file", storage_class="permanent")

    coordinator = store_of(other).coordinator
    coordinator.forget("draft")
    with monkeypatch.context() as patch:
        patch.setattr(coordinator, "_load", gone)
        if again:
            assert rows(other, "draft") == rows(graph)
        else:
            with pytest.raises(errors.NotFound, match="there is no branch `draft`"):
                other.tag("d1", "draft")
    assert graph.tags() == []


# Branches from any state ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["version", "commit", "tag", "@commit", "@tag"])
def test_a_branch_begins_at_any_state(tmp_path: Place, kind: str) -> None:
    root = tmp_path / "g"
    graph = seeded(root)
    before, state = rows(graph), graph.snapshot()
    graph.tag("v1")
    add(graph, "cleo")
    ref = {
        "version": f"main@{state.manifest_version}",
        "commit": state.commit_id,
        "tag": "v1",
        "@commit": f"@{state.commit_id}",
        "@tag": "@v1",
    }[kind]

    assert graph.create_branch(" old ", ref) == "old"

    assert graph.snapshot(branch="old").commit_id == state.commit_id
    assert rows(graph, "old") == rows(og.connect(root), "old") == before
    add(graph, "dora", branch="old")
    graph.load([node("Team", slug="blue"), edge("Member", "dora", "blue")], mode="append", branch="old")
    assert names(graph, "old") == ["ann", "bob", "dora"]
    assert names(graph) == ["ann", "bob", "cleo"]
    assert graph.commits("old")[-1] == graph.commits()[-1]
    assert_writable(reopened(root), ["main", "old"])


def test_a_branch_from_the_past_of_a_branch_is_a_child_of_it(tmp_path: Place) -> None:
    graph = seeded(tmp_path / "g")
    graph.create_branch("draft")
    add(graph, "one", branch="draft")
    early = graph.snapshot(branch="draft")
    add(graph, "two", branch="draft")

    graph.create_branch("older", f"draft@{early.manifest_version}")
    add(graph, "three", branch="older")

    assert names(graph, "older") == ["ann", "bob", "one", "three"]
    assert names(graph, "draft") == ["ann", "bob", "one", "two"]
    with pytest.raises(errors.Conflict, match="older"):
        graph.delete_branch("draft")
    graph.delete_branch("older")
    graph.delete_branch("draft")
    assert_settled(og.connect(tmp_path / "g"))


def test_a_branch_from_the_past_merges_back(tmp_path: Place) -> None:
    graph = seeded(tmp_path / "g")
    graph.tag("v1")
    add(graph, "cleo")
    graph.create_branch("fix", "v1")
    add(graph, "dora", branch="fix")

    graph.merge("fix", delete_source=True)

    assert names(graph) == ["ann", "bob", "cleo", "dora"]
    assert graph.branches() == ["main"]


def test_a_branch_from_the_past_keeps_what_it_shows(tmp_path: Place) -> None:
    graph = seeded(tmp_path / "g")
    graph.tag("v1")
    before = rows(graph)
    add(graph, "one", "two")
    graph.create_branch("old", "v1")
    graph.delete_tag("v1")

    stats = graph.cleanup(older_than=EVERYTHING)

    assert [each.error for each in stats if each.error] == []
    assert rows(graph, "old") == rows(og.connect(tmp_path / "g"), "old") == before
    add(graph, "three", branch="old")
    graph.cleanup(older_than=EVERYTHING)
    assert names(og.connect(tmp_path / "g"), "old") == ["ann", "bob", "three"]


def test_loads_create_their_branch_from_a_tag(tmp_path: Place) -> None:
    graph = seeded(tmp_path / "g")
    graph.tag("v1")
    add(graph, "cleo")

    result = graph.load([node("Person", name="dora")], mode="append", branch="new", base="v1")

    assert result.branch_created
    assert names(graph, "new") == ["ann", "bob", "dora"]


def test_the_rows_of_tags_are_what_the_format_says(tmp_path: Place) -> None:
    graph = seeded(tmp_path / "g")
    made = graph.tag("v1", message="first", actor="bo")
    graph.tag("v2")
    graph.delete_tag("v2")

    rows = lance.dataset(str(manifest_place(tmp_path / "g"))).to_table(filter="object_type = 'tag'").to_pylist()
    stored = {row["object_id"]: row for row in rows}

    assert stored["tag$v2"]["metadata"] is None
    assert {row["table_key"] for row in rows} == {""}
    members = json.loads(stored["tag$v1"]["metadata"])
    assert {name: members[name] for name in ("graph_commit_id", "branch", "manifest_version", "actor", "message")} == {
        "graph_commit_id": made.graph_commit_id,
        "branch": "main",
        "manifest_version": made.manifest_version,
        "actor": "bo",
        "message": "first",
    }
    assert dict(reconstruct("main", 1, rows).tags) == {"v1": made}
    with warnings.catch_warnings():
        assert dict(reconstruct("draft", 1, rows).tags) == {}
