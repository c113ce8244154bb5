"""Queries that only count: the number is that of the rows which the same match returns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraph_sql as og

PEOPLE, CITIES = 300, 9
SCHEMA = """
node Person { name: String @key
  age: I32?
  kind: enum(low, high)
  score: F64? }
node City { name: String @key  size: I64 }
edge Knows: Person -> Person { since: I32? }
edge LivesIn: Person -> City
"""
MATCHES = {
    "all": "$p: Person",
    "a key": '$p: Person { name: "p7" } $p knows $q',
    "no such key": '$p: Person { name: "nobody" } $p knows $q',
    "a key and a condition that fails": '$p: Person { name: "p7" } $p.age > 1000 $p knows $q',
    "a condition": "$p: Person $p.age < $age $p knows $q",
    "an enum": '$p: Person $p.kind = "low" $p livesIn $c',
    "two hops": "$p knows $q $q knows $r",
    "a key, two hops, conditions": '$p: Person { name: "p7" } $p knows $q $q.age >= $age $q knows $r $r.kind = "high"',
    "a star": '$c: City { name: "c3" } $p livesIn $c $p knows $q $p.age != $age $q.kind = "low"',
    "conditions on edges": "$p $w:knows $q $w.since > $year $p.age < $age",
    "conditions on edges of a key": '$p: Person { name: "p7" } $p $w:knows $q $w.since > $year $q livesIn $c $c.size > 2',
    "parallel edges": '$p: Person { name: "p7" } $p $w:knows $q',
    "undirected": '$p: Person { name: "p7" } $p <knows> $q $q.age < $age',
    "against the edges": '$p: Person { name: "p7" } $q knows $p $r knows $q',
    "a negation": "$p: Person not { $p knows $q }",
    "a negation with conditions": "$p: Person $p.age > $age not { $p knows $q $q.kind = \"high\" }",
    "a negation of a negation": "$p: Person not { $p knows $q not { $q livesIn $c } }",
    "several variables": "$p: Person $c: City $c.size > 4 $p.age < $age",
    "floats": "$p: Person $p.score >= 0.5 $p knows $q $q.score < 0.25",
    "nulls": "$p: Person $p.age != $age $p livesIn $c",
    "a cycle": "$p knows $q $q knows $r $r knows $p",
    "reach": '$p: Person { name: "p7" } $p knows{1,3} $q',
}  # fmt: skip


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    made = og.init(tmp_path_factory.mktemp("totals") / "graph", SCHEMA)
    numbers = range(PEOPLE)
    people = {
        "name": [f"p{n}" for n in numbers],
        "age": pa.array([None if n % 11 == 0 else n * 37 % 90 for n in numbers], pa.int32()),
        "kind": ["low" if n % 3 else "high" for n in numbers],
        "score": pa.array([None if n % 13 == 0 else n * 7 % 10 / 10 for n in numbers], pa.float64()),
    }
    made.load({"Person": pa.table(people)}, mode="append")
    cities = {"name": [f"c{n}" for n in range(CITIES)], "size": pa.array(range(CITIES), pa.int64())}
    made.load({"City": pa.table(cities)}, mode="append")
    ends = [(n, n * step % PEOPLE) for n in numbers if n % 5 for step in (2, 3, 3, 8)]
    since = pa.array([None if a % 17 == 0 else 2000 + (a + b) % 20 for a, b in ends], pa.int32())
    knows = {"src": [f"p{a}" for a, _ in ends], "dst": [f"p{b}" for _, b in ends], "since": since}
    made.load({"Knows": pa.table(knows)}, mode="append")
    homes = {"src": [f"p{n}" for n in numbers if n % 7], "dst": [f"c{n % CITIES}" for n in numbers if n % 7]}
    made.load({"LivesIn": pa.table(homes)}, mode="append")
    return made


def asked(match: str, returns: str, more: str = "") -> tuple[str, dict[str, Any]]:
    given = {"age": ("I32", 40), "year": ("I32", 2010)}
    used = {name: pair for name, pair in given.items() if f"${name}" in match}
    head = ", ".join(f"${name}: {kind}" for name, (kind, _) in used.items())
    text = f"query q({head}) {{ match {{ {match} }} return {{ {returns} }} {more} }}"
    return text, {name: value for name, (_, value) in used.items()}


@pytest.mark.parametrize("mode", ["", "csr", "indexed"])
@pytest.mark.parametrize("match", list(MATCHES.values()), ids=list(MATCHES))
def test_a_count_is_the_number_of_rows(graph: og.Graph, match: str, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMNIGRAPH_TRAVERSAL_MODE", mode)
    variable = "p" if "$p" in match else "c"
    text, params = asked(match, f"${variable}")
    rows = len(graph.query(text, params=params))
    counting, _ = asked(match, f"count(${variable}) as n, count(${variable}) as again")

    found = graph.query(counting, params=params)

    assert found.to_pylist() == [{"n": rows, "again": rows}]
    assert found.schema.types == [pa.int64(), pa.int64()]


@pytest.mark.parametrize(
    ("match", "expected"),
    [(text, name not in ("several variables", "a cycle", "reach")) for name, text in MATCHES.items()],
)
def test_an_explanation_says_whether_rows_are_made(graph: og.Graph, match: str, expected: bool) -> None:
    counting, params = asked(match, "count($p) as n")
    explanation = graph.explain(counting, params=params, analyze=True)

    assert ("counted without making rows" in explanation.rules) == expected
    assert explanation.rows == 1


@pytest.mark.parametrize("more", ["limit 1", "order { n desc } limit 5"])
def test_an_order_and_a_limit_change_nothing(graph: og.Graph, more: str) -> None:
    counting, params = asked(MATCHES["two hops"], "count($p) as n", more)
    plain, _ = asked(MATCHES["two hops"], "count($p) as n")

    assert graph.query(counting, params=params).to_pylist() == graph.query(plain, params=params).to_pylist()


def test_a_count_is_of_its_snapshot(tmp_path: Path) -> None:
    small = og.init(tmp_path / "graph", SCHEMA)
    before = small.snapshot().manifest_version
    small.mutate('query q() { insert City { name: "a", size: 1 } }')
    text, _ = asked("$c: City", "count($c) as n")

    assert small.query(text).to_pylist() == [{"n": 1}]
    assert small.query(text, version=before).to_pylist() == [{"n": 0}]
