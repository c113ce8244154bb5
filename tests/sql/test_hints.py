"""What errors of statements say: the name of the column, and a hint that fits or none. And who can read what is spilled."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

import omnigraph_sql as og
from omnigraph_sql.choices import EngineName
from omnigraph_sql.errors import BadRequest, NotFound
from omnigraph_sql.graph import Graph

CASES = [
    ("datafusion", "select name from Person a join Person b on true", BadRequest, "`name` is ambiguous: a.name or b.name"),
    ("duckdb", "select name from Person a join Person b on true", BadRequest, "`name` is ambiguous: a.name or b.name"),
    ("datafusion", "selct 1", BadRequest, "did you mean `select`?"),
    ("duckdb", "selct 1", BadRequest, "did you mean `select`?"),
    ("datafusion", "select * from 'x.csv'", NotFound, "Graph.register('NAME', 'x.csv')"),
    ("duckdb", "select * from 'x.csv'", NotFound, "Graph.register('NAME', 'x.csv')"),
    ("datafusion", "select substr(name) from Person", BadRequest, "substr(TEXT, START"),
    ("datafusion", "select name, count(*) from Person", BadRequest, "Person.name is neither in GROUP BY"),
    ("datafusion", "select date '2020-13-45'", BadRequest, "2020-13-45"),
    ("datafusion", "select * from feature-x.Person", BadRequest, "double quotes"),
    ("duckdb", "select * from feature-x.Person", BadRequest, "double quotes"),
]


@pytest.mark.parametrize(("engine", "text", "kind", "said"), CASES)
def test_an_error_says_what_helps(graph: Graph, engine: EngineName, text: str, kind: type[Exception], said: str) -> None:
    with pytest.raises(kind) as caught:
        graph.sql(text, engine=engine)
    assert said in str(caught.value)
    if "quotes" not in said:
        assert "signs" not in str(caught.value)


def test_what_duckdb_spills_is_for_its_owner_alone(
    graph: Graph, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path_factory.mktemp("spills")
    monkeypatch.setattr("tempfile.tempdir", str(place))
    with og.connect(graph.uri, read_only=True) as other:
        other.sql("select 1 as one", engine="duckdb", memory_limit=77 << 20)
        connection = other.duckdb(memory_limit=77 << 20)
        made = list(place.iterdir())
        assert len(made) == 2
        assert {stat.S_IMODE(each.stat().st_mode) for each in made} == {0o700}
        spills = connection.execute("select current_setting('temp_directory')").fetchall()[0][0]
        assert Path(spills) in made
        connection.close()
    del connection
    assert list(place.iterdir()) == []
