"""Pinned sessions: schemas are relational schemas, names mean the same on every branch, and no name is a branch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraph_sql as og
from omnigraph_sql.choices import EngineName
from omnigraph_sql.errors import BadRequest, Conflict, NotFound

SCHEMA = """
node Person { name: String @key  age: I32? }
edge Knows: Person -> Person
"""


@pytest.fixture(params=["datafusion", "duckdb"])
def engine(request: pytest.FixtureRequest) -> EngineName:
    name: EngineName = request.param
    return name


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[og.Graph]:
    with og.init(tmp_path / "graph", SCHEMA) as made:
        made.load('{"type": "Person", "data": {"name": "Ann", "age": 30}}', mode="append")
        made.tables().create_schema("mart")
        made.tables().create_table("mart", "fees", pa.table({"fee": [1, 2]}))
        made.tables().create_table("main", "seeds", pa.table({"n": [7]}))
        made.create_branch("dev")
        yield made


def rows(session: Any, statement: str) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in session.sql(statement).to_pylist()]


def test_schemas_are_those_of_the_branch_and_show_the_types(graph: og.Graph, engine: EngineName) -> None:
    graph.execute("insert into seeds values (8)", branch="dev")
    with graph.pinned(branch="dev", database="store", engine=engine) as dev:
        assert rows(dev, "select n from main.seeds order by n") == [(7,), (8,)]
        assert rows(dev, "select n from store.main.seeds where n > 7") == [(8,)]
        assert rows(dev, "select n from STORE.MAIN.SEEDS where n > 7") == [(8,)]
        assert rows(dev, "select sum(fee) as f from mart.fees") == [(3,)]
        for schema in ("main", "mart", "graph", "store.mart", "Store.Graph"):
            assert rows(dev, f"select name from {schema}.Person") == [("Ann",)]
        assert rows(dev, 'select count(*) as n from "edge:Knows"') == [(0,)]
    with graph.pinned(engine=engine) as main:
        assert rows(main, "select n from main.seeds") == [(7,)]


def test_no_schema_is_a_branch_a_version_or_a_tag(graph: og.Graph, engine: EngineName) -> None:
    graph.tag("v1")
    with graph.pinned(engine=engine) as session:
        for schema in ("dev", "main@1", "@v1", "main:mart"):
            with pytest.raises(NotFound, match="schema"):
                session.sql(f'select * from "{schema}".Person').to_arrow()
        with pytest.raises(NotFound, match="catalog"):
            session.sql("select * from elsewhere.main.seeds").to_arrow()


def test_the_information_schema_lists_the_branch_only(graph: og.Graph, engine: EngineName) -> None:
    with graph.pinned(database="store", engine=engine) as session:
        schemata = rows(session, "select catalog_name, schema_name from store.information_schema.schemata order by 2")
        assert schemata == [("store", name) for name in ("graph", "information_schema", "main", "mart")]
        found = rows(session, "select table_schema, table_name from information_schema.tables order by 1, 2")
        assert found == [
            ("graph", "Knows"),
            ("graph", "Person"),
            ("main", "Knows"),
            ("main", "Person"),
            ("main", "seeds"),
            ("mart", "Knows"),
            ("mart", "Person"),
            ("mart", "fees"),
        ]


def test_a_default_schema_may_be_created_later(graph: og.Graph, engine: EngineName) -> None:
    with graph.pinned(schema="analytics", engine=engine) as session:
        assert rows(session, "select name from Person") == [("Ann",)]
        session.execute("create schema analytics; create table people as select name from Person")
        assert rows(session, "select * from people") == rows(session, "select * from analytics.people") == [("Ann",)]
    assert graph.sql('select * from "main:analytics"."people"').to_pylist() == [{"name": "Ann"}]


def test_scripts_write_to_the_branch_of_the_session(graph: og.Graph, engine: EngineName) -> None:
    with graph.pinned(branch="dev", database="store", engine=engine) as session:
        done = session.execute(
            "create table store.mart.people as select name, age from store.graph.Person;"
            "insert into main.seeds values (9);"
            "update graph.Person set age = age + 1;"
            "insert into mart.people values ('Bob', 3)",
            message="all of it",
        )
        assert (done.rows_affected, done.commit is not None) == (4, True)
        assert rows(session, "select age from Person") == [(31,)]
        assert rows(session, "select count(*) as n from mart.people") == [(2,)]
    assert graph.commits("dev")[0].message == "all of it"
    assert graph.sql("select age from Person").to_pylist() == [{"age": 30}]


def test_a_schema_may_have_the_name_of_a_branch(graph: og.Graph, engine: EngineName) -> None:
    with graph.pinned(engine=engine) as session:
        session.execute("create schema dev; create table dev.t as select 1 as a")
        assert rows(session, "select a from dev.t") == [(1,)]
    assert graph.sql('select a from "main:dev".t', engine=engine).to_pylist() == [{"a": 1}]


@pytest.mark.parametrize(
    ("statement", "error", "text"),
    [
        ("create table graph.t (a int)", BadRequest, "graph"),
        ("create schema graph", BadRequest, "graph"),
        ("create table mart.Person (a int)", Conflict, "node type"),
        ("create table mart.person (a int)", Conflict, "node type"),
        ("create table mart.FEES (a int)", Conflict, "exists already"),
        ("create schema MART", Conflict, "exists"),
        ("use branch dev", BadRequest, "stays on its branch"),
        ("drop table graph.Person", BadRequest, "node type"),
        ("insert into dev.seeds values (1)", NotFound, "dev"),
        ("insert into other.main.seeds values (1)", NotFound, "catalog"),
    ],
)
def test_what_a_pinned_session_refuses(
    graph: og.Graph, engine: EngineName, statement: str, error: type[Exception], text: str
) -> None:
    before = graph.snapshot().commit_id
    with graph.pinned(engine=engine) as session, pytest.raises(error, match=text):
        session.execute(statement)
    assert graph.snapshot().commit_id == before


def test_names_that_differ_in_case_only_are_refused_at_every_door(graph: og.Graph) -> None:
    tables = graph.tables()
    with pytest.raises(Conflict, match="case"):
        tables.create_table("main", "Seeds", pa.table({"n": [1]}))
    with pytest.raises(Conflict, match="type"):
        tables.create_table("main", "person", pa.table({"n": [1]}))
    with pytest.raises(Conflict, match="case"):
        tables.define_view("main", "SEEDS", "select 1 as a", dialect="datafusion", columns=["a"])
    tables.rename("main", "seeds", "SEEDS")
    assert graph.sql("select n from SEEDS").to_pylist() == [{"n": 7}]


def test_views_keep_the_meaning_of_their_names(graph: og.Graph, engine: EngineName) -> None:
    """`main` is a schema in a view of a pinned session, and a branch in one of `Graph.execute`, whoever reads it."""
    graph.execute("create view by_branch as select n from main.seeds", branch="dev", engine=engine)
    with graph.pinned(branch="dev", database="store", engine=engine) as session:
        session.execute("create view mart.by_schema as select n from store.main.seeds")
        session.execute("create view mart.above as select n + 1 as n from by_schema")
        graph.execute("insert into seeds values (8)", branch="dev")
        graph.execute("insert into seeds values (100)")

        assert rows(session, "select n from mart.by_schema order by 1") == [(7,), (8,)]
        assert rows(session, "select n from main.by_branch order by 1") == [(7,), (100,)]
        assert rows(session, "select n from mart.above order by 1") == [(8,), (9,)]
        joined = "select count(*) as n from mart.by_schema s join by_branch b on s.n = b.n"
        assert rows(session, joined) == [(1,)]
    for other in ("datafusion", "duckdb"):
        read: Any = {"branch": "dev", "engine": other}
        assert graph.sql('select n from "dev:mart".by_schema order by 1', **read).to_pylist() == [{"n": 7}, {"n": 8}]
        assert graph.sql('select n from "dev:mart".above order by 1', **read).to_pylist() == [{"n": 8}, {"n": 9}]
        assert graph.sql("select n from by_branch order by 1", **read).to_pylist() == [{"n": 7}, {"n": 100}]


def test_transactions_of_a_session_have_its_names(graph: og.Graph, engine: EngineName) -> None:
    with graph.pinned(database="store", engine=engine) as session:
        with session.transaction(message="in one") as tx:
            tx.execute("create table store.mart.t (a int not null)")
            tx.write("mart", "t", pa.table({"a": [1, 2]}), mode="append")
            tx.write("new", "u", pa.table({"b": [5]}))
            assert rows(tx, "select sum(a) as a from mart.t, new.u") == [(3,)]
            assert rows(session, "select count(*) as n from mart.fees") == [(2,)]
        assert rows(session, "select sum(b) as b from store.new.u") == [(5,)]


def test_a_table_named_like_a_type_hides_it_in_its_schema(graph: og.Graph, engine: EngineName) -> None:
    graph.tables().create_table("mart", "Person", pa.table({"mine": [1]}))
    with graph.pinned(engine=engine) as session:
        assert rows(session, "select * from mart.Person") == [(1,)]
        assert rows(session, "select name from main.Person") == rows(session, "select name from graph.Person") == [("Ann",)]


def test_sessions_see_new_commits_and_the_end_of_their_branch(graph: og.Graph, engine: EngineName) -> None:
    session = graph.pinned(branch="dev", engine=engine)
    graph.execute("insert into seeds values (8)", branch="dev")
    assert rows(session, "select count(*) as n from seeds") == [(2,)]
    graph.delete_branch("dev")
    with pytest.raises(NotFound, match="dev"):
        session.sql("select 1 as a").to_arrow()
    with pytest.raises(NotFound, match="dev"):
        session.execute("create table t as select 1 as a")
    with pytest.raises(NotFound, match="branch"):
        graph.pinned(branch="nowhere")
