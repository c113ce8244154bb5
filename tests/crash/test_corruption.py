"""Graphs with lost or damaged files: nothing bricks what is whole, every message names the thing and what to do."""

import json
import os
import re
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

import omnigraph_sql as og
from omnigraph_sql import errors
from tests.cli.ogsql import ogsql
from tests.crash.world import (
    ACTOR,
    DIED,
    INSERT,
    INSERT_TEAM,
    ROOT,
    armed,
    assert_settled,
    assert_writable,
    log,
    names,
    node,
    rows,
    seeded,
)
from tests.manifests import lineage_of, log_place, manifest_place, open_manifest, record_place

pytestmark = pytest.mark.local

PEOPLE = "query q() { match { $p: Person } return { $p.name } }"
TEAMS = "query q() { match { $t: Team } return { $t.slug } }"
SOURCE, IR, STATE = "_schema.pg", "_schema.ir.json", "__schema_state.json"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph that nobody may change: the seed, one commit more, and a branch with a table of its own."""
    root = tmp_path_factory.mktemp("model") / "g"
    graph = seeded(root)
    graph.create_branch("draft")
    graph.mutate(INSERT, params={"name": "dora"}, branch="draft")
    graph.mutate(INSERT, params={"name": "cleo"})
    return root


@pytest.fixture
def root(model: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(model, tmp_path / "g"))


def table(root: Path, key: str = "node:Person") -> Path:
    return root / og.connect(root, read_only=True).snapshot().entries[key].path


def opens(root: Path) -> list[Callable[[], object]]:
    return [lambda: og.connect(root, read_only=True), lambda: og.connect(root)]


def listing(root: Path) -> list[tuple[str, int]]:
    found = [path for path in root.rglob("*") if path.is_file() and "_locks" not in path.parts]
    return sorted((str(path), path.stat().st_size) for path in found)


# Schema files ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [SOURCE, IR, STATE])
def test_a_missing_schema_file_is_named(root: Path, name: str) -> None:
    kept = (root / name).read_bytes()
    (root / name).unlink()
    before = listing(root)
    for attempt in opens(root):
        with pytest.raises(errors.NotFound) as missing:
            attempt()
        assert (missing.value.what, missing.value.name) == ("schema file", name)
        assert missing.value.hint == "restore the file from a copy of the graph"
    assert listing(root) == before

    (root / name).write_bytes(kept)
    assert_writable(og.connect(root), ["main", "draft"])


GARBAGE = [
    b"[" * 100_000,
    b"",
    b"\xff\xfe\x00",
    b"{",
    b"[]",
    b"7",
    b"{}",
    b'{"format_version": 1}',
    b'{"format_version": "x"}',
]


@pytest.mark.parametrize("garbage", GARBAGE)
@pytest.mark.parametrize("name", [IR, STATE])
def test_garbage_in_a_schema_file_is_a_typed_error(root: Path, name: str, garbage: bytes) -> None:
    (root / name).write_bytes(garbage)
    for attempt in opens(root):
        with pytest.raises(errors.Storage, match="cannot be read") as broken:
            attempt()
        assert str(root / name) in broken.value.message
        assert "\n" not in broken.value.message
        assert (broken.value.storage_class, broken.value.hint) == ("permanent", "restore the file from a copy of the graph")


@pytest.mark.parametrize("garbage", [b"\xff\xfe\x00", b"node {", b"node A { x: Nope }"])
def test_a_source_that_does_not_compile_is_a_damage_of_the_graph(root: Path, garbage: bytes) -> None:
    (root / SOURCE).write_bytes(garbage)
    for attempt in opens(root):
        with pytest.raises(errors.Storage, match="cannot be read") as broken:
            attempt()
        assert str(root / SOURCE) in broken.value.message


@pytest.mark.parametrize("name", [IR, STATE])
def test_a_schema_file_of_a_newer_release_is_not_guessed_at(root: Path, name: str) -> None:
    entry = json.loads((root / name).read_text())
    (root / name).write_text(json.dumps(entry | {"format_version": 2}))
    for attempt in opens(root):
        with pytest.raises(errors.UnsupportedFormat, match="upgrade first") as newer:
            attempt()
        assert (newer.value.actual, newer.value.supported) == ("2", "1")


def test_schema_files_that_disagree(root: Path) -> None:
    (root / SOURCE).write_text("node Other { name: String @key }")
    for attempt in opens(root):
        with pytest.raises(errors.Conflict, match="do not describe the same schema") as apart:
            attempt()
        assert apart.value.hint == "restore the three files from a copy of the graph"


def test_both_compiled_files_are_written_anew_from_the_source(tmp_path: Path) -> None:
    root = tmp_path / "g"
    graph = seeded(root)
    hash_before = graph.catalog.schema_hash
    for name in (IR, STATE):
        (root / name).unlink()

    with pytest.raises(errors.NotFound):
        og.connect(root, read_only=True)
    graph = og.connect(root)

    assert graph.catalog.schema_hash == hash_before
    assert names(og.connect(root, read_only=True)) == ["ann", "bob"]
    assert_writable(graph)


@pytest.mark.parametrize("source", ["node Other { name: String @key }", None])
def test_the_compiled_files_are_not_made_from_a_source_that_does_not_fit(tmp_path: Path, source: str | None) -> None:
    root = tmp_path / "g"
    seeded(root)
    text = (root / SOURCE).read_text()
    for name in (IR, STATE):
        (root / name).unlink()
    (root / SOURCE).write_text(source or text.replace("age: I32?", "age: I64?"))

    with pytest.raises(errors.NotFound):
        og.connect(root)

    assert not (root / IR).exists()


def test_a_graph_with_branches_is_not_given_new_compiled_files(root: Path) -> None:
    for name in (IR, STATE):
        (root / name).unlink()
    with pytest.raises(errors.NotFound):
        og.connect(root)


# Logs ------------------------------------------------------------------------------------------------------------


def test_a_lost_journal_begins_anew_with_the_heads(root: Path) -> None:
    heads = {branch: og.connect(root).commits(branch)[0] for branch in ("main", "draft")}
    shutil.rmtree(root / "_graph_commits.lance")
    assert [each.graph_commit_id for each in og.connect(root, read_only=True).commits()] == [heads["main"].graph_commit_id]
    assert not (root / "_graph_commits.lance").exists()

    graph = og.connect(root)

    assert {branch: graph.commits(branch) for branch in heads} == {branch: [head] for branch, head in heads.items()}
    assert graph.snapshot(commit=heads["main"].graph_commit_id).commit_id == heads["main"].graph_commit_id
    new = graph.mutate(INSERT, params={"name": "eve"}).commit
    assert new is not None
    assert new.parent_commit_id == heads["main"].graph_commit_id
    assert [each.graph_commit_id for each in graph.commits()] == [new.graph_commit_id, heads["main"].graph_commit_id]


@pytest.mark.parametrize("emptied", [False, True])
def test_lost_actors_are_written_anew(tmp_path: Path, emptied: bool) -> None:
    root = tmp_path / "g"
    graph = seeded(root)
    graph.mutate(INSERT, params={"name": "cleo"}, actor="op")
    actors = log_place(root, "_graph_commit_actors.lance")
    shutil.rmtree(actors / "_versions" if emptied else actors.parent)

    graph = og.connect(root)

    assert [row["actor_id"] for row in log(root, "_graph_commit_actors.lance")] == [ACTOR, ACTOR, "op"]
    assert_settled(graph)
    assert_writable(graph)


@pytest.mark.parametrize("name", ["_graph_commits.lance", "_graph_commit_actors.lance"])
def test_a_damaged_log_says_that_it_can_be_moved_away(root: Path, name: str) -> None:
    for path in (log_place(root, name) / "_versions").glob("*.manifest"):
        path.write_bytes(b"garbage")
    reader = og.connect(root, read_only=True)
    assert names(reader) == ["ann", "bob", "cleo"]
    # The first write is visible before its log is written; the next one completes the log, or says why it cannot.
    with pytest.raises(errors.Storage, match="damaged") as broken:
        [og.connect(root).mutate(INSERT, params={"name": new}, actor="op") for new in ("eve", "fay")]
    assert "move it away" in str(broken.value.hint)

    shutil.move(root / name, root.parent / "aside")
    graph = og.connect(root)
    graph.mutate(INSERT, params={"name": "gus"}, actor="op")
    assert "gus" in names(graph)
    assert graph.commits()[0].actor_id == "op"


# Tables ----------------------------------------------------------------------------------------------------------


def _remove_directory(path: Path) -> None:
    shutil.rmtree(path)


def _remove_rows(path: Path) -> None:
    shutil.rmtree(path / "data")


def _remove_one_file(path: Path) -> None:
    for each in [*(path / "data").iterdir()][:1]:
        each.unlink()


def _cut_rows(path: Path) -> None:
    for each in (path / "data").iterdir():
        each.write_bytes(each.read_bytes()[:100])


def _empty_versions(path: Path) -> None:
    for each in (path / "_versions").glob("*.manifest"):
        each.write_bytes(b"")


def _remove_versions(path: Path) -> None:
    shutil.rmtree(path / "_versions")


def _file_instead(path: Path) -> None:
    shutil.rmtree(path)
    path.write_text("x")


DAMAGES = [_remove_directory, _remove_rows, _remove_one_file, _cut_rows, _empty_versions, _remove_versions, _file_instead]


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__.strip("_"))
def test_a_damaged_table_leaves_the_others_alone(root: Path, damage: Callable[[Path], None]) -> None:
    place = table(root)
    shutil.copytree(place, root.parent / "copy")
    damage(place)

    graph = og.connect(root)
    for attempt in (
        lambda: list(graph.export(types=["Person"])),
        lambda: graph.query(PEOPLE),
        lambda: graph.mutate('query q() { update Person set { age: 1 } where name = "ann" }'),
        lambda: graph.load([node("Person", name="eve")], mode="append"),
        lambda: graph.load([node("Person", name="eve")], mode="merge"),
    ):
        with pytest.raises((errors.NotFound, errors.Storage)) as broken:
            attempt()
        assert place.name in broken.value.message
        assert "\n" not in broken.value.message
        assert "restore the directory" in str(broken.value.hint) or "move it away" in str(broken.value.hint)
    graph.mutate(INSERT_TEAM, params={"slug": "blue"})
    assert sorted(graph.query(TEAMS).to_arrow().column(0).to_pylist()) == ["blue", "red"]
    assert graph.recoveries()["pending"] == []

    if place.is_file():
        place.unlink()
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(root.parent / "copy", place)
    assert_writable(og.connect(root), ["main"])


def test_a_lost_version_of_a_table(root: Path) -> None:
    place = table(root)
    min((place / "_versions").glob("*.manifest")).unlink()

    with pytest.raises(errors.VersionReclaimed, match="version 3 of") as lost:
        names(og.connect(root))

    assert "restore the directory" in str(lost.value.hint)
    assert names(og.connect(root), version=2) == ["ann", "bob"]


# The manifest ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", [_remove_rows, _cut_rows, _empty_versions], ids=lambda damage: damage.__name__.strip("_"))
def test_a_damaged_manifest_is_named(root: Path, damage: Callable[[Path], None]) -> None:
    shutil.copytree(root / "__manifest", root.parent / "copy")
    damage(Path(str(manifest_place(root))))
    for attempt in (lambda: og.connect(root, read_only=True).snapshot(), lambda: og.connect(root)):
        with pytest.raises(errors.Storage, match="__manifest") as broken:
            attempt()
        assert broken.value.hint == "restore the directory __manifest from a copy of the graph"
    with pytest.raises(errors.AlreadyInitialized):
        og.init(root, "node A { name: String @key }", force=True)

    shutil.rmtree(root / "__manifest")
    shutil.copytree(root.parent / "copy", root / "__manifest")
    assert_writable(og.connect(root), ["main", "draft"])


def test_a_manifest_from_an_older_copy(root: Path) -> None:
    """The graph is as it was then; what was written since is put back by the next write, and its commit is not another's."""
    shutil.copytree(root / "__manifest", root.parent / "copy")
    lost = og.connect(root).mutate(INSERT, params={"name": "eve"}).commit
    assert lost is not None
    shutil.rmtree(root / "__manifest")
    shutil.copytree(root.parent / "copy", root / "__manifest")

    graph = og.connect(root)
    assert names(graph) == ["ann", "bob", "cleo"]
    graph.mutate(INSERT, params={"name": "fay"})

    assert names(graph) == ["ann", "bob", "cleo", "fay"]
    assert lost.graph_commit_id not in [each.graph_commit_id for each in graph.commits()]
    with pytest.raises(errors.NotFound, match="was lost with its version"):
        graph.snapshot(commit=lost.graph_commit_id)


