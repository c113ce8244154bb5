"""Paths and texts of classes of the caller's: they are what they say, and one that fails is a typed error."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraph_sql as og
from omnigraph_sql import errors
from tests.surface.hostile import BrokenList, BrokenPath, NumberPath, Unprintable, UnprintableText, Unreadable

GOOD = json.dumps({"type": "P", "data": {"k": "a"}})
BAD = json.dumps({"type": "P", "data": {"k": 7}})


class Named:
    """A path that says which one it is."""

    def __init__(self, path: Path) -> None:
        self._path = str(path)

    def __fspath__(self) -> str:
        return self._path


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[og.Graph]:
    with og.init(tmp_path / "g", "node P { k: String @key }") as made:
        yield made


LOADS: dict[str, Callable[[og.Graph, Any], object]] = {
    "load": lambda graph, path: graph.load(path, mode="append"),
    "load a table": lambda graph, path: graph.load({"P": path}, mode="append"),
    "ingest": lambda graph, path: graph.ingest(path, branch="new", mode="append"),
    "stage": lambda graph, path: graph.stage(path, mode="append"),
    "load rejects": lambda graph, path: graph.load(GOOD, mode="append", rejects=path),
    "stage rejects": lambda graph, path: graph.stage(GOOD, mode="append", rejects=path),
}


@pytest.mark.parametrize("use", LOADS)
def test_a_path_that_fails_or_is_none_is_refused(graph: og.Graph, use: str) -> None:
    for path in (BrokenPath(), NumberPath(), Path("a\0b"), Path("a\ud800b")):
        with pytest.raises(errors.BadRequest):
            LOADS[use](graph, path)
    assert list(graph.export()) == []
    assert graph.branches() == ["main"]


def test_collections_and_targets_that_fail_are_refused(graph: og.Graph) -> None:
    for data in (Unreadable(), BrokenList()):
        with pytest.raises(errors.BadRequest, match="cannot be read: Failure"):
            graph.load(data, mode="append")
    targets: list[Any] = [Unprintable(), 10**5000, [[[]]]]
    for target in targets:
        with pytest.raises(errors.BadRequest, match="cannot be written"):
            graph.load(GOOD, mode="append", rejects=target)
    with pytest.raises(errors.BadRequest, match="max_rejects"):
        graph.load(GOOD, mode="append", max_rejects=Unprintable())  # type: ignore[arg-type]


def test_paths_of_other_classes_are_paths(graph: og.Graph, tmp_path: Path) -> None:
    (tmp_path / "records.jsonl").write_text(f"{GOOD}\n{BAD}\n")
    (tmp_path / "rows.csv").write_text("k\nb\n")
    rejects = tmp_path / "bad.jsonl"
    result = graph.load(Named(tmp_path / "records.jsonl"), mode="append", rejects=Named(rejects), max_rejects=1)
    assert (result.rejected, len(rejects.read_text().splitlines())) == (1, 1)
    graph.load({"P": Named(tmp_path / "rows.csv")}, mode="append")
    assert len(list(graph.export())) == 2


def test_texts_of_other_classes_are_texts(graph: og.Graph) -> None:
    graph.create_branch(UnprintableText("side"), UnprintableText("main"))
    assert graph.branches() == ["main", "side"]
    graph.load(UnprintableText(GOOD), mode=UnprintableText("append"), branch=UnprintableText("side"))  # type: ignore[arg-type]
    assert len(list(graph.export(UnprintableText("side")))) == 1
    assert graph.snapshot(branch=UnprintableText("side")).branch == "side"
    query = UnprintableText("query q($k: String) { match { $p: P { k: $k } } return { $p.k } }")
    found = graph.query(query, params={"k": UnprintableText("a")}, branch=UnprintableText("side"))
    assert found.to_pylist() == [{"p.k": "a"}]
    writer = graph.tables(message=UnprintableText("note"))
    writer.create_table("main", UnprintableText("t"), pa.table({"x": [1]}))
    writer.rename(UnprintableText("main"), UnprintableText("t"), new_name=UnprintableText("u"))
    assert graph.sql("select x from u").to_pylist() == [{"x": 1}]
    assert graph.commits()[0].message == "note"
    with pytest.raises(errors.NotFound, match="there is no branch `nowhere`"):
        graph.delete_branch(UnprintableText("nowhere"))
