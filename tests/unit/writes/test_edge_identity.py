"""Edges in the mode merge: those of a unique pair of ends are replaced, others are new each time, and a warning says so."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraph_sql as og
from omnigraph_sql import errors
from omnigraph_sql.writes.load.staged_load import StagedLoad

SCHEMA = """
node Port { code: String @key }
edge Lane: Port -> Port { miles: I32?  @unique(src, dst) }
edge Route: Port -> Port { line: String?  miles: F64?  @unique(src, dst, line) }
edge Call: Port -> Port { miles: I32? }
"""
PORTS = {"Port": pa.table({"code": ["A", "B", "C"]})}


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[og.Graph]:
    with og.init(tmp_path / "g", SCHEMA) as graph:
        graph.load(PORTS, mode="append")
        yield graph


def edges(graph: og.Graph, type_: str = "Lane", branch: str = "main") -> list[dict[str, Any]]:
    found = [json.loads(line) for line in graph.export(branch, [type_])]
    rows = [{"src": each["from"], "dst": each["to"], **each["data"]} for each in found]
    return sorted(rows, key=lambda row: (row["src"], row["dst"], str(row.get("line"))))


def lane(src: str, dst: str, miles: int | None = None, edge: str = "Lane", **data: Any) -> dict[str, Any]:
    return {"edge": edge, "from": src, "to": dst, "data": {"miles": miles, **data}}


def by_lines(rows: list[dict[str, Any]]) -> Any:
    return [json.dumps(row) for row in rows]


def by_table(rows: list[dict[str, Any]]) -> Any:
    columns = {"src": [row["from"] for row in rows], "dst": [row["to"] for row in rows]}
    for name in dict.fromkeys(name for row in rows for name in row["data"]):
        columns[name] = [row["data"].get(name) for row in rows]
    return {rows[0]["edge"]: pa.table(columns)}


def loaded(graph: og.Graph, data: Any) -> None:
    graph.load(data, mode="merge")


def staged(graph: og.Graph, data: Any) -> None:
    graph.publish(StagedLoad.from_json(graph.stage(data, mode="merge").to_json()))


@pytest.mark.parametrize("load", [loaded, staged])
@pytest.mark.parametrize("form", [by_lines, by_table])
def test_an_edge_with_the_same_ends_is_replaced_and_keeps_its_id(
    graph: og.Graph, load: Callable[[og.Graph, Any], None], form: Callable[[Any], Any]
) -> None:
    load(graph, form([lane("A", "B", 1), lane("B", "A", 2)]))
    first = edges(graph)
    load(graph, form([lane("A", "B", 10), lane("B", "C", 3)]))
    second = edges(graph)
    assert [(row["src"], row["dst"], row.get("miles")) for row in second] == [("A", "B", 10), ("B", "A", 2), ("B", "C", 3)]
    assert [row["id"] for row in second[:2]] == [row["id"] for row in first]


def test_rows_are_replaced_whole_on_a_branch_that_has_not_written_before(graph: og.Graph) -> None:
    graph.load(by_lines([lane("A", "B", 1)]), mode="merge")
    (first,) = edges(graph)
    graph.load(by_lines([{"edge": "Lane", "from": "A", "to": "B"}]), mode="merge", branch="side", base="main")
    (second,) = edges(graph, branch="side")
    assert (second["id"], second.get("miles")) == (first["id"], None)
    assert edges(graph) == [first]


def test_given_ids_count_before_ends(graph: og.Graph) -> None:
    graph.load(by_lines([lane("A", "B", 1, id="x")]), mode="merge")
    # The edge x moves away, so the other record is a new edge.
    graph.load(by_lines([lane("B", "C", 2, id="x"), lane("A", "B", 3)]), mode="merge")
    first, second = edges(graph)
    assert (first["miles"], second["id"], second["miles"]) == (3, "x", 2)
    assert first["id"] != "x"
    with pytest.raises(errors.ValidationFailed, match="@unique violation"):
        graph.load(by_lines([lane("B", "C", 5, id="other")]), mode="merge")
    with pytest.raises(errors.ValidationFailed, match="@unique violation"):
        graph.load(by_lines([lane("A", "C"), lane("A", "C")]), mode="merge")


def test_a_wider_tuple_tells_edges_apart_too(graph: og.Graph) -> None:
    rows = [lane("A", "B", edge="Route", line="x"), lane("A", "B", edge="Route", line="y")]
    graph.load(by_lines(rows), mode="merge")
    ids = [row["id"] for row in edges(graph, "Route")]
    graph.load(by_lines(rows), mode="merge")
    assert [row["id"] for row in edges(graph, "Route")] == ids
    with pytest.warns(errors.ParallelEdgesWarning, match="null in @unique"):
        result = graph.load(by_lines([*rows, lane("A", "B", edge="Route", line=None)]), mode="merge")
    assert len(result.warnings) == 1
    assert len(edges(graph, "Route")) == 3


def test_edges_that_nothing_identifies_are_warned_of_once(graph: og.Graph) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = graph.load(by_lines([lane("A", "B", edge="Call"), lane("B", "C", edge="Call")]), mode="merge")
    assert [each.category for each in caught] == [errors.ParallelEdgesWarning]
    assert [str(each.message) for each in caught] == list(result.warnings) == result.to_dict()["warnings"]
    assert "Call" in result.warnings[0]
    assert "declare @unique(src, dst)" in result.warnings[0]
    with pytest.warns(errors.ParallelEdgesWarning):
        staged = graph.stage(by_lines([lane("A", "B", edge="Call")]), mode="merge")
    assert StagedLoad.from_json(staged.to_json()).warnings == staged.warnings != ()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        given = [lane("A", "B", edge="Call", id="c1"), lane("A", "B", edge="Lane")]
        assert graph.load(by_lines(given), mode="merge").warnings == ()
        assert graph.load(by_lines([lane("A", "B", edge="Call")]), mode="append").warnings == ()
        assert graph.load(by_lines([lane("A", "B", edge="Call")]), mode="overwrite").warnings == ()


def test_cardinality_counts_a_replaced_edge_once(tmp_path: Path) -> None:
    schema = "node P { k: String @key } edge Owns: P -> P @card(0..1) { n: I32?  @unique(src, dst) }"
    with og.init(tmp_path / "g", schema) as graph:
        graph.load({"P": pa.table({"k": ["A", "B"]})}, mode="append")
        for number in range(3):
            graph.load({"Owns": pa.table({"src": ["A"], "dst": ["B"], "n": [number]})}, mode="merge")
        assert [row["n"] for row in edges(graph, "Owns")] == [2]


def test_a_rejected_record_leaves_the_others_their_edges(graph: og.Graph) -> None:
    graph.load(by_lines([lane("A", "B", 1), lane("B", "C", 1)]), mode="merge")
    ids = [row["id"] for row in edges(graph)]
    rows = [lane("A", "B", 2), lane("A", "B", 3), lane("B", "C", 4), lane("A", "Z", 5)]
    result = graph.load(by_lines(rows), mode="merge", max_rejects=2)
    assert result.rejected == 2
    assert [(row["id"], row["miles"]) for row in edges(graph)] == [(ids[0], 2), (ids[1], 4)]


def test_edges_too_many_for_memory_are_identified_as_well(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    count = 3000
    graph.load({"Port": pa.table({"code": [f"P{n}" for n in range(count)]})}, mode="append")
    ends = {"src": [f"P{n}" for n in range(count)], "dst": [f"P{(n + 1) % count}" for n in range(count)]}
    graph.load({"Lane": pa.table(ends)}, mode="merge")
    ids = {row["src"]: row["id"] for row in edges(graph)}
    monkeypatch.setenv("OMNIGRAPH_LOAD_MEMORY", "0")
    graph.load({"Lane": pa.table({**ends, "miles": list(range(count))})}, mode="merge")
    found = edges(graph)
    assert {row["src"]: row["id"] for row in found} == ids
    assert all(row["miles"] == int(row["src"][1:]) for row in found)
