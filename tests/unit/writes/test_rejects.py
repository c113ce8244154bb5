"""Loads that go on past faulty records."""

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import omnigraph_sql as og
from omnigraph_sql import errors
from tests.parts import in_parts
from tests.stores import Place

SCHEMA = """
node Port { code: String @key  depth: I32?  mail: String? @unique  kind: enum(river, sea)?  @range(depth, 0..100) }
node Ship { name: String }
edge Lane: Port -> Port { nm: I32? }
edge Home: Ship -> Port @card(0..1)
"""


def port(code: str, **data: Any) -> dict[str, Any]:
    return {"type": "Port", "data": {"code": code, **data}}


def lane(source: str, target: str, **data: Any) -> dict[str, Any]:
    return {"edge": "Lane", "from": source, "to": target, "data": data}


def home(ship: str, target: str) -> dict[str, Any]:
    return {"edge": "Home", "from": ship, "to": target}


def lines(records: Iterable[dict[str, Any]]) -> str:
    return "\n".join(json.dumps(record) for record in records)


FAULTY = [
    port("A", depth=5, mail="a"),
    port("B", depth=500),  # 2: range
    port("C", kind="lake"),  # 3: enum
    port("D", mail="a"),  # 4: unique
    port("A"),  # 5: key
    {"type": "Port", "data": {"code": "E", "mast": 1}},  # 6: record
    lane("A", "B"),  # 7: endpoint, because line 2 is rejected
    lane("A", "A"),
    {"type": "Ship", "data": {"id": "s1", "name": "Ada"}},
    home("s1", "A"),
    home("s1", "A"),  # 11: cardinality
    lane("A", "Z"),  # 12: endpoint
]
RULES = {
    2: "range",
    3: "enum",
    4: "unique",
    5: "unique",
    6: "record",
    7: "endpoint",
    11: "cardinality",
    12: "endpoint",
}


@pytest.fixture
def graph(place: Place) -> og.Graph:
    return og.init(place / "graph", SCHEMA)


@pytest.mark.parametrize("large", [False, True])
def test_every_faulty_record_is_reported_once_and_the_rest_is_loaded(graph: og.Graph, tmp_path: Path, large: bool) -> None:
    file = tmp_path / "data.jsonl"
    file.write_text(lines(FAULTY))
    report = tmp_path / "rejects.jsonl"

    if large:
        with in_parts():
            result = graph.load(file, mode="append", rejects=report, max_rejects=8)
    else:
        result = graph.load(file, mode="append", rejects=report, max_rejects=8)

    found = [json.loads(line) for line in report.read_text().splitlines()]
    assert {entry["line"]: entry["rule"] for entry in found} == RULES
    assert len(found) == len(RULES) == result.rejected
    assert result.to_dict()["rejected"] == 8
    assert (result.nodes, result.edges) == ({"Port": 1, "Ship": 1}, {"Home": 1, "Lane": 1})
    assert {entry["source"] for entry in found} == {str(file)}
    by_line = {entry["line"]: entry for entry in found}
    assert by_line[2] == {
        "line": 2,
        "source": str(file),
        "type": "Port",
        "table_key": "node:Port",
        "id": "B",
        "rule": "range",
        "property": "depth",
        "value": "500",
        "message": "line 2: @range violation: Port.depth = 500 (id `B`)",
    }
    assert (by_line[7]["property"], by_line[7]["value"]) == ("dst", "B")
    assert "occurs more than once" in by_line[4]["message"]


def test_without_an_allowance_the_load_fails_and_all_faults_are_in_the_report(graph: og.Graph, tmp_path: Path) -> None:
    report = tmp_path / "rejects.jsonl"
    before = graph.commits()

    with pytest.raises(errors.ValidationFailed) as failed:
        graph.load(lines(FAULTY), mode="append", rejects=report)

    assert str(failed.value).startswith("8 records are rejected, 0 allowed; the first: line ")
    assert str(report) in str(failed.value)
    assert len(report.read_text().splitlines()) == 8
    assert graph.commits() == before
    assert list(graph.export()) == []


def test_one_more_than_allowed_fails(graph: og.Graph) -> None:
    with pytest.raises(errors.ValidationFailed, match="8 records are rejected, 7 allowed"):
        graph.load(lines(FAULTY), mode="append", max_rejects=7)
    assert graph.load(lines(FAULTY), mode="append", max_rejects=8).rejected == 8


def test_a_load_without_faults_leaves_an_empty_report(graph: og.Graph, tmp_path: Path) -> None:
    result = graph.load(lines([port("A")]), mode="append", rejects=tmp_path / "rejects.jsonl")

    assert (result.rejected, (tmp_path / "rejects.jsonl").read_text()) == (0, "")


def test_the_allowance_does_not_cover_rows_that_are_there_already(graph: og.Graph) -> None:
    graph.load(lines([port("A"), port("B"), lane("A", "B")]), mode="append")

    with pytest.raises(errors.ValidationFailed, match="not found among Port nodes"):
        graph.load(lines([port("A")]), mode="overwrite", max_rejects=10)


def test_rejects_of_tables_name_their_rows(graph: og.Graph) -> None:
    found: list[Any] = []
    table = pa.table({"code": ["A", "B", "A"], "depth": [1, 900, 2]})

    result = graph.load({"Port": table}, mode="append", rejects=found.append, max_rejects=2)

    assert result.nodes == {"Port": 1}
    assert [(entry["line"], entry["rule"]) for entry in found] == [(2, "range"), (3, "unique")]
    assert found[0]["message"].startswith("row 2: ")


def test_existing_ids_are_rejected_by_an_append_and_replaced_by_a_merge(graph: og.Graph) -> None:
    graph.load(lines([port("A", depth=1)]), mode="append")
    found: list[Any] = []

    appended = graph.load(lines([port("A", depth=2), port("B")]), mode="append", rejects=found.append, max_rejects=1)
    merged = graph.load(lines([port("A", depth=3)]), mode="merge", max_rejects=0)

    assert [(entry["rule"], entry["id"]) for entry in found] == [("key", "A")]
    assert (appended.nodes, merged.rejected) == ({"Port": 1}, 0)
    assert '"depth":3' in "".join(graph.export())


def test_a_report_that_cannot_be_written_is_said(graph: og.Graph, tmp_path: Path) -> None:
    with pytest.raises(errors.BadRequest, match="the rejected records cannot be written"):
        graph.load(lines([port("A")]), mode="append", rejects=tmp_path / "no" / "rejects.jsonl")


def test_a_negative_allowance_is_refused(graph: og.Graph) -> None:
    with pytest.raises(errors.BadRequest, match="max_rejects is -1"):
        graph.load("", mode="append", max_rejects=-1)


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_a_file_whose_name_is_not_utf_8_is_named_in_the_report(graph: og.Graph, tmp_path: Path, suffix: str) -> None:
    source = tmp_path / os.fsdecode(b"caf\xe9.jsonl")
    source.write_text(lines([port("A"), port("B", depth="deep"), port("C", depth=900)]))
    report = tmp_path / f"rejects.{suffix}"

    result = graph.load(source, mode="append", rejects=report, max_rejects=2)

    assert (result.nodes, result.rejected) == ({"Port": 1}, 2)
    entries = pq.read_table(report).to_pylist() if suffix == "parquet" else map(json.loads, report.read_text().splitlines())
    assert {entry["source"] for entry in entries} == {str(tmp_path / "caf\\udce9.jsonl")}
