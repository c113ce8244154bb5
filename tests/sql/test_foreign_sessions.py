"""Foreign tables in every kind of session, on both engines."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datafusion import SessionContext

from omnigraph_sql import errors
from omnigraph_sql.graph import Graph
from tests.sql.postgres import Server

SCORES = pa.table({"who": ["ann", "bob", "eve"], "points": [3, 5, 7]})
KINDS = ["parquet", "csv", "arrow", "postgres", "duckdb"]


@pytest.fixture(scope="module")
def scores(postgres: Server) -> Server:
    postgres.run(
        "CREATE TABLE scores (who text, points bigint)",
        "INSERT INTO scores VALUES ('ann', 3), ('bob', 5), ('eve', 7)",
    )
    return postgres


@pytest.fixture
def everywhere(graph: Graph, tmp_path: Path, scores: Server) -> Graph:
    """The same rows in a foreign table of each kind, called as its kind."""
    pq.write_table(SCORES, tmp_path / "scores.parquet")
    (tmp_path / "scores.csv").write_text("who,points\nann,3\nbob,5\neve,7\n")
    with duckdb.connect(tmp_path / "scores.duckdb") as connection:
        connection.execute("CREATE TABLE scores AS SELECT * FROM read_csv($1)", [str(tmp_path / "scores.csv")])
    graph.register("parquet", tmp_path / "scores.parquet")
    graph.register("csv", tmp_path / "scores.csv")
    graph.register("arrow", SCORES)
    graph.register("postgres", scores.uri, table="scores")
    graph.register("duckdb", tmp_path / "scores.duckdb", table="scores")
    return graph


JOIN = 'SELECT p.name, s.points FROM "Person" p JOIN {table} s ON s.who = p.name WHERE s.points > 2 ORDER BY 2'
JOINED = [("ann", 3), ("bob", 5)]


@pytest.mark.parametrize("engine", ["datafusion", "duckdb"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_statement(everywhere: Graph, kind: str, engine: Any) -> None:
    for table in (kind, f"foreign.{kind}", f'graph.foreign."{kind}"'):
        for _ in range(2):  # sessions are kept
            found = everywhere.sql(JOIN.format(table=table), engine=engine).to_pylist()
            assert [tuple(row.values()) for row in found] == JOINED


@pytest.mark.parametrize("engine", ["datafusion", "duckdb"])
def test_all_kinds_in_one_statement_across_branches(everywhere: Graph, engine: Any) -> None:
    everywhere.create_branch("draft")
    joins = " ".join(f"JOIN foreign.{kind} ON {kind}.who = parquet.who" for kind in KINDS[1:])
    text = f'SELECT count(*) AS n FROM foreign.parquet {joins} JOIN draft."Person" d ON d.name = parquet.who'

    assert everywhere.sql(text, engine=engine).to_pylist() == [{"n": 2}]


@pytest.mark.parametrize("engine", ["datafusion", "duckdb"])
def test_parameters_and_filters_reach_postgres(everywhere: Graph, scores: Server, engine: Any) -> None:
    with scores.logging() as sent:
        found = everywhere.sql("SELECT points FROM postgres WHERE who = $who", {"who": "bob"}, engine=engine).to_pylist()

    assert found == [{"points": 5}]
    assert [statement.partition(" WHERE ")[2] for statement in sent] == ["\"who\" = 'bob'"]


@pytest.mark.parametrize("engine", ["datafusion", "duckdb"])
def test_they_are_listed(everywhere: Graph, engine: Any) -> None:
    text = "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'foreign' ORDER BY 1, 2"
    found = everywhere.sql(text, engine=engine).to_pylist()

    assert [tuple(row.values()) for row in found] == [
        (kind, column) for kind in sorted(KINDS) for column in ("points", "who")
    ]


@pytest.mark.parametrize("engine", ["datafusion", "duckdb"])
def test_tables_come_and_go_between_statements(everywhere: Graph, engine: Any) -> None:
    text = "SELECT count(*) AS n FROM arrow"
    assert everywhere.sql(text, engine=engine).to_pylist() == [{"n": 3}]
    everywhere.unregister("arrow")
    with pytest.raises(errors.NotFound, match="no table `arrow`"):
        everywhere.sql(text, engine=engine)
    everywhere.register("arrow", SCORES.slice(1))
    assert everywhere.sql(text, engine=engine).to_pylist() == [{"n": 2}]


def test_a_session_of_datafusion(everywhere: Graph, scores: Server) -> None:
    context = everywhere.datafusion()
    for kind in KINDS:
        assert [tuple(row.values()) for row in context.sql(JOIN.format(table=kind)).to_pylist()] == JOINED
    with scores.logging() as sent:
        assert context.sql("SELECT who FROM postgres LIMIT 2").count() == 2
    assert len(sent) == 1


def test_a_connection_of_duckdb(everywhere: Graph) -> None:
    connection = everywhere.duckdb()
    for kind in KINDS:
        assert connection.execute(JOIN.format(table=kind)).fetchall() == JOINED
        assert connection.execute(JOIN.format(table=f'"foreign".{kind}')).fetchall() == JOINED


def test_sessions_of_somebody_else(everywhere: Graph) -> None:
    context, connection = SessionContext(), duckdb.connect()
    everywhere.attach(context, alias="g")
    everywhere.attach(connection, alias="g")
    for kind in KINDS:
        text = f"SELECT sum(points) AS s FROM g.foreign.{kind}"
        assert context.sql(text).to_pylist() == [{"s": 15}]
        assert connection.execute(text).fetchall() == [(15,)]


def test_a_view_of_the_graph_over_a_foreign_table(everywhere: Graph, scores: Server) -> None:
    text = 'SELECT who FROM "foreign".postgres WHERE points > 4'
    everywhere.tables().define_view("main", "best", text, dialect="datafusion", columns=["who"])
    with scores.logging() as sent:
        assert everywhere.sql("SELECT count(*) AS n FROM best").to_pylist() == [{"n": 2}]

    assert [statement.partition(" WHERE ")[2] for statement in sent] == ['"points" > 4']


@pytest.mark.parametrize("engine", ["datafusion", "duckdb"])
def test_a_source_that_is_gone_fails_only_who_reads_it(everywhere: Graph, tmp_path: Path, engine: Any) -> None:
    gc.collect()
    for name in ("scores.parquet", "scores.csv", "scores.duckdb"):
        (tmp_path / name).rename(tmp_path / f"{name}.gone")
    for kind in ("parquet", "csv", "duckdb"):
        with pytest.raises(errors.SourceFailed, match=f"foreign table `{kind}`.*{tmp_path}/scores") as caught:
            everywhere.sql(f"SELECT * FROM {kind}", engine=engine).to_pylist()
        assert caught.value.name == kind
    assert everywhere.sql("SELECT count(*) AS n FROM arrow", engine=engine).to_pylist() == [{"n": 3}]
    assert everywhere.duckdb().execute("SELECT count(*) FROM arrow").fetchall() == [(3,)]
    with pytest.raises(duckdb.Error, match="are gone"):
        everywhere.duckdb().execute("SELECT * FROM parquet").fetchall()


@pytest.mark.parametrize("engine", ["datafusion", "duckdb"])
def test_a_duckdb_file_is_let_go_after_each_statement(everywhere: Graph, tmp_path: Path, engine: Any) -> None:
    assert everywhere.sql("SELECT count(*) AS n FROM duckdb", engine=engine).to_pylist() == [{"n": 3}]
    gc.collect()
    with duckdb.connect(tmp_path / "scores.duckdb") as writer:
        writer.execute("DELETE FROM scores WHERE points > 3")

    assert everywhere.sql("SELECT count(*) AS n FROM duckdb", engine=engine).to_pylist() == [{"n": 1}]


@pytest.mark.hangs_after(60)
@pytest.mark.parametrize("engine", ["datafusion", "duckdb"])
def test_a_query_that_takes_too_long_ends_at_the_source(graph: Graph, scores: Server, engine: Any) -> None:
    scores.run("CREATE OR REPLACE VIEW sleepy AS SELECT n, pg_sleep(600)::text AS z FROM generate_series(1, 3) n")
    graph.register("sleepy", scores.uri, table="sleepy")
    with pytest.raises(errors.ResourceLimit):
        graph.sql("SELECT * FROM sleepy", timeout=0.5, engine=engine).to_arrow()
