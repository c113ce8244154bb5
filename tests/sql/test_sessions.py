"""Sessions of DataFusion and DuckDB on a graph: ours, and those that somebody else owns."""

from __future__ import annotations

import datetime
import decimal
import gc
import json
import os
import re
import subprocess
import sys
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from datafusion import SessionContext

import omnigraph_sql as og
from omnigraph_sql.choices import EngineName
from omnigraph_sql.errors import BadRequest, Conflict, NotFound, OmnigraphError, ResourceLimit
from tests.sql.graphs import make, person

COUNT = 'select count(*) as n from "Person"'


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[og.Graph]:
    with make(tmp_path) as made:
        yield made


def add(graph: og.Graph, name: str, branch: str = "main") -> None:
    graph.load(json.dumps(person(name)), mode="append", branch=branch)


@pytest.mark.parametrize("engine", ["datafusion", "duckdb"])
def test_a_statement_reads_what_is_there_when_it_starts(graph: og.Graph, engine: EngineName) -> None:
    before = graph.sql(COUNT, engine=engine)
    add(graph, "Eve")

    assert before.to_pylist() == [{"n": 3}]
    assert graph.sql(COUNT, engine=engine).to_pylist() == [{"n": 4}]
    assert graph.sql(COUNT, engine=engine, version=2).to_pylist() == [{"n": 3}]


@pytest.mark.parametrize("engine", ["datafusion", "duckdb"])
def test_a_statement_that_is_repeated_reads_what_is_there_each_time(graph: og.Graph, engine: EngineName) -> None:
    graph.register("extra", pa.table({"x": [1, 2]}))
    joined = 'select count(*) as n from "Person", extra'
    for number in range(3):
        for _ in range(4):
            assert graph.sql(COUNT, engine=engine).to_pylist() == [{"n": 3 + number}]
            assert graph.sql(joined, engine=engine).to_pylist() == [{"n": 2 * (3 + number)}]
        add(graph, f"P{number}")

    held = [graph.sql('select name from "Person" order by name', engine=engine) for _ in range(6)]
    assert len({str(result.to_pylist()) for result in held}) == 1


@pytest.mark.parametrize("engine", ["datafusion", "duckdb"])
def test_a_statement_that_is_repeated_fails_each_time_it_is_wrong(graph: og.Graph, engine: EngineName) -> None:
    graph.load(json.dumps({"type": "Person", "data": {"name": "12"}}), mode="append", branch="main")
    text = """select sum(cast(name as bigint)) as n from "Person" where name = '12' or name = 'x1'"""
    for _ in range(3):
        assert graph.sql(text, engine=engine).to_pylist() == [{"n": 12}]

    add(graph, "x1")
    for _ in range(3):
        with pytest.raises(OmnigraphError, match="x1"):
            graph.sql(text, engine=engine).to_pylist()
    assert graph.sql(COUNT, engine=engine).to_pylist() == [{"n": 5}]


@pytest.mark.parametrize("engine", ["datafusion", "duckdb"])
def test_all_tables_of_a_statement_are_of_one_state(graph: og.Graph, engine: EngineName) -> None:
    text = 'select (select count(*) from "Person") = (select count(*) from main."Person" p) as same'

    for number in range(3):
        add(graph, f"P{number}")
        assert graph.sql(text, engine=engine).to_pylist() == [{"same": True}]


@pytest.mark.parametrize("engine", ["datafusion", "duckdb"])
def test_a_commit_is_a_schema_and_a_target(graph: og.Graph, engine: EngineName) -> None:
    commit = graph.commits("feature/x")[0].graph_commit_id
    add(graph, "Eve", "feature/x")

    assert graph.sql(f'select count(*) as n from "@{commit}"."Person"', engine=engine).to_pylist() == [{"n": 4}]
    found = graph.sql(COUNT, engine=engine, snapshot=commit)
    assert (found.to_pylist(), found.graph_commit_id) == ([{"n": 4}], commit)


def test_each_statement_of_a_datafusion_session_looks_anew(graph: og.Graph) -> None:
    session = graph.datafusion()
    first = session.sql(COUNT)
    add(graph, "Eve")

    assert isinstance(session, SessionContext)
    assert session.sql(COUNT).to_pylist() == [{"n": 4}]
    assert first.to_pylist() == [{"n": 3}], "a statement that was planned before reads what was there then"
    assert graph.datafusion(branch="feature/x").sql(COUNT).to_pylist() == [{"n": 4}]
    assert graph.datafusion(version=1).sql(COUNT).to_pylist() == [{"n": 0}]


