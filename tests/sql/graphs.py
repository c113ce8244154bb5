"""The graph that the statements of `.slt` files are about."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

import omnigraph_sql as og

SCHEMA = """
node Person {
  name: String @key
  age: I32?
  score: F64?
  born: Date?
  seen: DateTime?
  active: Bool?
  rank: U32?
  tags: [String]?
  bio: String?
  vec: Vector(2)?
  photo: Blob?
}

node City { name: String @key  people: U64? }

node Tricky { key: String @key  select: String?  fooBar: String?  foobar: String?  "x" : String? }

edge Knows: Person -> Person { since: I32? }
edge LivesIn: Person -> City
"""


def person(name: str, **values: Any) -> dict[str, Any]:
    return {"type": "Person", "data": {"name": name, **values}}


def edge(kind: str, start: str, end: str, **values: Any) -> dict[str, Any]:
    return {"edge": kind, "from": start, "to": end, "data": values}


PEOPLE = [
    person(
        "Ann",
        age=30,
        score=1.5,
        born="1990-02-01",
        seen="2024-01-02T03:04:05.000Z",
        active=True,
        rank=1,
        tags=["a", "b"],
        bio="likes red bikes",
        vec=[1.0, 0.0],
        photo="base64:aGk=",
    ),
    person("Bob", age=25, score=-2.0, active=False, rank=2, tags=[], bio="blue boats", vec=[0.0, 1.0]),
    person("Cy", score=0.0, bio="red boats", vec=[1.0, 1.0]),
    {"type": "City", "data": {"name": "Oslo", "people": 700000}},
    {"type": "City", "data": {"name": "O'Hara; drop table x --"}},
    {"type": "Tricky", "data": {"key": "k", "select": "s", "fooBar": "upper", "foobar": "lower"}},
    edge("Knows", "Ann", "Bob", since=2020),
    edge("Knows", "Bob", "Cy"),
    edge("LivesIn", "Ann", "Oslo"),
]


def make(place: Path) -> og.Graph:
    """Main, a branch with one person more and one changed, and relational tables and views."""
    graph = og.init(place / "graph", SCHEMA.replace('  "x" : String? ', " "))
    graph.load("\n".join(map(json.dumps, PEOPLE)), mode="append")  # version 2
    graph.create_branch("feature/x")
    graph.load(json.dumps(person("Dee", age=99)), mode="append", branch="feature/x")
    graph.load(json.dumps(person("Ann", age=31, bio="likes red bikes")), mode="merge", branch="feature/x")
    tables = graph.tables()
    tables.create_schema("staging")
    tables.create_table("staging", "orders", pa.table({"who": ["Ann", "Ann", "Bob"], "amount": [10, 20, 5]}))
    tables.create_table("main", "rates", pa.table({"city": ["Oslo"], "rate": [1.25]}))
    for name, text, dialect in (
        ("adults", "select name, age from Person where age >= 30", "datafusion"),
        ("doubled", "select who, amount * 2 as twice from staging.orders", "duckdb"),
        ("nested", "with a as (select * from adults) select name as who from a", "datafusion"),
    ):
        tables.define_view("main", name, text, dialect=dialect, columns=["who"])
    tables.define_view(
        "staging", "totals", "select who, sum(amount) as total from orders group by who", dialect="ansi", columns=["who"]
    )
    _register(graph, place)
    return graph


def _register(graph: og.Graph, place: Path) -> None:
    """Foreign tables of every kind that needs no server, one of them with its file gone."""
    (place / "calls.csv").write_text("who,ships\nAnn,3\nBob,1\n")
    graph.register("calls", place / "calls.csv")
    visits = pa.table({"who": ["Ann", "Ann", "Bob", "Cy"], "days": [2, 3, 2, 1]})
    pq.write_table(visits, place / "visits.parquet")
    graph.register("visits", place / "visits.parquet")
    graph.register("notes", pa.table({"who": ["Bob", "nobody"], "note": ["first", "second"]}))
    graph.register('odd; name "quoted" $x', pa.table({"who": ["Ann"]}))
    with duckdb.connect(str(place / "ledger.duckdb")) as connection:
        rows = "('Ann', 7), ('Ann', 9), ('Ann', 2), ('Bob', 1)"
        connection.execute(f"create table ledger as from (values {rows}) v(who, amount)")
    graph.register("ledger", place / "ledger.duckdb", table="main.ledger")
    (place / "gone.csv").write_text("a\n1\n")
    graph.register("gone", place / "gone.csv")
    (place / "gone.csv").unlink()
