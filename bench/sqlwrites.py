"""SQL that writes: single rows against mutations, tables and merges against bare Lance, transactions against DuckDB."""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import duckdb
import lance
import numpy as np
import pyarrow as pa

import omnigraph_sql as og
from bench.measure import alternate, markdown, measure, shown
from bench.merges import Limit

INTRO = (
    "Statements that write, on DataFusion, with everything in one process; what is compared runs in turn. Bare Lance writes "
    "the same rows to a dataset of its own, with stable row ids. DuckDB writes to a file."
)
PACKAGES = ("omnigraph-sql", "pylance", "pyarrow", "datafusion", "duckdb", "numpy")
_SCHEMA = "node Person { name: String @key  age: I32? }\n"
_PEOPLE = 10_000
_ROWS = 2_000_000
_TARGET = 1_000_000
_CHANGES = 10_000
_TABLES = 100
_INSERTS = 1000


def run(options: argparse.Namespace) -> str:
    """Measure everything and return the tables of the report."""
    scale = options.scale
    with tempfile.TemporaryDirectory(prefix="omnigraph-bench-") as name:
        root = Path(name)
        limits = [
            *_single_rows(root, repeat=31),
            _create_as(root, max(int(_ROWS * scale), 1000), repeat=7),
            _merge_into(root, max(int(_TARGET * scale), 1000), max(int(_CHANGES * scale), 10), repeat=9),
            *_many_tables(root, _TABLES, repeat=5),
        ]
        rates = _inserts(root, _INSERTS, repeat=5)
    return f"{_table(limits)}\n\n## {_INSERTS:,} inserts of a row in one transaction\n\n{rates}"


def _table(limits: list[Limit]) -> str:
    lines = [
        [row.workload, shown(row.ours), shown(row.other), f"{row.ratio:.2f}", f"≤ {row.most:g}", _met(row.ratio <= row.most)]
        for row in limits
    ]
    return markdown(["workload", "SQL ms (quartiles)", "compared with ms", "ratio", "target", "met"], lines)


def _met(is_met: bool) -> str:
    return "yes" if is_met else "no"


# Single rows ---------------------------------------------------------------------------------------------------------


def _single_rows(root: Path, repeat: int) -> list[Limit]:
    graph = og.init(root / "single", _SCHEMA)
    names = [f"person-{number}" for number in range(_PEOPLE)]
    graph.load({"Person": pa.table({"name": names, "age": pa.array(range(_PEOPLE), pa.int32())})}, mode="append")
    pairs = {
        "insert": (
            "insert into Person (name, age) values ($name, 1)",
            "query q($name: String) { insert Person { name: $name, age: 1 } }",
            "new-{}-{}",
        ),
        "update": (
            "update Person set age = 7 where name = $name",
            "query q($name: String) { update Person set { age: 7 } where name = $name }",
            "person-{}",
        ),
        "delete": (
            "delete from Person where name = $name",
            "query q($name: String) { delete Person where name = $name }",
            "person-{}",
        ),
    }
    limits = []
    for word, (statement, mutation, pattern) in pairs.items():

        def by_sql(number: int, statement: str = statement, pattern: str = pattern) -> None:
            graph.execute(statement, {"name": pattern.format(2 * number, "sql")})

        def by_mutation(number: int, mutation: str = mutation, pattern: str = pattern) -> None:
            graph.mutate(mutation, params={"name": pattern.format(2 * number + 1, "gq")})

        ours, other = alternate(by_sql, by_mutation, repeat=repeat, warm_up=5)
        limits.append(Limit(f"{word} of one node, and the mutation", ours, other, 1.2))
    return limits


# Whole tables --------------------------------------------------------------------------------------------------------


def _numbers(rows: int) -> pa.Table:
    random = np.random.default_rng(rows)
    return pa.table(
        {
            "k": np.arange(rows),
            "v": random.random(rows),
            "t": pa.array([f"text-{number % 1000}" for number in range(rows)]),
        }
    )


def _create_as(root: Path, rows: int, repeat: int) -> Limit:
    graph = og.init(root / "whole", _SCHEMA)
    graph.tables().create_table("main", "source", _numbers(rows))
    source = _dataset(graph, "table:main.source")

    def ours(number: int) -> Callable[[], object]:
        graph.execute(f"create table t{number} as select * from source")
        return lambda: graph.execute(f"drop table t{number}")

    def bare(number: int) -> Callable[[], object]:
        place = str(root / f"bare-{number}")
        lance.write_dataset(source.scanner().to_reader(), place, enable_stable_row_ids=True)
        return lambda: shutil.rmtree(place)

    mine, other = alternate(ours, bare, repeat=repeat, warm_up=2)
    return Limit(f"create table as select of {rows:,} rows, and a bare write of them", mine, other, 1.5)


