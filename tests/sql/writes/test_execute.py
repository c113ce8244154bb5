"""`Graph.execute` and `Transaction.execute`: commits, keys, other writers, and rows of types as mutations write them."""

from __future__ import annotations

import datetime
import json
import random
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraph_sql as og
from omnigraph_sql.choices import EngineName
from omnigraph_sql.errors import BadRequest, Conflict, KeyConflict, ValidationFailed

SCHEMA = """
node Person { name: String @key  age: I32?  born: Date?  score: F64 @default(1.5) }
node Note { text: String  stars: I32? }
edge Knows: Person -> Person { since: I32? }
"""
ENGINES: list[EngineName] = ["datafusion", "duckdb"]


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[og.Graph]:
    with og.init(tmp_path / "graph", SCHEMA) as made:
        people = [{"type": "Person", "data": {"name": name, "age": age}} for name, age in (("Ann", 30), ("Bob", 25))]
        made.load("\n".join(map(json.dumps, people)), mode="append")
        made.load('{"edge": "Knows", "from": "Ann", "to": "Bob"}', mode="append")
        yield made


def rows(graph: og.Graph, statement: str, **options: Any) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in graph.sql(statement, **options).to_pylist()]


def test_a_script_is_one_commit_with_its_author_and_note(graph: og.Graph) -> None:
    before = len(graph.commits())
    done = graph.execute(
        "create table t (a int); insert into t values (1), (2); update Person set age = 1; select sum(a) as n from t",
        message="several things",
        actor="ada",
    )

    assert len(graph.commits()) == before + 1
    assert done.rows_affected == 4
    assert done.commit is not None
    assert (done.commit.message, done.commit.actor_id) == ("several things", "ada")
    assert done.result is not None
    assert done.result.to_pylist() == done.result.to_pylist() == [{"n": 3}]


def test_reads_and_writes_that_change_nothing_make_no_commit(graph: og.Graph) -> None:
    before = graph.snapshot().commit_id

    assert graph.execute("select 1 as x").commit is None
    assert graph.execute("delete from Person where age > 1000").commit is None
    assert graph.execute("drop table if exists nothing").commit is None
    assert graph.snapshot().commit_id == before


def test_a_key_is_run_once(graph: og.Graph) -> None:
    graph.execute("create table t (a int)")
    first = graph.execute("insert into t values (1)", idempotency_key="k")
    again = graph.execute("insert into t values (1)", idempotency_key="k")

    assert first.commit is not None
    assert (again.rows_affected, again.commit) == (0, first.commit)
    assert rows(graph, "select count(*) from t") == [(1,)]


def test_a_graph_that_is_open_for_reading_is_not_written(graph: og.Graph) -> None:
    with og.connect(graph.uri, read_only=True) as reader, pytest.raises(BadRequest):
        reader.execute("create table t (a int)")


@pytest.mark.parametrize("engine", ENGINES)
def test_a_failed_script_inside_a_transaction_leaves_what_was_there(graph: og.Graph, engine: EngineName) -> None:
    with graph.transaction(engine=engine) as tx:
        tx.execute("create table t (a int primary key); insert into t values (1)")
        with pytest.raises(KeyConflict, match=r"statement 3 \(line 1"):
            tx.execute("insert into t values (2); delete from Person; insert into t values (1)")
        assert tx.sql("select a from t").to_pylist() == [{"a": 1}]
        assert tx.sql("select count(*) as n from Person").to_pylist() == [{"n": 2}]
        tx.execute("insert into t values (3)")

    assert rows(graph, "select a from t order by a") == [(1,), (3,)]
    assert rows(graph, "select count(*) from Person") == [(2,)]


def test_sql_sees_loads_and_mutations_of_its_transaction(graph: og.Graph) -> None:
    with graph.transaction() as tx:
        tx.load('{"type": "Person", "data": {"name": "Cy"}}', mode="append")
        tx.execute("insert into Knows (src, dst) select 'Cy', name from Person where name <> 'Cy'")
        tx.mutate('query q() { delete Person where name = "Bob" }')
        tx.write("main", "t", pa.table({"a": [1]}))
        assert tx.execute("update t set a = a + (select count(*) from Knows)").rows_affected == 1

    assert rows(graph, "select a from t") == [(2,)]
    assert rows(graph, "select src, dst from Knows") == [("Cy", "Ann")]


