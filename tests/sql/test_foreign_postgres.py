"""Tables of a real Postgres as foreign tables: what reaches the server is read from its own log."""

from __future__ import annotations

import gc
import socket
import threading
import time
from collections.abc import Iterator
from datetime import UTC, date, datetime
from datetime import time as clock
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from omnigraph_sql import errors
from omnigraph_sql.graph import Graph
from tests.sql.exposing import through_duckdb
from tests.sql.postgres import OWNER, PASSWORD, Server


@pytest.fixture(scope="module")
def orders(postgres: Server) -> Server:
    """Ten thousand orders, of whom each of three people has a third."""
    postgres.run(
        "CREATE TABLE orders (id int PRIMARY KEY, who text, amount numeric(10, 2), placed timestamptz, note varchar(40))",
        "INSERT INTO orders SELECT n, (ARRAY['ann', 'bob', 'eve'])[n % 3 + 1], n / 4.0, "
        "timestamptz '2024-01-01 00:00+00' + n * interval '1 minute', CASE WHEN n % 2 = 0 THEN 'even' END "
        "FROM generate_series(1, 10000) n",
    )
    return postgres


@pytest.fixture
def joined(graph: Graph, orders: Server) -> Graph:
    graph.register("orders", orders.uri, table="public.orders")
    return graph


def rows(graph: Graph, text: str, **params: Any) -> list[dict[str, Any]]:
    return graph.sql(text, params).to_pylist()


def test_a_table_joins_with_a_type(joined: Graph, orders: Server) -> None:
    text = (
        'SELECT p.name, p.age, sum(o.amount) AS total FROM "Person" p JOIN orders o ON o.who = p.name '
        "WHERE o.id <= $most GROUP BY 1, 2 ORDER BY 1"
    )
    with orders.logging() as sent:
        found = rows(joined, text, most=6)

    assert found == [
        {"name": "ann", "age": 30, "total": Decimal("2.25")},
        {"name": "bob", "age": 41, "total": Decimal("1.25")},
    ]
    assert sent == ['SELECT "who", CAST("amount" AS TEXT) AS "amount", "id" FROM "public"."orders" WHERE "id" <= 6']


def test_nothing_is_read_when_it_is_registered(graph: Graph, orders: Server) -> None:
    with orders.logging() as sent:
        table = graph.register("orders", orders.uri, table="orders")
        graph.sql('SELECT name FROM "Person"').to_pylist()

    assert sent == []
    assert table.schema == pa.schema(
        {
            "id": pa.int32(),
            "who": pa.string(),
            "amount": pa.decimal128(10, 2),
            "placed": pa.timestamp("us", "UTC"),
            "note": pa.string(),
        }
    )


@pytest.mark.parametrize(
    ("condition", "sent_condition"),
    [
        ("id = 7", '"id" = 7'),
        ("id <> 7 AND id < 10", '"id" <> 7 AND "id" < 10'),
        ("who = 'it''s \\ \"é\"; --'", "\"who\" = 'it''s \\ \"é\"; --'"),
        ("who IN ('ann', 'bob', 'eve', 'x')", "\"who\" IN ('ann', 'bob', 'eve', 'x')"),
        ("who NOT IN ('ann', 'bob', 'eve', 'x')", "NOT \"who\" IN ('ann', 'bob', 'eve', 'x')"),
        ("note IS NULL AND id < 9", '"note" IS NULL AND "id" < 9'),
        ("note IS NOT NULL OR NOT (id > 5)", 'NOT "note" IS NULL OR "id" <= 5'),
        ("amount >= 12.25 AND amount < 13", '"amount" >= 12.25 AND "amount" < 13.00'),
        (
            "placed > timestamp '2024-01-07 20:00:00'",
            "\"placed\" > CAST('2024-01-07 20:00:00+00:00' AS TIMESTAMPTZ)",
        ),
        ("who = 'ann' AND who > 'a'", "\"who\" = 'ann'"),  # texts have another order there
        ("id < 5 AND note LIKE 'e%'", '"id" < 5'),  # the engine keeps what it cannot hand over
        ("id < 5 OR who > 'e'", None),
        ("NOT (who > 'b' AND id < 9000)", None),
    ],
)
def test_a_filter_reaches_the_source(joined: Graph, orders: Server, condition: str, sent_condition: str | None) -> None:
    local = "SELECT id FROM copied WHERE " + condition
    joined.register("copied", joined.sql("SELECT * FROM orders").to_arrow())
    with orders.logging() as sent:
        found = rows(joined, f"SELECT id FROM orders WHERE {condition} ORDER BY id")

    assert found == rows(joined, f"{local} ORDER BY id")
    assert len(sent) == 1
    _, _, where = sent[0].partition(" WHERE ")
    assert where == (sent_condition or "")