def test_a_datafusion_session_binds_values_and_changes_nothing(graph: og.Graph) -> None:
    session = graph.datafusion()

    assert session.sql('select name from "Person" where age > $a', param_values={"a": 26}).to_pylist() == [{"name": "Ann"}]
    assert session.sql("select id from expand('Knows', $who)", param_values={"who": "Ann"}).to_pylist() == [{"id": "Bob"}]
    for text in ("create table t as select 1", "insert into \"Person\" (id) values ('x')", "drop table t"):
        with pytest.raises(BadRequest, match="change"):
            session.sql(text)
    with pytest.raises(BadRequest, match="param_values"):
        session.sql("select '{x}'", x="1")
    with pytest.raises(NotFound, match="Persn"):
        session.sql("select * from Persn")


def test_a_graph_in_a_datafusion_session_of_somebody_else(graph: og.Graph) -> None:
    session = SessionContext()
    session.from_arrow(pa.table({"who": ["Ann"]}), "mine")

    assert graph.attach(session, alias="social") == "social"
    text = 'select p.age from mine join social.main."Person" p on p.id = mine.who'
    assert session.sql(text).to_pylist() == [{"age": 30}]
    assert session.sql("select id from expand('Knows', 'Ann')").to_pylist() == [{"id": "Bob"}]
    assert session.sql("select id from social_expand('Knows', 'Ann')").to_pylist() == [{"id": "Bob"}]

    count = 'select count(*) as n from social.main."Person"'
    assert session.sql(count).to_pylist() == [{"n": 3}]
    add(graph, "Eve")
    assert session.sql(count).to_pylist() == [{"n": 3}], "it stays as it was when it was first named"
    graph.attach(session, alias="social")
    assert session.sql(count).to_pylist() == [{"n": 4}]


def test_a_duckdb_connection_shows_all_branches(graph: og.Graph) -> None:
    with graph.duckdb() as connection:
        assert isinstance(connection, duckdb.DuckDBPyConnection)
        assert connection.sql(COUNT).fetchall() == [(3,)]
        text = 'select f.name from "feature/x"."Person" f anti join "Person" p using (id)'
        assert connection.sql(text).fetchall() == [("Dee",)]
        assert connection.execute("from expand('Knows', $w, 1, 2)", {"w": ["Ann"]}).fetchall() == [
            ("Ann", "Bob"),
            ("Ann", "Cy"),
        ]
        assert ("Person",) in connection.sql("show tables").fetchall()
        assert connection.sql("select total from staging.totals order by 1").fetchall() == [(5,), (30,)]
        connection.execute("create temp table copied as select * from Person")
        assert connection.sql("select count(*) from copied").fetchall() == [(3,)]
    with graph.duckdb(branch="feature/x") as connection:
        assert connection.sql(COUNT).fetchall() == [(4,)]


def test_a_graph_in_a_duckdb_connection_of_somebody_else(graph: og.Graph) -> None:
    with duckdb.connect() as connection:
        connection.execute("create table mine as select 'Ann' as who")
        graph.attach(connection, alias="social")

        text = "select p.age from mine join social.main.Person p on p.id = mine.who"
        assert connection.sql(text).fetchall() == [(30,)]
        assert connection.sql("select current_catalog(), current_schema()").fetchall() == [("memory", "main")]
        assert connection.sql("select id from nearest('Person', 'vec', [1, 0], 1)").fetchall() == [("Ann",)]
        add(graph, "Eve")
        assert connection.sql("select count(*) from social.main.Person").fetchall() == [(3,)]
        graph.attach(connection, alias="social")
        assert connection.sql("select count(*) from social.main.Person").fetchall() == [(4,)]


@pytest.mark.parametrize("open_session", [SessionContext, duckdb.connect], ids=["datafusion", "duckdb"])
def test_two_graphs_in_one_session(graph: og.Graph, tmp_path: Path, open_session: Any) -> None:
    session = open_session()
    with og.init(tmp_path / "other", "node Person { name: String @key }") as other:
        other.load(json.dumps(person("Ann")), mode="append")
        graph.attach(session, alias="one")
        other.attach(session, alias="two")

        text = 'select a.age from one.main."Person" a join two.main."Person" b on a.id = b.id'
        assert _rows(session, text) == [(30,)]
        assert _rows(session, "select count(*) from branches()") == [(2,)], "the functions without a name are the first's"
        assert _rows(session, "select count(*) from two_branches()") == [(1,)]


