"""Statements that ask for too much leave their process alive: they are refused, or stopped, with a typed error."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph_sql as og
from omnigraph_sql.choices import EngineName
from omnigraph_sql.errors import ResourceLimit
from tests.sql.bombs import MAY_ANSWER, SLICE, bombs_of

ENGINES: tuple[EngineName, ...] = ("datafusion", "duckdb")
ALL = [(engine, name) for engine in ENGINES for name in bombs_of(engine)]


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("bombs") / "graph"
    with og.init(path, "node P { k: String @key }") as graph:
        graph.load({"P": pa.table({"k": [f"p{number}" for number in range(5_000)]})}, mode="append")
    return str(path)


def explode(uri: str, engine: EngineName, name: str) -> None:
    command = [sys.executable, "-m", "tests.sql.bombs", uri, engine, name]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-800:]
    outcome, one = done.stdout.split()
    assert one == "1"
    assert outcome in ("ResourceLimit", "BadRequest") or name in MAY_ANSWER, done.stdout


@pytest.mark.hangs_after(60)
@pytest.mark.parametrize(("engine", "name"), [each for each in ALL if each[1] in SLICE])
def test_a_statement_does_not_end_its_process(uri: str, engine: EngineName, name: str) -> None:
    explode(uri, engine, name)


@pytest.mark.slow
@pytest.mark.hangs_after(60)
@pytest.mark.parametrize(("engine", "name"), [each for each in ALL if each[1] not in SLICE])
def test_no_statement_ends_its_process(uri: str, engine: EngineName, name: str) -> None:
    explode(uri, engine, name)


@pytest.mark.hangs_after(60)
@pytest.mark.parametrize("name", ["repeat in all rows", "replace in all rows", "concat of repeat", "concat_ws of repeat"])
def test_constants_count_as_values_of_all_rows_and_with_what_they_are_joined_to(uri: str, name: str) -> None:
    text, params = bombs_of("datafusion")[name]
    with og.connect(uri, read_only=True) as graph, pytest.raises(ResourceLimit) as caught:
        graph.sql(text, params, engine="datafusion", timeout=5, memory_limit=64 << 20).to_arrow()
    assert caught.value.resource == "memory"


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("text", "resource"),
    [
        ("select " + "-".join(["1"] * 1_200), "statement operators"),
        ("select " + "(" * 100 + "1" + ")" * 100, "statement nesting"),
        ("select 1 from " + ", ".join(["P"] * 200), "statement joins"),
        ("select '" + "x" * (3 << 20) + "'", "statement bytes"),
        ("select 1 from P group by cube(" + ", ".join(["k"] * 12) + ")", "statement cubes"),
    ],
)
def test_what_is_too_large_is_named(uri: str, engine: EngineName, text: str, resource: str) -> None:
    with og.connect(uri, read_only=True) as graph, pytest.raises(ResourceLimit) as caught:
        graph.sql(text, engine=engine)
    assert caught.value.resource == resource
    assert caught.value.actual > caught.value.limit
    assert caught.value.hint


@pytest.mark.parametrize("engine", ENGINES)
def test_large_statements_of_honest_people_run(uri: str, engine: EngineName) -> None:
    tables = "t0 as (select k, k as s from P)"
    for number in range(1, 15):
        tables += f", t{number} as (select k, k || '-' as s from t{number - 1})"
    keys = ", ".join(f"'p{number}'" for number in range(5_000))
    either = " or ".join(f"k = 'p{number}'" for number in range(200))
    values = ", ".join(f"({number})" for number in range(5_000))
    united = " union all ".join(["select k from P"] * 100)
    branches = " ".join(f"when k = 'a{number}' then 'b'" for number in range(500))
    honest = {
        f"select count(*) as n from P where k in ({keys})": 5_000,
        f"select count(*) as n from P where {either}": 200,
        f"select count(*) as n from (values {values}) v(x)": 5_000,
        f"select count(*) as n from ({united}) u": 500_000,
        f"with {tables} select count(*) as n from t14 a join t13 b on a.k = b.k": 5_000,
        f"select count(*) as n from P where k = case {branches} else k end": 5_000,
        "select count(*) as n from P where repeat('=', 80) || k || repeat('=', 80) <> replace(k, 'p', 'q')": 5_000,
    }
    with og.connect(uri, read_only=True) as graph:
        for text, count in honest.items():
            assert graph.sql(text, engine=engine).to_pylist() == [{"n": count}], text[:80]


@pytest.mark.parametrize("engine", ENGINES)
def test_texts_of_views_and_conditions_have_the_same_limits(tmp_path: Path, engine: EngineName) -> None:
    long = "1" + "-1" * 2_000
    with og.init(tmp_path / "graph", "node P { k: String @key }") as graph:
        tables = graph.tables()
        with pytest.raises(ResourceLimit, match="view `v`"):
            tables.define_view("main", "v", f"select {long} as x", dialect=engine, columns=["x"])
        tables.create_table("main", "t", pa.table({"x": [1]}))
        with pytest.raises(ResourceLimit, match="condition"):
            tables.delete("main", "t", f"x = {long}")
        for number in range(16):
            before = f"v{number - 1}" if number else "t"
            text = f"select a.x from {before} a join {before} b on a.x = b.x"
            tables.define_view("main", f"v{number}", text, dialect=engine, columns=["x"])
        assert graph.sql("select count(*) as n from v3", engine=engine).to_pylist() == [{"n": 1}]
        with pytest.raises(ResourceLimit) as caught:
            graph.sql("select count(*) as n from v15", engine=engine, timeout=20)
        assert caught.value.resource in ("views", "time")


@pytest.mark.parametrize("engine", ENGINES)
def test_queries_inside_of_sql_heed_the_limits(uri: str, engine: EngineName) -> None:
    text = "select count(*) as n from gq('query q() { match { $a: P $b: P } return { $a.k, $b.k } }')"
    with og.connect(uri, read_only=True) as graph:
        with pytest.raises(ResourceLimit) as caught:
            graph.sql(text, engine=engine, memory_limit=16 << 20)
        assert caught.value.resource == "memory"
        with pytest.raises(ResourceLimit) as caught:
            graph.sql(text, engine=engine, timeout=0.05)
        assert caught.value.resource == "time"


@pytest.mark.parametrize(
    "value",
    [
        "repeat('x', 1000000000)",
        "repeat('x', 1000 * 1000 * 1000)",
        "repeat('x', 1e9::bigint)",
        "repeat(upper(repeat(repeat('x', 10000), 10000)), 1000)",
        "repeat(k, 1000000000)",
        "lpad('x', 2000000000, ' ')",
        "rpad(k, 2000000000, ' ')",
        "replace(repeat('x', 30000000), 'x', 'yyyyyyyyyy')",
        "repeat('x', 40000000) || repeat('x', 40000000)",
        "len(range(1000000000))",
        "len(generate_series(1, 1000000000, 2))",
        "len(list_resize([1], 1000000000))",
    ],
)
def test_values_that_literals_tell_to_be_too_large_are_not_made_on_duckdb(uri: str, value: str) -> None:
    with og.connect(uri, read_only=True) as graph:
        for text in (
            f"select {value} as x from P",
            f"select k from P where {value} is null",
            f"select unnest([{value}]) from P",
        ):
            with pytest.raises(ResourceLimit) as caught:
                graph.sql(text, engine="duckdb", memory_limit=64 << 20)
            assert caught.value.resource == "memory"
            assert caught.value.actual > caught.value.limit


def test_values_that_fit_are_made_on_duckdb(uri: str) -> None:
    text = (
        "select length(repeat('x', 1000)) a, length(lpad('x', 9, ' ')) b, len(range(1000)) c, range d, repeat('x', -1) e,"
        " len(list_resize([1], 3)) f, length(replace('aa', 'a', 'bbb')) g from range(10000000000) limit 1"
    )
    with og.connect(uri, read_only=True) as graph:
        row = graph.sql(text, engine="duckdb", memory_limit=64 << 20).to_pylist()
        assert row == [{"a": 1000, "b": 9, "c": 1000, "d": 0, "e": "", "f": 3, "g": 6}]
        chain = " || ".join(["'a'"] * 100)
        assert len(graph.sql(f"select {chain} as x", engine="duckdb").to_pylist()[0]["x"]) == 100


def test_bounded_functions_give_what_the_engine_gives(uri: str) -> None:
    from datafusion import SessionContext

    texts = (
        "repeat('ab', 3), repeat('ab', -1), repeat(null, 2), repeat('ab', null)",
        "lpad('x', 3), rpad('x', 3, '-+'), lpad('xyz', 2), lpad('x', 0), lpad('x', length('abc') + 1, 'é')",
        "replace('banana', 'an', 'AN'), replace('abc', '', '-'), replace('abc', null, 'x'), replace('éé', 'é', 'ee')",
        "array_repeat(1, 2), array_repeat('x', 0), array_resize(make_array(1, 2), 3, 0)",
    )
    with og.connect(uri, read_only=True) as graph:
        for text in texts:
            ours = graph.sql(f"select {text}").to_arrow()
            theirs = SessionContext().sql(f"select {text}").to_arrow_table()
            assert ours.to_pylist() == theirs.to_pylist()
            assert ours.column_names == theirs.column_names