def test_a_limit_reaches_the_source(joined: Graph, orders: Server) -> None:
    with orders.logging() as sent:
        assert len(rows(joined, "SELECT id FROM orders WHERE who = 'ann' LIMIT 5 OFFSET 2")) == 5
        assert len(rows(joined, "SELECT id FROM orders LIMIT $n", n=3)) == 3

    assert sent == [
        'SELECT "id", "who" FROM "public"."orders" WHERE "who" = \'ann\' LIMIT 7',
        'SELECT "id" FROM "public"."orders" LIMIT 3',
    ]


def test_a_limit_stays_here_where_the_filter_is_not_all_there(joined: Graph, orders: Server) -> None:
    with orders.logging() as sent:
        assert len(rows(joined, "SELECT id FROM orders WHERE who > 'b' LIMIT 5")) == 5
        assert len(rows(joined, "SELECT who FROM orders ORDER BY id DESC LIMIT 2")) == 2
        assert len(rows(joined, "SELECT who, count(*) FROM orders GROUP BY 1 LIMIT 2")) == 2

    assert [" LIMIT " in statement for statement in sent] == [False, False, False]


def test_a_table_read_twice_has_a_scan_of_its_own_each_time(joined: Graph, orders: Server) -> None:
    text = (
        "SELECT a.id, b.id AS other FROM (SELECT id FROM orders WHERE who = 'ann' LIMIT 2) a "
        "CROSS JOIN (SELECT id FROM foreign.orders WHERE who = 'bob' LIMIT 4) b"
    )
    with orders.logging() as sent:
        found = rows(joined, text)

    assert len(found) == 8
    assert {row["id"] % 3 for row in found} == {0}
    assert {row["other"] % 3 for row in found} == {1}
    # Both are read with the larger limit: the engine does not say which scan it asks for.
    assert sorted(sent) == [
        f'SELECT "id", "who" FROM "public"."orders" WHERE "who" = \'{who}\' LIMIT 4' for who in ("ann", "bob")
    ]


def test_no_limit_is_sent_where_one_of_two_scans_has_none(joined: Graph, orders: Server) -> None:
    text = (
        "SELECT count(*) AS n FROM orders o WHERE o.id IN (SELECT id FROM orders WHERE who = 'ann' LIMIT 3) OR o.id > 9999"
    )
    with orders.logging() as sent:
        assert rows(joined, text) == [{"n": 4}]

    assert all(" LIMIT " not in statement for statement in sent)


def test_rows_are_counted_by_the_source(joined: Graph, orders: Server) -> None:
    with orders.logging() as sent:
        assert rows(joined, "SELECT count(*) AS n FROM orders") == [{"n": 10000}]
        assert rows(joined, "SELECT count(*) AS n FROM orders WHERE who = 'ann'") == [{"n": 3333}]

    assert sent == ['SELECT COUNT(*) FROM "public"."orders"', 'SELECT "who" FROM "public"."orders" WHERE "who" = \'ann\'']


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("SELECT id FROM orders WHERE id < 3 UNION ALL SELECT id FROM orders WHERE id < 2", 3),
        ("SELECT id FROM orders WHERE id < 9 EXCEPT SELECT id FROM orders WHERE who = 'ann'", 6),
        ("SELECT who, note, count(*) FROM orders GROUP BY GROUPING SETS ((who), (note))", 5),
        ("SELECT (SELECT max(id) FROM orders) AS m, id FROM orders LIMIT 2", 2),
        ("SELECT id, row_number() OVER (ORDER BY id) AS r FROM orders WHERE id < 4", 3),
        (
            "WITH RECURSIVE r AS (SELECT 1 AS i UNION ALL SELECT id FROM orders JOIN r ON id = r.i * 2) SELECT * FROM r",
            14,
        ),
        ("SELECT DISTINCT who FROM orders ORDER BY who LIMIT 2", 2),
        ('SELECT name FROM "Person" p WHERE EXISTS (SELECT 1 FROM orders o WHERE o.who = p.name)', 2),
        ('SELECT name FROM "Person" p LEFT JOIN orders o ON o.who = p.name AND o.id < 3 LIMIT 3', 3),
        ("SELECT (SELECT max(o.id) FROM orders o WHERE o.id < 5) AS m FROM (SELECT id FROM orders LIMIT 1) x", 1),
    ],
)
def test_statements_of_all_shapes(joined: Graph, text: str, count: int) -> None:
    joined.register("copied", joined.sql("SELECT * FROM orders").to_arrow())
    found = rows(joined, text)

    assert len(found) == count
    if "LIMIT" not in text:
        local = rows(joined, text.replace("orders", "copied"))
        assert sorted(map(str, found)) == sorted(map(str, local))
    elif "max(" in text:
        assert {row["m"] for row in found} == {10000 if "< 5" not in text else 4}


