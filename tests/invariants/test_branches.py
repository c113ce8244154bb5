"""Invariants of branches, commits and time travel."""

import json
import threading
from pathlib import Path

import lance
import pytest

import omnigraph_sql as og
from omnigraph_sql import errors
from tests.crash.world import (
    ACTOR,
    DELETE,
    INSERT,
    INSERT_TEAM,
    OPERATIONS,
    SCHEMA,
    UPDATE,
    abandon,
    assert_settled,
    edge,
    heads,
    log,
    names,
    node,
    prepared,
    reopened,
    rows,
    seeded,
    table_branches,
)
from tests.manifests import record_place


def forked(graph: og.Graph, branch: str) -> list[str]:
    return [key for key, entry in graph.snapshot(branch=branch).entries.items() if entry.branch is not None]


def test_invariant_35_a_branch_copies_nothing_and_a_write_forks_what_it_touches(tmp_path: Path) -> None:
    root = tmp_path / "g"
    graph = seeded(root)
    before = heads(graph)
    graph.create_branch("draft")
    paths = [entry.path for entry in graph.snapshot().entries.values()]
    assert [table_branches(root, path) for path in paths] == [[] for _ in paths]
    assert graph.snapshot(branch="draft").entries == graph.snapshot().entries
    assert graph.commits("draft") == graph.commits()

    graph.load([edge("Knows", "bob", "ann", id="k2")], mode="append", branch="draft")
    assert forked(graph, "draft") == ["edge:Knows"]
    graph.mutate(INSERT_TEAM, params={"slug": "blue"}, branch="draft")
    assert forked(graph, "draft") == ["edge:Knows", "node:Team"]
    graph.mutate('query q() { delete Team where slug = "nobody" }', branch="draft")
    assert forked(graph, "draft") == ["edge:Knows", "node:Team"]
    assert heads(graph) == before
    record = json.loads(record_place(root, "draft").read_text("utf-8"))
    assert (record["name"], record["from"], record["actor"]) == ("draft", "main", ACTOR)


def test_invariant_36_writes_on_a_branch_stay_there(tmp_path: Path) -> None:
    graph = seeded(tmp_path / "g")
    graph.create_branch("a")
    graph.mutate(INSERT, params={"name": "on-a"}, branch="a")
    graph.create_branch("b", "a")
    graph.mutate(INSERT, params={"name": "on-b"}, branch="b")
    graph.mutate(INSERT, params={"name": "on-main"})
    graph.mutate(INSERT, params={"name": "later-a"}, branch="a")

    assert names(graph) == ["ann", "bob", "on-main"]
    assert names(graph, "a") == ["ann", "bob", "later-a", "on-a"]
    assert names(graph, "b") == ["ann", "bob", "on-a", "on-b"]
    graph.mutate(DELETE, branch="b")
    assert [len(rows(graph, branch).get("Knows", [])) for branch in ("main", "a", "b")] == [1, 1, 0]
    assert_settled(reopened(tmp_path / "g"))


@pytest.mark.parametrize(
    "name",
    ["main", "__schema_apply_lock__", "", " ", "a//b", "/a", "a/", "a b", "a..b", "x.lock", "a$b", "é/ü?", "a\\b", "a\nb"],
)
def test_invariant_37_names_that_cannot_be_used_are_refused(tmp_path: Path, name: str) -> None:
    graph = seeded(tmp_path / "g")

    with pytest.raises(errors.OmnigraphError) as refused:
        graph.create_branch(name)

    assert refused.value.http_status in (400, 409)
    assert graph.branches() == ["main"]


def test_invariant_37_names_are_prefix_disjoint(tmp_path: Path) -> None:
    graph = seeded(tmp_path / "g")
    graph.create_branch("team/one")
    graph.create_branch("team/two")
    graph.create_branch("teams")
    for name in ("team", "team/one/x", "team/one"):
        with pytest.raises(errors.Conflict):
            graph.create_branch(name)
    graph.mutate(INSERT, params={"name": "cleo"}, branch="team/one")

    assert graph.branches() == ["main", "team/one", "team/two", "teams"]
    assert names(graph, "team/one") == ["ann", "bob", "cleo"]
    assert names(graph, "team/two") == names(graph, "teams") == ["ann", "bob"]
    assert_settled(reopened(tmp_path / "g"))


def test_invariant_37_the_lock_branch_is_no_branch_of_the_public(tmp_path: Path) -> None:
    graph = seeded(tmp_path / "g")
    for use in (
        lambda: graph.snapshot(branch="__schema_apply_lock__"),
        lambda: graph.mutate(UPDATE, branch="__schema_apply_lock__"),
        lambda: graph.delete_branch("__schema_apply_lock__"),
        lambda: graph.delete_branch("main"),
    ):
        with pytest.raises(errors.BadRequest):
            use()
    with pytest.raises(errors.NotFound):
        graph.delete_branch("nowhere")


def test_invariant_37_a_branch_with_descendants_or_dependants_stays(tmp_path: Path) -> None:
    graph = seeded(tmp_path / "g")
    graph.create_branch("a")
    graph.mutate(INSERT, params={"name": "on-a"}, branch="a")
    graph.create_branch("b", "a")
    with pytest.raises(errors.Conflict, match="`b`"):
        graph.delete_branch("a")
    assert names(graph, "b") == ["ann", "bob", "on-a"]

    graph.delete_branch("b")
    graph.delete_branch("a")
    assert graph.branches() == ["main"]