def test_a_branch_that_lost_its_files_keeps_nobody_from_main(root: Path) -> None:
    shutil.rmtree(str(manifest_place(root) / "tree"))

    graph = og.connect(root)

    graph.mutate(INSERT, params={"name": "eve"})
    with pytest.raises(errors.NotFound, match="has lost its files") as lost:
        graph.snapshot(branch="draft")
    assert "_branches/draft.json" in str(lost.value.hint)
    assert list(graph.damaged_branches()) == ["draft"]
    listed = ogsql("branch", "list", root)
    lines = [line.split()[:2] for line in listed.out.splitlines()[1:]]
    assert ([line[0] for line in lines], lines[0][1], listed.status) == (["draft", "main"], "(damaged)", 0)
    assert "has lost its files" in listed.err
    graph.delete_branch("draft")
    assert og.connect(root).branches() == ["main"]


@pytest.mark.parametrize("content", [b"\xff", b"", b"{", b"[]", b'{"name": "other"}', b"{}" * 9])
def test_a_branch_with_a_damaged_record_keeps_nobody_from_the_others(root: Path, content: bytes) -> None:
    record_place(root, "draft").write_bytes(content)

    graph = og.connect(root)

    graph.mutate(INSERT, params={"name": "eve"})
    graph.create_branch("other")
    assert list(graph.damaged_branches()) == ["draft"]
    uses: list[Callable[[], object]] = [
        lambda: graph.snapshot(branch="draft"),
        lambda: graph.mutate(INSERT, params={"name": "eve"}, branch="draft"),
        lambda: graph.create_branch("more", "draft"),
        lambda: og.connect(root, read_only=True).snapshot(branch="draft"),
    ]
    for use in uses:
        with pytest.raises(errors.Storage, match=r"draft\.json") as broken:
            use()
        assert "or delete the branch `draft`" in str(broken.value.hint)
    graph.delete_branch("draft")
    graph.create_branch("draft")
    graph.mutate(INSERT, params={"name": "dan"}, branch="draft")
    assert_writable(og.connect(root), ["main", "draft", "other"])