def test_explain_shows_what_is_sent(joined: Graph, orders: Server) -> None:
    with orders.logging() as sent:
        plan = {row["plan_type"]: row["plan"] for row in rows(joined, "EXPLAIN SELECT id FROM orders WHERE id < 9 LIMIT 2")}
    assert sent == []
    assert plan["remote orders"] == 'SELECT "id" FROM "public"."orders" WHERE "id" < 9 LIMIT 2'
    assert "TableScan: orders" in plan["logical_plan"]

    with orders.logging() as sent:
        analyzed = rows(joined, "EXPLAIN ANALYZE SELECT id FROM orders WHERE id < 9 LIMIT 2")
    assert sent == [plan["remote orders"]]
    assert analyzed[-1] == {"plan_type": "remote orders", "plan": sent[0]}
    assert joined.foreign()[0].last_sql == sent[0]


def test_whoever_stops_early_leaves_no_connection_behind(graph: Graph, postgres: Server) -> None:
    postgres.run(
        "CREATE TABLE IF NOT EXISTS wide (n int, filler text)",
        "TRUNCATE wide",
        "INSERT INTO wide SELECT n, repeat(md5(n::text), 30) FROM generate_series(1, 60000) n",
    )
    graph.register("wide", postgres.uri, table="wide")
    batches = iter(graph.sql("SELECT * FROM wide"))
    next(batches)
    assert _connections(postgres) == 1
    del batches
    gc.collect()

    _wait(lambda: _connections(postgres) == 0)
    assert len(rows(graph, "SELECT n FROM wide WHERE filler > 'a' LIMIT 3")) == 3
    _wait(lambda: _connections(postgres) == 0)


@pytest.mark.hangs_after(60)
def test_a_query_that_takes_too_long_is_cancelled_there(graph: Graph, postgres: Server) -> None:
    postgres.run("CREATE OR REPLACE VIEW slow AS SELECT n, pg_sleep(600)::text AS z FROM generate_series(1, 3) n")
    graph.register("slow", postgres.uri, table="slow")
    with pytest.raises(errors.ResourceLimit, match="did not finish within"):
        graph.sql("SELECT * FROM slow", timeout=0.5).to_arrow()

    _wait(lambda: _connections(postgres) == 0)


def _connections(server: Server) -> int:
    counted = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
    count: int = server.rows(counted)[0][0]
    return count


def _wait(condition: Any) -> None:
    until = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.05)


