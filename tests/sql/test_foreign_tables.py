"""Names, registration, Arrow data and DuckDB files."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from omnigraph_sql import errors
from omnigraph_sql.graph import Graph
from tests.sql.exposing import expose, through_duckdb

ROWS = pa.table({"name": ["ann", "bob", None], "x": [1, 2, 3]})


def rows(graph: Graph, text: str, **params: Any) -> list[dict[str, Any]]:
    return graph.sql(text, params).to_pylist()


class OneBatch:
    """Hands out an array of structs, as some libraries do."""

    def __arrow_c_array__(self, requested_schema: object = None) -> Any:
        return ROWS.combine_chunks().to_batches()[0].__arrow_c_array__(requested_schema)


@pytest.mark.parametrize(
    "source",
    [
        ROWS,
        ROWS.to_reader(),
        ROWS.to_batches()[0],
        pl.DataFrame({"name": ["ann", "bob", None], "x": [1, 2, 3]}),
        pd.DataFrame({"name": ["ann", "bob", None], "x": [1, 2, 3]}),
        OneBatch(),
    ],
    ids=lambda source: type(source).__name__,
)
def test_arrow_data_joins_with_a_type(graph: Graph, source: Any) -> None:
    graph.register("rows", source)
    text = 'SELECT p.age, r.x FROM rows r JOIN "Person" p ON p.name = r.name WHERE r.x >= 1 ORDER BY r.x'

    for _ in range(2):  # what can be read once only was kept
        assert rows(graph, text) == [{"age": 30, "x": 1}, {"age": 41, "x": 2}]
    assert through_duckdb(graph, "rows", "SELECT count(*), sum(x) FROM it WHERE name IS NOT NULL") == [(2, 3)]
    assert graph.foreign()[0].kind == "arrow"


def test_tables_without_rows_or_with_many_types(graph: Graph) -> None:
    graph.register("empty", pa.table({"a": pa.array([], pa.int32())}))
    nested = pa.table({"s": [{"a": 1}], "l": [[1, 2]], "d": pa.array(["x"]).dictionary_encode(), "b": [b"\0"]})
    graph.register("nested", nested)

    assert rows(graph, "SELECT count(*) AS n FROM empty") == [{"n": 0}]
    assert rows(graph, "SELECT s['a'] AS a, l[2] AS l, d, b FROM nested") == [{"a": 1, "l": 2, "d": "x", "b": b"\0"}]


def test_names(graph: Graph) -> None:
    odd = ['quo"te', "semi; --", "do$llar", "Ünï 中", "a.b", "foreign", "main", "main@1", "x:y", "new\nline"]
    for name in odd:
        graph.register(name, ROWS)

    for name in odd:
        quoted = '"' + name.replace('"', '""') + '"'
        assert rows(graph, f"SELECT count(*) AS n FROM {quoted}") == [{"n": 3}]
        assert rows(graph, f"SELECT count(*) AS n FROM foreign.{quoted}") == [{"n": 3}]
        assert rows(graph, f"SELECT count(*) AS n FROM graph.foreign.{quoted} t WHERE t.x > $x", x=1) == [{"n": 2}]
    assert [table.name for table in graph.foreign()] == sorted(odd)
    listed = rows(graph, "SELECT table_name FROM information_schema.tables WHERE table_schema = 'foreign'")
    assert {row["table_name"] for row in listed} == set(odd)


def test_names_are_found_in_any_case(graph: Graph) -> None:
    graph.register("MyRows", ROWS)

    assert rows(graph, "SELECT count(*) AS n FROM myrows") == rows(graph, "SELECT count(*) AS n FROM foreign.MYROWS")
    with pytest.raises(errors.Conflict, match="there is a foreign table `MyRows`"):
        graph.register("MYROWS", ROWS)


def test_names_that_are_taken(graph: Graph) -> None:
    graph.tables().create_table("main", "plain", ROWS)
    for name, what in (("Person", "type"), ("knows", "type"), ("plain", "relational table")):
        with pytest.raises(errors.Conflict, match=f"there is a {what}") as caught:
            graph.register(name, ROWS)
        assert caught.value.reason == "name_taken"
    with pytest.raises(errors.BadRequest, match="needs a name"):
        graph.register("", ROWS)
    assert graph.foreign() == []


def test_a_table_that_came_later_wins(graph: Graph) -> None:
    graph.register("plain", ROWS)
    graph.tables().create_table("main", "plain", ROWS.slice(0, 1))

    assert rows(graph, "SELECT count(*) AS n FROM plain") == [{"n": 1}]
    assert rows(graph, "SELECT count(*) AS n FROM foreign.plain") == [{"n": 3}]


def test_a_branch_called_foreign_wins(graph: Graph) -> None:
    graph.register("rows", ROWS)
    graph.create_branch("foreign")

    assert rows(graph, 'SELECT count(*) AS n FROM foreign."Person"') == [{"n": 4}]
    assert rows(graph, "SELECT count(*) AS n FROM rows") == [{"n": 3}]
    with pytest.raises(errors.NotFound, match="no table `rows`"):
        rows(graph, "SELECT * FROM foreign.rows")


def test_other_branches_do_not_have_foreign_tables(graph: Graph) -> None:
    graph.register("rows", ROWS)
    graph.create_branch("draft")

    with pytest.raises(errors.NotFound, match="no table `rows`"):
        rows(graph, "SELECT * FROM draft.rows")


def test_unregister(graph: Graph) -> None:
    graph.register("rows", ROWS)
    graph.unregister("rows")

    with pytest.raises(errors.NotFound, match="no table `rows`"):
        rows(graph, "SELECT * FROM rows")
    with pytest.raises(errors.NotFound, match="no table `rows`"):
        rows(graph, "SELECT * FROM foreign.rows")
    with pytest.raises(errors.NotFound, match="no foreign table `rows`"):
        graph.unregister("rows")
    graph.register("rows", ROWS)
    assert len(graph.foreign()) == 1


@pytest.mark.parametrize("source", [5, None, object(), {"a": [1]}, [1, 2]])
def test_sources_that_are_none(graph: Graph, source: Any) -> None:
    with pytest.raises(errors.BadRequest, match="is no source of a foreign table"):
        graph.register("it", source)


def test_columns_that_repeat(graph: Graph) -> None:
    with pytest.raises(errors.BadRequest, match="several columns called `a`"):
        graph.register("it", pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"]))


def test_a_foreign_table_cannot_be_written(graph: Graph) -> None:
    graph.register("rows", ROWS)
    with pytest.raises(errors.BadRequest, match="would change something"):
        graph.sql("INSERT INTO rows VALUES ('x', 1)")


# Files of DuckDB

CREATE = """
CREATE SCHEMA "s t";
CREATE TABLE "s t"."t""x" (
    n INTEGER, "Name" VARCHAR COLLATE nocase, u UUID, h HUGEINT, e ENUM('a', 'b'), d DATE, q DECIMAL(6, 2), l INTEGER[],
    tz TIMESTAMPTZ, b BIT, f FLOAT
);
INSERT INTO "s t"."t""x" VALUES
    (1, 'Ann', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', 7, 'a', '2024-02-29', 1.5, [1, NULL], '2024-01-01 00:00:00+02', '101',
    1.1),
    (2, 'ann', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'nan'),
    (3, 'bob', NULL, -8, 'b', '2025-01-01', 2, [], NULL, NULL, NULL);
