"""What names a state of a graph: odd values end in typed errors at every entry, and soon."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import omnigraph_sql as og
from omnigraph_sql.errors import BadRequest, NotFound, OmnigraphError
from omnigraph_sql.graph import resumption
from tests.cli.ogsql import ogsql
from tests.stores import Place

SCHEMA = "node Port { code: String @key }\nedge Lane: Port -> Port"
QUERY = "query q() { match { $p: Port } return { $p.code } }"
ODD: dict[str, Any] = {
    "bytes": b"x",
    "list": ["x"],
    "dict": {"a": 1},
    "object": object(),
    "surrogate": "\ud800",
    "nul": "a\0b",
    "newline": "a\nb",
    "long": "x" * 70_000,
    "set": {1},
    "tuple": (1, None),
    "empty": "",
    "dot": ".",
    "parent": "../x",
    "tag": "v1",
    "class": int,
    "true": True,
    "float": 3.0,
    "not a number": float("nan"),
    "zero": 0,
    "negative": -1,
    "wide": 2**70,
    "wider": 10**5000,
    "unsigned": 2**64 - 1,
    "absent": 999_999,
    "quote": "a' OR '1'='1",
    "accents": "é" * 100,
}
READS: dict[str, Callable[..., Any]] = {
    "snapshot": lambda graph, **state: graph.snapshot(**state),
    "query": lambda graph, **state: graph.query(QUERY, **state).to_pylist(),
    "explain": lambda graph, **state: graph.explain(QUERY, **state),
    "duckdb query": lambda graph, **state: graph.query(QUERY, engine="duckdb", **state).to_pylist(),
    "sql": lambda graph, **state: graph.sql("select count(*) as n from Port", **state).to_pylist(),
    "duckdb sql": lambda graph, **state: graph.sql("select count(*) as n from Port", engine="duckdb", **state).to_pylist(),
    "session": lambda graph, **state: graph.datafusion(**state).sql("select count(*) as n from Port").to_pylist(),
    "duckdb session": lambda graph, **state: graph.duckdb(**state).sql("select count(*) as n from Port").fetchall(),
    "export": lambda graph, **state: list(graph.export(**state)),
    "entity_at": lambda graph, **state: graph.entity_at("node:Port", "a", **state),
}
BY_SNAPSHOT = ("query", "explain", "duckdb query", "sql", "duckdb sql", "session", "duckdb session")
"""The reads that call a commit a snapshot."""
STATES: dict[str, Callable[[og.Graph, Any], Any]] = {
    "diff from": lambda graph, value: graph.diff(value, "main"),
    "diff to": lambda graph, value: graph.diff("main", value),
    "commit": lambda graph, value: graph.commit(value),
    "commits": lambda graph, value: graph.commits(value),
    "load": lambda graph, value: graph.load([], mode="append", branch=value),
    "mutate": lambda graph, value: graph.mutate('query q() { insert Port { code: "z" } }', branch=value),
    "if_commit": lambda graph, value: graph.mutate('query q() { insert Port { code: "z" } }', if_commit=value),
    "stage": lambda graph, value: graph.stage([], mode="append", branch=value),
    "published": lambda graph, value: resumption.published_commit(graph, "key", value),
    "tables": lambda graph, value: graph.tables(value).create_schema("s"),
    "create from": lambda graph, value: graph.create_branch("new", value),
    "delete": lambda graph, value: graph.delete_branch(value),
    "tag of": lambda graph, value: graph.tag("new", value),
    "delete tag": lambda graph, value: graph.delete_tag(value),
    "restore": lambda graph, value: graph.restore(value),
    "indices": lambda graph, value: graph.ensure_indices(value),
}
TEXTS: dict[str, Callable[[og.Graph, str], Any]] = {
    "named table": lambda graph, text: graph.sql(f'select * from "{text}"."Port"').to_pylist(),
    "version of main": lambda graph, text: graph.sql(f'select * from "main@{text}"."Port"').to_pylist(),
    "commit of a table": lambda graph, text: graph.sql(f'select * from "@{text}"."Port"').to_pylist(),
    "duckdb table": lambda graph, text: graph.sql(f'select * from "{text}"."Port"', engine="duckdb").to_pylist(),
    "function": lambda graph, text: graph.sql("select * from changes($r, 'main')", {"r": text}).to_pylist(),
    "ref of a diff": lambda graph, text: graph.diff(f"main@{text}", "main"),
    "commit of a diff": lambda graph, text: graph.diff(f"@{text}", "main"),
}


@pytest.fixture(scope="module")
def graph(new_place: Callable[[str], Place]) -> og.Graph:
    made = og.init(new_place("refs") / "g", SCHEMA)
    made.load([json.dumps({"type": "Port", "data": {"code": "a"}})], mode="append")
    return made


def refused(act: Callable[[], Any]) -> OmnigraphError:
    with pytest.raises(OmnigraphError) as error:
        act()
    assert error.value.kind not in ("internal", "storage"), error.value
    assert len(str(error.value)) < 2000
    str(error.value).encode()
    return error.value


@pytest.mark.parametrize("value", ODD.values(), ids=ODD.keys())
@pytest.mark.parametrize("read", READS)
def test_odd_states_are_refused_by_every_read(graph: og.Graph, read: str, value: Any) -> None:
    commit = "snapshot" if read in BY_SNAPSHOT else "commit"
    for name in ("branch", "version", commit):
        error = refused(lambda: READS[read](graph, **{name: value}))  # noqa: B023
        assert isinstance(error, BadRequest | NotFound), error


@pytest.mark.parametrize("value", ODD.values(), ids=ODD.keys())
@pytest.mark.parametrize("entry", STATES)
def test_odd_states_are_refused_by_every_other_entry(graph: og.Graph, entry: str, value: Any) -> None:
    before = graph.snapshot().commit_id

    refused(lambda: STATES[entry](graph, value))

    assert graph.snapshot().commit_id == before
    assert graph.branches() == ["main"]


@pytest.mark.parametrize("name", [name for name, value in ODD.items() if isinstance(value, str)])
@pytest.mark.parametrize("entry", TEXTS)
def test_odd_states_are_refused_where_a_statement_names_them(graph: og.Graph, entry: str, name: str) -> None:
    refused(lambda: TEXTS[entry](graph, ODD[name]))


@pytest.mark.parametrize(
    "number", ["0", "00", "99999999999999999999", "9" * 5000, "-1", "1.0", "٣", "1_0"], ids=lambda value: ascii(value)[:20]
)
def test_numbers_that_are_no_versions(graph: og.Graph, number: str) -> None:
    for entry in ("version of main", "ref of a diff"):
        refused(lambda: TEXTS[entry](graph, number))  # noqa: B023


def test_a_version_may_be_any_whole_number(graph: og.Graph) -> None:
    version = graph.snapshot().manifest_version

    assert graph.snapshot(version=np.int32(version)) == graph.snapshot(version=version)  # type: ignore[arg-type]


@pytest.mark.local
@pytest.mark.parametrize("number", ["-1", str(2**70), "9" * 5000], ids=["negative", "wide", "wider"])
@pytest.mark.parametrize("option", ["--at-version", "--snapshot", "--branch"])
def test_the_command_line_refuses_them_too(graph: og.Graph, option: str, number: str) -> None:
    for command in (["query", graph.uri, "-e", QUERY], ["sql", graph.uri, "select 1 from Port"], ["export", graph.uri]):
        if command[0] == "export" and option == "--snapshot":
            continue
        result = ogsql(*command, option, number)
        assert result.status != 0
        assert "defect" not in result.err
        assert "Traceback" not in result.err


# Names of new branches -----------------------------------------------------------------------------------------------


def contents(root: Place) -> list[str]:
    return sorted(str(path) for path in root.rglob("*"))


@pytest.mark.parametrize(
    "name",
    [
        ".",
        "a/.",
        "./a",
        "a/./b",
        "..",
        "a/..",
        "a/../b",
        "a//b",
        "/a",
        "a/",
        "",
        " ",
        "a b",
        "a\nb",
        "a\0b",
        "a@1",
        "a:b",
        "a.lock",
        "main",
        "__schema_apply_lock__",
        "\ud800",
        "x" * 201,
        "x" * 70_000,
        "é" * 21,
        "/".join("x" * 60),
        7,
        None,
        b"x",
    ],
    ids=lambda value: ascii(value)[:20],
)
def test_a_name_that_cannot_be_a_branch_is_refused_before_anything_is_written(tmp_path: Path, name: Any) -> None:
    graph = og.init(tmp_path / "g", SCHEMA)
    before = contents(tmp_path)

    assert isinstance(refused(lambda: graph.create_branch(name)), BadRequest)

    assert contents(tmp_path) == before


@pytest.mark.parametrize(
    "name", ["x" * 200, "é" * 20, "a/" * 33 + "b", ".hidden", "a.b", "-", "_"], ids=lambda value: ascii(value)[:20]
)
def test_a_name_of_the_greatest_length_works_in_everything(place: Place, name: str) -> None:
    long = "T" + "t" * 90
    graph = og.init(place / "g", f"node {long} {{ code: String @key }}\nedge Lane: {long} -> {long}")
    graph.create_branch(name)
    for code in "ab":
        graph.load([json.dumps({"type": long, "data": {"code": code}})], mode="merge", branch=name)
    graph.create_branch("other", name)
    graph.load([json.dumps({"type": long, "data": {"code": "c"}})], mode="append", branch="other")
    again = og.connect(graph.uri)

    assert len(list(again.export(branch=name))) == 2
    assert len(list(again.export(branch="other"))) == 3
    assert again.sql(f'select count(*) as n from "{name}"."{long}"').to_pylist() == [{"n": 2}]
    again.delete_branch("other")
    again.delete_branch(name)
    assert again.branches() == ["main"]