TYPES = """CREATE TABLE types (
    b bool, i2 int2, i4 int4, i8 int8, f4 float4, f8 float8, t text, v varchar(9), c char(5), d date, ts timestamp,
    tz timestamptz, tm time, by bytea, u uuid, n numeric(10, 2), free numeric, big numeric(50, 5), j json, jb jsonb, m mood,
    p positive, co pair, ai int[], at text[], an numeric[], iv interval, ip inet, r int4range
)"""
VALUES = """INSERT INTO types VALUES (
    true, 1, 2, 3, 1.1, 2.2, 'é', 'v', 'ab', '2020-02-29', '2020-01-01 12:00:00.123456', '2020-01-01 12:00:00+09',
    '12:13:14.5', '\\x00ff', 'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11', 1.5, 123.456789, -1.5, '{"a": 1}', '{"a":1}', 'ok', 5,
    ROW(1, 'x'), '{1,NULL,3}', '{a,NULL}', '{1.5}', '1 mon 2 days 3 sec', '10.0.0.1', '[1,5)'
)"""
EXPECTED = {
    "b": True,
    "i2": 1,
    "i4": 2,
    "i8": 3,
    "f4": pytest.approx(1.1),
    "f8": 2.2,
    "t": "é",
    "v": "v",
    "c": "ab",
    "d": date(2020, 2, 29),
    "ts": datetime(2020, 1, 1, 12, 0, 0, 123456),
    "tz": datetime(2020, 1, 1, 3, tzinfo=UTC),
    "tm": clock(12, 13, 14, 500000),
    "by": b"\x00\xff",
    "u": "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
    "n": Decimal("1.50"),
    "free": "123.456789",
    "big": "-1.50000",
    "j": '{"a": 1}',
    "jb": '{"a": 1}',
    "m": "ok",
    "p": 5,
    "co": "(1,x)",
    "ai": [1, None, 3],
    "at": ["a", None],
    "an": "{1.5}",
    "iv": "1 mon 2 days 00:00:03",
    "ip": "10.0.0.1/32",
    "r": "[1,5)",
}


@pytest.fixture(scope="module")
def types(postgres: Server) -> Server:
    """A table with a column of every kind, a full row and a row of nulls."""
    postgres.run(
        "CREATE TYPE mood AS ENUM ('sad', 'ok')",
        "CREATE DOMAIN positive AS int CHECK (value > 0)",
        "CREATE TYPE pair AS (a int, b text)",
        TYPES,
        VALUES,
        "INSERT INTO types DEFAULT VALUES",
    )
    return postgres


def test_every_type_and_null(graph: Graph, types: Server) -> None:
    graph.register("types", types.uri, table="public.types")
    full, empty = sorted(rows(graph, "SELECT * FROM types"), key=lambda row: row["b"] is None)

    assert full == EXPECTED
    assert empty == dict.fromkeys(EXPECTED)
    found = through_duckdb(graph, "types", "SELECT count(*), count(n), min(n), max(u), max(d) FROM it")
    assert found == [(2, 1, Decimal("1.50"), EXPECTED["u"], date(2020, 2, 29))]


@pytest.mark.parametrize(
    ("condition", "sent_condition"),
    [
        ("b", '"b"'),
        ("NOT b", 'NOT "b"'),
        ("f4 = CAST(1.1 AS FLOAT)", "\"f4\" = CAST('1.100000023841858' AS REAL)"),
        ("f8 < 'NaN'::double", "\"f8\" < CAST('NaN' AS DOUBLE PRECISION)"),
        ("c = 'ab'", "\"c\" = 'ab'"),
        ("c = 'ab '", None),
        ("d = '2020-02-29'", "\"d\" = CAST('2020-02-29' AS DATE)"),
        ("ts = '2020-01-01 12:00:00.123456'", "\"ts\" = CAST('2020-01-01 12:00:00.123456' AS TIMESTAMP)"),
        ("u = 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'", "\"u\" = CAST('a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11' AS UUID)"),
        ("u = 'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'", None),
        ("u <> 'no uuid'", None),
        ("m = 'ok'", "CAST(\"m\" AS TEXT) = 'ok'"),
        ("m <> 'no mood'", "CAST(\"m\" AS TEXT) <> 'no mood'"),
        ("free = '123.456789'", None),
        ("n < 0", '"n" < 0.00'),
        ("big = '-1.50000'", None),
        ("co IS NULL", None),
        ("j IS NOT NULL", 'NOT "j" IS NULL'),
        ("t = 'é'", "\"t\" = 'é'"),
    ],
)
def test_filters_on_every_type(graph: Graph, types: Server, condition: str, sent_condition: str | None) -> None:
    graph.register("types", types.uri, table="public.types")
    graph.register("copied", graph.sql("SELECT * FROM types").to_arrow())
    with types.logging() as sent:
        found = rows(graph, f"SELECT i8 FROM types WHERE {condition}")

    assert found == rows(graph, f"SELECT i8 FROM copied WHERE {condition}")
    assert sent[0].partition(" WHERE ")[2] == (sent_condition or "")


