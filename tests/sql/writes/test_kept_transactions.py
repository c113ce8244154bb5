"""`Transaction.keep` and `Graph.resume`: what a transaction wrote becomes a branch, and is published from there later."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraph_sql as og
from omnigraph_sql.errors import BadRequest, Conflict, KeyConflict, NotFound, OmnigraphError, ValidationFailed

SCHEMA = """
node Person { name: String @key  age: I32?  photo: Blob?  place: Vector(2)? }
node Note { text: String }
edge Knows: Person -> Person { since: I32? }
"""


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[og.Graph]:
    with og.init(tmp_path / "graph", SCHEMA) as made:
        made.load('{"type": "Person", "data": {"name": "Ann", "age": 30, "place": [1.0, 2.0]}}', mode="append")
        made.load('{"type": "Person", "data": {"name": "Bob", "age": 25}}', mode="append")
        made.load('{"edge": "Knows", "from": "Ann", "to": "Bob"}', mode="append")
        made.tables().create_table("main", "fees", pa.table({"fee": [1, 2, 3]}))
        made.tables().create_table("main", "old", pa.table({"a": [1]}))
        yield made


def values(reader: Any, statement: str, **options: Any) -> list[Any]:
    return [next(iter(row.values())) for row in reader.sql(statement, **options).to_pylist()]


def state(graph: og.Graph, branch: str) -> dict[str, Any]:
    """Everything that a branch shows."""
    names = graph.sql("select table_schema, table_name from information_schema.tables", branch=branch).to_pylist()
    own = [(name["table_schema"], name["table_name"]) for name in names if name["table_schema"] in (branch, "mart")]
    shown = {name: graph.sql(f'select * from "{schema}"."{name}"', branch=branch).to_pylist() for schema, name in own}
    return {
        "records": sorted(graph.export(branch=branch)),
        "tables": {name: sorted(map(str, rows)) for name, rows in shown.items()},
    }


def change(tx: Any) -> None:
    """Writes of every kind."""
    tx.load('{"type": "Person", "data": {"name": "Cy", "age": 1}}', mode="append")
    tx.load('{"edge": "Knows", "from": "Cy", "to": "Ann", "data": {"id": "k1"}}', mode="append")
    tx.mutate('query q() { update Person set { age: 31 } where name = "Ann" }')
    tx.mutate('query q() { delete Person where name = "Bob" }')
    tx.execute("create table made (a int primary key, b varchar); insert into made values (1, 'x'), (2, 'y')")
    tx.execute("create view seen as select a from made where b = 'y'; update fees set fee = fee * 10 where fee > 1")
    tx.execute("drop table old; create schema mart; create table mart.t as select name from Person")
    tx.execute("create temp table scratch as select 1 as a")


def test_a_kept_transaction_is_a_branch_with_one_commit(graph: og.Graph) -> None:
    before, head = state(graph, "main"), graph.snapshot().commit_id
    graph.create_branch("expected")
    with graph.transaction("expected") as tx:
        change(tx)
    tx = graph.transaction(message="the run", actor="ada")
    change(tx)
    commit = tx.keep("kept")

    assert state(graph, "main") == before
    assert graph.snapshot().commit_id == head
    kept, expected = state(graph, "kept"), state(graph, "expected")
    assert kept == expected
    assert [entry.message for entry in graph.commits("kept")][:2] == ["the run", graph.commits()[0].message]
    assert (commit.message, commit.actor_id, commit.parent_commit_id) == ("the run", "ada", head)
    assert not tx.is_open
    with pytest.raises(Conflict, match="kept"):
        tx.execute("select 1 as a")


def test_resuming_publishes_to_the_first_target(graph: og.Graph) -> None:
    tx = graph.transaction()
    change(tx)
    tx.keep("kept", message="unfinished")
    expected = state(graph, "kept")
    graph.execute("create table elsewhere as select 1 as a")  # others have published since

    with graph.resume("kept", message="finished", delete_branch=True) as resumed:
        assert resumed.branch == "main"
        assert values(resumed, "select count(*) as n from Person") == [2]
        resumed.execute("insert into made values (3, 'z')")
    assert graph.branches() == ["main"]
    assert graph.commits()[0].message == "finished"
    assert values(graph, "select a from made order by a") == [1, 2, 3]
    assert state(graph, "main")["records"] == expected["records"]
    with pytest.raises((ValidationFailed, KeyConflict)):
        graph.execute("insert into made values (3, 'again')")  # constraints are kept as well


def test_what_was_changed_on_the_branch_is_published_too(graph: og.Graph) -> None:
    tx = graph.transaction()
    tx.execute("insert into fees values (4)")
    tx.keep("kept")
    graph.execute("insert into fees values (5)", branch="kept")
    graph.load('{"type": "Note", "data": {"text": "looked at"}}', mode="append", branch="kept")

    graph.resume("kept").commit()
    assert values(graph, "select fee from fees order by fee") == [1, 2, 3, 4, 5]
    assert values(graph, "select text from Note") == ["looked at"]
    assert graph.branches() == ["kept", "main"]
    assert graph.resume("kept", delete_branch=True).branch == "main"


def test_a_branch_that_cannot_be_deleted_stays_and_the_transaction_is_published(graph: og.Graph) -> None:
    tx = graph.transaction()
    tx.execute("insert into fees values (4)")
    tx.keep("kept")
    graph.create_branch("child", "kept")
    resumed = graph.resume("kept", delete_branch=True)
    with pytest.warns(UserWarning, match="`kept` stays"):
        assert resumed.commit() is not None
    assert values(graph, "select count(*) as n from fees") == [4]
    assert "kept" in graph.branches()


def test_a_resumed_transaction_can_be_kept_again_and_rolled_back(graph: og.Graph) -> None:
    tx = graph.transaction()
    tx.execute("insert into fees values (4)")
    tx.keep("one")
    second = graph.resume("one")
    second.execute("insert into fees values (5)")
    second.keep("two")
    third = graph.resume("two")
    assert third.branch == "main"
    third.rollback()
    assert values(graph, "select count(*) as n from fees", branch="one") == [4]
    assert values(graph, "select count(*) as n from fees", branch="two") == [5]
    assert values(graph, "select count(*) as n from fees") == [3]
    with graph.resume("two"):
        pass
    assert values(graph, "select count(*) as n from fees") == [5]


@pytest.mark.parametrize(
    "others",
    ["insert into fees values (9)", "drop table fees", "create or replace table fees as select 'x' as fee"],
)
def test_a_resumed_transaction_meets_what_others_changed(graph: og.Graph, others: str) -> None:
    tx = graph.transaction()
    tx.execute("update fees set fee = 0 where fee = 1")
    tx.keep("kept")
    graph.execute(others)
    head = graph.snapshot().commit_id
    resumed = graph.resume("kept")
    with pytest.raises(Conflict, match="fees") as failure:
        resumed.commit()
    assert failure.value.reason == "table changed"
    assert graph.snapshot().commit_id == head
    assert values(graph, "select count(*) as n from fees where fee = 0", branch="kept") == [1]


def test_what_a_kept_transaction_read_still_counts(graph: og.Graph) -> None:
    tx = graph.transaction()
    total = values(tx, "select sum(fee) as f from fees")[0]
    tx.execute(f"create table totals as select {total} as f")
    tx.keep("kept")
    graph.execute("insert into fees values (9)")
    with pytest.raises(Conflict, match="fees"):
        graph.resume("kept").commit()


def test_a_transaction_that_was_kept_while_others_published(graph: og.Graph) -> None:
    tx = graph.transaction()
    tx.execute("insert into fees values (4)")
    graph.execute("insert into fees values (100)")
    graph.load('{"type": "Note", "data": {"text": "later"}}', mode="append")
    tx.keep("kept")
    assert values(graph, "select fee from fees order by fee", branch="kept") == [1, 2, 3, 4]
    assert values(graph, "select text from Note", branch="kept") == []
    # The branch merges as any other.
    assert graph.merge("kept", resolve="theirs").outcome == "merged"


def test_keeping_nothing_makes_a_branch_with_an_empty_commit(graph: og.Graph) -> None:
    tx = graph.transaction(message="nothing")
    commit = tx.keep("kept")
    assert (commit.message, state(graph, "kept")["records"]) == ("nothing", state(graph, "main")["records"])
    with graph.resume("kept"):
        pass
    assert len(graph.commits()) == len(graph.commits("kept")) - 1


@pytest.mark.parametrize(("name", "error"), [("main", OmnigraphError), ("taken", Conflict), ("bad name\n", BadRequest)])
def test_a_name_that_cannot_be_is_refused_and_the_transaction_stays_open(
    graph: og.Graph, name: str, error: type[Exception]
) -> None:
    graph.create_branch("taken")
    with graph.transaction() as tx:
        tx.execute("insert into fees values (4)")
        with pytest.raises(error):
            tx.keep(name)
        assert tx.is_open
        assert graph.branches() == ["main", "taken"]
    assert values(graph, "select count(*) as n from fees") == [4]


def test_branches_that_cannot_be_resumed(graph: og.Graph) -> None:
    with pytest.raises(BadRequest, match="main"):
        graph.resume("main")
    with pytest.raises(NotFound, match="nowhere"):
        graph.resume("nowhere")
    graph.create_branch("dev")
    tx = graph.transaction("dev")
    tx.execute("insert into fees values (4)")
    tx.keep("kept")
    with pytest.raises(Conflict):
        graph.delete_branch("dev")  # `kept` was made from it
    with og.connect(graph.uri, read_only=True) as reader, pytest.raises(BadRequest, match="read-only"):
        reader.resume("kept")
    with graph.resume("kept") as resumed:
        assert resumed.branch == "dev"
    assert values(graph, "select count(*) as n from fees", branch="dev") == [4]
    assert values(graph, "select count(*) as n from fees") == [3]


def test_closing_the_graph_rolls_an_open_transaction_back(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "graph", SCHEMA)
    tx = graph.transaction()
    tx.load('{"type": "Note", "data": {"text": "lost"}}', mode="append")
    graph.close()
    assert not tx.is_open
    for use in (tx.commit, lambda: tx.execute("select 1 as a"), lambda: tx.keep("kept"), tx.relations):
        with pytest.raises(Conflict, match="rolled back") as failure:
            use()
        assert failure.value.reason == "closed"
    with og.connect(graph.uri) as again:
        assert values(again, "select count(*) as n from Note") == [0]


class TestTemporaryTables:
    def test_they_end_with_the_transaction(self, graph: og.Graph) -> None:
        with graph.transaction() as tx:
            tx.execute("create temp table scratch (a int primary key); insert into scratch values (1), (2)")
            tx.execute("create temporary view half as select a from scratch where a > 1")
            tx.execute("insert into fees select a + 10 from half")
            assert "scratch" in [relation.name for relation in tx.relations()]
            with pytest.raises((ValidationFailed, KeyConflict)):
                tx.execute("insert into scratch values (1)")
        assert values(graph, "select max(fee) as f from fees") == [12]
        for name in ("scratch", "half"):
            with pytest.raises(NotFound, match=name):
                graph.sql(f"select * from {name}").to_arrow()
        assert graph.execute("create temp table scratch as select 1 as a; select a from scratch").commit is None

    def test_they_stay_temporary_under_another_name_and_other_columns(self, graph: og.Graph) -> None:
        with graph.transaction() as tx:
            tx.execute("create temp table scratch as select 1 as a; alter table scratch add column b int")
            tx.execute("alter table scratch rename to other; create or replace temp table other as select 5 as c")
            assert values(tx, "select c from other") == [5]
        with pytest.raises(NotFound):
            graph.sql("select * from other").to_arrow()

    def test_a_dropped_one_gives_its_name_back(self, graph: og.Graph) -> None:
        with graph.transaction() as tx:
            tx.execute("create temp table scratch as select 1 as a; drop table scratch")
            tx.execute("create table scratch as select 2 as b")
        assert values(graph, "select b from scratch") == [2]

    def test_a_failed_statement_leaves_a_table_as_temporary_as_it_was(self, graph: og.Graph) -> None:
        with graph.transaction() as tx:
            tx.execute("create temp table scratch as select 1 as a")
            with pytest.raises(OmnigraphError):
                tx.execute("drop table scratch; create table scratch as select 2 as b; select * from nowhere")
            assert values(tx, "select a from scratch") == [1]
        with pytest.raises(NotFound):
            graph.sql("select * from scratch").to_arrow()

    def test_what_others_publish_under_their_names_is_no_conflict(self, graph: og.Graph) -> None:
        with graph.transaction() as tx:
            tx.execute("create temp table scratch as select 1 as a; insert into fees select a + 10 from scratch")
            graph.execute("create table scratch as select 'theirs' as a")
        assert values(graph, "select a from scratch") == ["theirs"]
        assert values(graph, "select max(fee) as f from fees") == [11]

    @pytest.mark.parametrize(
        ("statement", "error", "text"),
        [
            ("create temp table fees (a int)", Conflict, "exists already"),
            ("create or replace temp table fees as select 1 as a", Conflict, "stays"),
            ("create temp table t as select 1 as a; create or replace table t as select 2 as a", Conflict, "ends with"),
            ("create temp table t as select 1 as a; create view v as select a from t", BadRequest, "ends with"),
            ("create temp schema s", BadRequest, "only tables and views"),
            ("create temp table Person (a int)", Conflict, "node type"),
        ],
    )
    def test_what_is_refused(self, graph: og.Graph, statement: str, error: type[Exception], text: str) -> None:
        before = graph.snapshot().commit_id
        for engine in ("datafusion", "duckdb"):
            with pytest.raises(error, match=text):
                graph.execute(statement, engine=engine)
        assert graph.snapshot().commit_id == before