def test_invariant_37_a_recreated_branch_starts_clean(tmp_path: Path) -> None:
    root = tmp_path / "g"
    graph = prepared(root, "first_touch")
    reader = og.connect(root, read_only=True)
    OPERATIONS["first_touch"](graph)
    assert names(reader, "draft") == ["ann", "bob", "cleo"]
    graph.delete_branch("draft")
    graph.mutate(INSERT, params={"name": "dora"})
    graph.create_branch("draft")

    for each in (graph, reader, og.connect(root)):
        assert names(each, "draft") == ["ann", "bob", "dora"]
    graph.mutate(INSERT, params={"name": "eve"}, branch="draft")
    for each in (graph, reader, og.connect(root)):
        assert names(each, "draft") == ["ann", "bob", "dora", "eve"]
        assert names(each) == ["ann", "bob", "dora"]
    assert_settled(graph)


def test_invariant_38_every_publish_is_one_commit_with_parent_and_actor(tmp_path: Path) -> None:
    graph = prepared(tmp_path / "g", "first_touch")
    made = []
    for operation in ("insert", "update", "many_overwrite"):
        result = OPERATIONS[operation](graph)
        made.append(result.commit)  # type: ignore[attr-defined]

    history = graph.commits()
    assert [commit.graph_commit_id for commit in history[:3]] == [commit.graph_commit_id for commit in reversed(made)]
    assert [commit.actor_id for commit in history] == ["op", "op", "op", ACTOR, ACTOR]
    assert [commit.parent_commit_id for commit in history] == [*(each.graph_commit_id for each in history[1:]), None]
    assert all(commit.merged_parent_commit_id is None for commit in history)
    OPERATIONS["first_touch"](graph)
    on_branch = graph.commits("draft")
    assert on_branch[0].manifest_branch == "draft"
    assert on_branch[0].parent_commit_id == history[3].graph_commit_id
    assert graph.commit(on_branch[0].graph_commit_id) == on_branch[0]


def test_invariant_38_the_chain_is_linear_under_concurrency(tmp_path: Path) -> None:
    root = tmp_path / "g"
    seeded(root)
    failures: list[BaseException] = []

    def write(worker: int) -> None:
        try:
            graph = og.connect(root)
            for turn in range(5):
                text = INSERT if worker % 2 else INSERT_TEAM
                graph.mutate(text, params={"name" if worker % 2 else "slug": f"w{worker}-{turn}"})
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=write, args=(worker,)) for worker in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert failures == []
    graph = reopened(root)
    assert len(graph.commits()) == 2 + 20
    assert len(names(graph)) == 2 + 10
    assert len(names(graph, kind="Team")) == 1 + 10


@pytest.mark.parametrize("operation", ["insert", "many", "first_touch"])
@pytest.mark.parametrize("point", ["publish.after_merge", "journal.before_append", "write.post_effects_pre_publish"])
def test_invariant_39_the_journal_follows_the_head_after_a_crash(tmp_path: Path, operation: str, point: str) -> None:
    root = tmp_path / "g"
    graph = prepared(root, operation)
    branch = "draft" if operation == "first_touch" else "main"
    recorded = len(log(root, "_graph_commits.lance"))
    abandon(point, lambda: OPERATIONS[operation](graph))
    assert len(log(root, "_graph_commits.lance")) == recorded

    graph = reopened(root)

    assert len(log(root, "_graph_commits.lance")) == recorded + 1
    head = graph.snapshot(branch=branch).head
    assert head is not None
    assert graph.commits(branch)[0].graph_commit_id == head.graph_commit_id


def test_invariant_39_the_next_publisher_fills_the_hole(tmp_path: Path) -> None:
    """Not by opening: by a process that was open all along."""
    root = tmp_path / "g"
    graph = seeded(root)
    other = og.connect(root)
    abandon("journal.before_append", lambda: OPERATIONS["insert"](graph))

    other.mutate(INSERT_TEAM, params={"slug": "blue"})

    assert [commit.actor_id for commit in other.commits()] == [None, "op", ACTOR, ACTOR]
    assert_settled(other)


def test_invariant_40_the_past_stays_as_it_was(tmp_path: Path) -> None:
    graph = prepared(tmp_path / "g", "first_touch")
    past = {}
    for operation in ("insert", "update", "overwrite", "first_touch", "delete", "many_overwrite"):
        if operation == "many_overwrite":
            graph.load([node("Person", name="ann")], mode="merge")
        for branch in graph.branches():
            snapshot = graph.snapshot(branch=branch)
            past[branch, snapshot.manifest_version, snapshot.commit_id] = rows(graph, branch)
        OPERATIONS[operation](graph)

    assert len({json.dumps(each) for each in past.values()}) == 5
    for reader in (graph, og.connect(tmp_path / "g", read_only=True)):
        for (branch, version, commit), content in past.items():
            assert rows(reader, branch, version=version) == content
            assert rows(reader, branch, commit=commit) == content


def test_invariant_40_unknown_versions_and_commits_are_not_found(tmp_path: Path) -> None:
    graph = seeded(tmp_path / "g")
    last = graph.snapshot().manifest_version
    for version in (0, last + 1, 10**9):
        with pytest.raises(errors.NotFound):
            graph.snapshot(version=version)
    for lookup in (graph.commit, lambda commit: graph.snapshot(commit=commit)):
        with pytest.raises(errors.NotFound):
            lookup("01M00000000000000000000000")
    with pytest.raises(errors.NotFound):
        graph.snapshot(branch="nowhere", version=1)


def test_a_reader_sees_the_commits_of_others_without_refreshing(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", SCHEMA)
    reader = og.connect(tmp_path / "g", read_only=True)
    captured = reader.snapshot()
    graph.load([node("Person", name="ann")], mode="append")

    assert names(reader) == ["ann"]
    assert captured.entry("node:Person").row_count == 0
    assert lance.dataset(str(tmp_path / "g" / captured.entry("node:Person").path)).count_rows() == 1