CREATE VIEW seen AS SELECT n, "Name" FROM "s t"."t""x";
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "it's a file.duckdb"
    with duckdb.connect(path) as connection:
        connection.execute(CREATE)
    return path


def test_a_duckdb_file(graph: Graph, file: Path) -> None:
    graph.register("it", file, table='"s t"."t""x"')
    full = rows(graph, "SELECT * FROM it WHERE n = 1")[0]

    assert (full["u"], full["h"], full["e"], full["b"]) == ("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", Decimal(7), "a", "101")
    assert (full["d"], full["q"], full["l"]) == (date(2024, 2, 29), Decimal("1.50"), [1, None])
    assert full["tz"].isoformat() == "2023-12-31T22:00:00+00:00"
    text = 'SELECT i.n FROM it i JOIN "Person" p ON p.name = i."Name" ORDER BY 1'
    assert rows(graph, text) == [{"n": 2}, {"n": 3}]
    found = through_duckdb(graph, "it", "SELECT n, h, e, u FROM it WHERE n = 1")
    assert found == [(1, Decimal(7), "a", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11")]


@pytest.mark.parametrize(
    ("condition", "sent", "found"),
    [
        ("\"Name\" = 'ann'", '"Name" COLLATE "binary" = \'ann\'', [2]),
        ("\"Name\" > 'B'", '"Name" COLLATE "binary" > \'B\'', [2, 3]),
        ("h < 0", '"h" < 0', [3]),
        ("e <> 'a'", "CAST(\"e\" AS TEXT) <> 'a'", [3]),
        ("u = 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'", "\"u\" = CAST('a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11' AS UUID)", [1]),
        ("f > 1", "\"f\" > CAST('1.0' AS REAL)", [1, 2]),
        ("d IS NULL", '"d" IS NULL', [2]),
        ("tz < '2024-01-01T00:00:00Z'", "\"tz\" < CAST('2024-01-01 00:00:00+00:00' AS TIMESTAMPTZ)", [1]),
        ("q NOT IN (1, 2)", None, [1]),
    ],
)
def test_filters_reach_a_duckdb_file(graph: Graph, file: Path, condition: str, sent: str | None, found: list[int]) -> None:
    graph.register("it", file, table=("s t", 't"x'))

    assert [row["n"] for row in rows(graph, f"SELECT n FROM it WHERE {condition} ORDER BY n")] == found
    if sent is not None:
        last = graph.foreign()[0].last_sql
        assert last is not None
        assert last.partition(" WHERE ")[2] == sent
    plan = rows(graph, f"EXPLAIN SELECT n FROM it WHERE {condition} LIMIT 2")[-1]
    assert plan["plan_type"] == "remote it"
    assert plan["plan"].endswith(" LIMIT 2")


def test_views_and_defaults_of_a_duckdb_file(graph: Graph, file: Path) -> None:
    graph.register("seen", file, table="seen")

    assert rows(graph, "SELECT count(*) AS n FROM seen") == [{"n": 3}]
    assert graph.foreign()[0].last_sql == 'SELECT COUNT(*) FROM "main"."seen"'


def test_a_duckdb_connection_attaches_a_file_once(graph: Graph, file: Path) -> None:
    graph.register("seen", file, table="seen")
    graph.register("it", file, table=("s t", 't"x'))
    with duckdb.connect() as connection:
        expose(graph, connection, "seen", "one")
        expose(graph, connection, "it", "other")

        assert connection.execute("SELECT count(*) FROM one JOIN other USING (n)").fetchall() == [(3,)]
        named = "SELECT database_name FROM duckdb_databases() WHERE database_name LIKE '\\_omnigraph%' ESCAPE '\\'"
        ((alias,),) = connection.execute(named).fetchall()
        with pytest.raises(duckdb.Error, match="read-only"):
            connection.execute(f'DELETE FROM {alias}."s t"."t""x"')


def test_what_is_wrong_with_duckdb_files(graph: Graph, file: Path, tmp_path: Path) -> None:
    with pytest.raises(errors.NotFound, match=r"no table `main\.nothing` in .*it's a file"):
        graph.register("it", file, table="nothing")
    with pytest.raises(errors.BadRequest, match="has many tables"):
        graph.register("it", file)
    with pytest.raises(errors.BadRequest, match="does not name a table"):
        graph.register("it", file, table='a."b')
    broken = tmp_path / "broken.duckdb"
    broken.write_bytes(b"x" * 8 + b"DUCK" + b"x" * 100)
    with pytest.raises(errors.SourceFailed, match=r"`it` .*broken"):
        graph.register("it", broken, table="t")
    graph.register("seen", file, table="seen")
    file.rename(tmp_path / "gone")
    with pytest.raises(errors.SourceFailed, match=r"`seen` cannot be reached: .*it's a file"):
        rows(graph, "SELECT * FROM seen")
    assert len(rows(graph, 'SELECT name FROM "Person"')) == 4


def test_a_duckdb_file_is_not_held_open(graph: Graph, file: Path) -> None:
    graph.register("seen", file, table="seen")
    rows(graph, "SELECT * FROM seen LIMIT 1")
    with duckdb.connect(file) as connection:  # a writer
        connection.execute('DELETE FROM "s t"."t""x" WHERE n > 1')

    assert rows(graph, "SELECT n FROM seen") == [{"n": 1}]
