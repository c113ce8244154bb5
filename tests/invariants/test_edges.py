"""Invariants at the edges: cost, error mapping, order, idempotency."""

import json
import threading
from pathlib import Path
from typing import Any

import pytest

import omnigraph_sql as og
from omnigraph_sql import errors
from tests.cost.counting import cost
from tests.crash.racing import paused, resumed
from tests.crash.world import (
    INSERT,
    OPERATIONS,
    SCHEMA,
    abandon,
    assert_settled,
    edge,
    kinds,
    names,
    node,
    prepared,
    reopened,
    rows,
    seeded,
)


def test_invariant_54_a_warm_read_opens_no_table(tmp_path: Path) -> None:
    seeded(tmp_path / "g")
    graph = og.connect(tmp_path / "g", read_only=True)
    cold = cost(graph, lambda: rows(graph))
    warm = cost(graph, lambda: rows(graph))

    assert cold["tables.open"] == 5
    assert "tables.open" not in warm
    assert "manifest.read" not in warm
    assert warm["manifest.probe"] == 1


def test_invariant_54_a_write_costs_the_same_however_long_the_history(tmp_path: Path) -> None:
    graph = seeded(tmp_path / "g")
    costs = []
    for turn in range(45):
        costs.append(cost(graph, lambda turn=turn: graph.mutate(INSERT, params={"name": f"p{turn}"})))

    assert costs[3] == costs[20] == costs[44]


MAPPING: list[tuple[type[errors.OmnigraphError], int, int, bool]] = [
    (errors.Compile, 1, 400, False),
    (errors.BadRequest, 1, 400, False),
    (errors.ValidationFailed, 1, 400, False),
    (errors.NotFound, 1, 404, False),
    (errors.Conflict, 5, 409, False),
    (errors.ExpectedVersionMismatch, 5, 409, True),
    (errors.RowLevelCasContention, 5, 409, True),
    (errors.KeyConflict, 5, 409, False),
    (errors.MergeConflicts, 5, 409, False),
    (errors.PreconditionFailed, 4, 412, False),
    (errors.AlreadyInitialized, 1, 409, False),
    (errors.InitializationClaimed, 1, 409, False),
    (errors.ResourceLimit, 8, 413, False),
    (errors.RecoveryRequired, 7, 503, False),
    (errors.UnsupportedFormat, 1, 500, False),
    (errors.VersionReclaimed, 1, 410, False),
    (errors.ChangeFeedGap, 1, 410, False),
    (errors.CommitHasNoParent, 1, 409, False),
    (errors.SchemaBoundary, 1, 409, False),
    (errors.CursorRejected, 1, 400, False),
    (errors.EmbeddingFailed, 1, 502, False),
    (errors.SourceFailed, 1, 502, False),
    (errors.DataTestFailed, 1, 400, False),
    (errors.Configuration, 2, 400, False),
    (errors.Storage, 1, 500, False),
    (errors.Internal, 1, 500, False),
]


@pytest.mark.parametrize(("kind", "exit_code", "http_status", "retryable"), MAPPING, ids=[kind.kind for kind, *_ in MAPPING])
def test_invariant_57_a_kind_has_its_status_and_exit_code(
    kind: type[errors.OmnigraphError], exit_code: int, http_status: int, retryable: bool
) -> None:
    assert (kind.kind, kind.exit_code, kind.http_status, kind.retryable) == (
        kind.__name__,
        exit_code,
        http_status,
        retryable,
    )


def test_invariant_57_every_kind_of_the_family_is_mapped() -> None:
    def family(kind: type[errors.OmnigraphError]) -> set[type[errors.OmnigraphError]]:
        return {kind}.union(*(family(each) for each in kind.__subclasses__()))

    declared = {each for each in family(errors.OmnigraphError) if each.__module__ == errors.__name__}
    assert {kind for kind, *_ in MAPPING} == declared - {errors.OmnigraphError}