TIMES = [b"Infinity", b"NaN", b"-1", b"1e300", b"1" + b"0" * 400, b'true, "x": {']


@pytest.mark.parametrize("time", TIMES, ids=range(len(TIMES)))
def test_a_record_with_a_time_that_makes_no_sense_is_damaged(root: Path, time: bytes) -> None:
    record = record_place(root, "draft")
    content = re.sub(rb'"created_at": [0-9.]+', b'"created_at": ' + time, record.read_bytes())
    assert content != record.read_bytes()
    record.write_bytes(content)

    graph = og.connect(root)

    graph.mutate(INSERT, params={"name": "eve"})
    assert list(graph.damaged_branches()) == ["draft"]
    with pytest.raises(errors.Storage, match=r"draft\.json"):
        graph.cleanup(keep=10)
    graph.delete_branch("draft")
    graph.cleanup(keep=10)


@pytest.mark.parametrize("kind", ["record", "reference", "version"])
def test_a_directory_in_the_place_of_a_file_of_a_branch_keeps_nobody_from_main(root: Path, kind: str) -> None:
    manifest, lineage = manifest_place(root), lineage_of(root, "draft")
    place = {
        "record": record_place(root, "draft"),
        "reference": manifest / "_refs" / "branches" / f"{lineage}.json",
        "version": max((manifest / "tree" / lineage / "_versions").glob("*.manifest")),
    }[kind]
    place.unlink()
    place.mkdir()

    graph = og.connect(root)

    graph.mutate(INSERT, params={"name": "eve"})
    graph.create_branch("other")
    with warnings.catch_warnings(action="ignore"):  # a reference that is a directory is left
        graph.delete_branch("draft")
    graph.create_branch("draft")
    assert_writable(og.connect(root), ["main", "draft", "other"])


