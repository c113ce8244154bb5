"""Statements about literals take a path without an engine: it must do what the engine's path does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import omnigraph_sql as og
from omnigraph_sql.choices import EngineName
from omnigraph_sql.errors import KeyConflict, OmnigraphError, ValidationFailed

SCHEMA = """
node Person { name: String @key  age: I32?  born: Date?  tags: [String]?  score: F64 @default(1.5)  @range(age, 0..150) }
node Pair { a: String  b: String  n: I64?  @key(a, b) }
node Number { n: I32 @key  text: String? }
node File { name: String @key  data: Blob?  size: I32? }
edge Knows: Person -> Person { since: I32? }
"""
PEOPLE = "insert into Person (name, age) values ('Ann', 30), ('O''Hara', 25), ('x and y', 1)"


@pytest.fixture(params=["datafusion", "duckdb"])
def engine(request: pytest.FixtureRequest) -> EngineName:
    name: EngineName = request.param
    return name


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[og.Graph]:
    with og.init(tmp_path / "graph", SCHEMA) as made:
        made.execute(PEOPLE)
        made.execute("insert into Pair (a, b, n) values ('x', 'y', 1), ('x', 'z', 2)")
        made.execute("insert into Number (n, text) values (1, 'one'), (2, 'two')")
        made.load('{"type": "File", "data": {"name": "f", "data": "base64:AAEC", "size": 3}}', mode="append")
        made.load('{"edge": "Knows", "from": "Ann", "to": "O\'Hara", "data": {"id": "k1", "since": 1}}', mode="append")
        yield made


def outcome(graph: og.Graph, branch: str, statement: str, params: Any, engine: EngineName) -> Any:
    """The number of rows and the rows, or the kind and text of the error."""
    graph.create_branch(branch)
    try:
        affected: Any = graph.execute(statement, params, branch=branch, engine=engine).rows_affected
    except OmnigraphError as error:
        affected = (error.kind, error.message)
    names = ("Person", "Pair", "Number", "File", "Knows")
    return affected, {
        name: sorted(map(str, graph.sql(f"select * from {name}", branch=branch).to_pylist())) for name in names
    }


CHANGES: list[tuple[str, str, dict[str, Any]]] = [
    ("update Person set age = 31 where name = 'Ann'", "(1 = 1)", {}),
    ("update Person p set age = $age where p.name = $name", "(1 = 1)", {"age": 31, "name": "O'Hara"}),
    ("update Person set age = null, tags = null where NAME = 'Ann'", "(1 = 1)", {}),
    ("update Person set born = '2001-02-03', score = 2 where name = 'x and y'", "(1 = 1)", {}),
    ("update Person set age = 200 where name = 'Ann'", "(1 = 1)", {}),
    ("update Person set age = 'old' where name = 'Ann'", "(1 = 1)", {}),
    ("update Person set age = 1.5 where name = 'Ann'", "(1 = 1)", {}),
    ("update Person set age = 5 where name = 'Nobody'", "(1 = 1)", {}),
    ("update Person set score = null where name = 'Ann'", "(1 = 1)", {}),
    ("update Person set age = 5 where id = 'Ann'", "(1 = 1)", {}),
    ("update Pair set n = 9 where b = 'y' and a = 'x'", "(1 = 1)", {}),
    ("update Pair set n = 9 where a = 'x'", "(1 = 1)", {}),
    ("update Number set text = 'x' where n = 1", "(1 = 1)", {}),
    ("update Number set text = 'x' where n = '1'", "(1 = 1)", {}),
    ("update File set size = 4 where name = 'f'", "(1 = 1)", {}),
    ("update Knows set since = 2 where id = 'k1'", "(1 = 1)", {}),
    ("delete from Person where name = 'O''Hara'", "(1 = 1)", {}),
    ("delete from Person where name = $name", "(1 = 1)", {"name": "nobody"}),
    ("delete from Person where name = 'Ann' and name = 'O''Hara'", "(1 = 1)", {}),
    ("delete from Person where name = 'x and y'", "(1 = 1)", {}),
    ("delete from Person where name = null", "(1 = 1)", {}),
    ("delete from Knows where id = 'k1'", "(1 = 1)", {}),
    ("delete from Pair where a = 'x' and b = 'z'", "(1 = 1)", {}),
]


@pytest.mark.parametrize(("statement", "more", "params"), CHANGES, ids=[change[0] for change in CHANGES])
def test_changes_are_those_that_the_engine_makes(
    graph: og.Graph, engine: EngineName, statement: str, more: str, params: dict[str, Any]
) -> None:
    """With one more condition, which always holds, the engine computes the rows."""
    assert outcome(graph, "short", statement, params, engine) == outcome(
        graph, "long", f"{statement} and {more}", params, engine
    )


INSERTS = [
    "insert into Person (name, age) values {}'Bea', 7{}",
    "insert into Person (name, born, score) values {}'Bea', '2001-02-03', 3{}",
    "insert into Person (name, age) values {}'Ann', 7{}",
    "insert into Person (name, age) values {}'Bea', 151{}",
    "insert into Person (name, age) values {}'Bea', 'x'{}",
    "insert into Person (name, age) values {}null, 1{}",
    "insert into Knows (src, dst, since) values {}'Ann', 'nobody', 1{}",
    "insert into Number (n, text) values {}3, 7{}",
    "insert into Number (n, text) values {}99999999999, 'x'{}",
    "insert into Pair (a, b) values {}'x', 'y'{}",
    "insert into Person (name, nothing) values {}'Bea', 1{}",
]


@pytest.mark.parametrize("statement", INSERTS)
def test_inserts_are_those_of_the_engine(graph: og.Graph, engine: EngineName, statement: str) -> None:
    short = outcome(graph, "short", statement.format("(", ")"), {}, engine)
    long = outcome(graph, "long", statement.replace("values ", "").format("select ", ""), {}, engine)
    (count, left), (other, right) = short, long  # a text may name the id of an edge, or a type of the engine
    assert (count if isinstance(count, int) else count[0]) == (other if isinstance(other, int) else other[0])
    if isinstance(count, int):
        assert left == right


def test_keys_are_known_across_every_kind_of_change(graph: og.Graph, engine: EngineName) -> None:
    """The keys of a table are kept in memory while literals are inserted: every other write must be seen."""
    graph.execute("create table t (a int primary key, b varchar unique)")
    with graph.transaction(engine=engine) as tx:

        def inserts(values: str) -> bool:
            try:
                return tx.execute(f"insert into t values {values}").rows_affected > 0
            except (KeyConflict, ValidationFailed):
                return False

        assert inserts("(1, 'a'), (2, 'b')")
        assert not inserts("(1, 'c')")
        assert not inserts("(3, 'a')")
        assert not inserts("(4, 'd'), (4, 'e')")
        assert inserts("(5, null), (6, null)")
        tx.execute("delete from t where a = 1")
        assert inserts("(1, 'a')")
        tx.execute("update t set a = 10 where a = 2")
        assert inserts("(2, 'x')")
        assert not inserts("(10, 'y')")
        with pytest.raises(OmnigraphError):
            tx.execute("insert into t values (20, 't'); select * from nowhere")
        assert inserts("(20, 't')")
        tx.execute("truncate t")
        assert inserts("(20, 't')")
        tx.execute("drop table t; create table t (a int primary key, b varchar unique)")
        assert inserts("(20, 't')")
        tx.execute("insert into t select 21, 'u'")
        assert not inserts("(21, 'v')")
    assert graph.sql("select a, b from t order by a").to_pylist() == [{"a": 20, "b": "t"}, {"a": 21, "b": "u"}]


def test_rows_that_wait_are_seen_by_every_reader(graph: og.Graph, engine: EngineName) -> None:
    graph.execute("create table t (a int, b varchar)")
    readers: list[Any] = [
        lambda tx: tx.sql("select count(*) as n from t").to_pylist()[0]["n"],
        lambda tx: tx.execute("select count(*) as n from t").result.to_pylist()[0]["n"],
        lambda tx: next(relation.row_count for relation in tx.relations() if relation.name == "t"),
        lambda tx: tx.snapshot.entry("table:main.t").row_count,
        lambda tx: tx.execute("update t set b = 'z'").rows_affected,
    ]
    for read in readers:
        with graph.transaction(engine=engine) as tx:
            for number in range(3):
                tx.execute(f"insert into t values ({number}, 'x')")
            assert read(tx) == 3
            tx.rollback()
    with graph.transaction(engine=engine) as tx:
        for number in range(3):
            tx.execute(f"insert into t values ({number}, 'x')")
    assert graph.sql("select count(*) as n from t").to_pylist() == [{"n": 3}]


def test_a_statement_that_fails_takes_back_only_its_own_rows(graph: og.Graph, engine: EngineName) -> None:
    graph.execute("create table t (a int not null)")
    with graph.transaction(engine=engine) as tx:
        tx.execute("insert into t values (1)")
        for failing in ("insert into t values (null)", "insert into t values (2); insert into t values ('x')"):
            with pytest.raises(OmnigraphError):
                tx.execute(failing)
        tx.execute("insert into t values (3)")
    assert graph.sql("select a from t order by a").to_pylist() == [{"a": 1}, {"a": 3}]
