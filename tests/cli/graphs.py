"""Graphs for the tests of the commands that work on one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.cli.ogsql import SCHEMA, Finished, ogsql

RECORDS: list[dict[str, Any]] = [
    {"type": "Port", "data": {"code": "BEANR", "depth": 16.0}},
    {"type": "Port", "data": {"code": "NLRTM"}},
    {"edge": "Lane", "from": "BEANR", "to": "NLRTM"},
]
DREDGE = "query dredge($code: String, $depth: F64) { update Port set { depth: $depth } where code = $code }"


def jsonl(records: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


def make_graph(folder: Path) -> Path:
    """A graph with two ports and a lane, made by the executable; its files are left beside it."""
    (folder / "ports.pg").write_text(SCHEMA)
    (folder / "ports.jsonl").write_text(jsonl(RECORDS))
    done(ogsql("init", "graph", "--schema", "ports.pg", "--quiet", cwd=folder))
    load = ("load", "graph", "--data", "ports.jsonl", "--mode", "append", "--as", "ada", "--message", "first load")
    done(ogsql(*load, "--quiet", cwd=folder))
    return folder / "graph"


def done(result: Finished) -> Finished:
    """The result of a command that must have worked."""
    assert result.status == 0, result
    return result


def depths(graph: Path, branch: str = "main") -> dict[str, float | None]:
    """What the graph knows about its ports."""
    result = done(ogsql("export", graph, "--branch", branch, "--type", "Port"))
    rows = [json.loads(line)["data"] for line in result.out.splitlines()]
    return {row["code"]: row.get("depth") for row in rows}


def history(graph: Path, branch: str = "main") -> list[dict[str, Any]]:
    commits: list[dict[str, Any]] = done(ogsql("commit", "list", graph, "--branch", branch, "--json")).document["commits"]
    return commits
