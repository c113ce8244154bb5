"""The ends of edges: ids as texts, or the keys of the nodes; what is wrong with one names table and property."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import omnigraph_sql as og
from omnigraph_sql import errors

SCHEMA = """
node N { k: I32 @key }
node D { day: Date @key }
node T { k: String @key }
edge E: N -> N { x: I32? }
edge F: T -> N
edge G: D -> T
edge H: T -> T
"""


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[og.Graph]:
    with og.init(tmp_path / "g", SCHEMA) as graph:
        days = pa.table({"day": [datetime.date(2026, 1, 2)]})
        graph.load({"N": pa.table({"k": range(200)}), "T": pa.table({"k": ["a", "1"]}), "D": days}, mode="append")
        yield graph


def pairs(graph: og.Graph, type_: str = "E") -> list[tuple[str, str]]:
    return sorted((each["from"], each["to"]) for each in map(json.loads, graph.export(types=[type_])))


def record(src: Any, dst: Any, edge: str = "E") -> str:
    return json.dumps({"edge": edge, "from": src, "to": dst})


@pytest.mark.parametrize(
    "columns",
    [
        {"src": [1, 2], "dst": [2, 3]},
        {"src": pa.array([1, 2], pa.uint8()), "dst": pa.array([2, 3], pa.int64())},
        {"src": [1.0, 2.0], "dst": ["2", "3"]},
        {"from": ["1", "2"], "to": pa.array([2, 3], pa.decimal128(20, 0))},
        {"from": pa.array(["1", "2"], pa.large_string()), "to": pa.array(["2", "3"]).dictionary_encode()},
    ],
)
def test_whole_numbers_name_nodes_in_tables(graph: og.Graph, tmp_path: Path, columns: dict[str, Any]) -> None:
    table = pa.table(columns)
    graph.load({"E": table}, mode="append")
    graph.publish(graph.stage({"E": table.to_reader()}, mode="overwrite"))
    pq.write_table(table, tmp_path / "e.parquet")
    graph.load({"E": tmp_path / "e.parquet"}, mode="overwrite")
    assert pairs(graph) == [("1", "2"), ("2", "3")]


@pytest.mark.parametrize("count", [1, 150])
def test_whole_numbers_name_nodes_in_lines(graph: og.Graph, count: int) -> None:
    graph.load([record(n, n + 1) for n in range(count)], mode="append")
    mixed = [record(n if n % 2 else str(n), float(n + 1) if n % 3 else n + 1) for n in range(count)]
    graph.load([*mixed, record("a", 7, "F")], mode="append")
    assert pairs(graph) == sorted([(str(n), str(n + 1)) for n in range(count)] * 2)
    assert pairs(graph, "F") == [("a", "7")]


def test_keys_of_other_types_name_nodes(graph: og.Graph) -> None:
    graph.load({"G": pa.table({"src": [datetime.date(2026, 1, 2)], "dst": ["a"]})}, mode="append")
    ((day, name),) = pairs(graph, "G")
    graph.load([record(day, "1", "G")], mode="append")
    assert [name, *(each for _, each in pairs(graph, "G"))] == ["a", "1", "a"]


@pytest.mark.parametrize("count", [1, 150])
@pytest.mark.parametrize("value", [True, 1.5, 1 << 40, [1], {"k": 1}])
def test_a_line_whose_end_is_no_key_is_told(graph: og.Graph, count: int, value: Any) -> None:
    good = [record(n, n + 1) for n in range(count)]
    with pytest.raises(errors.BadRequest, match=rf"line {count + 1}: edge:E: `to` "):
        graph.load([*good, record(1, value)], mode="append")
    found: list[Any] = []
    assert graph.load([*good, record(1, value)], mode="append", rejects=found.append, max_rejects=1).rejected == 1
    assert [(each["table_key"], each["rule"], each["property"]) for each in found] == [("edge:E", "type", "dst")]


def test_texts_stay_required_where_keys_are_texts(graph: og.Graph) -> None:
    with pytest.raises(errors.BadRequest, match="edge:H: `from` must be a string, found a number"):
        graph.load([record(1, "a", "H")], mode="append")
    with pytest.raises(errors.BadRequest, match="edge:H: `src`"):
        graph.load({"H": pa.table({"src": [1], "dst": ["a"]})}, mode="append")


def test_an_end_that_is_null_names_its_table_and_property(graph: og.Graph) -> None:
    data = {
        "H": pd.DataFrame({"src": ["a", "a"], "dst": ["a", "1"]}),
        "F": pd.DataFrame({"src": ["a", "a"], "dst": [1, None]}),
    }
    with pytest.raises(errors.BadRequest, match="row 2: edge:F: `dst` must be of type I32 or a string, found null"):
        graph.load(data, mode="append")
    found: list[Any] = []
    lines = [json.dumps({"edge": "F", "from": None, "to": 1}), json.dumps({"edge": "F", "to": 1})]
    graph.load(lines, mode="append", rejects=found.append, max_rejects=5)
    graph.load(data, mode="append", rejects=found.append, max_rejects=5)
    about = [(each["table_key"], each["rule"], each["property"]) for each in found]
    assert about == [("edge:F", "required", end) for end in ("src", "src", "dst")]
    with pytest.raises(errors.BadRequest, match="edge:F: `from` must be a string, found null"):
        graph.load(lines[0], mode="append")
    with pytest.raises(errors.BadRequest, match="edge:F: `to` must be of type I32 or a string, found null"):
        graph.load(json.dumps({"edge": "F", "from": "a", "to": None}), mode="append")


def test_whole_numbers_name_nodes_in_mutations(graph: og.Graph) -> None:
    graph.mutate('query q() { insert E { from: 1, to: 2 } insert F { from: "a", to: 7 } }')
    graph.mutate("query q($a: I64, $b: U32) { insert E { from: $a, to: $b } }", params={"a": 3, "b": 4})
    graph.mutate('query q($a: String) { insert E { from: $a, to: "6" } }', params={"a": "5"})
    assert pairs(graph) == [("1", "2"), ("3", "4"), ("5", "6")]
    assert pairs(graph, "F") == [("a", "7")]
    assert graph.mutate("query q() { delete E where from = 1 }").affected_edges == 1
    assert graph.mutate("query q($a: I32) { delete E where to != $a }", params={"a": 4}).affected_edges == 1
    assert pairs(graph) == [("3", "4")]
    with pytest.raises(errors.ValidationFailed, match="not found"):
        graph.mutate("query q() { insert E { from: 999, to: 2 } }")


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("insert H { from: 1, to: 2 }", "T3"),
        ('insert G { from: 1, to: "a" }', "T3"),
        ("insert E { from: 1.5, to: 2 }", "T3"),
        ("insert E { from: true, to: 2 }", "T3"),
        ("insert E { from: [1], to: 2 }", "T3"),
        ("insert E { from: $a, to: 2 }", "T7"),
        ("delete H where from = 1", "T7"),
        ("delete E where from < 1", "T7"),
    ],
)
def test_an_end_in_a_mutation_that_is_no_key_is_told(graph: og.Graph, text: str, code: str) -> None:
    with pytest.raises(errors.Compile) as refused:
        graph.mutate(f"query q($a: F64) {{ {text} }}", params={"a": 1.5})
    assert code in str(refused.value)


def test_a_number_beyond_the_key_is_rejected(graph: og.Graph) -> None:
    found: list[Any] = []
    table = pa.table({"src": [1, 1], "dst": [1 << 40, 2]})
    assert graph.load({"E": table}, mode="append", rejects=found.append, max_rejects=1).rejected == 1
    assert (found[0]["rule"], found[0]["property"], found[0]["value"]) == ("type", "dst", str(1 << 40))
