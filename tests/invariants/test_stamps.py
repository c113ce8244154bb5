"""The format of the manifest: every branch has a stamp of its own, and read-write paths bring each to the current one."""

import json
import warnings
from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import omnigraph_sql as og
from omnigraph_sql import errors
from tests.crash.racing import Writer, paused, resumed
from tests.crash.world import DIED, INSERT, armed, assert_settled, assert_writable, names, reopened, run_child, seeded
from tests.manifests import manifest_place, open_manifest, without_identity

STATE = "__schema_state.json"
STAMP = b"omnigraph:internal_schema_version"
KEY = b"lance-schema:unenforced-primary-key"
POINTS = ["stamp.after_annotation", "stamp.after_run_branches", "stamp.after_records", "stamp.after_identity"]


def manifest(root: Path, branch: str = "main") -> lance.LanceDataset:
    """A branch of the manifest, as this release or an early one keeps it."""
    if "graph_id" in json.loads((root / STATE).read_text()):
        return open_manifest(root, branch)
    place = root / "__manifest"
    return lance.dataset(str(place if branch == "main" else place / "tree" / branch))


def stamp(root: Path, branch: str = "main") -> int:
    return int((manifest(root, branch).schema.metadata or {}).get(STAMP, b"1"))


def keys(root: Path, branch: str = "main") -> list[str]:
    return [field.name for field in manifest(root, branch).schema if KEY in (field.metadata or {})]


def rewrite(root: Path, branch: str, stamp: int, key: str | None = None) -> None:
    """Give a branch of the manifest an old format: the same rows, without the annotation that stamp 2 brought."""
    old = manifest(root, branch)
    fields = [field.with_metadata({KEY: b"true"} if field.name == key else None) for field in old.schema]
    schema = pa.schema(fields, {STAMP: str(stamp).encode()} if stamp > 1 else None)
    lance.write_dataset(old.to_table().cast(schema), old, mode="overwrite")


def set_stamp(root: Path, branch: str, stamp: int) -> None:
    manifest(root, branch).update_schema_metadata({STAMP.decode(): str(stamp)})


def branches(root: Path) -> list[str]:
    """The branches besides main."""
    if "graph_id" in json.loads((root / STATE).read_text()):
        return sorted(path.stem for path in (manifest_place(root) / "_branches").glob("*.json"))
    return sorted(manifest(root).branches.list())


def aged(root: Path, stamp: int) -> None:
    """A graph of an old format with a branch and the branch of a run, both made under it."""
    seeded(root)
    without_identity(root)
    rewrite(root, "main", stamp, None if stamp == 1 else "object_id")
    manifest(root).create_branch("draft")
    manifest(root).create_branch("__run__7")


def state(root: Path) -> dict[str, tuple[int, list[str], int]]:
    names = ["main", *branches(root)]
    return {name: (stamp(root, name), keys(root, name), manifest(root, name).version) for name in names}


def assert_current(root: Path, others: tuple[str, ...] = ("draft",)) -> None:
    found = state(root)
    assert {name: entry[:2] for name, entry in found.items()} == dict.fromkeys(["main", *others], (4, ["object_id"]))
    graph = reopened(root)
    assert state(root) == found, "a matching stamp costs no write"
    assert (names(graph), names(graph, "draft")) == (["ann", "bob"], ["ann", "bob"])
    assert_writable(graph, ["draft", "main"])


@pytest.mark.parametrize("old", [1, 2])
def test_reading_changes_nothing_and_opening_to_write_migrates_every_branch(tmp_path: Path, old: int) -> None:
    root = tmp_path / "g"
    aged(root, old)
    before = state(root)
    assert {entry[0] for entry in before.values()} == {old}
    assert {tuple(entry[1]) for entry in before.values()} == {() if old == 1 else ("object_id",)}

    reader = og.connect(root, read_only=True)
    assert reader.branches() == ["__run__7", "draft", "main"]
    assert names(reader, "draft") == ["ann", "bob"]
    assert state(root) == before

    assert og.connect(root).branches() == ["draft", "main"]
    assert_current(root)


