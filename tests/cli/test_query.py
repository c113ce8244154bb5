"""`ogsql query`: rows of read queries, in every format."""

import csv
import io
import json
import re
import subprocess
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import omnigraph_sql as og
from tests.cli.graphs import DREDGE, done
from tests.cli.ogsql import OGSQL, TIMEOUT, environment, ogsql

PORTS = "query ports() { match { $p: Port } return { $p.code, $p.depth } order { $p.code } }"
ROWS = [{"p.code": "BEANR", "p.depth": 16.0}, {"p.code": "NLRTM", "p.depth": None}]


def test_rows_as_a_table(graph: Path) -> None:
    result = ogsql("query", graph, "-e", PORTS)

    assert (result.status, result.err) == (0, "")
    assert result.out == "p.code  p.depth\nBEANR      16.0\nNLRTM\n\n2 rows\n"


def test_rows_as_json(graph: Path) -> None:
    for option in (["--json"], ["--format", "json"]):
        document = done(ogsql("query", graph, "-e", PORTS, *option)).document
        assert document["rows"] == ROWS
        assert (document["query_name"], document["target"], document["row_count"]) == ("ports", "main", 2)
        assert document["columns"] == ["p.code", "p.depth"]
        assert len(document["graph_commit_id"]) == 26


def test_rows_as_lines_and_as_csv(graph: Path) -> None:
    lines = done(ogsql("query", graph, "-e", PORTS, "--format", "jsonl")).out.splitlines()
    table = list(csv.DictReader(io.StringIO(done(ogsql("query", graph, "-e", PORTS, "--format", "csv")).out)))

    about, *rows = [json.loads(line) for line in lines]
    assert rows == ROWS
    assert (about["query_name"], about["target"], about["columns"]) == ("ports", "main", ["p.code", "p.depth"])
    assert len(about["graph_commit_id"]) == 26
    assert table == [{"p.code": "BEANR", "p.depth": "16.0"}, {"p.code": "NLRTM", "p.depth": ""}]


@pytest.mark.parametrize("name", ["arrow", "parquet"])
def test_rows_as_arrow_and_parquet(graph: Path, tmp_path: Path, name: str) -> None:
    command = [str(OGSQL), "query", str(graph), "-e", PORTS, "--format", name]
    done = subprocess.run(command, capture_output=True, check=True, timeout=TIMEOUT, env=environment(), cwd=tmp_path)

    source = pa.BufferReader(done.stdout)
    table = pa.ipc.open_stream(source).read_all() if name == "arrow" else pq.read_table(source)
    assert table.to_pylist() == ROWS


def test_a_branch_a_version_and_a_commit(graph: Path) -> None:
    first = done(ogsql("commit", "list", graph, "--json")).document["commits"][0]
    done(ogsql("mutate", graph, "-e", DREDGE, "--params", '{"code": "BEANR", "depth": 17}', "--quiet"))
    depth = 'query d() { match { $p: Port { code: "BEANR" } } return { $p.depth as d } }'

    def read(*options: str) -> float:
        found: float = done(ogsql("query", graph, "-e", depth, "--json", *options)).document["rows"][0]["d"]
        return found

    assert read() == 17
    assert read("--snapshot", first["graph_commit_id"]) == 16
    assert read("--at-version", str(first["manifest_version"])) == 16


def test_parameters_and_a_name(graph: Path, folder: Path) -> None:
    one = "query one($code: String) { match { $p: Port { code: $code } } return { $p } }"
    (folder / "q.gq").write_text(f"{PORTS}\n{one}")
    named = ("one", "--query", "q.gq", "--params", '{"code": "NLRTM"}')

    result = ogsql("query", graph, *named, "--format", "jsonl", cwd=folder)

    assert done(result).out.splitlines()[1:] == ['{"p": "NLRTM"}']


def test_a_parameter_that_is_not_declared_is_an_error_unless_it_is_to_be_ignored(graph: Path) -> None:
    text = "query q($least: F64?) { match { $p: Port not { $p.depth < $least } } return { count($p) as n } }"
    given = ("--params", '{"leest": 17}')
    for command, arguments in (("query", ["-e", text]), ("explain", ["-e", text]), ("sql", ["-e", "select 1 as n"])):
        wrong = ogsql(command, graph, *arguments, *given)
        assert (wrong.status, wrong.out) == (1, "")
        assert "`leest` is not a parameter of" in wrong.err
        assert ogsql(command, graph, *arguments, *given, "--ignore-unknown-params").status == 0
    wrong = ogsql("mutate", graph, "-e", DREDGE, "--params", '{"code": "BEANR", "depth": 1.0, "x": 1}')
    assert "`x` is not a parameter of query" in wrong.err
    done(
        ogsql(
            "mutate", graph, "-e", DREDGE, "--params", '{"code": "BEANR", "depth": 1.0, "x": 1}', "--ignore-unknown-params"
        )
    )


def test_rows_as_names_and_values(graph: Path) -> None:
    result = done(ogsql("query", graph, "-e", PORTS, "--format", "kv"))

    assert result.out == "p.code   BEANR\np.depth  16.0\n\np.code   NLRTM\np.depth\n"


