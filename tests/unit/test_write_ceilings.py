"""Ceilings of writes: what reaches one is accepted, what passes it is refused before anything happens."""

from __future__ import annotations

import base64
from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph_sql as og
from omnigraph_sql.errors import ResourceLimit

SCHEMA = """
node Item { n: I64  text: String? }
node File { name: String @key  body: Blob?  numbers: [I64]? }
node Wide { name: String @key  v: Vector(8388608)? }
node Wider { name: String @key  v: Vector(4194304)?  w: Vector(4194305)? }
"""
ENTITIES = 8192
MEBIBYTE = 1 << 20
STRUCTURAL = 131_072


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return og.init(tmp_path / "graph", SCHEMA)


def load_items(graph: og.Graph, count: int) -> None:
    graph.load([f'{{"type":"Item","data":{{"n":{n}}}}}' for n in range(count)], mode="append")


def test_a_mutation_changes_as_many_entities_of_a_type_as_there_may_be(graph: og.Graph) -> None:
    load_items(graph, ENTITIES)
    result = graph.mutate('query q() { update Item set { text: "x" } where n >= 0 }')
    assert result.affected_nodes == ENTITIES


def test_a_mutation_does_not_change_one_entity_more(graph: og.Graph) -> None:
    load_items(graph, ENTITIES + 1)
    commits = graph.commits()
    with pytest.raises(ResourceLimit) as caught:
        graph.mutate('query q() { update Item set { text: "x" } where n >= 0 }')
    assert caught.value.limit == ENTITIES
    assert caught.value.actual > ENTITIES
    assert graph.commits() == commits


def test_loads_have_no_ceiling(graph: og.Graph) -> None:
    load_items(graph, 3 * ENTITIES)
    assert sum(1 for _ in graph.export()) == 3 * ENTITIES


def test_a_mutation_holds_no_more_bytes_of_a_type_than_it_may(graph: og.Graph) -> None:
    load_items(graph, 40)
    text = "x" * MEBIBYTE
    source = "query q($text: String, $n: I64) { update Item set { text: $text } where n < $n }"
    assert graph.mutate(source, params={"text": text, "n": 31}).affected_nodes == 31
    with pytest.raises(ResourceLimit) as caught:
        graph.mutate(source, params={"text": text, "n": 40})
    assert caught.value.limit == 32 * MEBIBYTE
    assert caught.value.actual > 40 * MEBIBYTE


def test_a_line_of_a_load_is_no_longer_than_it_may_be(graph: og.Graph) -> None:
    start, end = '{"type":"Item","data":{"n":1,"text":"', '"}}'
    fill = 32 * MEBIBYTE - len(start) - len(end)
    graph.load([start + "x" * fill + end], mode="append")
    with pytest.raises(ResourceLimit, match="line 2") as caught:
        graph.load(["// too long", start + "x" * (fill + 1) + end], mode="append")
    assert (caught.value.limit, caught.value.actual) == (32 * MEBIBYTE, 32 * MEBIBYTE + 1)
    assert sum(1 for _ in graph.export()) == 1


def test_a_line_of_a_load_has_no_more_structure_than_it_may_have(graph: og.Graph) -> None:
    start, end = '{"type":"File","data":{"name":"{[,:]}","numbers":[', "]}}"
    commas = STRUCTURAL - sum(start.replace('"{[,:]}"', "").count(c) for c in "{}[],:") - 3
    graph.load([start + ",".join("1" * (commas + 1)) + end], mode="append")
    with pytest.raises(ResourceLimit, match="line 1") as caught:
        graph.load([start + ",".join("1" * (commas + 2)) + end], mode="merge")
    assert (caught.value.limit, caught.value.actual) == (STRUCTURAL, STRUCTURAL + 1)


def test_a_blob_holds_no_more_than_it_may(graph: og.Graph) -> None:
    source = 'query q($body: Blob) { insert File { name: "f", body: $body } }'
    data = "base64:" + base64.b64encode(b"\0" * (32 * MEBIBYTE + 1)).decode()
    with pytest.raises(ResourceLimit) as caught:
        graph.mutate(source, params={"body": data})
    assert (caught.value.limit, caught.value.actual) == (32 * MEBIBYTE, 32 * MEBIBYTE + 1)
    assert list(graph.export()) == []
    assert graph.mutate(source, params={"body": "base64:AA=="}).affected_nodes == 1


def wide(name: str, count: int) -> list[str]:
    return [f'{{"type":"{name}","data":{{"name":"{n}"}}}}' for n in range(count)]


@pytest.mark.parametrize("count", [1, 100])
def test_the_vectors_of_a_row_take_no_more_than_they_may(graph: og.Graph, count: int) -> None:
    """A vector that is null takes as much as any other."""
    graph.load(wide("Wide", 1), mode="append")
    with pytest.raises(ResourceLimit, match=r"^line 1: .*node:Wider") as caught:
        graph.load(wide("Wider", count), mode="append")
    assert (caught.value.resource, caught.value.limit) == ("vector_bytes", 32 * MEBIBYTE)
    assert caught.value.actual == 32 * MEBIBYTE + 4
    with pytest.raises(ResourceLimit, match=r"^row 1: .*node:Wider"):
        graph.load({"Wider": pa.table({"name": ["x"] * count})}, mode="append")
    assert sum(1 for _ in graph.export()) == 1


def test_rows_of_vectors_too_wide_are_left_out_where_that_is_allowed(graph: og.Graph) -> None:
    records = [*wide("Wider", 2), '{"type":"Item","data":{"n":1}}']
    result = graph.load(records, mode="append", max_rejects=2)
    assert (result.rejected, dict(result.nodes)) == (2, {"Item": 1})


def test_a_mutation_makes_no_vectors_that_it_may_not_hold(graph: og.Graph) -> None:
    with pytest.raises(ResourceLimit, match="node:Wider") as caught:
        graph.mutate('query q() { insert Wider { name: "x" } }')
    assert caught.value.actual == 32 * MEBIBYTE + 4  # of the vectors alone: no row was made