def _cut(place: Path) -> None:
    place.write_bytes(place.read_bytes()[: place.stat().st_size // 2])


def _directory(place: Path) -> None:
    place.unlink()
    place.mkdir()


@pytest.mark.parametrize("old", [1, 2, 3])
@pytest.mark.parametrize(
    ("kind", "damage"),
    [
        ("reference", _cut),
        ("reference", _directory),
        ("versions", _cut),
        ("versions", _directory),
        ("versions", Path.unlink),
    ],
)
def test_a_damaged_branch_stops_no_migration_and_is_not_lost(
    tmp_path: Path, old: int, kind: str, damage: Callable[[Path], None]
) -> None:
    root = tmp_path / "g"
    aged(root, old)
    pattern = "_refs/branches/draft.json" if kind == "reference" else "tree/draft/_versions/*.manifest"
    for place in list((root / "__manifest").glob(pattern)):
        damage(place)

    graph = og.connect(root)

    assert "draft" in graph.branches()
    assert list(graph.damaged_branches()) == (["draft"] if kind == "versions" else [])
    graph.mutate(INSERT, params={"name": "cleo"})
    with warnings.catch_warnings(action="ignore"):  # of what cannot be removed
        graph.delete_branch("draft")
    graph.create_branch("draft")
    assert names(og.connect(root), "draft") == ["ann", "bob", "cleo"]
    assert_writable(og.connect(root), ["draft", "main"])


@pytest.mark.parametrize("old", [1, 2])
@pytest.mark.parametrize("branch", ["main", "draft"])
def test_a_publish_migrates_the_branch_it_writes_to(tmp_path: Path, old: int, branch: str) -> None:
    root = tmp_path / "g"
    graph = seeded(root)
    graph.create_branch("draft")
    rewrite(root, branch, old, None if old == 1 else "object_id")

    graph.mutate(INSERT, params={"name": "cleo"}, branch=branch)

    assert (stamp(root, branch), keys(root, branch)) == (4, ["object_id"])
    assert names(graph, branch) == ["ann", "bob", "cleo"]
    assert_settled(graph)


@pytest.mark.parametrize("action", ["error", "exit"])
@pytest.mark.parametrize(
    ("point", "nth", "old"),
    [(POINTS[0], 1, 1), (POINTS[0], 2, 1), (POINTS[1], 1, 1), (POINTS[1], 1, 2), (POINTS[2], 1, 2), (POINTS[3], 1, 3)],
)
def test_a_migration_cut_between_its_writes_is_finished_by_the_next(
    tmp_path: Path, point: str, old: int, nth: int, action: str
) -> None:
    root = tmp_path / "g"
    aged(root, old)
    if action == "exit":
        assert run_child(root, "open", OMNIGRAPH_FAILPOINTS=f"{point}=exit@{nth}") == DIED
    else:
        with armed(f"{point}=error@{nth}"), pytest.raises(errors.Storage, match="failpoint"):
            og.connect(root)
    assert stamp(root) < 4, "main is the last, so its stamp speaks for all"

    og.connect(root)
    assert_current(root, ("draft",) if old < 3 else ("draft", "__run__7"))


@pytest.mark.parametrize(("held_at", "nth"), [(POINTS[0], 1), (POINTS[0], 2), *((point, 1) for point in POINTS[1:])])
def test_two_at_once_migrate_as_one(tmp_path: Path, held_at: str, nth: int) -> None:
    root = tmp_path / "g"
    aged(root, 1)
    with paused(f"{held_at}@{nth}", lambda: og.connect(root)) as (slow, pause):
        fast = og.connect(root)
        assert stamp(root) == 4
        fast.create_branch("__run__mine")
        resumed(slow, pause)

    assert branches(root) == ["__run__mine", "draft"], "from now on an ordinary name"
    fast.delete_branch("__run__mine")
    assert_current(root)


def test_several_openers_at_once_migrate_as_one(tmp_path: Path) -> None:
    root = tmp_path / "g"
    aged(root, 1)
    openers = [Writer(lambda: og.connect(root)) for _ in range(4)]
    for opener in openers:
        opener.join()

    assert_current(root)


def test_a_branch_of_the_current_format_is_not_taken_for_that_of_a_run(tmp_path: Path) -> None:
    root = tmp_path / "g"
    graph = seeded(root)
    graph.create_branch("draft")
    graph.create_branch("__run__mine")
    set_stamp(root, "draft", 2)

    graph.mutate(INSERT, params={"name": "cleo"}, branch="draft")

    assert stamp(root, "draft") == 4
    assert graph.branches() == ["__run__mine", "draft", "main"]


def test_a_newer_branch_is_refused_by_all_who_would_read_or_write_it(tmp_path: Path) -> None:
    root = tmp_path / "g"
    graph = seeded(root)
    graph.create_branch("draft")
    set_stamp(root, "draft", 5)
    before = state(root)
    reader = og.connect(root, read_only=True)
    entries: list[Callable[[], object]] = [
        lambda: og.connect(root),
        lambda: reader.snapshot(branch="draft"),
        lambda: graph.snapshot(branch="draft"),
        lambda: graph.mutate(INSERT, params={"name": "cleo"}, branch="draft"),
        lambda: graph.create_branch("other", "draft"),
    ]
    for entry in entries:
        with pytest.raises(errors.UnsupportedFormat, match="upgrade first"):
            entry()

    assert state(root) == before
    assert names(reader) == ["ann", "bob"]


def test_a_key_on_another_column_is_refused(tmp_path: Path) -> None:
    root = tmp_path / "g"
    seeded(root)
    rewrite(root, "main", 1, "table_key")
    before = state(root)

    with pytest.raises(errors.UnsupportedFormat, match="table_key"):
        og.connect(root)

    assert state(root) == before
    assert names(og.connect(root, read_only=True)) == ["ann", "bob"]