STRAY = [b".json", b"\xff.json", b"%00.json", b"a b.json", b"%20.json", b"%ED%A0%80.json", b"main.json", b"README"]


@pytest.mark.parametrize("name", STRAY, ids=ascii)
def test_a_file_that_is_no_record_is_no_branch(root: Path, name: bytes) -> None:
    records = record_place(root, "draft").parent
    (records / os.fsdecode(name)).write_bytes(b"{}")

    graph = og.connect(root)

    assert graph.branches() == ["draft", "main"]
    assert graph.damaged_branches() == {}
    graph.mutate(INSERT, params={"name": "eve"}, branch="draft")
    assert [stat.error for stat in graph.cleanup(keep=10) if stat.error] == []


def test_the_error_of_a_damaged_branch_names_the_branch_and_its_files(root: Path) -> None:
    lineage = lineage_of(root, "draft")
    for version in (manifest_place(root) / "tree" / lineage / "_versions").iterdir():
        version.write_bytes(version.read_bytes()[:40])

    with pytest.raises(errors.Storage, match=rf"/tree/{lineage} is damaged") as broken:
        og.connect(root).snapshot(branch="draft")

    assert f"tree/{lineage} from a copy" in str(broken.value.hint)
    assert "or delete the branch `draft`" in str(broken.value.hint)


def test_a_newer_graph_is_not_touched(root: Path) -> None:
    open_manifest(root).update_schema_metadata({"omnigraph:internal_schema_version": "5"})
    before = listing(root)
    for attempt in opens(root):
        with pytest.raises(errors.UnsupportedFormat, match="format 5, this release understands up to 4: upgrade first"):
            attempt()
    assert listing(root) == before


# Strays ----------------------------------------------------------------------------------------------------------