def _rows(session: Any, text: str) -> list[tuple[Any, ...]]:
    if isinstance(session, SessionContext):
        return [tuple(row.values()) for row in session.sql(text).to_pylist()]
    found: list[tuple[Any, ...]] = session.sql(text).fetchall()
    return found


def test_a_datafusion_session_of_somebody_else_says_what_is_not_there(graph: og.Graph) -> None:
    session = SessionContext()
    graph.attach(session, alias="social")

    for text, error, said in (
        ("select * from social.main.persn", NotFound, "did you mean `Person`?"),
        ("select * from social.mian.person", NotFound, "did you mean `main`?"),
        ("select * from social.main.person@main", NotFound, 'write "main"."Person"'),
        ("create table social.main.mine as select 1 as x", OmnigraphError, "mine"),
    ):
        with pytest.raises(error, match=re.escape(said)):
            session.sql(text).collect()
    assert session.sql("select count(*) as n from social.main.person").to_pylist() == [{"n": 3}]


def test_a_session_of_a_graph_takes_no_tables(graph: og.Graph) -> None:
    session = graph.datafusion()

    with pytest.raises(Exception, match=r"Graph\.register"):
        session.from_arrow(pa.table({"x": [1]}), "mine")
    with pytest.raises(Exception, match=r"Graph\.register"):
        session.register_record_batches("mine", [[pa.record_batch({"x": [1]})]])
    with pytest.raises(Exception, match="cannot be taken out"):
        session.deregister_table("City")
    assert session.sql(COUNT).to_pylist() == [{"n": 3}]


@pytest.mark.parametrize(
    ("open_session", "names"), [(SessionContext, ["datafusion"]), (duckdb.connect, ["memory", "Memory", "system", "temp"])]
)
def test_a_graph_takes_the_place_of_no_other_catalog(graph: og.Graph, open_session: Any, names: list[str]) -> None:
    session = open_session()

    for name in names:
        with pytest.raises(Conflict, match=f"has a catalog `{name}` already"):
            graph.attach(session, alias=name)
    assert graph.attach(session) == "graph"


@pytest.mark.parametrize("open_session", [SessionContext, duckdb.connect])
@pytest.mark.parametrize("alias", [None, "a"])
def test_a_graph_takes_the_place_of_no_other_graph(
    graph: og.Graph, tmp_path: Path, open_session: Any, alias: str | None
) -> None:
    session = open_session()
    name = graph.attach(session, alias=alias)

    with og.init(tmp_path / "other", "node Person { name: String @key }") as other:
        with pytest.raises(Conflict, match=f"has a catalog `{name}` already") as caught:
            other.attach(session, alias=alias)
        assert caught.value.reason == "name_taken"
        assert other.attach(session, alias="b") == "b"
    with og.connect(graph.uri, read_only=True) as again:
        assert again.attach(session, alias=alias) == name
    rows = session.sql(f'select count(*) as n from {name}.main."Person"').to_arrow_table().to_pylist()
    assert rows == [{"n": 3}]


