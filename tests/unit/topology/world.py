"""A small graph with awkward edges, questions that go every way through it, and what they must answer."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import omnigraph_sql as og
from tests.property.oracle import OracleGraph, disagreement, evaluate

SCHEMA = """
node Port { code: String @key  depth: F64?  doc: Blob? }
node Ship { name: String @key }
edge Lane: Port -> Port { nm: I32? }
edge HomedAt: Ship -> Port
"""

QUESTIONS = {
    "hop": "$p: Port $p lane $q } return { $p.code, $q.code",
    "against": "$p: Port $q lane $p } return { $p.code, $q.code",
    "undirected": "$p: Port $p <lane> $q } return { $p.code, $q.code",
    "edges": "$p: Port $p $w:lane $q } return { $p.code, $q.code, $w.nm",
    "undirected edges": "$p: Port $p $w:<lane> $q } return { $p.code, $q.code, $w.nm",
    "reach": "$p: Port $p lane{1,3} $q } return { $p.code, $q.code",
    "far": "$p: Port $p lane{2,4} $q } return { $p.code, $q.code",
    "backwards": '$q: Port { code: "B" } $p: Port $p lane{2,3} $q } return { $p.code',
    "around": "$p: Port $p <lane>{2,2} $q } return { $p.code, $q.code",
    "none": "$p: Port not { $p lane $_ } } return { $p.code",
    "two types": "$s: Ship $s homedAt $p $p lane $q } return { $s.name, $q.code",
    "key": '$p: Port { code: "B" } $p lane $q } return { $q.code, $q.depth',
    "no key": '$p: Port { code: "nowhere" } $p lane $q } return { $q.code',
}


def question(name: str) -> str:
    return f"query q() {{ match {{ {QUESTIONS[name]} }} }}"


def port(code: str, **data: Any) -> str:
    return json.dumps({"type": "Port", "data": {"code": code, **data}})


def ship(name: str) -> str:
    return json.dumps({"type": "Ship", "data": {"name": name}})


def lane(source: str, target: str, **data: Any) -> str:
    return json.dumps({"edge": "Lane", "from": source, "to": target, "data": data})


def home(source: str, target: str) -> str:
    return json.dumps({"edge": "HomedAt", "from": source, "to": target})


def made(root: Path) -> og.Graph:
    """Loops, parallel and opposite edges, a port without lanes."""
    graph = og.init(root, SCHEMA)
    lanes = ["AB", "AB", "BA", "BC", "CC", "CD", "DA", "EB"]
    records = [
        *(port(code, depth=float(number)) for number, code in enumerate("ABCDEF")),
        *(lane(*ends, nm=number, id=f"l{number}") for number, ends in enumerate(lanes)),
        ship("Ada"),
        ship("Bee"),
        home("Ada", "A"),
        home("Bee", "C"),
    ]
    graph.load(records, mode="append")
    return graph


def check(graph: og.Graph, truth: og.Graph | None = None, **target: Any) -> None:
    """Every question is answered as the oracle answers it from the exported records."""
    of = truth or graph
    exported = {{"snapshot": "commit"}.get(name, name): value for name, value in target.items()}
    records = OracleGraph.from_records(of.catalog, of.export(**exported))
    for name in QUESTIONS:
        expected = evaluate(records, question(name), None, None).to_json()
        difference = disagreement(expected, graph.query(question(name), **target).to_json(), in_order=False)
        assert difference is None, f"{name}: {difference}"


def ways(graph: og.Graph, monkeypatch: pytest.MonkeyPatch, *, read_only: bool = False) -> Iterator[og.Graph]:
    """The graph as it is and freshly opened, in each mode."""
    for mode in ("csr", "indexed", ""):
        monkeypatch.setenv("OMNIGRAPH_TRAVERSAL_MODE", mode)
        yield graph
        with og.connect(graph.uri, read_only=read_only) as opened:
            yield opened


def check_all_ways(graph: og.Graph, monkeypatch: pytest.MonkeyPatch, **target: Any) -> None:
    """Every question in each mode, with what is in memory and without."""
    for opened in ways(graph, monkeypatch):
        check(opened, graph, **target)
