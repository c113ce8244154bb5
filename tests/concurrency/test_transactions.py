"""Transactions of many writers over several tables: they are serialisable, so nothing is lost and no invariant breaks."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import omnigraph_sql as og
from omnigraph_sql.choices import EngineName
from omnigraph_sql.errors import Conflict, OmnigraphError

SCHEMA = "node Account { name: String @key  balance: I64 }\nnode Note { text: String }\n"
ACCOUNTS = ("a", "b", "c")
JOIN_SECONDS = 120


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[og.Graph]:
    with og.init(tmp_path / "graph", SCHEMA) as made:
        made.execute(
            "insert into Account (name, balance) values ('a', 100), ('b', 100), ('c', 100);"
            "create table left_book (n bigint); insert into left_book values (50);"
            "create table right_book (n bigint); insert into right_book values (50);"
            "create table counter (n bigint); insert into counter values (0)"
        )
        yield made


def value(reader: og.Graph | og.Transaction, statement: str) -> int:
    (row,) = reader.sql(statement).to_pylist()
    return int(next(iter(row.values())))


def side_by_side(works: list[Callable[[], None]]) -> None:
    failures: list[BaseException] = []

    def run(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(JOIN_SECONDS)
    assert not any(thread.is_alive() for thread in threads)
    if failures:
        raise failures[0]


def test_two_transactions_that_read_what_the_other_writes_do_not_both_commit(graph: og.Graph) -> None:
    """Write skew: each may take 80 of the sum of both books, but not both."""
    first, second = graph.transaction(), og.connect(graph.uri).transaction()
    for transaction, book in ((first, "left_book"), (second, "right_book")):
        total = "select (select sum(n) from left_book) + (select sum(n) from right_book) as n"
        assert value(transaction, total) == 100
        transaction.execute(f"update {book} set n = n - 80")
    first.commit()
    with pytest.raises(Conflict) as failure:
        second.commit()
    assert failure.value.reason == "table changed"
    assert "left_book" in str(failure.value)
    assert value(graph, "select sum(n) as n from left_book") == -30
    assert value(graph, "select sum(n) as n from right_book") == 50


@pytest.mark.parametrize(
    "read",
    [
        lambda tx: tx.sql("select sum(balance) as n from Account").to_pylist(),
        lambda tx: tx.query("query q() { match { $a: Account } return { sum($a.balance) as n } }").to_pylist(),
        lambda tx: tx.execute("select sum(balance) as n from Account").result.to_pylist(),
        lambda tx: tx.execute("create table total as select sum(balance) as n from Account"),
        lambda tx: tx.execute("create temp view seen as select balance as n from Account; select max(n) as n from seen"),
        lambda tx: tx.sql("with w as (select * from Account) select count(*) as n from w").to_pylist(),
    ],
)
def test_every_way_to_read_counts(graph: og.Graph, read: Callable[[og.Transaction], object]) -> None:
    transaction = graph.transaction()
    read(transaction)
    transaction.execute("update counter set n = 1")
    graph.execute("update Account set balance = 0 where name = 'a'")
    with pytest.raises(Conflict, match="Account"):
        transaction.commit()
    assert value(graph, "select n from counter") == 0


@pytest.mark.parametrize("engine", ["datafusion", "duckdb"])
def test_what_nobody_read_may_move(graph: og.Graph, engine: EngineName) -> None:
    with graph.transaction(engine=engine) as transaction:
        transaction.execute("update counter set n = n + 1")
        graph.execute(
            "update left_book set n = 0; insert into Note (text) values ('x'); create table other as select 1 as a"
        )
    assert value(graph, "select n from counter") == 1


def test_counters_lose_no_step(graph: og.Graph) -> None:
    """Reads and writes of one table in transactions that are run again when they lose."""

    def work() -> None:
        with og.connect(graph.uri) as own:
            for _ in range(4):
                own.execute("update counter set n = n + 1")

    side_by_side([work] * 4)
    assert value(graph, "select n from counter") == 16


@pytest.mark.parametrize("seed", range(3))
def test_transfers_keep_the_sum(graph: og.Graph, seed: int) -> None:
    """Between nodes and two relational tables, with every fourth transaction given up."""
    places = [f"update Account set balance = balance + {{}} where name = '{name}'" for name in ACCOUNTS]
    places += ["update left_book set n = n + {}", "update right_book set n = n + {}"]
    total = (
        "select (select sum(balance) from Account) + (select sum(n) from left_book) + (select sum(n) from right_book) as n"
    )
    before, steps = len(graph.commits()), [0]
    lock = threading.Lock()

    def work(number: int) -> None:
        chosen = random.Random(f"{seed}-{number}")
        with og.connect(graph.uri) as own:
            for turn in range(6):
                source, target = chosen.sample(places, 2)
                transaction = own.transaction()
                try:
                    transaction.execute(source.format(-7))
                    assert value(transaction, total) == 393
                    transaction.execute(target.format(7))
                    if turn % 4 == 3:
                        transaction.rollback()
                        continue
                    transaction.commit()
                except Conflict:
                    continue
                with lock:
                    steps[0] += 1

    side_by_side([lambda number=number: work(number) for number in range(4)])  # type: ignore[misc]
    assert value(graph, total) == 400
    assert len(graph.commits()) == before + steps[0]
    assert steps[0] >= 1


def test_threads_share_a_transaction(graph: og.Graph) -> None:
    with graph.transaction() as transaction:

        def work(number: int) -> None:
            transaction.execute(f"create table t{number} as select {number} as a")
            for step in range(5):
                transaction.execute(f"insert into t{number} values ({step}); update counter set n = n + 1")
                transaction.load(f'{{"type": "Note", "data": {{"text": "{number}-{step}"}}}}', mode="append")
            assert value(transaction, f"select count(*) as n from t{number}") == 6

        side_by_side([lambda number=number: work(number) for number in range(4)])  # type: ignore[misc]
    assert value(graph, "select n from counter") == 20
    assert value(graph, "select count(*) as n from Note") == 20
    for number in range(4):
        assert value(graph, f"select count(*) as n from t{number}") == 6


@pytest.mark.parametrize("change", ["delete", "replace"])
def test_the_branch_was_deleted_or_replaced_meanwhile(graph: og.Graph, change: str) -> None:
    graph.create_branch("dev")
    transaction = graph.transaction("dev")
    transaction.execute("update counter set n = 5")
    graph.delete_branch("dev")
    if change == "replace":
        graph.create_branch("dev")
    with pytest.raises(OmnigraphError) as failure:
        transaction.commit()
    assert failure.value.kind in ("NotFound", "Conflict")
    assert "dev" in str(failure.value)
    assert not transaction.is_open
    assert value(graph, "select n from counter") == 0
    if change == "replace":
        assert graph.sql("select n from counter", branch="dev").to_pylist() == [{"n": 0}]
