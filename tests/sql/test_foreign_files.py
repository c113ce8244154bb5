"""Parquet and CSV files as foreign tables, in both engines."""

from __future__ import annotations

import gzip
import shutil
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from omnigraph_sql import errors
from omnigraph_sql.engines.duckdb import foreign_views
from omnigraph_sql.foreign.model import ForeignRead
from omnigraph_sql.graph import Graph
from tests.internals import foreign_table
from tests.sql.exposing import through_duckdb

PRICES = pa.table({"Name": ["ann", "bob", "eve"], "price": [1.5, 2.5, None], "qty": [1, 2, 3]})


@pytest.fixture
def parquet(tmp_path: Path) -> Path:
    path = tmp_path / "prices.parquet"
    pq.write_table(PRICES, path)
    return path


def rows(graph: Graph, text: str, **params: Any) -> list[dict[str, Any]]:
    return graph.sql(text, params).to_pylist()


def test_a_parquet_file_joins_with_a_type(graph: Graph, parquet: Path) -> None:
    graph.register("prices", parquet)
    text = 'SELECT p.name, f.price FROM "Person" p JOIN foreign.prices f ON f."Name" = p.name WHERE f.qty < $most ORDER BY 1'

    assert rows(graph, text, most=2) == [{"name": "ann", "price": 1.5}]
    assert rows(graph, "SELECT count(*) AS n FROM prices") == [{"n": 3}]


def test_it_joins_across_branches(graph: Graph, parquet: Path) -> None:
    graph.create_branch("draft")
    graph.register("prices", parquet)
    text = (
        'SELECT m.name FROM main."Person" m JOIN draft."Person" d ON d.name = m.name '
        'JOIN foreign.prices f ON f."Name" = m.name ORDER BY 1'
    )

    assert [row["name"] for row in rows(graph, text)] == ["ann", "bob"]
    assert [row["qty"] for row in graph.sql("SELECT qty FROM prices ORDER BY 1", branch="draft").to_pylist()] == [1, 2, 3]


def test_the_engine_itself_reads_the_file(graph: Graph, parquet: Path) -> None:
    graph.register("prices", str(parquet))
    plan = graph.sql("EXPLAIN SELECT price FROM prices WHERE qty > 1 LIMIT 1").to_pylist()[1]["plan"]

    assert "projection=[price]" in plan or "projection=[price, qty]" in plan
    assert "predicate=qty" in plan
    assert "file_type=parquet" in plan


@pytest.mark.parametrize("source", ["dir", "dir/*.parquet", "dir/**/*.parquet", "odd [1] 100%?*'.parquet"])
def test_directories_patterns_and_odd_names(graph: Graph, tmp_path: Path, source: str) -> None:
    (tmp_path / "dir" / "sub").mkdir(parents=True)
    count = 3
    if source.startswith("odd"):
        pq.write_table(PRICES, tmp_path / source)
    else:
        pq.write_table(PRICES.slice(0, 1), tmp_path / "dir" / "a.parquet")
        pq.write_table(PRICES.slice(1), tmp_path / ("dir/b.parquet" if source == "dir/*.parquet" else "dir/sub/b.parquet"))
        (tmp_path / "dir" / "notes.txt").write_text("not data")

    graph.register("prices", tmp_path / source)

    assert rows(graph, "SELECT count(*) AS n, sum(qty) AS s FROM prices") == [{"n": count, "s": 6}]
    assert through_duckdb(graph, "prices", "SELECT count(*), sum(qty) FROM it") == [(3, 6)]


def test_files_that_come_later_are_read(graph: Graph, tmp_path: Path) -> None:
    (tmp_path / "dir").mkdir()
    pq.write_table(PRICES, tmp_path / "dir" / "1.parquet")
    graph.register("prices", tmp_path / "dir")
    pq.write_table(PRICES, tmp_path / "dir" / "2.parquet")

    assert rows(graph, "SELECT count(*) AS n FROM prices") == [{"n": 6}]