def test_a_closed_transaction_runs_nothing(graph: og.Graph) -> None:
    tx = graph.transaction()
    tx.rollback()

    with pytest.raises(Conflict, match="rolled back"):
        tx.execute("create table t (a int)")


def test_a_transaction_holds_no_statements_about_branches(graph: og.Graph) -> None:
    with graph.transaction() as tx:
        for script in ("create branch b", "use branch main", "drop branch b", "create tag t"):
            with pytest.raises(BadRequest, match="statement 1"):
                tx.execute(script)
        assert tx.execute("show branches").result.to_pylist()[0]["name"] == "main"  # type: ignore[union-attr]

    assert graph.branches() == ["main"]


def test_others_that_change_what_a_transaction_read_win(graph: og.Graph) -> None:
    graph.execute("create table t (a int); create table u (a int); insert into t values (1)")
    tx = graph.transaction()
    tx.execute("insert into u select a from t")
    graph.execute("insert into t values (2)")

    with pytest.raises(Conflict, match=r"table:main\.t, which the transaction read"):
        tx.commit()


@pytest.mark.parametrize("engine", ENGINES)
def test_scripts_of_several_threads_lose_no_update(graph: og.Graph, engine: EngineName) -> None:
    graph.execute("create table counter (id int primary key, n int); insert into counter values (1, 0)")
    errors: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for turn in range(3):
                graph.execute("update counter set n = n + 1 where id = 1", engine=engine)
                graph.execute("insert into counter values ($id, 0)", {"id": 10 + number * 3 + turn}, engine=engine)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert errors == []
    assert rows(graph, "select n from counter where id = 1") == [(9,)]
    assert rows(graph, "select count(*) from counter") == [(10,)]


@pytest.mark.parametrize("engine", ENGINES)
def test_values_are_parameters(graph: og.Graph, engine: EngineName) -> None:
    graph.execute("create table t (a bigint, b varchar, c double, d date, e boolean, f timestamp)")
    values = {
        "a": 2**60,
        "b": 'it\'s "x"; drop table t --',
        "c": 0.1,
        "d": datetime.date(2020, 1, 2),
        "e": True,
        "f": datetime.datetime(2020, 1, 2, 3, 4, 5, 678901),
    }
    graph.execute("insert into t values ($a, $b, $c, $d, $e, $f)", values, engine=engine)
    graph.execute("insert into t (a) values ($a)", {"a": None}, engine=engine)

    assert graph.sql("select * from t where a is not null").to_pylist() == [values]
    for params in ({"a": 1, "z": 2}, {}):
        with pytest.raises(BadRequest):
            graph.execute("insert into t (a) values ($a)", params, engine=engine)


def test_the_rules_of_a_table_survive_merges_and_old_versions(graph: og.Graph) -> None:
    graph.execute("create table t (a int primary key, b int check (b > 0))")
    graph.execute("create branch x; use branch x; insert into t values (1, 1); alter table t add unique (b)")
    graph.execute("merge branch x into main")

    with pytest.raises(ValidationFailed, match="t_b_key"):
        graph.execute("insert into t values (2, 1)")
    with pytest.raises(ValidationFailed, match="t_b_check"):
        graph.execute("insert into t values (2, 0)")
    graph.execute("alter table t rename to u")
    with pytest.raises(KeyConflict):
        graph.execute("insert into u values (1, 5)")


@pytest.mark.parametrize("engine", ENGINES)
def test_a_check_of_one_engine_is_enforced_by_the_other(graph: og.Graph, engine: EngineName) -> None:
    other: EngineName = "duckdb" if engine == "datafusion" else "datafusion"
    graph.execute("create table t (a varchar check (length(a) < 3 and a <> 'no'), d int default 2 * 3)", engine=engine)

    graph.execute("insert into t (a) values ('ok')", engine=other)
    with pytest.raises(ValidationFailed):
        graph.execute("insert into t (a) values ('long')", engine=other)
    assert rows(graph, "select a, d from t") == [("ok", 6)]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("seed", range(3))