def test_stray_files_are_left_alone(root: Path) -> None:
    for name in ("_locks", "__recovery", "_staged"):
        (root / name).mkdir(exist_ok=True)
        (root / name / "notes.txt").write_text("mine")
        (root / name / "folder").mkdir()
    (root / "_staged" / "01ARZ3NDEKTSV4RRFFQ69G5FAV").mkdir()

    graph = og.connect(root)

    assert graph.recoveries()["pending"] == []
    assert graph.recoveries()["quarantined"] == []
    staged = graph.stage([node("Person", name="gus"), node("Team", slug="gus")], mode="append", branch="draft")
    graph.publish(staged)
    graph.mutate(INSERT, params={"name": "eve"})
    assert names(graph, "draft") == ["ann", "bob", "dora", "gus"]
    assert all((root / name / "notes.txt").read_text() == "mine" for name in ("_locks", "__recovery", "_staged"))


def test_a_directory_with_the_name_of_a_sidecar_is_put_aside(root: Path) -> None:
    (root / "__recovery").mkdir(exist_ok=True)
    (root / "__recovery" / "01ARZ3NDEKTSV4RRFFQ69G5FAV.json").mkdir()

    graph = og.connect(root)

    assert graph.recoveries()["quarantined"] == ["01ARZ3NDEKTSV4RRFFQ69G5FAV.json"]
    assert graph.recoveries()["pending"] == []
    graph.mutate(INSERT, params={"name": "eve"})


@pytest.mark.parametrize("name", ["__recovery", "_locks"])
def test_a_file_in_the_place_of_a_directory_is_named(root: Path, name: str) -> None:
    shutil.rmtree(root / name, ignore_errors=True)
    (root / name).write_text("x")
    assert names(og.connect(root, read_only=True)) == ["ann", "bob", "cleo"]

    with pytest.raises(errors.Storage) as blocked:
        og.connect(root)

    assert str(root / name) in blocked.value.message
    assert "move it away" in str(blocked.value.hint)
    (root / name).unlink()
    assert_writable(og.connect(root), ["main", "draft"])


# The clock -------------------------------------------------------------------------------------------------------

AN_HOUR_AGO = """
import os, sys, time
now = time.time_ns
time.time_ns = lambda: now() - 3600 * 10**9
import omnigraph_sql as og
from tests.crash import world
graph = og.connect(sys.argv[1])
graph.mutate(world.INSERT, params={"name": "early"}, actor="op")
os.environ["OMNIGRAPH_FAILPOINTS"] = "write.post_effects_pre_publish=exit"
graph.mutate(world.INSERT_TEAM, params={"slug": "early"}, actor="op")
"""


def test_a_clock_that_goes_back(root: Path) -> None:
    graph = og.connect(root)
    with armed("write.post_effects_pre_publish=panic"), pytest.raises(BaseException, match="post_effects"):
        graph.load([json.dumps({"edge": "Knows", "from": "ann", "to": "cleo", "data": {"id": "k9"}})], mode="append")
    path = os.pathsep.join([str(ROOT), *sys.path])
    died = subprocess.run(
        [sys.executable, "-c", AN_HOUR_AGO, str(root)], env={**os.environ, "PYTHONPATH": path}, check=False, timeout=120
    )
    assert died.returncode == DIED

    graph = og.connect(root)
    graph.mutate(INSERT, params={"name": "late"})

    history = graph.commits()
    assert [each.parent_commit_id for each in history] == [*(each.graph_commit_id for each in history[1:]), None]
    assert [each.manifest_version for each in history] == sorted((each.manifest_version for each in history), reverse=True)
    assert [each.created_at for each in history] != sorted((each.created_at for each in history), reverse=True)
    assert rows(graph)["Team"][0]["slug"] == "early"
    assert {"early", "late"} <= set(names(graph))
    assert [row["id"] for row in rows(graph)["Knows"]] == ["k1", "k9"]
    assert_settled(graph)


# The command line --------------------------------------------------------------------------------------------------


def test_the_command_line_names_the_damage_in_one_line(root: Path) -> None:
    (root / STATE).write_text("{")
    expected = (1, "", ["error", "hint"])
    for command in (["snapshot"], ["recovery", "list"]):
        finished = ogsql(*command, root)
        assert (finished.status, finished.out, [line.partition(":")[0] for line in finished.err.splitlines()]) == expected


def test_the_command_line_on_files_that_disagree_exits_with_the_code_of_a_conflict(root: Path) -> None:
    (root / SOURCE).write_text("node Other { name: String @key }")
    assert ogsql("snapshot", root).status == errors.Conflict.exit_code
