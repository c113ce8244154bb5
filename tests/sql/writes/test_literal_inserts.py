"""Inserts of literals without an engine give the rows, or the errors, that the engine's path gives.

`insert into t values (…)` takes the short path. The other table has a check that every row satisfies: the same statement
takes the path of the engine there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import omnigraph_sql as og
from omnigraph_sql.choices import EngineName
from omnigraph_sql.errors import OmnigraphError
from tests.tiers import amount

TYPES = {
    "boolean": "boolean",
    "int8": "tinyint",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    "uint8": "utinyint",
    "uint64": "ubigint",
    "float": "real",
    "double": "double",
    "decimal": "decimal(6, 2)",
    "wide": "decimal(38, 10)",
    "text": "varchar",
    "bytes": "blob",
    "date": "date",
    "time": "time",
    "timestamp": "timestamp",
    "instant": "timestamptz",
    "list": "int[]",
    "struct": "struct(a int)",
}
LITERALS = (
    "null",
    "true",
    "FALSE",
    "0",
    "7",
    "-7",
    "+7",
    "007",
    "127",
    "128",
    "255",
    "-128",
    "3000000000",
    "999999999999999999",
    "1.5",
    "2.5",
    "-2.5",
    "1.005",
    "12345.67",
    "0.1",
    "100.0",
    "9999.995",
    "16777217",
    "''",
    "' '",
    "'7'",
    "' 7 '",
    "'-7'",
    "'1.5'",
    "'2.5'",
    "'1e2'",
    "'NaN'",
    "'inf'",
    "'0x10'",
    "'1_000'",
    "'true'",
    "'T'",
    "'yes'",
    "'off'",
    "'maybe'",
    "'it''s'",
    "'ü🙂'",
    "'2024-02-29'",
    "'2023-02-29'",
    "'2024-2-9'",
    "'0001-01-01'",
    "'9999-12-31'",
    "'2024-02-29 12:34:56'",
    "'2024-02-29T12:34:56.123456'",
    "'2024-02-29 12:34:56+02:00'",
    "'2024-02-29 12:34:56Z'",
    "'12:34'",
    "'12:34:56'",
    "'12:34:56.5'",
    "'25:00:00'",
    "'[1, 2]'",
    "'infinity'",
)
PARAMETERS: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -7,
    300,
    1 << 40,
    1.5,
    2.5,
    0.1,
    1e300,
    "",
    "7",
    " 1.5 ",
    "it's",
    "yes",
    "2024-02-29",
    "2024-02-29 12:34:56",
    "12:34:56",
    b"ab",
    [1, 2],
)


class Tables:
    """Two tables of one column: one takes the short path, the other that of the engine."""

    def __init__(self, path: Path, engine: EngineName) -> None:
        self.engine = engine
        self.graph = og.init(path, "node N { k: String @key }")

    def make(self, kind: str) -> None:
        self.graph.execute(f"create or replace table short (c {kind})")
        self.graph.execute(f"create or replace table slow (c {kind}, n int check (n is null or n = 1))")

    def outcome(self, table: str, values: str, params: Mapping[str, Any] | None = None) -> object:
        """The rows that an insert leaves, or its error."""
        with self.graph.transaction(engine=self.engine) as tx:
            try:
                tx.execute(f"insert into {table} (c) values {values}", params)
                rows = sorted(repr(row["c"]) for row in tx.sql(f"select c from {table}").to_pylist())
            except OmnigraphError as error:
                rows = [error.kind, error.message.replace(table, "TABLE")]
            tx.rollback()
        return rows


@pytest.fixture(scope="module", params=["datafusion", "duckdb"])
def tables(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tables]:
    made = Tables(tmp_path_factory.mktemp("literals") / "graph", request.param)
    yield made
    made.graph.close()


@pytest.mark.parametrize("kind", TYPES)
def test_literals(tables: Tables, kind: str) -> None:
    tables.make(TYPES[kind])
    differing = []
    for literal in LITERALS[:: amount(check=8, test=4, all=1)]:
        short, slow = (tables.outcome(table, f"({literal})") for table in ("short", "slow"))
        if short != slow:
            differing.append((literal, short, slow))
    assert not differing


@pytest.mark.parametrize("kind", TYPES)
def test_parameters(tables: Tables, kind: str) -> None:
    tables.make(TYPES[kind])
    differing = []
    for value in PARAMETERS:
        short, slow = (tables.outcome(table, "($p)", {"p": value}) for table in ("short", "slow"))
        if short != slow:
            differing.append((value, short, slow))
    assert not differing


@pytest.mark.parametrize("kind", ["boolean", "int32", "double", "decimal", "text", "date", "timestamp"])
def test_several_rows(tables: Tables, kind: str) -> None:
    tables.make(TYPES[kind])
    lists = (
        "(null), (null)",
        "(1), (2), (null)",
        "(1), (2.5)",
        "(1), ('2')",
        "(true), (1)",
        "(null), ('2024-01-01')",
        "(1), (3000000000), ('x')",
        "('1'), ('x')",
        "(1.5), (2.25), (-0.125)",
        "(1), (1, 2)",
        "(1, 2)",
    )
    differing = []
    for values in lists:
        short, slow = (tables.outcome(table, values) for table in ("short", "slow"))
        if short != slow:
            differing.append((values, short, slow))
    assert not differing
