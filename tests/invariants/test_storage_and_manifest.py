"""Invariants of storage and manifest."""

from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import omnigraph_sql as og
from omnigraph_sql import errors, failpoints
from omnigraph_sql.manifest.snapshot import reconstruct
from tests.crash.racing import paused, resumed
from tests.crash.world import (
    INSERT,
    INSERT_TEAM,
    OPERATIONS,
    armed,
    assert_settled,
    heads,
    log,
    names,
    node,
    pins,
    prepared,
    rows,
    seeded,
)
from tests.manifests import log_place, manifest_place, open_manifest, without_identity

STAMP = "omnigraph:internal_schema_version"


def datasets(root: Path) -> list[lance.LanceDataset]:
    return [lance.dataset(str(path.parent)) for path in sorted(root.rglob("_versions")) if "tree" not in path.parts]


def manifest(root: Path) -> lance.LanceDataset:
    return open_manifest(root)


def test_invariant_01_stable_row_ids_and_no_automatic_cleanup(tmp_path: Path) -> None:
    root = tmp_path / "g"
    graph = seeded(root)
    with armed("write.post_table_commit=error"), pytest.raises(errors.Storage):
        OPERATIONS["insert"](graph)  # makes the audit log, too

    found = datasets(root)

    logs = ("_graph_commits.lance", "_graph_commit_actors.lance", "_graph_commit_recoveries.lance")
    assert {Path(each.uri) for each in found} >= {manifest_place(root), *(log_place(root, name) for name in logs)}
    assert len(found) == 4 + 5
    for each in found:
        assert each.has_stable_row_ids, each.uri
        assert each.data_storage_version == "2.2", each.uri
        assert not [key for key in each.config() if "auto_cleanup" in key], each.uri


def fnv1a64(text: str) -> str:
    value = 14695981039346656037
    for byte in text.encode():
        value = ((value ^ byte) * 1099511628211) & (2**64 - 1)
    return f"{value:016x}"


def test_invariant_02_table_paths_are_hashes_of_the_exact_type_names(tmp_path: Path) -> None:
    assert (fnv1a64(""), fnv1a64("a"), fnv1a64("foobar")) == ("cbf29ce484222325", "af63dc4c8601ec8c", "85944171f73967e8")
    schema = "node Port { name: String @key }\nnode PORT { name: String @key }\nedge Route: Port -> Port"
    graph = og.init(tmp_path / "g", schema)

    assert {key: entry.path for key, entry in graph.snapshot().entries.items()} == {
        "edge:Route": f"edges/{fnv1a64('Route')}",
        "node:PORT": f"nodes/{fnv1a64('PORT')}",
        "node:Port": f"nodes/{fnv1a64('Port')}",
    }
    for entry in graph.snapshot().entries.values():
        assert (tmp_path / "g" / entry.path / "_versions").is_dir()


def test_invariant_03_a_snapshot_is_a_function_of_its_manifest_version(tmp_path: Path) -> None:
    graph = prepared(tmp_path / "g", "first_touch")
    seen = {}
    for operation in ("insert", "update", "first_touch", "delete", "many_overwrite"):
        for branch in graph.branches():
            snapshot = graph.snapshot(branch=branch)
            seen[branch, snapshot.manifest_version] = snapshot
        OPERATIONS[operation](graph)

    for reader in (graph, og.connect(tmp_path / "g", read_only=True)):
        for (branch, version), snapshot in seen.items():
            assert reader.snapshot(branch=branch, version=version) == snapshot


def test_invariant_04_one_operation_is_one_publish(tmp_path: Path) -> None:
    root = tmp_path / "g"
    graph = prepared(root, "many")
    before = manifest(root).version

    OPERATIONS["many"](graph)

    assert manifest(root).version == before + 1
    assert len(rows(graph, version=before)["Person"]) == 2
    changed = {key for key, pin in pins(graph).items() if pin != graph.snapshot(version=before).entries[key].version}
    assert changed == {"edge:Knows", "edge:Member", "node:Person", "node:Team"}


