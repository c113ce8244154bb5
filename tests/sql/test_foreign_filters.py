"""Filters on foreign tables: any filter finds the rows in a database that it finds in the same rows in memory."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from datafusion import SessionContext
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import omnigraph_sql as og
from omnigraph_sql.errors import Internal
from omnigraph_sql.foreign.filter_codec import decode_filter
from omnigraph_sql.foreign.predicate_evaluation import filter_batch
from omnigraph_sql.graph import Graph
from omnigraph_sql.sqltext.predicates import Both, Comparison, IsIn, IsNull, Not, PredicateColumn, PredicateValue, columns_of
from omnigraph_sql.sqltext.remote_select import Compares, RemoteColumn, RemoteTableRef, remote_select
from tests.sql.exposing import expose
from tests.sql.postgres import Server

INTEGERS = [0, 1, -1, 2, 7, 2**31 - 1, -(2**31)]
FLOATS = [0.0, 0.1, -1.5, 1e300, math.nan, math.inf, -math.inf]
TEXTS = ["", "a", "A", "b", "é", "z", "it's", 'q"', "\\", "%", "a b", "Z", "_"]
PADDED = ["a", "b", "ab", "é"]
DATES = [date(1, 1, 1), date(1970, 1, 1), date(2024, 2, 29), date(9999, 12, 31)]
MOMENTS = [datetime(1600, 1, 1), datetime(2024, 2, 29, 12, 30, 15, 123456), datetime(2024, 2, 29)]
DECIMALS = [Decimal("0.00"), Decimal("1.50"), Decimal("-99999999.99"), Decimal("2.00")]
MOODS = ["sad", "ok"]
UUIDS = ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "00000000-0000-0000-0000-000000000000"]
COLUMNS: dict[str, tuple[str, pa.DataType, list[Any]]] = {
    "i": ("int", pa.int32(), INTEGERS),
    "s": ("int2", pa.int16(), [0, 1, -5, 32767]),
    "f": ("float8", pa.float64(), FLOATS),
    "g": ("float4", pa.float32(), [0.5, 0.1, math.nan, -2.0]),
    "b": ("bool", pa.bool_(), [True, False]),
    "t": ("text", pa.string(), TEXTS),
    "c": ("char(4)", pa.string(), PADDED),
    "d": ("date", pa.date32(), DATES),
    "m": ("timestamp", pa.timestamp("us"), MOMENTS),
    "z": ("timestamptz", pa.timestamp("us", "UTC"), [moment.replace(tzinfo=UTC) for moment in MOMENTS]),
    "n": ("numeric(10, 2)", pa.decimal128(10, 2), DECIMALS),
    "e": ("mood_of_filters", pa.string(), MOODS),
    "u": ("uuid", pa.string(), UUIDS),
}
ROWS = 60
NAN = pa.scalar(math.nan)
REFUTED = '"f" BETWEEN 0.1 AND 0.1 AND ("i" = 0 AND "f" = 0.0)'
"""DataFusion finds that no row satisfies a part of it, and keeps the rest."""


def value_at(name: str, row: int) -> Any:
    """A value of a column in a row: each goes through its values in a rhythm of its own, with nulls between."""
    values = COLUMNS[name][2]
    at = (row * (7 + 2 * list(COLUMNS).index(name)) + row // 5) % (len(values) + 1)
    return None if at == len(values) else values[at]


def literal(name: str, value: Any, kind: str | None = None) -> str:
    """A value in SQL."""
    kind = COLUMNS[name][0] if kind is None else kind
    if value is None:
        return "NULL"
    if isinstance(value, bool | int | Decimal):
        return str(value)
    if isinstance(value, float):
        return f"CAST('{value}' AS {'DOUBLE' if kind == 'double' else 'REAL' if kind == 'real' else kind})"
    if isinstance(value, datetime):
        return f"CAST('{value.isoformat()}' AS {kind})"
    if isinstance(value, date):
        return f"CAST('{value.isoformat()}' AS date)"
    return "'" + str(value).replace("'", "''") + "'"


def query_literal(name: str, value: Any) -> str:
    """The same for DataFusion, whose own timestamps are finer and reach less far."""
    if isinstance(value, datetime):
        zone = "None" if value.tzinfo is None else 'Some("UTC")'
        return f"arrow_cast('{value.isoformat()}', 'Timestamp(Microsecond, {zone})')"
    return literal(name, value, {"f": "double", "g": "real"}.get(name))


def operands(name: str) -> st.SearchStrategy[str]:
    others: dict[str, list[Any]] = {"i": [3], "t": ["nothing", "a "], "c": ["a ", "abcde"], "e": ["none"], "u": ["no uuid"]}
    return st.sampled_from([*COLUMNS[name][2], *others.get(name, [])]).map(lambda value: query_literal(name, value))


def comparisons(name: str) -> st.SearchStrategy[str]:
    column = f'"{name}"'
    compared = st.tuples(st.sampled_from(["=", "<>", "<", "<=", ">", ">="]), operands(name)).map(
        lambda pair: f"{column} {pair[0]} {pair[1]}"
    )
    listed = st.tuples(st.sampled_from(["IN", "NOT IN"]), st.lists(operands(name), min_size=1, max_size=5)).map(
        lambda pair: f"{column} {pair[0]} ({', '.join(pair[1])})"
    )
    between = st.tuples(operands(name), operands(name)).map(lambda pair: f"{column} BETWEEN {pair[0]} AND {pair[1]}")
    nulls = st.sampled_from([f"{column} IS NULL", f"{column} IS NOT NULL"])
    bare = st.just(column) if name == "b" else st.nothing()
    return compared | listed | nulls | bare | (st.nothing() if name == "b" else between)


CONDITIONS = st.recursive(
    st.sampled_from(list(COLUMNS)).flatmap(comparisons),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["AND", "OR"]), inner).map(lambda parts: f"({parts[0]} {parts[1]} {parts[2]})"),
        inner.map(lambda part: f"NOT ({part})"),
        inner.map(lambda part: f"({part} AND \"t\" LIKE '%a%')"),
    ),
    max_leaves=6,
)


@pytest.fixture(scope="module")
def sources(postgres: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Graph]:
    """The same rows in Postgres, in a DuckDB file and in memory."""
    directory = tmp_path_factory.mktemp("filters")
    columns = ", ".join(f'"{name}" {kind}' for name, (kind, _, _) in COLUMNS.items())
    values = ", ".join(
        f"({row}, {', '.join(literal(name, value_at(name, row)) for name in COLUMNS)})" for row in range(ROWS)
    )
    statements = [
        "CREATE TYPE mood_of_filters AS ENUM ('sad', 'ok')",
        f"CREATE TABLE filtered (id int, {columns})",
        f"INSERT INTO filtered VALUES {values}",
    ]
    postgres.run(*statements)
    with duckdb.connect(directory / "filtered.duckdb") as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for statement in statements:
            connection.execute(statement)
    with og.init(directory / "graph", "node Person { name: String @key }") as graph:
        graph.register("remote", postgres.uri, table="filtered")
        graph.register("file", directory / "filtered.duckdb", table="filtered")
        arrays: dict[str, Any] = {"id": pa.array(range(ROWS), pa.int32())}
        for name, (_, kind, _) in COLUMNS.items():
            arrays[name] = pa.array([value_at(name, row) for row in range(ROWS)], kind)
        graph.register("memory", pa.table(arrays))
        yield graph


def found(graph: Graph, table: str, condition: str) -> list[int]:
    return [row["id"] for row in graph.sql(f"SELECT id FROM {table} WHERE {condition} ORDER BY id").to_pylist()]


def test_the_sources_hold_the_same_rows(sources: Graph) -> None:
    expected = [str(row) for row in sources.sql("SELECT * FROM memory ORDER BY id").to_pylist()]

    assert [str(row) for row in sources.sql("SELECT * FROM remote ORDER BY id").to_pylist()] == expected
    assert [str(row) for row in sources.sql("SELECT * FROM file ORDER BY id").to_pylist()] == expected


@example(condition='("i" = 0 AND "i" BETWEEN 1 AND 1)')
@example(condition=REFUTED)
@example(condition=f'(({REFUTED}) OR "i" = 7)')
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(condition=CONDITIONS)
def test_any_filter_finds_the_same_rows_everywhere(sources: Graph, condition: str) -> None:
    expected = found(sources, "memory", condition)

    assert found(sources, "remote", condition) == expected
    assert found(sources, "file", condition) == expected


@example(condition='("i" = 0 AND "i" BETWEEN 1 AND 1)', limit=1)
@example(condition=REFUTED, limit=1)
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(condition=CONDITIONS, limit=st.integers(0, 12))
def test_a_limit_never_takes_too_many_rows_away(sources: Graph, condition: str, limit: int) -> None:
    allowed = found(sources, "memory", condition)
    rows = sources.sql(f"SELECT id FROM remote WHERE {condition} LIMIT {limit}").to_pylist()

    assert len(rows) == min(limit, len(allowed))
    assert {row["id"] for row in rows} <= set(allowed)


def test_a_condition_that_no_row_satisfies_leaves_other_scans_alone(sources: Graph) -> None:
    text = f"""
        SELECT count(*) AS n FROM remote a LEFT JOIN (SELECT * FROM remote WHERE {REFUTED}) b ON a.id = b.id
        WHERE a.i = 7 AND b.id IS NULL AND a.id NOT IN (SELECT id FROM file WHERE {REFUTED})"""
    expected = len(found(sources, "memory", "i = 7"))

    assert sources.sql(text).to_pylist() == [{"n": expected}]
    assert sources.datafusion().sql(text).to_pylist() == [{"n": expected}]


@pytest.mark.parametrize(
    "condition", ["i = 1 AND t = 'b' AND i = 2", "NULL AND i = 1", "i IN (1, 2) AND i IN (7) AND t <> 'x'"]
)
@pytest.mark.parametrize("table", ["remote", "file"])
def test_conditions_that_no_row_satisfies_in_every_kind_of_session(sources: Graph, table: str, condition: str) -> None:
    mine = SessionContext()
    sources.attach(mine, alias="g")
    text = f"SELECT id FROM g.foreign.{table} WHERE {condition}"

    assert mine.sql(text).to_pylist() == []
    assert sources.datafusion().table(table).filter(condition).to_pylist() == []
    assert sources.datafusion().sql(f"SELECT id, i, t FROM {table} WHERE t = 'b'").filter(condition).to_pylist() == []


def test_tables_of_the_graph_that_python_reads(tmp_path: Path) -> None:
    with og.init(tmp_path / "graph", "node Page { name: String @key  n: I32?  body: Blob? }") as graph:
        graph.load('{"type": "Page", "data": {"name": "a", "n": 1}}', mode="append")
        pages = graph.datafusion().table("Page")

        assert pages.filter("n = 1 AND name = 'a' AND n = 2").to_pylist() == []
        assert [row["name"] for row in pages.filter("n = 1 AND name = 'a'").to_pylist()] == ["a"]
        assert pages.filter("n IS NULL").count() == 0
        assert pages.count() == 1


def test_what_no_row_satisfies_is_not_asked_for_and_other_scans_keep_their_filters(sources: Graph, postgres: Server) -> None:
    alone = f"SELECT id FROM remote WHERE {REFUTED}"
    joined = f"SELECT a.id FROM remote a LEFT JOIN ({alone}) b ON a.id = b.id WHERE a.i = 7"
    with postgres.logging() as sent:
        assert sources.sql(alone).to_pylist() == []
    assert sent == []
    with postgres.logging() as sent:
        assert len(sources.sql(joined).to_pylist()) == len(found(sources, "memory", "i = 7"))
    assert [statement.partition(" WHERE ")[2] for statement in sent] == ['"i" = 7']
    asked = [row["plan"] for row in sources.sql(f"EXPLAIN {joined}").to_pylist() if row["plan_type"] == "remote remote"]
    assert [sql.partition(" WHERE ")[2] for sql in asked] == ['"i" = 7']


DUCKDB_CONDITIONS = [
    "i IN (0, 1, 7) AND t <> 'a'",
    "i NOT IN (0, 1, 7)",
    "f > 0.05 OR g = 0.1::FLOAT",
    "f = 'nan'::DOUBLE",
    "d > DATE '1970-01-01' AND NOT b",
    "m <= TIMESTAMP '2024-02-29' AND n >= 1.5",
    "z = TIMESTAMPTZ '2024-02-29 00:00:00+00'",
    "t > 'a' AND t < 'z'",
    "t IS NULL OR (i = 7 AND u IS NOT NULL)",
    "e = 'ok' AND c = 'ab'",
]


@pytest.mark.parametrize("condition", DUCKDB_CONDITIONS)
def test_duckdb_finds_the_same_rows(sources: Graph, condition: str) -> None:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for name in ("remote", "file", "memory"):
            expose(sources, connection, name, name)
        by_source = [
            connection.execute(f"SELECT id FROM {name} WHERE {condition} ORDER BY id").fetchall()
            for name in ("memory", "remote", "file")
        ]

    assert by_source[0] == by_source[1] == by_source[2]
    assert by_source[0]


# The parts


def test_a_filter_is_decoded() -> None:
    expression = (pc.field("a") == 3) & ~pc.field("b c").isin(["x", None]) & pc.field("d").is_valid()
    predicate = decode_filter(expression)

    assert isinstance(predicate, Both)
    assert predicate.right == Not(IsNull(PredicateColumn("d")))
    assert predicate.left == Both(
        Comparison("=", PredicateColumn("a"), PredicateValue(pa.scalar(3))),
        Not(IsIn(PredicateColumn("b c"), pa.array(["x", None]))),
    )
    assert list(columns_of(predicate)) == ["a", "b c", "d"]


@pytest.mark.parametrize("expression", [pc.field("a") + 1 == 2, pc.field("a", "b") == 1, pc.field("a").cast("int64") == 1])
def test_a_filter_that_is_not_understood_is_an_error(expression: Any) -> None:
    with pytest.raises(Internal, match="is not understood"):
        decode_filter(expression)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (pc.field("f") == NAN, [1]),
        (pc.field("f") > 0.5, [0, 1]),
        (pc.field("f") <= NAN, [0, 1, 3]),
        (pc.field("f") != 1.0, [1, 3]),
        (~pc.field("f").isin([1.0]), [1, 3]),
        (pc.field("f").isin([1.0, None]), [0]),
        (~pc.field("f").isin([1.0, None]), []),
        (pc.field("f").is_null(), [2]),
        (pc.scalar(True), [0, 1, 2, 3]),
        (pc.scalar(False), []),
        (pa.scalar(True), [0, 1, 2, 3]),
        (pa.scalar(None, pa.bool_()), []),
    ],
)
def test_rows_are_checked_as_sql_has_it(expression: Any, expected: list[int]) -> None:
    batch = pa.record_batch({"f": [1.0, math.nan, None, -0.0], "at": [0, 1, 2, 3]})

    assert filter_batch(batch, decode_filter(expression)).column("at").to_pylist() == expected


def test_what_cannot_be_said_is_left_out_and_no_limit_is_sent() -> None:
    table = RemoteTableRef("postgres", "s", "t", (RemoteColumn("a", Compares.INTEGERS), RemoteColumn("x", Compares.NOTHING)))
    known, unknown = pc.field("a") > 1, pc.field("x") == "y"

    def where(expression: Any) -> tuple[str, bool]:
        query = remote_select(table, ["a"], decode_filter(expression), 5)
        return query.sql.partition(' FROM "s"."t"')[2], query.is_exact

    assert where(known) == (' WHERE "a" > 1 LIMIT 5', True)
    assert where(known & unknown) == (' WHERE "a" > 1', False)
    assert where(known | unknown) == ("", False)
    assert where(~(known & unknown)) == ("", False)
    assert where(~known & ~unknown) == (' WHERE NOT "a" > 1', False)
    assert where((known | (pc.field("a") == 0)) & (pc.field("a") < 9)) == (
        ' WHERE ("a" > 1 OR "a" = 0) AND "a" < 9 LIMIT 5',
        True,
    )


def test_times_that_are_too_fine_or_too_far_away_are_not_sent() -> None:
    table = RemoteTableRef("postgres", "s", "t", (RemoteColumn("m", Compares.TIMESTAMPS), RemoteColumn("d", Compares.DATES)))
    for column, value in (
        ("m", pa.scalar(1, pa.timestamp("ns"))),
        ("m", pa.scalar(2**62, pa.timestamp("us"))),
        ("d", pa.scalar(2**31 - 1, pa.date32())),
        ("m", pa.scalar(None, pa.timestamp("us"))),
    ):
        assert " WHERE " not in remote_select(table, ["m"], decode_filter(pc.field(column) > value), None).sql
    moment = datetime(2024, 1, 1) + timedelta(microseconds=5)
    sent = remote_select(table, ["m"], decode_filter(pc.field("m") > pa.scalar(moment, pa.timestamp("us"))), None).sql
    assert sent.endswith("\"m\" > CAST('2024-01-01 00:00:00.000005' AS TIMESTAMP)")