CSV = "zip;day;x;ok\n01234;2024-02-29;1.5;true\n99999;2024-03-01;;false\n;;2;\n"


def test_a_csv_file(graph: Graph, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(CSV)
    graph.register("guessed", tmp_path / "a.csv", delimiter=";")
    graph.register("typed", tmp_path / "a.csv", delimiter=";", types={"zip": "string", "x": "decimal(5, 2)"})

    assert [str(kind) for kind in graph.foreign()[0].schema.types] == ["int64", "date32[day]", "double", "bool"]
    text = "SELECT zip AS z, CAST(day AS VARCHAR) AS d, x, ok FROM"
    assert rows(graph, f"{text} typed ORDER BY day NULLS LAST") == [
        {"z": "01234", "d": "2024-02-29", "x": Decimal("1.50"), "ok": True},
        {"z": "99999", "d": "2024-03-01", "x": None, "ok": False},
        {"z": None, "d": None, "x": Decimal("2.00"), "ok": None},
    ]
    assert through_duckdb(graph, "typed", f"{text} it ORDER BY day NULLS LAST") == [
        ("01234", "2024-02-29", Decimal("1.50"), True),
        ("99999", "2024-03-01", None, False),
        (None, None, Decimal("2.00"), None),
    ]


@pytest.mark.parametrize("suffix", [".tsv", ".csv", ".txt"])
def test_csv_without_a_header(graph: Graph, tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a{suffix}"
    delimiter = "\t" if suffix == ".tsv" else "|"
    path.write_text(f'1{delimiter}x\n2{delimiter}"y""{delimiter}z"\n')
    options: dict[str, Any] = {} if suffix == ".tsv" else {"delimiter": "|"}
    options |= {"format": "csv"} if suffix == ".txt" else {}
    graph.register("it", path, header=False, schema={"n": "int32", "t": "string"}, **options)

    assert rows(graph, "SELECT * FROM it ORDER BY n") == [{"n": 1, "t": "x"}, {"n": 2, "t": f'y"{delimiter}z'}]
    assert through_duckdb(graph, "it", "SELECT * FROM it ORDER BY n") == [(1, "x"), (2, f'y"{delimiter}z')]


def test_csv_with_ends_of_lines_in_values(graph: Graph, tmp_path: Path) -> None:
    lines = "".join(f'{number},"first\nsecond ""{number}"""\n' for number in range(400_000))
    (tmp_path / "a.csv").write_text(f"n,t\n{lines}")  # large enough to be cut into pieces
    with pytest.raises(errors.SourceFailed, match="unequal lengths") as caught:  # guessing takes them for ends of rows
        graph.register("it", tmp_path / "a.csv")
    assert caught.value.hint is not None
    assert "with schema= nothing is guessed" in caught.value.hint
    graph.register("it", tmp_path / "a.csv", schema={"n": "int64", "t": "string"})

    assert rows(graph, "SELECT count(*) AS c, max(n) AS m FROM it") == [{"c": 400_000, "m": 399_999}]
    assert rows(graph, "SELECT t FROM it WHERE n = 7") == [{"t": 'first\nsecond "7"'}]


def test_packed_csv(graph: Graph, tmp_path: Path) -> None:
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"a,b\n1,x\n"))
    graph.register("it", tmp_path / "a.csv.gz")

    assert rows(graph, "SELECT * FROM it") == [{"a": 1, "b": "x"}]
    assert through_duckdb(graph, "it", "SELECT * FROM it") == [(1, "x")]


