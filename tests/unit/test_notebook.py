"""What a notebook shows of a result, and other libraries that take one."""

from __future__ import annotations

import sys
from typing import Any

import datafusion
import duckdb
import polars
import pyarrow as pa
import pytest

import omnigraph_sql as og
from omnigraph_sql import errors

ROWS = 20_000
SCHEMA = "node Person { key: String @key\n  age: I32? }"
ALL = "query all() { match { $p: Person } return { $p.key, $p.age } }"
FEW = "query few() { match { $p: Person $p.age < 3 } return { $p.key, $p.age } order { $p.age } }"
SQL = "select key, age from Person where age < 3 order by age"


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    made = og.init(tmp_path_factory.mktemp("people") / "graph", SCHEMA)
    ages = pa.array([None if number == 7 else number for number in range(ROWS)], pa.int32())
    made.load({"Person": pa.table({"key": [f"p{number}" for number in range(ROWS)], "age": ages})}, mode="append")
    return made


def test_a_small_result_as_html(graph: og.Graph) -> None:
    for result in (graph.query(FEW), graph.sql(SQL)):
        shown = result._repr_html_()
        assert shown.count("<tr>") == 4
        assert '<td style="text-align: left">p0</td><td style="text-align: right">0</td>' in shown
        assert shown.endswith("<p><small>3 rows on main</small></p>")


def test_nothing_of_the_data_is_markup(graph: og.Graph) -> None:
    result = graph.sql("""select '<script>"&' as "<b>", null as n, repeat('ab', 500) as long, [1.5, 2.5] as list""")
    shown = result._repr_html_()

    assert "<th>&lt;b&gt;</th>" in shown
    assert "&lt;script&gt;&quot;&amp;" in shown
    assert "<script>" not in shown
    assert "<em>null</em>" in shown
    assert f"{'ab' * 59}a…</td>" in shown
    assert "[1.5, 2.5]" in shown


@pytest.mark.parametrize("ask", ["query", "sql"])
def test_a_large_result_is_neither_run_to_its_end_nor_lost(graph: og.Graph, ask: str) -> None:
    result = graph.query(ALL) if ask == "query" else graph.sql("select key, age from Person")
    shown = result._repr_html_()

    assert shown.count("<tr>") == 21
    assert "the first 20 rows; more are read when they are asked for on main" in shown
    assert "rows" not in repr(result), "it was not collected"
    assert result._repr_html_() == shown
    keys = [key for batch in result for key in batch.column(0).to_pylist()]
    assert sorted(keys) == sorted(f"p{number}" for number in range(ROWS))
    assert len(result) == ROWS
    assert "the first 20 of 20,000 rows on main" in result._repr_html_()


def test_a_large_result_can_be_cancelled_after_it_was_shown(graph: og.Graph) -> None:
    result = graph.query(ALL)
    result._repr_html_()
    result.cancel()

    assert "cancelled" in result._repr_html_()
    with pytest.raises(errors.BadRequest, match="cancelled"):
        next(iter(result))


def test_no_rows_as_html(graph: og.Graph) -> None:
    shown = graph.sql("select key from Person where false")._repr_html_()

    assert "<th>key</th>" in shown
    assert "0 rows" in shown


@pytest.mark.parametrize("ask", ["query", "sql"])
def test_other_libraries_take_a_result(graph: og.Graph, ask: str) -> None:
    result = graph.query(FEW) if ask == "query" else graph.sql(SQL)
    expected = [tuple(row.values()) for row in result.to_pylist()]

    assert list(result.to_pandas().itertuples(index=False, name=None)) == expected
    assert result.to_polars().rows() == expected
    assert polars.DataFrame(result).rows() == expected
    assert duckdb.from_arrow(result).fetchall() == fetched("select * from result", result) == expected
    assert datafusion.SessionContext().from_arrow(result).to_arrow_table().num_rows == len(expected)


def fetched(statement: str, result: og.Result) -> list[tuple[Any, ...]]:
    """What DuckDB answers to a statement that names the variable `result`."""
    assert result is not None
    found = duckdb.sql(statement)
    assert found is not None
    return found.fetchall()


def test_other_libraries_take_a_large_result_as_it_comes(graph: og.Graph) -> None:
    result = graph.sql("select key, age from Person")

    assert fetched("select count(*), sum(age) from result", result) == [(ROWS, sum(range(ROWS)) - 7)]
    assert pa.table(result).num_rows == ROWS
    assert "rows" not in repr(result)


@pytest.mark.parametrize("name", ["pandas", "polars"])
def test_a_missing_library_is_named_with_the_remedy(graph: og.Graph, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    result = graph.query(FEW)

    with pytest.raises(errors.Configuration, match=f"run pip install {name}") as raised:
        getattr(result, f"to_{name}")()
    assert raised.value.what == name


def test_times_of_sql_do_not_need_pandas(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    (row,) = graph.sql("select timestamp '2026-01-02T03:04:05.123456789' as at, time '12:30:00.5' as noon").to_json()

    assert row == {"at": "2026-01-02T03:04:05.123Z", "noon": "12:30:00.500000"}
