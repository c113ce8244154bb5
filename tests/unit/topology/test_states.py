"""Whatever happens to a graph, reads see what is there: in every mode, with and without what earlier versions left."""

from collections.abc import Callable
from pathlib import Path

import pytest

import omnigraph_sql as og
from tests.indexes import build_btrees
from tests.unit.topology.world import check, check_all_ways, home, lane, made, port, ship

CHANGES: dict[str, Callable[[og.Graph], object]] = {
    "edges are appended": lambda g: g.load([lane("F", "A"), lane("A", "B"), lane("F", "F")], mode="append"),
    "nodes are appended": lambda g: g.load([port("A0"), port("Z"), ship("Cy")], mode="append"),
    "nodes and edges are appended": lambda g: g.load(
        [port("0"), lane("0", "A"), lane("C", "0"), ship("Di"), home("Di", "0")], mode="append"
    ),
    "a node is updated": lambda g: g.mutate('query q() { update Port set { depth: 9.0 } where code = "B" }'),
    "an edge is replaced": lambda g: g.load([lane("A", "B", id="l1", nm=99)], mode="merge"),
    "an edge is deleted": lambda g: g.mutate('query q() { delete Lane where from = "C" }'),
    "a node is deleted with its edges": lambda g: g.mutate('query q() { delete Port where code = "B" }'),
    "a node without edges is deleted": lambda g: g.mutate('query q() { delete Port where code = "F" }'),
    "nodes are upserted": lambda g: g.load([port("C", depth=1.5), port("Y", depth=2.5)], mode="merge"),
    "edges are overwritten": lambda g: g.load([lane("A", "F"), lane("F", "B")], mode="overwrite"),
    "nodes are overwritten": lambda g: g.load(
        [*(port(code) for code in "FEDCBA"), lane("A", "C"), ship("Ada"), home("Ada", "D")], mode="overwrite"
    ),
    "indexes are built": build_btrees,
    "some indexes are built": lambda g: build_btrees(g, lambda key: key == "edge:Lane"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_after_a_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str) -> None:
    graph = made(tmp_path / "g")
    monkeypatch.setenv("OMNIGRAPH_TRAVERSAL_MODE", "csr")
    check(graph)
    before = graph.snapshot().manifest_version

    CHANGES[change](graph)

    check_all_ways(graph, monkeypatch)
    check(graph, version=before)


def test_after_many_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = made(tmp_path / "g")
    order = ["nodes and edges are appended", "indexes are built", "a node is updated", "edges are appended"]
    order += ["an edge is deleted", "nodes are appended", "a node is deleted with its edges", "nodes are upserted"]
    monkeypatch.setenv("OMNIGRAPH_TRAVERSAL_MODE", "csr")
    for change in order:
        CHANGES[change](graph)
        check(graph)
    check_all_ways(graph, monkeypatch)


def test_on_a_branch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = made(tmp_path / "g")
    monkeypatch.setenv("OMNIGRAPH_TRAVERSAL_MODE", "csr")
    check(graph)
    graph.create_branch("draft")
    check(graph, branch="draft")

    graph.load([lane("F", "E"), port("G")], mode="append", branch="draft")
    check_all_ways(graph, monkeypatch, branch="draft")
    graph.mutate('query q() { update Port set { depth: 7.0 } where code = "A" }', branch="draft")
    check_all_ways(graph, monkeypatch, branch="draft")
    check(graph)


def test_on_a_branch_that_was_deleted_and_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its tables get the versions that the old ones had, with other rows."""
    graph = made(tmp_path / "g")
    for target in "EF":
        graph.create_branch("draft")
        graph.load([lane("A", target)], mode="append", branch="draft")
        check_all_ways(graph, monkeypatch, branch="draft")
        graph.delete_branch("draft")


def test_a_graph_without_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = og.init(tmp_path / "g", "node Port { code: String @key depth: F64? }\nedge Lane: Port -> Port { nm: I32? }")
    for mode in ("csr", "indexed", ""):
        monkeypatch.setenv("OMNIGRAPH_TRAVERSAL_MODE", mode)
        for text in ("$p: Port $p lane $q", "$p: Port $p lane{1,3} $q", '$p: Port { code: "A" } $p $w:lane $q'):
            assert (
                graph.query(f"query q() {{ match {{ {text} }} return {{ $q.code }} order {{ $q.code }} }}").to_json() == []
            )
