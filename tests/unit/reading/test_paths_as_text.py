"""Paths given as texts: they work where a text can be nothing else, and errors tell what is missing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import omnigraph_sql as og
from omnigraph_sql import errors

SCHEMA = "node T { k: String @key }"
QUERY = "query q() { match { $t: T } return { $t.k } }"
MUTATION = 'query add() { insert T { k: "m" } }'


@pytest.fixture
def graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> og.Graph:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.pg").write_text(SCHEMA)
    (tmp_path / "t.csv").write_text("k\na\n")
    (tmp_path / "t.jsonl").write_text(json.dumps({"type": "T", "data": {"k": "j"}}))
    pq.write_table(pa.table({"k": ["p"]}), tmp_path / "t.parquet")
    (tmp_path / "q.gq").write_text(QUERY)
    (tmp_path / "m.gq").write_text(MUTATION)
    (tmp_path / "latin.gq").write_bytes(QUERY.encode() + b" // caf\xe9")
    return og.init("g", "a.pg")


def keys(graph: og.Graph) -> list[str]:
    return [value for row in graph.query(QUERY).to_pylist() for value in row.values()]


def test_texts_that_can_only_be_paths_are_paths(graph: og.Graph) -> None:
    assert graph.schema == SCHEMA
    graph.load("t.jsonl", mode="append")
    graph.load({"T": "t.csv"}, mode="append")
    graph.load({"T": "t.parquet"}, mode="merge")
    graph.mutate("m.gq")
    assert sorted(value for row in graph.query("q.gq").to_pylist() for value in row.values()) == ["a", "j", "m", "p"]
    assert len(graph.result_schema("q.gq").names) == 1
    assert "T" in str(graph.explain("q.gq"))


@pytest.mark.parametrize(
    ("act", "parts"),
    [
        (lambda _: og.init("g2", "none.pg"), ("none.pg", "does not exist")),
        (lambda _: og.init("g2", Path("none.pg")), ("none.pg", "does not exist")),
        (lambda _: og.init("g2", Path(".")), ("Is a directory",)),
        (lambda _: og.init("g2", cast(Any, 7)), ("`schema`", "not int")),
        (lambda g: g.query("none.gq"), ("none.gq", "does not exist")),
        (lambda g: g.query(Path("none.gq")), ("none.gq", "does not exist")),
        (lambda g: g.query(Path("latin.gq")), ("latin.gq", "UTF-8")),
        (lambda g: g.query(b"query"), ("a query", "not bytes")),
        (lambda g: g.mutate("none.gq"), ("none.gq", "does not exist")),
        (lambda g: g.load("none.jsonl", mode="append"), ("none.jsonl", "No such file")),
        (lambda g: g.load("t.csv", mode="append"), ("t.csv", "is a table", 'load({"TYPE": "t.csv"}')),
        (lambda g: g.load(Path("t.csv"), mode="append"), ("t.csv", "is a table", 'load({"TYPE":')),
        (lambda g: g.load(Path("t.parquet"), mode="append"), ("t.parquet", "is a table")),
        (lambda g: g.load("data/t.csv.gz", mode="append"), ("t.csv.gz", "is a table")),
        (lambda g: g.load({"T": "none.csv"}, mode="append"), ("none.csv", "No such file")),
        (lambda g: g.load({"T": "k\na\n"}, mode="append"), ("a table", "not its content")),
        (lambda g: g.load({"T": "t.jsonl"}, mode="append"), ("t.jsonl", "load(", "without naming a type")),
        (lambda g: g.load("t.toml", mode="append"), ("line 1", "pathlib.Path")),
        (lambda g: g.sql("x.sql"), ("x.sql", "read_text")),
    ],
)
def test_what_is_wrong_with_a_path_is_told(graph: og.Graph, act: Callable[[og.Graph], Any], parts: tuple[str, ...]) -> None:
    with pytest.raises(errors.OmnigraphError) as raised:
        act(graph)
    assert isinstance(raised.value, errors.BadRequest | errors.NotFound)
    for part in parts:
        assert part in str(raised.value)
    assert keys(graph) == []