def test_not_a_number_and_infinities(graph: Graph, postgres: Server) -> None:
    postgres.run(
        "CREATE TABLE floats AS SELECT x::float8 AS x FROM unnest(ARRAY['NaN', 'Infinity', '-Infinity', '0', NULL]) x",
        "CREATE TABLE unbounded AS SELECT 'NaN'::numeric(5, 2) AS n, 'infinity'::timestamp AS t, "
        "'-infinity'::timestamptz AS u, 'infinity'::date AS v, '-infinity'::date AS w, '{{1,2}}'::int[] AS a",
    )
    graph.register("floats", postgres.uri, table="floats")
    graph.register("unbounded", postgres.uri, table="unbounded")
    for condition, count in (("x > 1", 2), ("x = 'NaN'::double", 1), ("x < 'NaN'::double", 3), ("x <> 0", 3)):
        assert rows(graph, f"SELECT count(*) AS n FROM floats WHERE {condition}") == [{"n": count}], condition
    with pytest.raises(errors.SourceFailed, match=r"column `n` of the foreign table `unbounded` is no decimal128\(5, 2\)"):
        rows(graph, "SELECT n FROM unbounded")
    for column in "tuvw":
        with pytest.raises(errors.SourceFailed, match=f"column `{column}` of the foreign table `unbounded` .* infinite"):
            rows(graph, f"SELECT {column} FROM unbounded")
    with pytest.raises(errors.SourceFailed, match=r"more than one dimension: \{\{1,2\}\}"):
        rows(graph, "SELECT a FROM unbounded")


ODD = ["plain", "two words", 'quo"te', "semi; DROP TABLE orders; --", "do$$llar $1", "Ünï", "new\nline", "back\\slash", "%s"]


@pytest.mark.parametrize("name", ODD)
def test_odd_names_of_everything(graph: Graph, postgres: Server, name: str) -> None:
    quoted = '"' + name.replace('"', '""') + '"'
    postgres.run(
        f"CREATE SCHEMA IF NOT EXISTS {quoted}",
        f"CREATE TABLE {quoted}.{quoted} ({quoted} text, n int)",
        f"INSERT INTO {quoted}.{quoted} VALUES ('{name}', 1), ('other', 2)",
    )
    graph.register(name, postgres.uri, table=(name, name))
    graph.register("by text", postgres.uri, table=f"{quoted}.{quoted}")

    for table in (f"foreign.{quoted}", quoted, '"by text"'):
        found = rows(graph, f"SELECT {quoted} AS x FROM {table} t WHERE {quoted} = $x", x=name)
        assert found == [{"x": name}]
    assert through_duckdb(graph, name, f"SELECT n FROM it WHERE {quoted} = '{name}'") == [(1,)]


def test_duckdb_pushes_its_filters_too(joined: Graph, orders: Server) -> None:
    with orders.logging() as sent:
        found = through_duckdb(joined, "orders", "SELECT id FROM it WHERE id IN (3, 6) AND who = 'ann' AND note IS NULL")

    assert found == [(3,)]
    assert len(sent) == 1
    assert "\"who\" = 'ann'" in sent[0]


def test_views_of_any_kind(graph: Graph, orders: Server) -> None:
    orders.run(
        "CREATE OR REPLACE VIEW seen AS SELECT who, count(*) AS n FROM orders GROUP BY who",
        "CREATE MATERIALIZED VIEW kept AS SELECT * FROM seen",
    )
    for name in ("seen", "kept"):
        graph.register(name, orders.uri, table=name)
        assert rows(graph, f"SELECT n FROM {name} WHERE who = 'ann'") == [{"n": 3333}]


# What can go wrong


def secret_free(error: BaseException) -> None:
    """No part of an error shows the password."""
    seen: list[BaseException] = []
    following: BaseException | None = error
    while following is not None and following not in seen:
        seen.append(following)
        following = following.__cause__ or (None if following.__suppress_context__ else following.__context__)
    shown = " ".join(f"{each} {each!r} {each.args} {each.__dict__}" for each in seen)
    assert PASSWORD not in shown
    assert "s3cr3t" not in shown


def test_a_wrong_table(graph: Graph, orders: Server) -> None:
    with pytest.raises(errors.NotFound, match=r"no table `public\.nothing` in postgresql://owner:\*\*\*@") as caught:
        graph.register("it", orders.uri, table="nothing")
    secret_free(caught.value)
    with pytest.raises(errors.BadRequest, match="has many tables") as without:
        graph.register("it", orders.uri)
    secret_free(without.value)
    with pytest.raises(errors.BadRequest, match="`tabel` is no option") as misspelt:
        graph.register("it", orders.uri, tabel="orders")
    secret_free(misspelt.value)
    assert graph.foreign() == []


