"""A graph may be copied as a whole from a directory to a bucket, within it, and back."""

import os
import shutil
from pathlib import Path

import omnigraph_sql as og
from tests.crash.branched import assert_works, built, contents
from tests.stores import Place, S3Place


def copied(source: Place, target: Place) -> None:
    """Copy every object, as tools for buckets do."""
    for path in source.rglob("*"):
        if path.is_file() and "_locks" not in path.parts:
            place = target
            for part in os.path.relpath(str(path), str(source)).split("/"):
                place = place / part
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(path.read_bytes())


def test_a_graph_works_in_a_bucket_and_back_in_a_directory(root: S3Place, tmp_path: Path) -> None:
    graph = built(tmp_path / "g")
    expected = contents(graph)
    graph.close()

    copied(tmp_path / "g", root / "one")
    shutil.rmtree(tmp_path / "g")
    assert contents(og.connect(root / "one", read_only=True)) == expected
    copied(root / "one", root / "deeper" / "two")
    copied(root / "one", tmp_path / "back")

    assert_works(root / "deeper" / "two", expected)
    assert_works(tmp_path / "back", expected)