@pytest.mark.parametrize("name", ["table", "json", "jsonl", "csv", "kv", "arrow", "parquet"])
def test_no_rows_in_every_format(graph: Path, tmp_path: Path, name: str) -> None:
    none = "query none() { match { $p: Port $p.depth > 99 } return { $p.code, $p.depth } }"
    command = [str(OGSQL), "query", str(graph), "-e", none, "--format", name]
    found = subprocess.run(command, capture_output=True, check=True, timeout=TIMEOUT, env=environment(), cwd=tmp_path).stdout

    match name:
        case "table":
            assert found == b"p.code  p.depth\n\n0 rows\n"
        case "json":
            document = json.loads(found)
            assert (document["row_count"], document["rows"], document["columns"]) == (0, [], ["p.code", "p.depth"])
        case "jsonl":
            assert json.loads(found)["columns"] == ["p.code", "p.depth"]
        case "csv":
            assert found == b"p.code,p.depth\n"
        case "kv":
            assert found == b""
        case _:
            source = pa.BufferReader(found)
            table = pa.ipc.open_stream(source).read_all() if name == "arrow" else pq.read_table(source)
            assert (table.num_rows, table.schema.field("p.depth").type) == (0, pa.float64())


@pytest.mark.parametrize(
    ("options", "status", "text"),
    [
        (["-e", "query q() { match { $p: Prot } return { $p } }"], 1, "did you mean `Port`"),
        (["-e", DREDGE], 1, "is a mutation, not a read"),
        (["-e", PORTS, "--branch", "none"], 1, "there is no branch `none`"),
        (["-e", PORTS, "--at-version", "99"], 1, "no version 99"),
        (["-e", PORTS, "--snapshot", "x", "--at-version", "1"], 2, "exclude each other"),
        (["-e", PORTS, "--timeout", "soon"], 2, "--timeout: `soon` is not a duration"),
        (["-e", PORTS, "--memory", "lots"], 2, "--memory: `lots` is not a size"),
        (["-e", PORTS, "--memory", "1KB"], 1, "at least 1048576"),
        ([], 2, "either --query FILE or -e GQ"),
    ],
)
def test_what_cannot_be_read_is_said(graph: Path, options: list[str], status: int, text: str) -> None:
    result = ogsql("query", graph, *options)

    assert (result.status, result.out) == (status, "")
    assert text in result.err


def test_explain_shows_steps_and_on_request_sql_and_plans(graph: Path) -> None:
    text = done(ogsql("explain", graph, "-e", PORTS)).out
    analyzed = done(ogsql("explain", graph, "-e", PORTS, "--analyze")).out
    verbose = done(ogsql("explain", graph, "-e", PORTS, "--verbose")).out
    document = done(ogsql("explain", graph, "-e", PORTS, "--json")).document

    assert "scan: all Port nodes  (about 2 rows)" in text
    assert "node:Port, 2 rows" in text
    assert "SQL\n" not in text
    assert "(2 rows, " in analyzed
    assert "run\n  rows " in analyzed
    for title in ("steps\n", "SQL\n", "names\n", "logical plan\n", "physical plan\n"):
        assert title in verbose
    assert document["sql"].startswith("WITH ")
    assert (document["rows"], document["seconds"], document["query_name"]) == (None, None, "ports")
    assert document["plan"]["kind"] == "read"
    assert {"what", "notes", "estimated", "rows", "seconds", "inputs"} == set(document["steps"])
    assert (document["rules"], document["traversals"], document["indexes"]) == (["begins with $p"], [], [])


def test_a_timeout_says_so_and_exits_with_8(graph: Path) -> None:
    result = ogsql("query", graph, "-e", PORTS, "--timeout", "0.001ms")

    assert (result.status, result.out) == (8, "")
    assert "did not finish within 1e-06 seconds" in result.err


def test_limits_from_the_environment(graph: Path) -> None:
    late = ogsql("query", graph, "-e", PORTS, env={"OMNIGRAPH_QUERY_TIMEOUT_MS": "1"})
    odd = ogsql("query", graph, "-e", PORTS, env={"OMNIGRAPH_QUERY_MEMORY": "lots"})

    assert late.status == 8
    assert "did not finish within 0.001 seconds" in late.err
    assert odd.status == 0
    assert "OMNIGRAPH_QUERY_MEMORY is `lots`, not a size" in odd.err


def test_ensure_indices(graph: Path) -> None:
    first = done(ogsql("ensure-indices", graph, "--quiet", "--as", "ada"))
    again = done(ogsql("ensure-indices", graph, "--json", "--quiet")).document
    steps = done(ogsql("explain", graph, "-e", PORTS)).out

    assert first.out.startswith("commit ")
    assert (again["graph_commit_id"], again["pending"], again["branch"]) == (None, [], "main")
    assert "node:Port.code: BTREE, all rows" in steps
    assert done(ogsql("query", graph, "-e", PORTS, "--json")).document["rows"] == ROWS


def test_rows_from_duckdb(graph: Path) -> None:
    assert done(ogsql("query", graph, "-e", PORTS, "--json", "--engine", "duckdb")).document["rows"] == ROWS

    explained = done(ogsql("explain", graph, "-e", PORTS, "--engine", "duckdb", "--analyze", "--verbose"))
    assert explained.err == ""
    assert "og_port_code" in explained.out
    assert ogsql("query", graph, "-e", PORTS, "--engine", "sqlite").status == 2


def test_an_explanation_is_readable(graph: Path) -> None:
    text = (
        "query busy() { match { $p: Port $p lane $q not { $q lane $p } } "
        "return { $p.code, count($q) as calls } order { calls desc } limit 3 }"
    )
    steps = done(ogsql("explain", graph, "-e", text)).out
    with og.connect(graph, read_only=True) as opened:
        explanation = opened.explain(text)

    assert "order by calls DESC NULLS LAST, p.code ASC, first 3" in steps
    assert "count($q)" in steps
    assert not re.search(r"\$\d|__common_expr|s\d+\.", steps)
    assert f"{explanation}\n" == steps
    assert len(repr(explanation)) < 100
