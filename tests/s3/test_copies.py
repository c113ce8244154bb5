"""Copies between a directory and a bucket, and within a bucket."""

from pathlib import Path

import pytest

import omnigraph_sql as og
from omnigraph_sql import errors
from tests.crash.branched import assert_works, built, contents
from tests.crash.world import INSERT, UPDATE, abandon, names, node, seeded
from tests.stores import Place, S3Place, remove


def taken(root: Place, expected: list[str]) -> None:
    """The graph has the records, and takes writes and merges."""
    graph = og.connect(root)
    assert list(graph.export()) == expected
    graph.create_branch("side")
    graph.mutate(INSERT, params={"name": "zoe"}, branch="side")
    graph.mutate(INSERT, params={"name": "yan"})
    graph.mutate(UPDATE)
    assert graph.merge("side").outcome == "merged"
    assert "zoe" in names(og.connect(root))


def test_whole_copies_from_a_directory_to_a_bucket_within_it_and_back(root: S3Place, tmp_path: Path) -> None:
    graph = built(tmp_path / "g")
    expected = contents(graph)

    graph.copy(root / "one", whole=True)
    graph.close()
    remove(tmp_path / "g")
    og.connect(root / "one", read_only=True).copy(root / "deeper" / "two", whole=True)
    remove(root / "one")
    og.connect(root / "deeper" / "two", read_only=True).copy(tmp_path / "back", whole=True)

    assert contents(og.connect(root / "deeper" / "two", read_only=True)) == expected
    remove(root / "deeper")
    assert_works(tmp_path / "back", expected)


@pytest.mark.parametrize("branch", ["main", "deep"])
def test_copies_of_a_branch_from_and_to_a_bucket(root: S3Place, tmp_path: Path, branch: str) -> None:
    graph = built(root / "g")
    expected = list(graph.export(branch))

    graph.copy(root / "one", branch)
    graph.copy(tmp_path / "two", branch)
    graph.close()
    remove(root / "g")
    og.connect(tmp_path / "two", read_only=True).copy(root / "three")

    for place in (root / "one", tmp_path / "two", root / "three"):
        taken(place, expected)


def test_bad_places_in_the_bucket_are_refused(root: S3Place) -> None:
    graph = seeded(root / "g")
    (root / "full" / "notes.txt").write_text("x")
    seeded(root / "other")

    for place, kind in (
        (root / "g", errors.BadRequest),
        (root / "g" / "inside", errors.BadRequest),
        (root / "full", errors.BadRequest),
        (root / "other", errors.AlreadyInitialized),
    ):
        with pytest.raises(kind):
            graph.copy(place)
    graph.copy(root / "g2")  # the name of the graph is only the beginning of it


def test_an_interrupted_copy_to_a_bucket_is_completed(root: S3Place, tmp_path: Path) -> None:
    graph = seeded(tmp_path / "g")
    graph.load([node("Person", name=f"p{number}") for number in range(100)], mode="append")
    abandon("copy.after_files", lambda: graph.copy(root / "copy", whole=True))

    with pytest.raises(errors.NotFound, match="incomplete copy"):
        og.connect(root / "copy")
    assert graph.copy(root / "copy", whole=True).reused > 0
    assert list(og.connect(root / "copy").export()) == list(graph.export())
