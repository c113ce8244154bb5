"""Indexes are derived state: built on request, once, in one commit, and never needed for an answer."""

from __future__ import annotations

import json
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import omnigraph_sql as og
from omnigraph_sql import errors
from tests.crash.world import place_of

SCHEMA = """
node Doc {
  slug: String @key
  title: String @index
  kind: enum(report, letter) @index
  pages: I32? @index
  place: Vector(4)? @index @metric("cosine")
  note: String?
}
node Empty { slug: String @key }
edge Cites: Doc -> Doc { page: I32? }
"""
FIND = 'query q() { match { $d: Doc { slug: "d7" } $d cites $e } return { $e.slug, $e.pages } }'


def document(number: int, place: list[float] | None) -> str:
    data = {"slug": f"d{number}", "title": f"title {number}", "kind": "report", "pages": number, "place": place}
    return json.dumps({"type": "Doc", "data": data})


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    made = og.init(tmp_path / "graph", SCHEMA)
    lines = [document(number, None if number % 3 == 0 else [number, 1.0, 2.0, 3.0]) for number in range(450)]
    cites = [json.dumps({"edge": "Cites", "from": f"d{number}", "to": f"d{number + 1}"}) for number in range(100)]
    made.load(lines + cites, mode="append")
    return made


def indexes(graph: og.Graph, table_key: str, branch: str = "main") -> dict[str, str]:
    """Column to kind, seen past the engine."""
    entry = graph.snapshot(branch=branch).entry(table_key)
    main = place_of(graph) / entry.path
    place = main if entry.branch is None else main / "tree" / entry.branch
    found = lance.dataset(str(place), version=entry.version).describe_indices()
    return {f"{index.field_names[0]}": index.index_type.upper() for index in found}


def test_every_declared_index_is_built_in_one_commit(graph: og.Graph) -> None:
    before = graph.query(FIND).to_pylist()
    commits = len(graph.commits())

    assert graph.ensure_indices(actor="ada") == []

    assert len(graph.commits()) == commits + 1
    assert graph.commits()[0].actor_id == "ada"
    assert indexes(graph, "node:Doc") == dict.fromkeys(("id", "slug", "title", "kind", "pages"), "BTREE")
    assert indexes(graph, "edge:Cites") == dict.fromkeys(("id", "src", "dst"), "BTREE")
    assert indexes(graph, "node:Empty") == {}
    assert graph.query(FIND).to_pylist() == before == [{"e.slug": "d8", "e.pages": 8}]
    assert "node:Doc.id: BTREE, all rows" in graph.explain(FIND).indexes


def test_a_second_call_does_nothing(graph: og.Graph) -> None:
    graph.ensure_indices()
    commits = len(graph.commits())

    assert graph.ensure_indices() == []

    assert len(graph.commits()) == commits
    assert graph.recoveries() == {"pending": [], "quarantined": [], "audit": []}


def test_rows_that_come_later_are_found_and_said_to_be_outside(graph: og.Graph) -> None:
    graph.ensure_indices()
    graph.load([document(900, None), json.dumps({"edge": "Cites", "from": "d900", "to": "d7"})], mode="append")

    assert graph.query(FIND.replace("d7", "d900")).to_pylist() == [{"e.slug": "d7", "e.pages": 7}]
    assert "node:Doc.slug: BTREE, some rows" in graph.explain(FIND).indexes


def test_an_inherited_table_is_forked_only_for_work(graph: og.Graph) -> None:
    graph.ensure_indices()
    graph.create_branch("draft")
    assert graph.ensure_indices("draft") == []
    assert graph.snapshot(branch="draft").entries == graph.snapshot().entries

    graph.load('{"type": "Empty", "data": {"slug": "e"}}', mode="append", branch="draft")
    graph.ensure_indices("draft")
    assert indexes(graph, "node:Empty", "draft") == {"id": "BTREE", "slug": "BTREE"}
    main, draft = graph.snapshot().entries, graph.snapshot(branch="draft").entries
    assert [key for key in main if main[key] != draft[key]] == ["node:Empty"]


def test_work_on_a_branch_does_not_touch_main(graph: og.Graph) -> None:
    graph.create_branch("draft")
    before = graph.snapshot().entries

    graph.ensure_indices("draft")

    assert graph.snapshot().entries == before
    assert indexes(graph, "node:Doc") == {}
    assert indexes(graph, "node:Doc", "draft")["title"] == "BTREE"
    assert graph.query(FIND, branch="draft").to_pylist() == graph.query(FIND).to_pylist()


def test_vectors_are_indexed_above_a_number_of_rows(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMNIGRAPH_VECTOR_INDEX_ROWS", "450")
    graph.ensure_indices()
    assert "place" not in indexes(graph, "node:Doc")

    monkeypatch.setenv("OMNIGRAPH_VECTOR_INDEX_ROWS", "449")
    assert graph.ensure_indices() == []
    assert indexes(graph, "node:Doc")["place"] == "IVF_PQ"


def test_too_few_vectors_are_pending(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMNIGRAPH_VECTOR_INDEX_ROWS", "1")
    graph = og.init(tmp_path / "graph", SCHEMA)
    graph.load([document(1, None), document(2, None)], mode="append")
    (none,) = graph.ensure_indices()
    graph.load([document(3, [1.0, 2.0, 3.0, 4.0])], mode="append")
    (few,) = graph.ensure_indices()

    assert none.to_dict() == {"table_key": "node:Doc", "property": "place", "reason": "no row has a vector"}
    assert few.reason == "1 rows have a vector, and 256 are needed"
    assert indexes(graph, "node:Doc")["slug"] == "BTREE", "the others are built"


def test_text_indexes_of_lance_on_request(graph: og.Graph) -> None:
    graph.ensure_indices(lance_text=True)

    entry = graph.snapshot().entry("node:Doc")
    table = lance.dataset(str(place_of(graph) / entry.path), version=entry.version)
    assert {index.name for index in table.describe_indices()} >= {"title_btree", "title_inverted"}
    assert table.to_table(full_text_query="450", columns=["slug"]).num_rows == 0
    assert table.to_table(full_text_query="7", columns=["slug"])["slug"].to_pylist() == ["d7"]


def test_a_table_that_moved_behind_our_back_is_a_conflict(graph: og.Graph) -> None:
    entry = graph.snapshot().entry("node:Empty")
    row = pa.table({"id": ["x"], "slug": ["x"]}, schema=lance.dataset(str(place_of(graph) / entry.path)).schema)
    graph.load('{"type": "Empty", "data": {"slug": "e"}}', mode="append")
    lance.write_dataset(row, str(place_of(graph) / entry.path), mode="append")

    with pytest.raises(errors.Conflict, match="the graph shows 2") as raised:
        graph.ensure_indices()
    assert raised.value.reason == "drift"
    assert graph.query(FIND).to_pylist() == [{"e.slug": "d8", "e.pages": 8}]


def test_a_graph_opened_for_reading_builds_nothing(graph: og.Graph) -> None:
    with og.connect(graph.uri, read_only=True) as reader, pytest.raises(errors.BadRequest):
        reader.ensure_indices()