def _merge_into(root: Path, rows: int, changes: int, repeat: int) -> Limit:
    graph = og.init(root / "merge", _SCHEMA)
    graph.tables().create_table("main", "target", _numbers(rows))
    bare = lance.write_dataset(_numbers(rows), str(root / "bare-merge"), enable_stable_row_ids=True)
    random = np.random.default_rng(1)

    def changed() -> pa.Table:
        keys = random.choice(rows + changes // 2, changes, replace=False)
        return pa.table({"k": keys, "v": random.random(changes), "t": pa.array(["changed"] * changes)})

    batches = [changed() for _ in range(repeat + 2)]
    for number, batch in enumerate(batches):
        graph.tables().create_table("main", f"changes{number}", batch)

    def ours(number: int) -> None:
        graph.execute(
            f"merge into target t using changes{number} c on t.k = c.k when matched then update set v = c.v, t = c.t "
            "when not matched then insert (k, v, t) values (c.k, c.v, c.t)"
        )

    def theirs(number: int) -> None:
        bare.merge_insert("k").when_matched_update_all().when_not_matched_insert_all().execute(batches[number])

    mine, other = alternate(ours, theirs, repeat=repeat, warm_up=2)
    return Limit(f"merge into {rows:,} rows of {changes:,}, and a bare merge", mine, other, 2.0)


def _dataset(graph: og.Graph, key: str) -> lance.LanceDataset:
    """The version of a table that the graph shows."""
    entry = graph.snapshot().entry(key)
    dataset = lance.dataset(str(Path(graph.uri) / entry.path))
    return dataset.checkout_version((entry.branch, entry.version))


# Many tables ---------------------------------------------------------------------------------------------------------


def _many_tables(root: Path, tables: int, repeat: int) -> list[Limit]:
    values = ", ".join(f"({number}, 'row {number}')" for number in range(10))
    rows = pa.table({"a": range(10), "b": [f"row {number}" for number in range(10)]})

    def statement(number: int) -> str:
        return f"create table t{number} as select * from (values {values}) as v(a, b)"

    graphs = [og.init(root / f"together-{number}", _SCHEMA) for number in range(2 * repeat + 2)]

    def ours(number: int) -> None:
        with graphs[number].transaction() as transaction:
            for table in range(tables):
                transaction.execute(statement(table))

    def peer(number: int) -> None:
        with duckdb.connect(str(root / f"together-{number}.duckdb")) as connection:
            connection.execute("begin")
            for table in range(tables):
                connection.execute(statement(table))
            connection.execute("commit")

    mine, other = alternate(ours, peer, repeat=repeat, warm_up=1)
    in_one = Limit(f"{tables} tables of 10 rows in one transaction, and on DuckDB", mine, other, 5.0)

    def single(number: int) -> None:
        graph = graphs[repeat + 1 + number]
        for table in range(tables):
            graph.execute(statement(table))

    def bare(number: int) -> None:
        for table in range(tables):
            lance.write_dataset(rows, str(root / f"single-{number}" / f"t{table}"), enable_stable_row_ids=True)

    mine, other = alternate(single, bare, repeat=repeat, warm_up=1)
    return [in_one, Limit(f"{tables} transactions of such a table, and bare writes", mine, other, 3.0)]


def _inserts(root: Path, count: int, repeat: int) -> str:
    graph = og.init(root / "inserts", _SCHEMA)
    graph.execute("create table plain (a bigint, b varchar); create table keyed (a bigint primary key, b varchar)")
    number = 0

    def inserting(statement: str) -> Callable[[], object]:
        def work() -> None:
            nonlocal number
            with graph.transaction() as transaction:
                for _ in range(count):
                    number += 1
                    transaction.execute(statement.format(number))

        return work

    samples = {
        "into a table": "insert into plain values ({0}, 'row {0}')",
        "into a table with a primary key": "insert into keyed values ({0}, 'row {0}')",
        "of a node": "insert into Person (name, age) values ('person-{0}', 1)",
    }
    lines = []
    for name, statement in samples.items():
        sample = measure(inserting(statement), repeat=repeat, warm_up=1)
        rate = count / sample.median * 1000
        least = 1000 if name == "into a table" else None
        lines.append([name, shown(sample), f"{rate:,.0f}", "—" if least is None else f"≥ {least:,}", _rate_met(rate, least)])
    return markdown(["inserts", "ms (quartiles)", "statements/s", "target", "met"], lines)


def _rate_met(rate: float, least: float | None) -> str:
    return "—" if least is None else _met(rate >= least)