def test_a_connection_of_a_graph_hands_instants_to_python(graph: og.Graph) -> None:
    """DuckDB needs pytz for that and does not depend on it, so the extra brings it."""
    with graph.duckdb() as connection:
        ((seen,),) = connection.sql("select seen from Person where name = 'Ann'").fetchall()
        created = connection.sql("select created_at from commits()").fetchall()

    assert seen == datetime.datetime(2024, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
    assert all(when.tzinfo is not None for (when,) in created)


def test_a_connection_of_a_graph_can_look_anew(graph: og.Graph) -> None:
    with graph.duckdb() as connection:
        add(graph, "Eve")
        assert connection.sql(COUNT).fetchall() == [(3,)]
        graph.attach(connection)
        assert connection.sql(COUNT).fetchall() == [(4,)]


def test_what_is_no_session_is_refused(graph: og.Graph) -> None:
    with pytest.raises(BadRequest, match="cannot be attached"):
        graph.attach(object())
    with pytest.raises(BadRequest, match="no engine `duckb`"):
        graph.sql("select 1", engine="duckb")  # type: ignore[arg-type]
    with pytest.raises(NotFound, match="nowhere"):
        graph.datafusion(branch="nowhere")


EARLY = datetime.datetime(2020, 1, 1, 12)
VALUES = [
    b"\x00a",
    EARLY,
    EARLY.replace(tzinfo=datetime.UTC),
    EARLY.replace(tzinfo=datetime.timezone(datetime.timedelta(hours=2))),
    datetime.date(2020, 1, 1),
    datetime.time(1, 2, 3),
    decimal.Decimal("1.50"),
    [],
    [1, None],
    {"a": [1.5]},
    None,
    True,
]


@pytest.mark.parametrize("engine", ["datafusion", "duckdb"])
@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_values_of_python_are_parameters(graph: og.Graph, value: Any, engine: EngineName) -> None:
    assert graph.sql("select $v as v", {"v": value}, engine=engine).to_pylist() == [{"v": value}]


@pytest.mark.parametrize("engine", ["datafusion", "duckdb"])
@pytest.mark.parametrize(
    "value", [object(), 2**64, pa.scalar((1, 2, 3), pa.month_day_nano_interval())], ids=["object", "large", "odd"]
)
def test_other_values_are_refused(graph: og.Graph, value: Any, engine: EngineName) -> None:
    if isinstance(value, pa.Scalar) and engine == "datafusion":
        pytest.skip("it has such values")
    with pytest.raises(BadRequest, match=r"bound|no values of the type"):
        graph.sql("select $v as v", {"v": value}, engine=engine)


@pytest.mark.parametrize("engine", ["datafusion", "duckdb"])
def test_a_condition_reads_the_columns_that_it_is_about(tmp_path: Path, engine: EngineName) -> None:
    """One on unsigned numbers, which Lance does not take: the blobs beside them stay where they are."""
    account = Path("/proc/self/io")
    if not account.exists():
        pytest.skip("the system does not count what a process reads")
    with og.init(tmp_path / "files", "node File { name: String @key  pages: U32  body: Blob? }") as graph:
        bodies = pa.array([os.urandom(1 << 20) for _ in range(32)], pa.large_binary())
        names = [f"f{number}" for number in range(32)]
        pages = pa.array(range(32), pa.uint32())
        graph.load({"File": pa.table({"name": names, "pages": pages, "body": bodies})}, mode="append")
        graph.sql("select count(*) from File", engine=engine).to_arrow()

        before = int(account.read_text().split()[1])
        assert graph.sql("select name from File where pages > 30", engine=engine).to_pylist() == [{"name": "f31"}]
        assert int(account.read_text().split()[1]) - before < 8 << 20


@pytest.mark.parametrize("engine", ["datafusion", "duckdb"])
def test_a_large_result_comes_in_batches_and_can_be_read_again(graph: og.Graph, engine: EngineName) -> None:
    text = "select a.id, b.id as other from Person a, Person b, generate_series(1, 20000) s"
    with graph.sql(text, engine=engine) as found:
        first = next(iter(found))
        assert 0 < first.num_rows < 180_000
    with graph.sql(text, engine=engine) as found:
        assert found.to_arrow().num_rows == 180_000
        assert len(found.to_pandas()) == 180_000


_LONG = "select count(*) from generate_series(1, 100000) a(x), generate_series(1, 100000) b(y) where a.x * b.y % 7 = 3"


@pytest.mark.parametrize("engine", ["datafusion", "duckdb"])
def test_a_statement_that_takes_too_long_is_ended(graph: og.Graph, engine: EngineName) -> None:
    with pytest.raises(ResourceLimit, match="did not finish within"):
        graph.sql(_LONG, engine=engine, timeout=0.3)

    assert graph.sql(COUNT, engine=engine).to_pylist() == [{"n": 3}]


_ABANDONED = """
import os, sys
import omnigraph_sql as og
graph = og.connect(sys.argv[1])
series = "generate_series(1, 1000000)"
try:
    graph.sql(f"select count(*) from {series} a(x), {series} b(y) where a.x * b.y % 7 = 3", timeout=0.3)
except og.errors.ResourceLimit:
    print(graph.sql('select count(*) as n from "Person"', timeout=30).to_pylist(), flush=True)
os._exit(0)  # what was abandoned would go on for minutes
"""


def test_a_statement_that_cannot_be_stopped_is_in_nobodys_way(graph: og.Graph) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _ABANDONED, graph.uri],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert (done.stdout, done.stderr) == ("[{'n': 3}]\n", "")


