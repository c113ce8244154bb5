"""`ogsql compile`: the outcome as JSON, errors beside it."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.cli.ogsql import QUERIES, ogsql


def test_the_plans_of_all_queries(folder: Path) -> None:
    result = ogsql("compile", "ports.pg", "ports.gq", cwd=folder)

    assert (result.status, result.err) == (0, "")
    assert set(result.document) == {"queries"}
    assert [(query["name"], query["plan"]["kind"]) for query in result.document["queries"]] == [
        ("deep", "read"),
        ("dredge", "mutation"),
    ]
    assert result.out.startswith('{\n  "queries": [\n    {\n      "name": "deep",')


def test_the_plan_of_one_query(folder: Path) -> None:
    result = ogsql("compile", "ports.pg", "ports.gq", "--query", "deep", "--emit", "ir", cwd=folder)
    query = result.document

    assert query["params"] == [{"name": "depth", "type": "F64"}]
    assert query["columns"] == [{"name": "p.code", "type": "String"}]
    assert query["plan"]["stages"][0]["kind"] == "NodeScan"
    assert len(query["hash"]) == 64


def test_the_descriptor(folder: Path) -> None:
    result = ogsql("compile", "ports.pg", "ports.gq", "--query", "dredge", "--emit", "descriptor", cwd=folder)

    table = {"kind": "node", "type_name": "Port"}
    assert result.document == {"name": "dredge", "kind": "mutation", "result": [], "reads": [table], "writes": [table]}


def test_the_syntax_tree(folder: Path) -> None:
    result = ogsql("compile", "ports.pg", "ports.gq", "--query", "deep", "--emit", "ast", cwd=folder)
    tree = result.document

    assert tree["kind"] == "Query"
    assert tree["name"] == {"kind": "Name", "text": "deep", "span": [6, 10]}
    assert [clause["kind"] for clause in tree["body"]["match"]["clauses"]] == ["Binding", "Filter"]
    assert tree["span"] == [0, QUERIES.index("\n\n")]


def test_a_syntax_tree_needs_no_types(folder: Path) -> None:
    assert ogsql("compile", "ports.pg", "misspelt.gq", "--emit", "ast", cwd=folder).status == 0
    assert ogsql("compile", "ports.pg", "misspelt.gq", "--emit", "ir", cwd=folder).status == 1


@pytest.mark.parametrize("emit", ["ir", "ast", "descriptor"])
def test_a_file_without_queries(folder: Path, emit: str) -> None:
    (folder / "empty.gq").touch()
    result = ogsql("compile", "ports.pg", "empty.gq", "--emit", emit, cwd=folder)

    assert (result.status, result.document) == (0, {"queries": []})


@pytest.mark.parametrize(
    ("schema", "queries", "place"),
    [
        ("ports.pg", "misspelt.gq", "misspelt.gq:1:25"),
        ("ports.pg", "broken.gq", "broken.gq:1:10"),
        ("ports.gq", "ports.gq", "ports.gq:1:1"),
    ],
)
def test_a_rejection_goes_to_standard_error(folder: Path, schema: str, queries: str, place: str) -> None:
    result = ogsql("compile", schema, queries, cwd=folder)

    assert (result.status, result.out) == (1, "")
    assert f" --> {place}\n" in result.err


def test_a_rejection_as_json(folder: Path) -> None:
    result = ogsql("compile", "ports.pg", "misspelt.gq", "--json", cwd=folder)
    document: dict[str, Any] = result.document

    assert (result.status, result.err) == (1, "")
    assert document["error"].startswith("type error: T1: ")
    assert document["code"] == "T1"
    assert [(each["path"], each["code"]) for each in document["diagnostics"]] == [("misspelt.gq", "T1")]


def test_an_unknown_query_is_bad_input(folder: Path) -> None:
    result = ogsql("compile", "ports.pg", "ports.gq", "--query", "dreg", cwd=folder)

    assert (result.status, result.out) == (1, "")
    assert result.err == "error: there is no query `dreg`\nhint: did you mean `dredge`?\n"


def test_sql_for_an_engine(folder: Path) -> None:
    texts = {}
    for dialect in ("datafusion", "duckdb", "spark"):
        result = ogsql(
            "compile", "ports.pg", "ports.gq", "--query", "deep", "--emit", "sql", "--dialect", dialect, cwd=folder
        )
        assert (result.status, result.err) == (0, "")
        texts[dialect] = result.out

    assert texts["datafusion"].startswith("-- deep\n-- relations:\n--   nodes_port  Port nodes with depth > $depth")
    assert "--   port_code  `code` of node:Port" in texts["datafusion"]
    assert "--   og_port_code  `code` of node:Port" in texts["duckdb"]
    assert "  og_port_code(`$p`) AS `p.code`" in texts["spark"]
    assert all(text.endswith(";\n") for text in texts.values())
    default = ogsql("compile", "ports.pg", "ports.gq", "--query", "deep", "--emit", "sql", cwd=folder)
    assert default.out == texts["datafusion"]


def test_sql_within_json(folder: Path) -> None:
    result = ogsql("compile", "ports.pg", "ports.gq", "--query", "deep", "--emit", "sql", "--json", cwd=folder)

    assert {name: result.document[name] for name in ("name", "dialect")} == {"name": "deep", "dialect": "datafusion"}
    assert "SELECT" in result.document["sql"]


def test_what_a_spark_text_says_otherwise(folder: Path) -> None:
    (folder / "more.gq").write_text(
        "query q($c: String) { match { $p: Port $p lane $q $q.code starts_with $p.code $q.code != $c not { $q lane $p } } "
        "return { $q.code, $c } order { $q.depth desc } }"
    )
    spark = ogsql("compile", "ports.pg", "more.gq", "--emit", "sql", "--dialect", "spark", cwd=folder)

    assert (spark.status, spark.err) == (0, "")
    assert re.search(r"EXPLODE\(og_lane_\w+\(`\$\w`\)\) AS `\$\w`", spark.out)
    assert "startswith(" in spark.out
    assert ":p1" in spark.out


def test_a_mutation_has_no_sql(folder: Path) -> None:
    for more in ((), ("--query", "dredge")):
        result = ogsql("compile", "ports.pg", "ports.gq", "--emit", "sql", *more, cwd=folder)
        assert result.status == 1
        assert "`dredge` is a mutation" in result.err


def test_a_dialect_is_one_of_sql(folder: Path) -> None:
    result = ogsql("compile", "ports.pg", "ports.gq", "--dialect", "duckdb", cwd=folder)

    assert result.status == 2
    assert "--dialect is for --emit sql" in result.err
