"""Names and values, whatever is in them, never change what a statement means."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import omnigraph_sql as og
from omnigraph_sql.choices import EngineName
from omnigraph_sql.errors import NotFound, OmnigraphError

ENGINES: list[EngineName] = ["datafusion", "duckdb"]
TEXTS = st.one_of(
    st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=12),
    st.lists(
        st.sampled_from(
            [*"'\";`\\% ", "\u03c1", "\u0420", "--", "/*", "*/", "$x", "$$", "drop table Person", "1=1", "\u202e"]
        ),
        min_size=1,
        max_size=6,
    ).map("".join),
)
_QUIET = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
SMALL = settings(max_examples=40, deadline=None, suppress_health_check=_QUIET)


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Iterator[og.Graph]:
    schema = "node Person { name: String @key }\nedge Knows: Person -> Person"
    with og.init(tmp_path_factory.mktemp("injection") / "graph", schema) as made:
        made.load([json.dumps({"type": "Person", "data": {"name": name}}) for name in ("Ann", "Bob")], mode="append")
        made.load(['{"edge": "Knows", "from": "Ann", "to": "Bob", "data": {}}'], mode="append")
        yield made


def rows(graph: og.Graph, text: str, engine: EngineName, **params: Any) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in graph.sql(text, params, engine=engine).to_pylist()]


@pytest.mark.parametrize("engine", ENGINES)
@SMALL
@given(text=TEXTS)
@example(text="Ann' or '1'='1")
def test_a_value_is_a_value(graph: og.Graph, engine: EngineName, text: str) -> None:
    assert rows(graph, "select $x as v", engine, x=text) == [(text,)]
    assert rows(graph, "select name from Person where name = $x", engine, x=text) == []
    assert rows(graph, "select id from expand('Knows', $x)", engine, x=text) == []
    assert rows(graph, "select id from expand('Knows', $x)", engine, x=[text, "Ann"]) == [("Bob",)]
    asked = "query q($n: String) { match { $p: Person { name: $n } } return { $p.name } }"
    assert rows(graph, "select * from gq($q, $p)", engine, q=asked, p={"n": text}) == []


@pytest.mark.parametrize("engine", ENGINES)
@SMALL
@given(text=TEXTS)
def test_a_text_in_quotes_is_a_text(graph: og.Graph, engine: EngineName, text: str) -> None:
    quoted = "'" + text.replace("'", "''") + "'"

    assert rows(graph, f"select {quoted} as v, count(*) as n from Person", engine) == [(text, 2)]


@pytest.mark.parametrize("engine", ENGINES)
@SMALL
@given(text=TEXTS)
def test_a_name_in_quotes_is_a_name(graph: og.Graph, engine: EngineName, text: str) -> None:
    quoted = '"' + text.replace('"', '""') + '"'

    assert rows(graph, f"select name as {quoted} from Person where name = 'Ann'", engine) == [("Ann",)]
    for statement in (f"select * from {quoted}", f"select * from {quoted}.Person"):
        with pytest.raises(OmnigraphError) as failure:
            graph.sql(statement, engine=engine)
        assert isinstance(failure.value, NotFound) or "names no state" in str(failure.value), failure.value
    assert rows(graph, "select count(*) from Person", engine) == [(2,)]


@SMALL
@given(text=TEXTS)
@example(text="$x,$")
def test_what_duckdb_takes_for_a_text_or_a_comment_is_nothing_else(graph: og.Graph, text: str) -> None:
    inside = text.replace("*", "").replace("$t$", "")
    asked = "query q() { match { $p: Person } return { $p.name as n } }"
    statement = f"select $t${inside}$t$ as v, $a as a,$b as b /* {inside} from gq('x') */ from gq($q) order by n limit 1"

    assert rows(graph, statement, "duckdb", a=1, b=2, q=asked) == [(inside, 1, 2)]


def test_to_explain_says_nothing_on_the_side(
    graph: og.Graph, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    for engine in ENGINES:
        assert rows(graph, "explain analyze select name from Person where name = $x", engine, x="Ann")
    assert caplog.records == []
    assert capfd.readouterr().err == ""