_LARGE = {
    "datafusion": "select count(*) from generate_series(1, 2000000) a(x) join generate_series(1, 2000000) b(y) on a.x = b.y",
    "duckdb": "select length(string_agg(repeat(x::varchar, 20), ',')) from generate_series(1, 1000000) s(x)",
}


@pytest.mark.parametrize("engine", ["datafusion", "duckdb"])
def test_a_statement_that_needs_too_much_memory_is_ended(graph: og.Graph, engine: EngineName) -> None:
    with pytest.raises(ResourceLimit, match="memory"):
        graph.sql(_LARGE[engine], engine=engine, memory_limit=8 << 20)

    assert graph.sql(COUNT, engine=engine).to_pylist() == [{"n": 3}]


@pytest.mark.parametrize("engine", ["datafusion", "duckdb"])
def test_a_result_is_arrow_for_others(graph: og.Graph, engine: EngineName) -> None:
    found = graph.sql("select name, age from Person order by name", engine=engine)

    assert pa.table(found).column("name").to_pylist() == ["Ann", "Bob", "Cy"]
    assert found.to_polars().shape == (3, 2)
    assert list(found.to_pandas()["name"]) == ["Ann", "Bob", "Cy"]
    reader = pa.RecordBatchReader.from_stream(found)
    with duckdb.connect() as connection:
        assert connection.from_arrow(reader).aggregate("max(age)").fetchall() == [(30,)]


@pytest.mark.parametrize("engine", ["datafusion", "duckdb"])
def test_a_graph_that_nobody_uses_goes_away(tmp_path: Path, engine: EngineName) -> None:
    graph = make(tmp_path)
    graph.sql("select * from expand('Knows', 'Ann')", engine=engine).to_arrow()
    with pytest.raises(NotFound):
        graph.sql("select * from nothing", engine=engine)
    known = weakref.ref(graph)
    del graph
    gc.collect()

    assert known() is None, "an engine holds on to it"


@pytest.mark.parametrize("alias", ["Social", "social", 'we"ird $'])
def test_the_functions_of_a_graph_in_every_spelling(graph: og.Graph, alias: str) -> None:
    session = SessionContext()
    graph.attach(session, alias=alias)

    def exact(name: str) -> str:
        return '"' + name.replace('"', '""') + '"'

    spellings: list[Callable[[str], str]] = [exact] if '"' in alias else [exact, str, str.lower, str.upper]
    for spell in spellings:
        branches, degree = spell(f"{alias}_branches"), spell(f"{alias}_degree")
        assert session.sql(f"select * from {branches}()").to_pylist(), branches
        assert session.sql(f"select {degree}('Knows', 'Ann', 'both') as d").to_pylist(), degree
        assert session.sql(f'select count(*) as n from {spell(alias)}.main."Person"').to_pylist() == [{"n": 3}]


@pytest.mark.parametrize("engine", ["datafusion", "duckdb"])
def test_a_state_after_a_table_is_told_how_to_be_written(graph: og.Graph, engine: EngineName) -> None:
    with pytest.raises(NotFound, match=r'write "feature/x"\."Person"'):
        graph.sql("select * from Person@feature/x", engine=engine)


@pytest.mark.parametrize("engine", ["datafusion", "duckdb"])
def test_what_is_no_statement_and_no_parameter(graph: og.Graph, engine: EngineName) -> None:
    for text in (None, b"select 1", 5):
        with pytest.raises(BadRequest, match="an SQL statement is a text, not"):
            graph.sql(text, engine=engine)  # type: ignore[arg-type]
    with pytest.raises(BadRequest, match="params is a mapping"):
        graph.sql("select $a as a", [1], engine=engine)  # type: ignore[arg-type]
    with pytest.raises(BadRequest, match="parameter"):
        graph.sql("select $a as a", {"a": "\udc80"}, engine=engine)
    with pytest.raises(BadRequest, match="`alias` is a text, not int"):
        graph.attach(SessionContext() if engine == "datafusion" else duckdb.connect(), alias=5)  # type: ignore[arg-type]
    with pytest.raises(BadRequest, match="`name` is a text, not int"):
        graph.register(5, pa.table({"a": [1]}))  # type: ignore[arg-type]
    with pytest.raises(NotFound, match="did you mean `main`"):
        graph.sql(COUNT, branch="mian", engine=engine)
    assert graph.sql(COUNT, engine=engine).to_pylist() == [{"n": 3}]