def test_invariant_59_every_listing_has_one_order(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", SCHEMA)
    data = [node("Person", name=name) for name in ("zoe", "ann", "Bob", "élan", "a-b", "a b")]
    data += [edge("Knows", "zoe", "ann", id=each) for each in ("k3", "K1", "k10", "k2")]
    graph.load(data, mode="append")
    for branch in ("zeta", "alpha", "mid/one"):
        graph.create_branch(branch)
    graph.mutate(INSERT, params={"name": "cleo"})

    exported = list(graph.export())
    records = [json.loads(text) for text in exported]
    assert [record.get("type", record.get("edge")) for record in records] == ["Person"] * 7 + ["Knows"] * 4
    for kind in ("Person", "Knows"):
        ids = [row["id"] for row in rows(graph)[kind]]
        assert ids == sorted(ids, key=str.encode)
    assert graph.branches() == ["alpha", "main", "mid/one", "zeta"]
    assert list(graph.snapshot().entries) == sorted(graph.snapshot().entries)
    other = og.connect(tmp_path / "g")
    assert list(other.export()) == exported
    assert other.commits() == graph.commits()
    created = [commit.manifest_version for commit in graph.commits()]
    assert created == sorted(created, reverse=True)


def once(graph: og.Graph, name: str = "cleo", branch: str = "main", key: str = "k") -> Any:
    return graph.load([node("Person", name=name)], mode="append", branch=branch, idempotency_key=key).commit


def test_invariant_60_a_key_is_published_once_per_branch(tmp_path: Path) -> None:
    graph = seeded(tmp_path / "g")
    first = once(graph)
    commits = len(graph.commits())
    graph.mutate(INSERT, params={"name": "between"})

    assert once(graph, "dora") == first
    assert once(og.connect(tmp_path / "g"), "eve") == first
    assert len(graph.commits()) == commits + 1
    assert names(graph) == ["ann", "between", "bob", "cleo"]
    assert once(graph, "dora", key="other") != first
    assert_settled(graph)


def test_invariant_60_a_branch_knows_the_keys_of_its_history_only(tmp_path: Path) -> None:
    graph = seeded(tmp_path / "g")
    graph.create_branch("before")
    first = once(graph)
    graph.create_branch("after")

    assert once(graph, "dora", branch="after") == first
    assert once(graph, "dora", branch="before") != first
    assert names(graph, "before") == ["ann", "bob", "dora"]


def test_invariant_60_concurrent_publishers_of_one_key_make_one_commit(tmp_path: Path) -> None:
    root = tmp_path / "g"
    seeded(root)
    made: list[Any] = []

    def write(worker: int) -> None:
        made.append(once(og.connect(root), f"w{worker}").graph_commit_id)

    threads = [threading.Thread(target=write, args=(worker,)) for worker in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    graph = reopened(root)
    assert len(made) == 4
    assert len(set(made)) == 1
    assert len(names(graph)) == 3
    assert len(graph.commits()) == 3


def test_invariant_60_one_key_on_different_tables_at_once_makes_one_commit(tmp_path: Path) -> None:
    """They do not meet in a queue, only in the publish: the loser takes back what it did."""
    root = tmp_path / "g"
    graph = seeded(root)
    other = og.connect(root)
    with paused("publish.before_merge", lambda: once(graph)) as (writer, pause):
        first = other.load([node("Place", slug="here")], mode="append", idempotency_key="k").commit
        made = resumed(writer, pause)

    assert made == first
    assert names(graph) == ["ann", "bob"]
    assert_settled(reopened(root))
    OPERATIONS["insert"](graph)
    assert names(graph) == ["ann", "bob", "cleo"]


@pytest.mark.parametrize(
    ("point", "survives"),
    [
        ("write.post_sidecar_pre_effect", False),
        ("write.post_table_commit@1", True),
        ("write.post_effects_pre_publish", True),
        ("publish.after_merge", True),
        ("write.before_sidecar_delete", True),
    ],
)
@pytest.mark.parametrize("reopen", [True, False], ids=["reopened", "same process"])
def test_invariant_60_a_key_counts_after_a_crash(tmp_path: Path, point: str, survives: bool, reopen: bool) -> None:
    root = tmp_path / "g"
    graph = prepared(root, "insert")
    abandon(point, lambda: once(graph))
    if reopen:
        graph = og.connect(root)

    commit = once(graph, "again")
    assert once(graph, "and again") == commit

    assert names(graph) == (["ann", "bob", "cleo"] if survives else ["again", "ann", "bob"])
    assert len(graph.commits()) == 3
    assert kinds(reopened(root)) == (["RolledForward"] if survives else ["RolledBack"])
