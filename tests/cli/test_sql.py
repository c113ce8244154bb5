"""`ogsql sql`: rows of SQL statements, in every format."""

import csv
import io
import json
import subprocess
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.graphs import DREDGE, done
from tests.cli.ogsql import OGSQL, TIMEOUT, environment, ogsql

PORTS = "select code, depth from Port order by code"
ROWS = [{"code": "BEANR", "depth": 16.0}, {"code": "NLRTM", "depth": None}]


def test_a_statement_as_a_word_an_option_and_a_file(graph: Path, tmp_path: Path) -> None:
    (tmp_path / "ports.sql").write_text(f"-- all of them\n{PORTS};\n")

    for given in ((graph, PORTS), (PORTS, "--store", graph), (graph, "-e", PORTS), (graph, "--file", "ports.sql")):
        result = ogsql("sql", *given, cwd=tmp_path)
        assert (result.status, result.err) == (0, "")
        assert result.out == "code   depth\nBEANR   16.0\nNLRTM\n\n2 rows\n"


def test_rows_as_json_lines_csv_and_names_with_values(graph: Path) -> None:
    document = done(ogsql("sql", graph, PORTS, "--json")).document
    about, *rows = done(ogsql("sql", graph, PORTS, "--format", "jsonl")).out.splitlines()
    table = csv.DictReader(io.StringIO(done(ogsql("sql", graph, PORTS, "--format", "csv")).out))

    assert (document["rows"], document["target"], document["row_count"]) == (ROWS, "main", 2)
    assert json.loads(about)["columns"] == document["columns"] == ["code", "depth"]
    assert [json.loads(row) for row in rows] == ROWS
    assert list(table) == [{"code": "BEANR", "depth": "16.0"}, {"code": "NLRTM", "depth": ""}]
    assert done(ogsql("sql", graph, PORTS, "--format", "kv")).out == "code   BEANR\ndepth  16.0\n\ncode   NLRTM\ndepth\n"


@pytest.mark.parametrize("name", ["arrow", "parquet"])
def test_rows_as_arrow_and_parquet(graph: Path, name: str) -> None:
    command = [str(OGSQL), "sql", str(graph), PORTS, "--format", name]
    found = subprocess.run(command, capture_output=True, check=True, timeout=TIMEOUT, env=environment()).stdout

    source = pa.BufferReader(found)
    table = pa.ipc.open_stream(source).read_all() if name == "arrow" else pq.read_table(source)
    assert table.to_pylist() == ROWS


def test_parameters_and_states(graph: Path, tmp_path: Path) -> None:
    done(ogsql("branch", "create", graph, "feature/x", "--quiet"))
    dredge = ("mutate", graph, "-e", DREDGE, "--params", '{"code": "BEANR", "depth": 17}', "--quiet")
    done(ogsql(*dredge, "--branch", "feature/x"))
    first = done(ogsql("commit", "list", graph, "--json")).document["commits"][-1]
    (tmp_path / "values.json").write_text('{"code": "BEANR"}')
    depth = "select depth from Port where code = $code"

    def read(statement: str, *options: str | Path) -> list[float]:
        given = ("--params-file", tmp_path / "values.json", "--format", "jsonl")
        lines = done(ogsql("sql", graph, statement, *given, *options)).out.splitlines()
        return [json.loads(line)["depth"] for line in lines[1:]]

    assert read(depth) == [16]
    assert read(depth, "--branch", "feature/x") == [17]
    assert read('select depth from "feature/x"."Port" where code = $code') == [17]
    assert read(depth, "--at-version", str(first["manifest_version"])) == []
    assert read(depth, "--snapshot", first["graph_commit_id"]) == []


def test_values_that_only_sql_has(graph: Path) -> None:
    statement = (
        "select 1.50::decimal(9,2) as price, time '12:30:00' as noon, timestamp '2026-01-02T03:04:05.123456789' as at,"
        " named_struct('a', 1) as pair, interval '1 day' as day"
    )
    (row,) = done(ogsql("sql", graph, statement, "--json")).document["rows"]

    assert (row["price"], row["noon"], row["at"]) == ("1.50", "12:30:00", "2026-01-02T03:04:05.123Z")
    assert row["pair"] == {"a": 1}


def test_columns_of_the_same_name_keep_their_values(graph: Path) -> None:
    statement = "select a.code, b.code, 7 as code_2 from Port a join Port b on a.code < b.code"

    assert done(ogsql("sql", graph, statement, "--format", "csv")).out == "code,code_1,code_2\nBEANR,NLRTM,7\n"
    assert done(ogsql("sql", graph, statement, "--json")).document["rows"] == [
        {"code": "BEANR", "code_1": "NLRTM", "code_2": 7}
    ]


def test_a_long_table_is_laid_out_in_portions(graph: Path) -> None:
    lines = done(ogsql("sql", graph, "select value from generate_series(1, 10000) order by value")).out.splitlines()

    assert (lines[0], lines[1], lines[10_000], lines[-1]) == ("value", "    1", "10000", "10000 rows")


def test_the_plan_of_a_statement_keeps_its_lines(graph: Path) -> None:
    lines = done(ogsql("sql", graph, f"explain {PORTS}")).out.splitlines()

    assert lines[0] == "logical_plan"
    assert lines[1].startswith("  Sort: ")
    assert "physical_plan" in lines


@pytest.mark.parametrize(
    ("arguments", "status", "text"),
    [
        ([], 2, "give one statement: as an argument, with -e SQL, or with --file FILE"),
        (["select 1", "-e", "select 2"], 2, "give one statement"),
        (["select 1", "--snapshot", "x", "--at-version", "1"], 2, "exclude each other"),
        (["select 1", "--timeout", "soon"], 2, "--timeout: `soon` is not a duration"),
        (["--file", "missing.sql"], 1, "the file `missing.sql` does not exist"),
        (["select 1", "--branch", "mian"], 1, "there is no branch `mian`"),
        (["select * from Prot"], 1, "did you mean `Port`?"),
        (["select dept from Port"], 1, "there is no column"),
        (["select 1; select 2"], 1, "more than one statement"),
        (["drop table Port"], 1, "would change something"),
        (["select code from Port", "--params", "[]"], 1, "--params must hold a JSON object"),
    ],
)
def test_what_cannot_be_read_is_said(graph: Path, arguments: list[str], status: int, text: str) -> None:
    result = ogsql("sql", graph, *arguments)

    assert (result.status, result.out) == (status, "")
    assert text in result.err


def test_an_error_as_json(graph: Path) -> None:
    result = ogsql("sql", graph, "select * from Prot", "--json")

    assert (result.status, result.err) == (1, "")
    assert result.document["error"] == "there is no table `Prot`"