def test_what_is_not_there(graph: Graph, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for source in ("nowhere.parquet", "nowhere/*.parquet", "empty", "nowhere.duckdb"):
        with pytest.raises(errors.NotFound, match=source.replace("*", r"\*")) as caught:
            graph.register("it", tmp_path / source, **({"table": "t"} if source.endswith("duckdb") else {}))
        assert caught.value.what == "file"
    assert graph.foreign() == []


def test_what_is_not_understood(graph: Graph, tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"not parquet at all")
    (tmp_path / "a.dat").write_bytes(b"x")
    (tmp_path / "both").mkdir()
    (tmp_path / "both" / "a.csv").write_text("a\n1\n")
    pq.write_table(PRICES, tmp_path / "both" / "a.parquet")
    with pytest.raises(errors.SourceFailed, match=r"`it` cannot be read from .*a\.parquet"):
        graph.register("it", tmp_path / "a.parquet")
    with pytest.raises(errors.BadRequest, match="does not say what it holds"):
        graph.register("it", tmp_path / "a.dat")
    with pytest.raises(errors.BadRequest, match=r"several kinds: \.csv, \.parquet"):
        graph.register("it", tmp_path / "both")
    with pytest.raises(errors.BadRequest, match="no format of files"):
        graph.register("it", tmp_path / "both", format="orc")
    with pytest.raises(errors.BadRequest, match="`delimeter` is no option") as caught:
        graph.register("it", tmp_path / "both" / "a.csv", delimeter=";")
    assert caught.value.hint == "did you mean `delimiter`?"
    with pytest.raises(errors.BadRequest, match="has no column `b`"):
        graph.register("it", tmp_path / "both" / "a.csv", types={"b": "string"})
    with pytest.raises(errors.BadRequest, match="is no type of a column"):
        graph.register("it", tmp_path / "both" / "a.csv", types={"a": "strin"})
    with pytest.raises(errors.BadRequest, match="cannot be the delimiter"):
        graph.register("it", tmp_path / "both" / "a.csv", delimiter=";;")
    with pytest.raises(errors.BadRequest, match="cannot be read"):
        graph.register("it", "s3://bucket/x.parquet")
    graph.register("it", tmp_path / "both", format="csv")
    assert rows(graph, "SELECT a FROM it") == [{"a": 1}]


def test_files_that_go_away(graph: Graph, parquet: Path, tmp_path: Path) -> None:
    graph.register("prices", parquet)
    parquet.unlink()

    with pytest.raises(errors.SourceFailed, match=r"`prices` are gone: .*prices\.parquet") as caught:
        rows(graph, "SELECT * FROM prices")
    assert (caught.value.name, caught.value.source) == ("prices", str(parquet))
    assert len(rows(graph, 'SELECT name FROM "Person"')) == 4
    assert rows(graph, "SELECT table_name FROM information_schema.tables WHERE table_schema = 'foreign'") == [
        {"table_name": "prices"}
    ]
    pq.write_table(PRICES, parquet)
    assert rows(graph, "SELECT count(*) AS n FROM prices") == [{"n": 3}]
    shutil.rmtree(tmp_path / "nothing", ignore_errors=True)


def test_duckdb_refuses_columns_that_differ_by_case_only(graph: Graph, tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1], "A": [2]}), tmp_path / "a.parquet")
    graph.register("it", tmp_path / "a.parquet")

    assert rows(graph, 'SELECT a, "A" FROM it') == [{"a": 1, "A": 2}]
    with pytest.raises(errors.BadRequest, match="cannot tell the columns `a` and `A`"):
        through_duckdb(graph, "it", "SELECT * FROM it")


def test_duckdb_is_the_one_of_the_caller(graph: Graph, parquet: Path) -> None:
    graph.register("prices", parquet)
    connection = duckdb.connect()
    connection.execute('CREATE SCHEMA "fo""r"')
    found = foreign_table(graph, "prices")
    foreign_views.expose(found, connection, 'fo"r', 'pri"ces; --', ForeignRead())

    assert connection.execute('SELECT count(*) FROM "fo""r"."pri""ces; --"').fetchall() == [(3,)]
    plan = connection.execute('EXPLAIN SELECT qty FROM "fo""r"."pri""ces; --" WHERE price > 2').fetchall()[0][1]
    assert "READ_PARQUET" in plan
    assert "price>2" in plan.replace(" ", "")
