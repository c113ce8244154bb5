"""`ogsql sql` and `ogsql shell` beside a project file."""

from __future__ import annotations

from pathlib import Path

import pytest

import omnigraph_sql as og
from omnigraph_sql.errors import BadRequest, NotFound
from tests.cli.ogsql import ogsql

QUERIES = """
query names() { match { $p: Port } return { $p.code } order { $p.code } }
query one($code: String) { match { $p: Port { code: $code } } return { $p.code as code } }
"""
PROJECT = """
queries: ["queries/*.gq"]
foreign:
  calls: {path: calls.csv}
  ledger: {uri: "postgresql://nobody@127.0.0.1:1/none", table: public.ledger}
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "queries").mkdir()
    (tmp_path / "queries" / "ports.gq").write_text(QUERIES)
    (tmp_path / "calls.csv").write_text("port,ships\nNLRTM,5\n")
    (tmp_path / "omnigraph.yaml").write_text(PROJECT)
    with og.init(tmp_path / "graph", "node Port { code: String @key }") as graph:
        graph.load(
            ['{"type": "Port", "data": {"code": "NLRTM"}}', '{"type": "Port", "data": {"code": "DEHAM"}}'], mode="append"
        )
    return tmp_path


@pytest.mark.parametrize("engine", ["datafusion", "duckdb"])
def test_queries_are_called_by_name_and_files_are_tables(place: Path, engine: str) -> None:
    text = 'select g."p.code" as code, ships from gq(\'names\') g left join calls on port = g."p.code" order by code'

    done = ogsql("sql", "graph", text, "--format", "csv", "--engine", engine, cwd=place)
    assert (done.status, done.out) == (0, "code,ships\nDEHAM,\nNLRTM,5\n"), done.err


def test_a_source_that_is_down_matters_only_to_who_names_it(place: Path) -> None:
    assert ogsql("sql", "graph", "select count(*) from Port", cwd=place).status == 0
    done = ogsql("sql", "graph", "select * from ledger", cwd=place)
    assert done.status != 0
    assert "ledger" in done.err


def test_the_shell_says_what_it_goes_without(place: Path) -> None:
    statements = b"""select ships from calls; select code from gq('one', '{"code": "DEHAM"}');"""
    done = ogsql("shell", "graph", "--format", "csv", stdin=statements, cwd=place)

    assert done.status == 0, done.err
    assert done.out == "ships\n5\ncode\nDEHAM\n"
    assert "warning: the foreign table `ledger` is left out" in done.err


def test_another_project_can_be_given(place: Path) -> None:
    (place / "other.yaml").write_text("foreign: {visits: {path: calls.csv}}")

    assert (
        ogsql("sql", "graph", "select ships from visits", "--config", "other.yaml", "--format", "csv", cwd=place).out
        == "ships\n5\n"
    )
    assert ogsql("sql", "graph", "select ships from calls", "--config", "other.yaml", cwd=place).status != 0
    assert "omnigraph.yml" in ogsql("sql", "graph", "select 1", "--config", "omnigraph.yml", cwd=place).err


def test_names_that_no_query_has_or_two(place: Path) -> None:
    with og.connect(place / "graph") as graph:
        with pytest.raises(NotFound, match="there is no query `names`"):
            graph.sql("select * from gq('names')")
        graph.use_queries(place / "queries" / "ports.gq")
        with pytest.raises(NotFound, match="did you mean `names`"):
            graph.sql("select * from gq('nams')")
        (place / "again.gq").write_text("query names() { match { $p: Port } return { $p } }")
        graph.use_queries(place / "again.gq")
        with pytest.raises(BadRequest, match="several queries `names`"):
            graph.sql("select * from gq('names')")