def test_a_wrong_password(graph: Graph, orders: Server) -> None:
    with pytest.raises(errors.SourceFailed, match="`it`") as caught:
        graph.register("it", orders.uri.replace("Gr8-s3cr3t", "wrong-s3cr3t"), table="orders")
    secret_free(caught.value)


@pytest.mark.parametrize(
    "uri", ["postgresql://{u}:{p}@127.0.0.1:{port}/x", "postgresql://127.0.0.1:{port}/x?user={u}&password={p}"]
)
def test_a_source_that_is_down_when_it_is_registered(graph: Graph, uri: str) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with pytest.raises(errors.SourceFailed, match=r"`it` cannot be reached: postgresql://.*refused") as caught:
        graph.register("it", uri.format(u=OWNER, p="s3cr3t", port=port), table="t")

    assert caught.value.retryable
    assert caught.value.name == "it"
    secret_free(caught.value)


def test_an_address_that_is_none(graph: Graph) -> None:
    with pytest.raises(errors.SourceFailed) as caught:
        graph.register("it", "postgresql://u:s3cr3t@[nonsense/x", table="t")
    secret_free(caught.value)


def test_the_password_is_never_shown(joined: Graph, orders: Server) -> None:
    table = joined.foreign()[0]
    found = joined._sql.sessions.foreign.get("orders")
    shown = [repr(table), repr(found), repr(vars(found)), str(rows(joined, "EXPLAIN VERBOSE SELECT * FROM orders"))]

    assert table.source == f"postgresql://{OWNER}:***@127.0.0.1:{orders.port}/postgres table public.orders"
    assert all("s3cr3t" not in text for text in shown)


def test_a_table_that_changes(graph: Graph, postgres: Server) -> None:
    postgres.run("CREATE TABLE fleeting (a int, b int)")
    graph.register("fleeting", postgres.uri, table="fleeting")
    postgres.run("ALTER TABLE fleeting DROP COLUMN b")

    assert rows(graph, "SELECT a FROM fleeting") == []
    with pytest.raises(errors.SourceFailed, match=r"`fleeting` gave no rows: .*column \"b\" does not exist") as caught:
        rows(graph, "SELECT * FROM fleeting")
    assert not caught.value.retryable
    secret_free(caught.value)
    postgres.run("DROP TABLE fleeting")
    with pytest.raises(errors.SourceFailed, match="does not exist"):
        rows(graph, "SELECT a FROM fleeting")
    assert len(rows(graph, 'SELECT name FROM "Person"')) == 4


@pytest.fixture
def stopped(joined: Graph, orders: Server) -> Iterator[Graph]:
    """A graph whose source went down after it was registered."""
    orders.stop()
    yield joined
    orders.start()


def test_a_source_that_goes_down(stopped: Graph) -> None:
    with pytest.raises(errors.SourceFailed, match=r"`orders` cannot be reached: .*refused") as caught:
        rows(stopped, "SELECT * FROM orders")

    assert caught.value.retryable
    secret_free(caught.value)
    assert len(rows(stopped, 'SELECT name FROM "Person"')) == 4
    assert rows(stopped, "EXPLAIN SELECT id FROM orders")[-1]["plan"] == 'SELECT "id" FROM "public"."orders"'
    assert {"table_name": "orders"} in rows(stopped, "SELECT table_name FROM information_schema.tables")


def test_a_source_that_goes_down_in_the_middle(graph: Graph, postgres: Server) -> None:
    postgres.run(
        "CREATE OR REPLACE VIEW long AS SELECT n, repeat('x', 1000) AS filler, "
        "CASE WHEN n > 20000 THEN pg_sleep(0.05)::text END AS z FROM generate_series(1, 40000) n"
    )
    graph.register("long", postgres.uri, table="long")
    reason = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%\"long\"%' AND pid <> pg_backend_pid()"
    )
    killer = threading.Timer(1.0, lambda: postgres.rows(reason))
    killer.start()
    try:
        with pytest.raises(errors.SourceFailed, match="`long`") as caught:
            for _ in graph.sql("SELECT * FROM long"):
                pass
    finally:
        killer.join()
    secret_free(caught.value)
    assert len(rows(graph, 'SELECT name FROM "Person"')) == 4
