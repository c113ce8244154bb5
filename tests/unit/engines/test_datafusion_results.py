"""What only DataFusion does with results: how rows that must fit are counted."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph_sql as og
from omnigraph_sql import errors
from tests.unit.engines.children import measure, measures
from tests.unit.engines.crowd import CROWD, SCHEMA

WIDE = """
graph = og.connect(uri)
before = status("VmHWM")
assert graph.query("query q() { match { $w: Wide } return { $w.v } }", engine=engine).to_pylist() == []
text = "query q() { match { $w: Wide } return { count($w.v) as n } }"
assert graph.query(text, engine=engine).to_pylist() == [{"n": 0}]
assert list(graph.export()) == []
assert graph.mutate('query q() { delete Wide where key = "x" }').affected_nodes == 0
print(status("VmHWM") - before)
"""


@measures
@pytest.mark.hangs_after(120)
def test_a_table_without_rows_takes_no_room_for_vectors(tmp_path: Path) -> None:
    """One vector is 2 GiB."""
    graph = og.init(tmp_path / "graph", "node Wide { key: String @key  v: Vector(536870912)? }")

    assert measure(WIDE, graph.uri, "datafusion") < 1 << 20


def test_vectors_that_one_row_leads_to_must_fit(vectors: og.Graph) -> None:
    text = 'query q() { match { $a: Doc { key: "d0" } $a cites $b } return { $b.v } }'
    with pytest.raises(errors.ResourceLimit) as raised:
        vectors.query(text, memory_limit=8 << 20)
    assert (raised.value.resource, raised.value.limit) == ("memory", 8 << 20)
    assert raised.value.actual >= 4000 * 4096
    assert sum(batch.num_rows for batch in vectors.query(text, memory_limit=64 << 20)) == 4000


def test_common_neighbours_must_fit(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "graph", f"{SCHEMA} edge Wed: Person -> Person")
    count = 300_000
    keys = pa.array([f"p{number}" for number in range(count)])
    people = pa.table({"key": keys, "age": pa.array(range(count), pa.int32())})
    friends = keys.to_pylist()[2:]
    knows = pa.table({"src": friends * 2, "dst": ["p0"] * len(friends) + ["p1"] * len(friends)})
    graph.load({"Person": people, "Knows": knows, "Wed": pa.table({"src": ["p0"], "dst": ["p1"]})}, mode="append")
    text = 'query q() { match { $a: Person { key: "p0" } $a wed $b $c knows $a $c knows $b } return { $c.age } }'
    with pytest.raises(errors.ResourceLimit) as raised:
        graph.query(text, memory_limit=1 << 20)
    assert raised.value.resource == "memory"
    assert sum(batch.num_rows for batch in graph.query(text, memory_limit=64 << 20)) == len(friends)


def test_rows_that_are_put_aside_count_once_each_time(crowd: og.Graph) -> None:
    """A million rows of 24 bytes, put aside before the third negation and the fourth."""
    body = "not {{ $a knows ${0} ${0}.age > 1000 ${0} knows ${0}2 ${0}2 knows $b }}"
    negations = " ".join(body.format(name) for name in "wxyz")
    text = f"query q() {{ match {{ $a: Person $a knows $m $m knows $b {negations} }} return {{ count($m.age) as n }} }}"
    assert crowd.query(text, memory_limit=256 << 20).to_pylist() == [{"n": CROWD**3}]
    with pytest.raises(errors.ResourceLimit) as raised:
        crowd.query(text, memory_limit=32 << 20)
    assert raised.value.resource == "memory"


@pytest.mark.slow
def test_a_hub_does_not_fill_the_memory(tmp_path: Path) -> None:
    """Two million spokes, each two hops from every other: one of them sees all; all of them together see too much."""
    graph = og.init(tmp_path / "graph", SCHEMA)
    spokes = 2_000_000
    keys = pa.array([f"p{number}" for number in range(spokes + 1)])
    ages = pa.array(range(spokes + 1), pa.int32())
    graph.load({"Person": pa.table({"key": keys, "age": ages})}, mode="append")
    hub = pa.array(["p0"] * spokes)
    graph.load({"Knows": pa.table({"src": keys.slice(1), "dst": hub})}, mode="append")
    one = 'query q() { match { $a: Person { key: "p1" } $a knows $hub $b knows $hub } return { $b.age } }'
    every = "query q() { match { $a: Person $a knows $hub $b knows $hub } return { $a.age, $b.age } order { $b.age } }"

    assert sum(batch.num_rows for batch in graph.query(one, memory_limit=256 << 20)) == spokes
    with pytest.raises(errors.ResourceLimit) as raised:
        graph.query(one, memory_limit=8 << 20)
    assert raised.value.resource == "memory"
    with pytest.raises(errors.ResourceLimit):
        graph.query(every, memory_limit=256 << 20, timeout=30)