def test_rows_of_types_become_what_mutations_and_loads_make_of_them(tmp_path: Path, engine: EngineName, seed: int) -> None:
    chance = random.Random(seed)
    with og.init(tmp_path / "sql", SCHEMA) as ours, og.init(tmp_path / "gq", SCHEMA) as theirs:
        names = [f"p{number}" for number in range(6)]
        for _ in range(12):
            name, other, age = chance.choice(names), chance.choice(names), chance.randint(0, 3)
            statement, mutation = chance.choice(CHANGES)
            params = {"name": name, "other": other, "age": age}
            sql = {key: value for key, value in params.items() if f"${key}" in statement}
            assert _executed(ours, statement, sql, engine) == _mutated(theirs, mutation, params), (statement, params)
        for query in (
            "select id, name, age, born, score from Person order by id",
            "select src, dst, since from Knows order by src, dst, since",
        ):
            assert rows(ours, query) == rows(theirs, query)


CHANGES = (
    (
        "insert into Person (name, age) values ($name, $age)"
        " on conflict (name) do update set age = excluded.age, born = null, score = 1.5",
        "query q($name: String, $age: I32) { insert Person { name: $name, age: $age } }",
    ),
    (
        "merge into Person p using (select $name as n, $age as a) s on p.name = s.n when matched then update set age = s.a",
        "query q($name: String, $age: I32) { update Person set { age: $age } where name = $name }",
    ),
    (
        "update Person set score = 2.5 where age >= $age",
        "query q($age: I32) { update Person set { score: 2.5 } where age >= $age }",
    ),
    ("delete from Person where name = $name", "query q($name: String) { delete Person where name = $name }"),
    (
        "insert into Knows (src, dst, since) values ($name, $other, $age)",
        "query q($name: String, $other: String, $age: I32) { insert Knows { from: $name, to: $other, since: $age } }",
    ),
    ("delete from Knows where src = $name", "query q($name: String) { delete Knows where from = $name }"),
)


def _executed(graph: og.Graph, statement: str, params: dict[str, Any], engine: EngineName) -> bool | str:
    """Whether a statement changed something, or the rule that it breaks."""
    try:
        return graph.execute(statement, params, engine=engine).rows_affected > 0
    except ValidationFailed as error:
        return error.rule


def _mutated(graph: og.Graph, mutation: str, params: dict[str, Any]) -> bool | str:
    try:
        done = graph.mutate(mutation, params, ignore_unknown_params=True)
    except ValidationFailed as error:
        return error.rule
    return done.affected_nodes + done.affected_edges > 0


def test_many_rows_are_staged_without_holding_them(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMNIGRAPH_LOAD_MEMORY", "1")
    graph.execute("create table t as select value as a, value * 2 as b from generate_series(1, 300000)")
    assert graph.execute("update t set b = a where a > 100").rows_affected == 299_900
    assert graph.execute("delete from t where a > 250000").rows_affected == 50_000
    merge = "merge into t using (select value as a from generate_series(240001, 260000)) s on t.a = s.a"
    done = graph.execute(f"{merge} when matched then update set b = 0 when not matched then insert (a) values (s.a)")

    assert done.rows_affected == 20_000
    assert rows(graph, "select count(*), sum(b) from t") == [(260_000, sum(range(101, 240_001)) + 2 * sum(range(1, 101)))]


def test_rows_that_come_without_sql_obey_the_constraints_too(graph: og.Graph) -> None:
    graph.execute("create table t (a int primary key, b int check (b > 0))")
    with graph.transaction() as tx:
        tx.write("main", "t", pa.table({"a": [1, 2], "b": [1, None]}), mode="append")
        with pytest.raises(KeyConflict):
            tx.write("main", "t", pa.table({"a": [2]}), mode="append")
        with pytest.raises(ValidationFailed):
            tx.write("main", "t", pa.table({"b": [-1], "a": [3]}), mode="append")
        with pytest.raises(BadRequest):
            tx.write("main", "t", pa.table({"z": [1]}), mode="append")
    with pytest.raises(BadRequest, match="has constraints"):
        graph.tables().append("main", "t", pa.table({"a": [9]}))

    assert rows(graph, "select count(*) from t") == [(2,)]


def test_types_that_an_engine_has_and_tables_lack_are_refused(graph: og.Graph) -> None:
    with pytest.raises(BadRequest, match="which a table cannot keep"):
        graph.execute("create table t as select interval '1 day' as x", engine="duckdb")
