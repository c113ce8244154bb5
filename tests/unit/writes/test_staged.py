"""Staged loads: validated here, published by another process."""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

import omnigraph_sql as og
from omnigraph_sql import errors
from omnigraph_sql.choices import LoadMode
from omnigraph_sql.writes.load.staged_load import StagedLoad
from tests.stores import Place

SCHEMA = """
node Port { code: String @key  depth: F64?  place: Vector(2)?  tags: [String]?  photo: Blob? }
edge Lane: Port -> Port { nm: I32? }
"""
FIRST: list[dict[str, Any]] = [
    {"type": "Port", "data": {"code": "A", "depth": 1, "tags": ["x"], "place": [1, 2], "photo": "base64:aGk="}},
    {"type": "Port", "data": {"code": "B"}},
    {"edge": "Lane", "from": "A", "to": "B", "data": {"id": "l1", "nm": 5}},
]
NEXT: dict[str, list[dict[str, Any]]] = {
    "append": [{"type": "Port", "data": {"code": "C", "tags": ["y"]}}, {"edge": "Lane", "from": "A", "to": "C"}],
    "merge": [
        {"type": "Port", "data": {"code": "A", "depth": 9, "photo": "base64:aG8="}},
        {"type": "Port", "data": {"code": "C"}},
    ],
    "overwrite": [
        {"type": "Port", "data": {"code": "B", "place": [3, 4]}},
        {"edge": "Lane", "from": "B", "to": "B", "data": {"id": "l2"}},
    ],
}
PUBLISH = """
import sys
import omnigraph_sql as og
from omnigraph_sql.writes.load.staged_load import StagedLoad
with og.connect(sys.argv[1]) as graph:
    print(graph.publish(StagedLoad.from_json(sys.stdin.read())).graph_commit_id)
"""


def lines(records: Sequence[Mapping[str, Any]]) -> str:
    return "\n".join(json.dumps(record) for record in records)


@pytest.mark.parametrize("branch", ["main", "side"])
@pytest.mark.parametrize("mode", ["append", "merge", "overwrite"])
def test_another_process_publishes_what_was_staged_here(place: Place, mode: LoadMode, branch: str) -> None:
    graph, twin = og.init(place / "graph", SCHEMA), og.init(place / "twin", SCHEMA)
    for each in (graph, twin):
        each.load(lines(FIRST), mode="append")
        if branch != "main":
            each.create_branch(branch)
    before = list(graph.export(branch))

    staged = graph.stage(lines(NEXT[mode]), mode=mode, branch=branch, message="from afar")
    text = staged.to_json()
    assert list(graph.export(branch)) == before
    assert StagedLoad.from_json(text).to_json() == text
    done = subprocess.run(
        [sys.executable, "-c", PUBLISH, graph.uri], input=text, capture_output=True, text=True, check=True, timeout=120
    )

    twin.load(lines(NEXT[mode]), mode=mode, branch=branch)
    assert _named(graph, branch) == _named(twin, branch)
    assert graph.commits(branch)[0].graph_commit_id == done.stdout.strip()
    assert graph.commits(branch)[0].message == "from afar"
    assert not list((place / "graph" / "_staged").glob("*"))


def _named(graph: og.Graph, branch: str) -> list[tuple[str, ...]]:
    """The records without ids that were generated."""
    found = []
    for record in map(json.loads, graph.export(branch)):
        data = {name: value for name, value in record["data"].items() if name != "id" or len(value) < 26}
        found.append(tuple(map(str, [record.get("type"), record.get("from"), record.get("to"), sorted(data.items())])))
    return sorted(found)


@pytest.mark.parametrize(
    "damage",
    [
        lambda entry: entry["tables"][0]["staged"].__setitem__("transaction", {"read_version": 1, "uuid": "u"}),
        lambda entry: entry["tables"][0]["staged"].__setitem__("transaction", "gASVBQAAAAAAAAB9lC4="),
        lambda entry: entry["tables"][0]["staged"]["transaction"].__setitem__("append", {"fragments": [{"id": 0}]}),
        lambda entry: entry.__setitem__("format", 1),
        lambda entry: entry.pop("tables"),
    ],
)
def test_a_damaged_text_is_refused_and_changes_nothing(place: Place, damage: Any) -> None:
    graph = og.init(place / "graph", SCHEMA)
    entry = json.loads(graph.stage(lines(FIRST), mode="append").to_json())
    damage(entry)

    with pytest.raises(errors.BadRequest):
        graph.publish(StagedLoad.from_json(json.dumps(entry)))

    assert list(graph.export()) == []
    graph.load(lines(FIRST), mode="append")


@pytest.mark.parametrize("load_id", ["..", "", "../nodes", "."])
def test_a_staged_load_names_nothing_but_its_own_files(place: Place, load_id: str) -> None:
    graph = og.init(place / "graph", SCHEMA)
    graph.load(lines(FIRST), mode="append")
    graph.create_branch("side")
    before = list(graph.export())
    entry = json.loads(graph.stage(lines(NEXT["append"]), mode="append", branch="side").to_json())
    with pytest.raises(errors.BadRequest, match="not a staged load"):
        StagedLoad.from_json(json.dumps({**entry, "load_id": load_id}))
    for table in entry["tables"]:
        table["spool"] = "_staged/../_schema.pg"
    with pytest.raises(errors.BadRequest, match="outside of its directory"):
        StagedLoad.from_json(json.dumps(entry))
    assert list(graph.export()) == before


def test_a_publish_is_repeated_after_its_rows_are_gone(place: Place) -> None:
    graph = og.init(place / "graph", SCHEMA)
    graph.load(lines(FIRST), mode="append")
    graph.create_branch("side")
    staged = graph.stage(lines(NEXT["append"]), mode="append", branch="side")
    first = graph.publish(staged, idempotency_key="once")
    content = list(graph.export("side"))
    assert graph.publish(staged, idempotency_key="once") == first
    assert list(graph.export("side")) == content
    with pytest.raises(errors.ExpectedVersionMismatch):
        graph.publish(staged)
