"""How CSV files are written, and columns that a type does not have."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraph_sql as og
from omnigraph_sql import errors

SCHEMA = "node T { k: String @key  n: I32?  s: String? } edge E: T -> T"


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[og.Graph]:
    with og.init(tmp_path / "g", SCHEMA) as graph:
        yield graph


def rows(graph: og.Graph) -> list[tuple[Any, ...]]:
    found = [json.loads(line)["data"] for line in graph.export(types=["T"])]
    return [(each["k"], each.get("n"), each.get("s")) for each in found]


@pytest.mark.parametrize(
    ("text", "options", "expected"),
    [
        (b"k;n;s\na;1;x,y\n", {"delimiter": ";"}, ("a", 1, "x,y")),
        (b"k\tn\ts\na\t1\tx\n", {"delimiter": "\t"}, ("a", 1, "x")),
        (b"k,n,s\na,1,'x,y'\n", {"quote": "'"}, ("a", 1, "x,y")),
        (b"k,n,s\na,1,x\\,y\n", {"escape": "\\"}, ("a", 1, "x,y")),
        (b"k,n,s\na,NA,-\n", {"null": ["NA", "-"]}, ("a", None, None)),
        (b'k,n,s\na,1,"NA"\n', {"null": ["NA"]}, ("a", 1, "NA")),
        ("k,n,s\na,1,caf\xe9\n".encode("latin-1"), {"encoding": "latin-1"}, ("a", 1, "caf\xe9")),
        ("k,n,s\na,1,\u0416\n".encode("utf-16"), {"encoding": "utf-16"}, ("a", 1, "\u0416")),
        (b"a,1,x\n", {"names": ["k", "n", "s"]}, ("a", 1, "x")),
        (b"Key,Number,Text\na,1,x\n", {"names": ["k", "n", "s"], "header": True}, ("a", 1, "x")),
    ],
)
def test_csv_files_are_read_as_they_are_written(
    graph: og.Graph, tmp_path: Path, text: bytes, options: dict[str, Any], expected: tuple[Any, ...]
) -> None:
    (tmp_path / "t.csv").write_bytes(text)
    graph.load({"T": tmp_path / "t.csv"}, mode="append", csv=options)
    assert rows(graph) == [expected]
    graph.publish(graph.stage({"T": tmp_path / "t.csv"}, mode="overwrite", csv=options))
    assert rows(graph) == [expected]


def test_rows_of_files_without_a_header_are_counted_from_their_first(graph: og.Graph, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,1,x\nb,2\nc,y,z\n")
    found: list[Any] = []
    options = {"names": ["k", "n", "s"]}
    graph.load({"T": tmp_path / "t.csv"}, mode="append", csv=options, rejects=found.append, max_rejects=2)
    assert [(each["line"], each["rule"], each["table_key"]) for each in found] == [
        (2, "record", "node:T"),
        (3, "type", "node:T"),
    ]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"delimeter": ";"}, "delimiter"),
        ({"delimiter": ";;"}, "one character"),
        ({"delimiter": "\n"}, "one character"),
        ({"quote": 1}, "one character"),
        ({"null": "NA"}, "a list of texts"),
        ({"names": [1]}, "a list of texts"),
        ({"header": "no"}, "True or False"),
        ({"header": False}, "needs the option `names`"),
        ({"encoding": "nope"}, "encoding"),
        ({"encoding": "\0"}, "encoding"),
        ({7: 1}, "is no option"),
        ([("delimiter", ";")], "mapping"),
    ],
)
def test_wrong_options_are_refused(graph: og.Graph, tmp_path: Path, options: Any, text: str) -> None:
    (tmp_path / "t.csv").write_text("k\na\n")
    for act in (graph.load, graph.stage):
        with pytest.raises(errors.BadRequest, match=text):
            act({"T": tmp_path / "t.csv"}, mode="append", csv=options)


def test_a_text_that_is_not_of_the_encoding_is_told(graph: og.Graph, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b"k\ncaf\xe9\n")
    with pytest.raises(errors.BadRequest, match="node:T"):
        graph.load({"T": tmp_path / "t.csv"}, mode="append")
    with pytest.raises(errors.BadRequest, match="node:T"):
        graph.load({"T": tmp_path / "t.csv"}, mode="append", csv={"encoding": "ascii"})


def test_extra_columns_are_refused_or_skipped(graph: og.Graph, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("k,other,n\na,1,2\n")
    table = pa.table({"src": ["a"], "dst": ["a"], "weight": [1], "_rowid": [1]})
    with pytest.raises(errors.BadRequest, match="extra_columns='skip'"):
        graph.load({"T": tmp_path / "t.csv"}, mode="append")
    graph.load({"T": tmp_path / "t.csv", "E": table}, mode="append", extra_columns="skip")
    assert rows(graph) == [("a", 2, None)]
    with pytest.raises(errors.BadRequest, match="extra_columns is 'drop'"):
        graph.load({"T": tmp_path / "t.csv"}, mode="append", extra_columns="drop")  # type: ignore[arg-type]
    for options in ({"extra_columns": "skip"}, {"csv": {"delimiter": ";"}}):
        with pytest.raises(errors.BadRequest, match="are for tables"):
            graph.load('{"type": "T", "data": {"k": "x"}}', mode="append", **options)


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (b"k;n;s\na;1;x\n", {"delimiter": ";"}),
        (b"k\tn\ts\na\t1\tx\n", {"delimiter": "\t"}),
        (b"k|n|s\na|1|x\n", {"delimiter": "|"}),
        (b"k,n,s\na,1,caf\xe9\n", {"encoding": "latin-1"}),
        ("k,n,s\na,1,caf\xe9\n".encode("utf-16"), {"encoding": "utf-16"}),
        (b"k,n,caf\xe9\na,1,x\n", {"encoding": "latin-1"}),
    ],
)
def test_a_file_that_is_written_otherwise_is_told_the_option(
    graph: og.Graph, tmp_path: Path, text: bytes, options: dict[str, str]
) -> None:
    (tmp_path / "t.csv").write_bytes(text)
    with pytest.raises(errors.BadRequest, match="node:T") as caught:
        graph.load({"T": tmp_path / "t.csv"}, mode="append")
    assert f"csv={json.dumps(options)}" in str(caught.value.hint)
    graph.load({"T": tmp_path / "t.csv"}, mode="append", csv=options, extra_columns="skip")
