"""A graph that is moved or copied as a whole is a graph like before, its branches included."""

import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

import omnigraph_sql as og
from omnigraph_sql import errors
from tests.crash.branched import BRANCHES, assert_works, built, contents
from tests.crash.world import INSERT, UPDATE, abandon, assert_writable, edge, kinds, names, rows, seeded
from tests.manifests import manifest_place

pytestmark = pytest.mark.local


def _move(old: Path, new: Path) -> None:
    shutil.move(old, new)


def _copy(old: Path, new: Path) -> None:
    shutil.copytree(old, new)
    shutil.rmtree(old)


def _pack(old: Path, new: Path) -> None:
    with tarfile.open(new.parent / "g.tar.gz", "w:gz") as archive:
        archive.add(old, "packed")
    shutil.rmtree(old)
    with tarfile.open(new.parent / "g.tar.gz") as archive:
        archive.extractall(new.parent / "out", filter="data")
    (new.parent / "out" / "packed").rename(new)


def _rename_above(old: Path, new: Path) -> None:
    (new.parent / "above").mkdir()
    shutil.move(old, new.parent / "above" / "g")
    (new.parent / "above").rename(new)
    (new / "g").rename(new.parent / "g2")
    new.rmdir()
    (new.parent / "g2").rename(new)


def _link(old: Path, new: Path) -> None:
    shutil.move(old, new.parent / "elsewhere")
    new.symlink_to(new.parent / "elsewhere")


@pytest.mark.parametrize("move", [_move, _copy, _pack, _rename_above, _link], ids=lambda move: move.__name__.strip("_"))
def test_a_graph_works_where_it_was_moved_to(tmp_path: Path, move: Callable[[Path, Path], None]) -> None:
    graph = built(tmp_path / "old")
    expected = contents(graph)
    graph.close()

    move(tmp_path / "old", tmp_path / "new")

    assert_works(tmp_path / "new", expected)


def test_a_branch_that_is_called_like_a_place_in_the_graph_is_found_and_moved(tmp_path: Path) -> None:
    graph = seeded(tmp_path / "old")
    table = graph.snapshot().entries["node:Person"].path
    branches = [f"a/{place}/tree/b" for place in (table, manifest_place(tmp_path / "old").relative_to(tmp_path / "old"))]
    for branch in branches:
        graph.create_branch(branch)
        graph.mutate(INSERT, params={"name": "cleo"}, branch=branch)
        graph.create_branch(f"{branch}c", branch)
        graph.mutate(INSERT, params={"name": "dora"}, branch=f"{branch}c")
    graph.close()

    for root in (tmp_path / "old", tmp_path / "new"):
        if not root.exists():
            (tmp_path / "old").rename(root)
        for branch in branches:
            assert names(og.connect(root), f"{branch}c") == ["ann", "bob", "cleo", "dora"]
    assert_writable(og.connect(root), ["main", *branches, *(f"{branch}c" for branch in branches)])


def test_a_graph_may_be_moved_again_and_again(tmp_path: Path) -> None:
    """Versions that were written in several places lie side by side."""
    built(tmp_path / "at0").close()
    for step in range(3):
        shutil.move(tmp_path / f"at{step}", tmp_path / f"at{step + 1}")
        graph = og.connect(tmp_path / f"at{step + 1}")
        graph.mutate(INSERT, params={"name": f"step{step}"}, branch="deep")
        graph.create_branch(f"from{step}", "deep")
        graph.mutate(INSERT, params={"name": f"own{step}"}, branch=f"from{step}")
        graph.close()
    expected = contents(og.connect(tmp_path / "at3", read_only=True))

    shutil.move(tmp_path / "at3", tmp_path / "at4")

    graph = og.connect(tmp_path / "at4")
    for step in range(3):
        assert f"own{step}" in names(graph, f"from{step}")
        graph.delete_branch(f"from{step}")
    assert_works(tmp_path / "at4", expected)


def test_a_copy_beside_its_original_is_a_graph_of_its_own(tmp_path: Path) -> None:
    original = built(tmp_path / "g")
    expected = contents(original)
    shutil.copytree(tmp_path / "g", tmp_path / "copy")
    copy = og.connect(tmp_path / "copy")

    original.mutate(INSERT, params={"name": "theirs"}, branch="deep")
    copy.mutate(INSERT, params={"name": "ours"}, branch="deep")
    assert ("ours" in names(original, "deep"), "theirs" in names(copy, "deep")) == (False, False)
    for branch in ("idle", "deep", "draft"):
        original.delete_branch(branch)
    shutil.rmtree(tmp_path / "g")
    shutil.rmtree(tmp_path / "copy")
    shutil.copytree(built(tmp_path / "g2").uri, tmp_path / "copy2")
    original = og.connect(tmp_path / "g2")
    for branch in ("idle", "deep", "draft"):
        original.delete_branch(branch)
    shutil.rmtree(tmp_path / "g2" / "nodes")

    assert contents(og.connect(tmp_path / "copy2")).keys() == expected.keys()
    assert_writable(og.connect(tmp_path / "copy2"), BRANCHES)


def test_an_interrupted_write_is_recovered_after_a_move(tmp_path: Path) -> None:
    graph = built(tmp_path / "old")
    before = rows(graph, "idle")
    abandon("write.post_effects_pre_publish", lambda: graph.mutate(UPDATE, branch="deep"))
    abandon("write.post_table_commit", lambda: graph.load([edge("Knows", "ann", "bob")], mode="append", branch="idle"))
    shutil.move(tmp_path / "old", tmp_path / "new")

    for _ in range(2):
        graph = og.connect(tmp_path / "new")
        assert (kinds(graph), graph.recoveries()["pending"]) == (["RolledForward", "RolledForward"], [])
        assert len(rows(graph, "idle")["Knows"]) == len(before["Knows"]) + 1
    for branch in BRANCHES:
        graph.mutate(INSERT, params={"name": "new"}, branch=branch)


def test_a_reader_that_may_not_write_reads_a_moved_graph(tmp_path: Path) -> None:
    graph = built(tmp_path / "old")
    expected = contents(graph)
    graph.close()
    shutil.move(tmp_path / "old", tmp_path / "new")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "new").rglob("*")}

    assert contents(og.connect(tmp_path / "new", read_only=True)) == expected

    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "new").rglob("*")} == before


def test_a_process_that_holds_a_moved_graph_is_told(tmp_path: Path) -> None:
    graph = built(tmp_path / "old")
    shutil.move(tmp_path / "old", tmp_path / "new")

    with pytest.raises(errors.NotFound):
        graph.mutate(INSERT, params={"name": "late"})

    assert "late" not in names(og.connect(tmp_path / "new"))
