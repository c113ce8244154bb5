"""Random SELECTs over the tables of a graph give the same rows on DataFusion and on DuckDB."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import omnigraph_sql as og
from omnigraph_sql.choices import EngineName

SCHEMA = """
node Person { name: String @key  age: I32?  points: I64?  rank: U32?  score: F64?  active: Bool?  born: Date?  bio: String? }
edge Knows: Person -> Person { since: I32?  note: String? }
"""
NUMBERS = {"age": (-2, 40), "points": (-(2**40), 2**40), "rank": (0, 5), "since": (2000, 2005)}
TEXTS = {"name": "abcdefgh", "bio": "xyz é'%_", "note": "pq", "src": "abcdefgh", "dst": "abcdefgh", "id": "abcdefgh"}
COLUMNS = {
    "Person": ["id", "name", "age", "points", "rank", "score", "active", "born", "bio"],
    "Knows": ["src", "dst", "since", "note"],
}


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Iterator[og.Graph]:
    with og.init(tmp_path_factory.mktemp("agreement") / "graph", SCHEMA) as made:
        people = [_person(number) for number in range(8)]
        edges = [
            {
                "edge": "Knows",
                "from": "abcdefgh"[a],
                "to": "abcdefgh"[b],
                "data": {} if (a + b) % 5 == 0 else {"since": 2000 + (a * b) % 6, "note": "pq"[b % 2] * (a % 3)},
            }
            for a in range(8)
            for b in range(8)
            if (a * 3 + b) % 4 == 1
        ]
        made.load("\n".join(map(json.dumps, [*people, *edges])), mode="append")
        made.create_branch("b")
        made.load(json.dumps(_person(2) | {"data": _person(2)["data"] | {"age": 7}}), mode="merge", branch="b")
        yield made


def _person(number: int) -> dict[str, Any]:
    values: dict[str, Any] = {
        "age": [3, None, -2, 40, 3, 0, 17, None][number],
        "points": [0, 2**40, None, -5, 7, -(2**40), 1, 1][number],
        "rank": [None, 1, 2, 5, 0, 1, 2, 3][number],
        # No zero below zero: DataFusion tells it from zero, DuckDB does not.
        "score": [0.5, -1.25, None, 1e9, 0.5, 3.0, 0.0, 2.5][number],
        "active": [True, False, None, True, True, False, None, False][number],
        "born": ["1970-01-01", None, "2000-02-29", "1969-12-31", "1970-01-01", "2024-12-31", None, "1999-09-09"][number],
        "bio": ["x", "", None, "xyz", "é", "it's", "50%", "a_b"][number],
    }
    return {"type": "Person", "data": {"name": "abcdefgh"[number]} | {k: v for k, v in values.items() if v is not None}}


@dataclass(frozen=True)
class Query:
    """A statement, its parameters, and whether it says in which order its rows come."""

    text: str
    params: dict[str, Any]
    ordered: bool


@st.composite
def queries(draw: st.DrawFn) -> Query:
    """Scans, joins and groups with conditions."""
    params: dict[str, Any] = {}
    sources, columns = draw(_sources())
    where = draw(_condition(columns, params, depth=2)) if draw(st.booleans()) else None
    tail = "" if where is None else f" where {where}"
    if draw(st.booleans()):
        shown = draw(st.lists(st.sampled_from(columns), min_size=1, max_size=4, unique=True))
        listed = ", ".join(f"{each} as c{number}" for number, each in enumerate(shown))
        distinct = draw(st.sampled_from(["", "distinct "]))
        text = f"select {distinct}{listed} from {sources}{tail}"
        count = len(shown)
    else:
        keys = draw(st.lists(st.sampled_from(columns), max_size=2, unique=True))
        calls = draw(st.lists(_aggregate(columns), min_size=1, max_size=3))
        listed = ", ".join(f"{each} as c{number}" for number, each in enumerate([*keys, *calls]))
        group = f" group by {', '.join(keys)}" if keys else ""
        text, count = f"select {listed} from {sources}{tail}{group}", len(keys) + len(calls)
    if not draw(st.booleans()):
        return Query(text, params, ordered=False)
    order = ", ".join(
        f"c{number} {draw(st.sampled_from(['asc nulls first', 'desc nulls last']))}" for number in range(count)
    )
    limit = draw(st.sampled_from(["", " limit 3", " limit 2 offset 1"]))
    return Query(f"{text} order by {order}{limit}", params, ordered=True)


@st.composite
def _sources(draw: st.DrawFn) -> tuple[str, list[str]]:
    kind = draw(st.sampled_from(["Person", "Knows", "join", "branches"]))
    if kind in COLUMNS:
        return f'"{kind}" t', [f't."{each}"' for each in COLUMNS[kind]]
    person = [f'p."{each}"' for each in COLUMNS["Person"]]
    how = draw(st.sampled_from(["join", "left join"]))
    if kind == "join":
        return f'"Person" p {how} "Knows" k on k.src = p.id', [*person, *(f'k."{each}"' for each in COLUMNS["Knows"])]
    other = [f'q."{each}"' for each in COLUMNS["Person"]]
    return f'"Person" p {how} b."Person" q on q.id = p.id', [*person, *other]


@st.composite
def _condition(draw: st.DrawFn, columns: list[str], params: dict[str, Any], depth: int) -> str:
    if depth and draw(st.booleans()):
        left, right = (draw(_condition(columns, params, depth - 1)) for _ in range(2))
        return draw(st.sampled_from([f"({left} and {right})", f"({left} or {right})", f"not ({left} or {right})"]))
    column = draw(st.sampled_from(columns))
    name = column.split('"')[1]
    if name == "active":
        return draw(st.sampled_from([column, f"{column} is null", f"{column} = false"]))
    values = _values(name)
    op = draw(st.sampled_from(["=", "<>", "<", ">=", "in", "between", "is null", "is not null", "param"]))
    if op in ("is null", "is not null"):
        return f"{column} {op}"
    if op == "in":
        return f"{column} in ({', '.join(draw(st.lists(values, min_size=1, max_size=3)))})"
    if op == "between":
        return f"{column} between {draw(values)} and {draw(values)}"
    if op == "param" and name in NUMBERS:
        params[f"p{len(params)}"] = draw(st.integers(*NUMBERS[name]))
        return f"{column} > $p{len(params) - 1}"
    return f"{column} {op if op != 'param' else '<='} {draw(values)}"


def _values(name: str) -> st.SearchStrategy[str]:
    """Values that fit a column, as SQL."""
    if name in NUMBERS:
        return st.integers(*NUMBERS[name]).map(str)
    if name == "score":
        return st.sampled_from(["0.5", "-1.25", "0.0", "3.0", "1e9"])
    if name == "born":
        return st.dates().map(lambda day: f"date '{day}'").filter(lambda text: text > "date '1900")
    return st.text(TEXTS[name], max_size=2).map(lambda text: "'" + text.replace("'", "''") + "'")


@st.composite
def _aggregate(draw: st.DrawFn, columns: list[str]) -> str:
    column = draw(st.sampled_from(columns))
    name = column.split('"')[1]
    calls = [f"count({column})", f"count(distinct {column})", "count(*)"]
    if name != "active":
        calls += [f"min({column})", f"max({column})"]
    if name in ("age", "rank", "since"):
        calls += [f"sum({column})", f"avg({column})"]
    return draw(st.sampled_from(calls))


def _rows(graph: og.Graph, query: Query, engine: EngineName) -> list[tuple[Any, ...]]:
    found = graph.sql(query.text, query.params, engine=engine).to_pylist()
    return [tuple(_plain(value) for value in row.values()) for row in found]


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal | float):
        number = float(value)
        return int(number) if number.is_integer() else round(number, 9 - max(0, math.frexp(number)[1] // 4))
    return value


def check(graph: og.Graph, query: Query) -> None:
    here, there = (_rows(graph, query, engine) for engine in ("datafusion", "duckdb"))
    if query.ordered:
        assert here == there, query
    else:
        assert Counter(here) == Counter(there), query


_QUIET = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]


@settings(max_examples=60, deadline=None, suppress_health_check=_QUIET)
@given(query=queries())
def test_engines_agree(graph: og.Graph, query: Query) -> None:
    check(graph, query)


@pytest.mark.slow
@settings(max_examples=1500, deadline=None, suppress_health_check=_QUIET)
@given(query=queries())
def test_engines_agree_on_many(graph: og.Graph, query: Query) -> None:
    check(graph, query)