def test_invariant_05_of_two_publishes_with_one_base_the_second_looks_again(tmp_path: Path) -> None:
    root = tmp_path / "g"
    graph = seeded(root)
    other = og.connect(root)
    with paused("publish.before_merge", lambda: graph.mutate(INSERT, params={"name": "cleo"})) as (first, pause):
        other.mutate(INSERT_TEAM, params={"slug": "blue"})
        resumed(first, pause)

    assert names(graph) == ["ann", "bob", "cleo"]
    assert names(graph, kind="Team") == ["blue", "red"]
    assert len(graph.commits()) == 4, "a commit fell out of the history"
    assert_settled(graph)


def test_invariant_05_what_a_write_relied_on_is_checked_again(tmp_path: Path) -> None:
    """An edge to a node, and the removal of that node: different tables, so no queue keeps them apart. One must lose."""
    root = tmp_path / "g"
    graph = seeded(root)
    graph.mutate(INSERT, params={"name": "zed"})
    other = og.connect(root)
    add = 'query q() { insert Knows { from: "ann", to: "zed" } }'
    with paused("publish.before_merge", lambda: graph.mutate(add)) as (first, pause):
        other.mutate('query q() { delete Person where name = "zed" }')
        with pytest.raises(errors.ValidationFailed):
            resumed(first, pause)

    assert names(graph) == ["ann", "bob"]
    assert names(graph, kind="Knows") == ["k1"]
    assert_settled(graph)


def test_invariant_06_a_moved_table_is_named_and_not_retried(tmp_path: Path) -> None:
    graph = seeded(tmp_path / "g")
    staged = graph.stage([node("Person", name="solo"), node("Person", name="ann"), node("Person", name="bob")], mode="merge")
    expected = pins(graph)["node:Person"]
    graph.mutate(INSERT, params={"name": "cleo"})
    before = heads(graph)

    with pytest.raises(errors.ExpectedVersionMismatch) as refused:
        graph.publish(staged)

    error = refused.value
    assert (error.table_key, error.expected, error.actual) == ("node:Person", expected, expected + 1)
    assert error.retryable
    assert heads(graph) == before
    assert names(graph) == ["ann", "bob", "cleo"]
    assert_settled(graph)


