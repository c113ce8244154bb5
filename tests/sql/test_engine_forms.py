"""Forms of SQL that are valid on both engines, and that DataFusion plans only as we write them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph_sql as og
from omnigraph_sql.choices import EngineName
from omnigraph_sql.errors import BadRequest

ENGINES: tuple[EngineName, ...] = ("datafusion", "duckdb")
ROWS = 120_000


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Iterator[og.Graph]:
    path: Path = tmp_path_factory.mktemp("forms")
    with og.init(path / "graph", "node Person { name: String @key  age: I64? }") as graph:
        graph.tables().create_table("main", "w", pa.table({"a": range(ROWS)}))
        graph.tables().append("main", "w", pa.table({"a": range(ROWS)}))
        graph.execute("insert into Person (name, age) values ('Ann', 1), ('Bob', 6), ('Cy', 7)")
        graph.execute("create table clocks (clock time); insert into clocks values ('11:00:00'), ('12:00:00')")
        graph.execute("create view few as select a from w where a > 5 limit 3")
        yield graph


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("select a from w where a > 5 limit 3", 3),
        ("select a from w where a > 5 limit 3 offset 2", 3),
        ("select a + 1 as b from (select a from w where a > 5 limit 4) x where a >= 0", 4),
        ("select * from (select a from w where a > 5 limit 3) x cross join (select name from Person limit 2) y", 6),
        (
            "select * from (select a from w where a > 5 limit 3) x union all (select age from Person where age > 5 limit 1)",
            4,
        ),
        ("select * from (select a from w where a < 9 limit 3) x left join Person p on p.age = x.a and p.name = 'nobody'", 3),
        ("select age from Person where age not in (select a from w where a > 1000 limit 3)", 3),
        ("select distinct a from (select a from w where a < 100 limit 400) x", 100),
        ("with q as (select a from w where a > 5 limit 3) select * from q union all select * from q", 6),
        ("select a from few", 3),
        ("select x.a from few x, few y where x.a >= 0 limit 5", 5),
        ("select count(*) as n from (select a from w where a > 5 limit 7) x", 1),
    ],
)
def test_limits(graph: og.Graph, text: str, rows: int, engine: EngineName) -> None:
    assert graph.sql(text, engine=engine).to_arrow().num_rows == rows
    # The session is used again, for a statement without a limit.
    assert graph.sql("select count(*) as n from w where a >= 0", engine=engine).to_pylist() == [{"n": 2 * ROWS}]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("with recursive t(n) as (select 1 union all select n + 1 from t where n < 3) select n as v from t", [1, 2, 3]),
        (
            "with recursive t(n) as (values (1) union all select t.n * 2 from t where t.n < 4) select n as v from t",
            [1, 2, 4],
        ),
        ("with recursive t(n) as (select 1 union select n % 3 + 1 from t) select n as v from t", [1, 2, 3]),
        (
            "with recursive t(n) as ((select 1 union all select 5) union all select n + 1 from t where n < 2) "
            "select n as v from t",
            [1, 2, 5],
        ),
        (
            'with recursive one as (select 2 as k), t("a b", n) as (select k, 1 from one union all '
            'select "a b" * 2, n + 1 from t where n < 3) select "a b" as v from t',
            [2, 4, 8],
        ),
        ("with recursive t(n) as (select 7) select n as v from t", [7]),
        (
            "select v from (with recursive t(v) as (select 1 union all select v + 1 from t where v < 2) select v from t) x",
            [1, 2],
        ),
    ],
)
def test_recursion(graph: og.Graph, text: str, values: list[int], engine: EngineName) -> None:
    assert sorted(row["v"] for row in graph.sql(text, engine=engine).to_pylist()) == values


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("expression", "shown"),
    [
        ("timestamp '9999-12-31 23:59:59'", "9999-12-31 23:59:59"),
        ("timestamp '0001-01-01'", "0001-01-01 00:00:00"),
        ("timestamp '2024-02-29 12:00:00.123456'", "2024-02-29 12:00:00.123456"),
        ("cast('9999-12-31' as timestamp)", "9999-12-31 00:00:00"),
        ("try_cast('soon' as timestamp)", "None"),
        ("'9999-12-31'::timestamp", "9999-12-31 00:00:00"),
        ("cast(date '9999-12-31' as timestamp)", "9999-12-31 00:00:00"),
        ("timestamp '9999-12-31' > timestamp '2000-01-01'", "True"),
        ("timestamp '2024-01-01 00:00:00' + interval '1 day'", "2024-01-02 00:00:00"),
        ("(select timestamp from (select 5 as timestamp) q)", "5"),
        ("(select 5 as timestamp)", "5"),
        ("'a timestamp '''", "a timestamp '"),
        ("time '12:30:00'", "12:30:00"),
        ("cast('12:30:00.123456' as time)", "12:30:00.123456"),
        ("cast(timestamp '2024-01-01 12:30:00' as time)", "12:30:00"),
        ("time '12:00:00' < cast('12:30:00' as time)", "True"),
        ("(select max(clock) from clocks where clock < time '12:00:00')", "11:00:00"),
        ("(select count(*) from clocks where clock = cast(concat('12:00', ':00') as time))", "1"),
    ],
)
def test_times(graph: og.Graph, expression: str, shown: str, engine: EngineName) -> None:
    rows = graph.sql(f"select {expression} as v", engine=engine).to_pylist()
    assert [str(row["v"]) for row in rows] == [shown]
    if shown != "None":
        graph.execute(f"create or replace view v as select {expression} as v", engine=engine)
        assert [str(row["v"]) for row in graph.sql("select v from v", engine=engine).to_pylist()] == [shown]


def test_subqueries_that_datafusion_cannot_run(graph: og.Graph) -> None:
    text = "select name, (select max(a) from w where w.a < p.age and a < 10) as m from Person p"
    with pytest.raises(BadRequest, match=r"cannot run a subquery of this form") as failure:
        graph.sql(text).to_arrow()
    assert "DuckDB" in str(failure.value)
    assert graph.sql(text, engine="duckdb").to_arrow().num_rows == 3


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "text",
    [
        "select name from tags() order by name",
        "select name from tags() order by name desc limit 2",
        "select name, count(*) as n from tags() group by name order by name",
        "select id from changes('main', 'main') order by id",
        "select t.name from tags() t join branches() b on b.name = t.name order by t.name",
        "select table_name from information_schema.views where table_name = 'none' order by table_name",
    ],
)
def test_functions_without_rows(graph: og.Graph, text: str, engine: EngineName) -> None:
    assert graph.sql(text, engine=engine).to_pylist() == []