@pytest.mark.parametrize(("times", "succeeds"), [(0, True), (5, True), (6, False)])
def test_invariant_06_contention_is_retried_at_most_five_times(
    tmp_path: Path, times: int, succeeds: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = seeded(tmp_path / "g")
    failpoints.reset()
    monkeypatch.setenv(failpoints.VARIABLE, f"publish.force_contention=times({times})")
    if succeeds:
        graph.mutate(INSERT, params={"name": "cleo"})
    else:
        with pytest.raises(errors.Conflict):
            graph.mutate(INSERT, params={"name": "cleo"})

    assert ("cleo" in names(graph)) is succeeds


def test_invariant_07_pins_never_decrease(tmp_path: Path) -> None:
    root = tmp_path / "g"
    graph = prepared(root, "first_touch")
    for operation in ("insert", "overwrite", "first_touch", "delete", "many_overwrite"):
        with armed("write.post_effects_pre_publish=error"), pytest.raises(errors.Storage):
            OPERATIONS[operation](graph)
        OPERATIONS[operation](graph)

    for branch in graph.branches():
        last = graph.snapshot(branch=branch).manifest_version
        seen: dict[str, int] = {}
        for version in range(1 if branch == "main" else 3, last + 1):
            for key, entry in graph.snapshot(branch=branch, version=version).entries.items():
                assert entry.version >= seen.get(key, 0), (branch, version, key)
                seen[key] = entry.version


def _row(kind: str, version: int | None = None, **more: Any) -> dict[str, Any]:
    blank = {"object_type": kind, "table_key": "node:T", "location": None, "metadata": None, "table_branch": None}
    return blank | {"table_version": version, "row_count": 0} | more


@pytest.mark.parametrize(
    ("versions", "tombstones", "visible"),
    [
        ([1, 2], [], 2),
        ([1, 2], [1], 2),
        ([1, 2], [2], None),
        ([1, 2], [3], None),
        ([1, 2, 4], [3], 4),
        ([1, 2, 4], [3, 5], None),
        ([1, 2, 4, 6], [3, 5], 6),
    ],
)
def test_invariant_08_tombstones_hide_pins_up_to_their_version(
    versions: list[int], tombstones: list[int], visible: int | None
) -> None:
    manifest_rows = [
        _row("table", location="nodes/x"),
        *(_row("table_version", version) for version in versions),
        *(_row("table_tombstone", version) for version in tombstones),
    ]

    for ordered in (manifest_rows, manifest_rows[::-1]):
        snapshot = reconstruct("main", 1, ordered)
        assert [entry.version for entry in snapshot.entries.values()] == ([] if visible is None else [visible])
        assert snapshot.pin("node:T") == (max(tombstones) if visible is None else visible)


def set_stamp(root: Path, stamp: int) -> None:
    manifest(root).update_schema_metadata({STAMP: str(stamp)})


def stamp(root: Path) -> int:
    return int((manifest(root).schema.metadata or {}).get(STAMP.encode(), b"1"))


def test_invariant_09_a_newer_stamp_is_refused_everywhere(tmp_path: Path) -> None:
    root = tmp_path / "g"
    graph = seeded(root)
    before = heads(graph)
    set_stamp(root, 5)
    for entry in (
        lambda: og.connect(root),
        lambda: og.connect(root, read_only=True),
        lambda: graph.mutate(INSERT, params={"name": "cleo"}),
    ):
        with pytest.raises(errors.UnsupportedFormat, match="upgrade first"):
            entry()
    assert stamp(root) == 5
    set_stamp(root, 4)

    graph = og.connect(root)
    assert names(graph) == ["ann", "bob"]
    assert {key: head - before[key] for key, head in heads(graph).items()}.keys() == before.keys()
    graph.mutate(INSERT, params={"name": "cleo"})
    assert_settled(graph)


def test_invariant_09_an_older_stamp_is_migrated_by_read_write_opens_only(tmp_path: Path) -> None:
    root = tmp_path / "g"
    seeded(root)
    without_identity(root)
    old = lance.dataset(str(root / "__manifest"))
    old.update_schema_metadata({STAMP: "2"})
    old.create_branch("__run__7")
    version = lance.dataset(str(root / "__manifest")).version

    reader = og.connect(root, read_only=True)
    assert "__run__7" in reader.branches()
    assert lance.dataset(str(root / "__manifest")).version == version

    graph = og.connect(root)
    assert graph.branches() == ["main"]
    assert stamp(root) == 4
    migrated = manifest(root).version
    og.connect(root)
    assert manifest(root).version == migrated, "a matching stamp costs no write"
    graph.mutate(INSERT, params={"name": "cleo"})
    assert names(graph) == ["ann", "bob", "cleo"]


def test_invariant_10_the_manifest_rejects_two_writers_of_one_row(tmp_path: Path) -> None:
    """The fact everything stands on, on a real manifest; tests/substrate has the others."""
    root = tmp_path / "g"
    seeded(root)
    head_row = next(row for row in manifest(root).to_table().to_pylist() if row["object_id"] == "graph_head")

    def publish(base: lance.LanceDataset, text: str) -> None:
        row = pa.Table.from_pylist([head_row | {"metadata": text}], schema=base.schema)
        builder = base.merge_insert("object_id").when_matched_update_all().when_not_matched_insert_all()
        builder.conflict_retries(0).use_index(False).execute(row)

    first, second = manifest(root), manifest(root)
    publish(first, head_row["metadata"])
    with pytest.raises(OSError, match="Too many concurrent writers"):
        publish(second, head_row["metadata"])


def test_the_journal_is_created_with_a_parentless_first_commit(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", "node T { name: String @key }", actor="ada")

    (row,) = log(tmp_path / "g", "_graph_commits.lance")
    assert row["parent_commit_id"] is None
    assert [commit.graph_commit_id for commit in graph.commits()] == [row["graph_commit_id"]]
