"""Invariants of derived state: it changes speed and nothing else."""

import gc
import shutil
import threading
from pathlib import Path

import pytest

import omnigraph_sql as og
from omnigraph_sql.storage.derived_files import derived_directory
from omnigraph_sql.topology.cache import INDEXES
from tests.cost.counting import cost
from tests.crash.world import place_of
from tests.indexes import build_btrees
from tests.internals import cached_adjacencies, cached_tables, clear_topology, open_derived_files, store_of
from tests.stores import Place
from tests.unit.topology.world import QUESTIONS, check, check_all_ways, lane, made, port, question


def contents(graph: og.Graph) -> dict[str, tuple[int, bytes]]:
    """Time and bytes of every file, those included that a graph on an object store keeps in a directory."""
    places: list[Place] = [place_of(graph), derived_directory(graph.uri)]
    files = [path for place in places for path in place.rglob("*") if path.is_file()]
    return {str(path): (path.stat().st_mtime_ns, path.read_bytes()) for path in files}


@pytest.mark.parametrize("indexed", ["", "node:Port", "edge:Lane", "all"])
def test_invariant_49_answers_are_equal_with_all_some_or_no_indexes_and_on_both_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, indexed: str
) -> None:
    graph = made(tmp_path / "g")
    if indexed:
        build_btrees(graph, lambda key: indexed in (key, "all"))
    check_all_ways(graph, monkeypatch)


def test_invariant_49_partial_coverage_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = made(tmp_path / "g")
    build_btrees(graph)
    graph.load([port("G"), lane("G", "A"), lane("B", "G")], mode="append")
    graph.mutate('query q() { update Port set { depth: 8.0 } where code = "C" }')

    check_all_ways(graph, monkeypatch)


def test_invariant_53_no_more_than_eight_adjacencies_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMNIGRAPH_TRAVERSAL_MODE", "csr")
    graph = made(tmp_path / "g")
    for number in range(INDEXES + 3):
        graph.load([lane("A", "F", nm=number)], mode="append")
        graph.query(question("hop"))

    assert len(cached_adjacencies(graph)) == INDEXES == 8


def test_invariant_53_a_changed_edge_table_is_read_and_an_unforked_branch_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMNIGRAPH_TRAVERSAL_MODE", "csr")
    graph = made(tmp_path / "g")
    graph.query(question("hop"))
    graph.create_branch("draft")
    before = cached_adjacencies(graph)

    on_branch = cost(graph, graph.query, question("hop"), branch="draft")
    assert not [call for call in on_branch if call.startswith(("tables.", "derived."))]
    assert cached_adjacencies(graph) == before

    graph.load([lane("A", "F")], mode="append", branch="draft")
    forked = cost(graph, graph.query, question("hop"), branch="draft")
    assert forked["tables.rows"] >= 1
    assert len(cached_adjacencies(graph)) == 2


@pytest.mark.parametrize("mode", ["csr", "indexed", ""])
def test_invariant_54_a_warm_query_opens_no_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    monkeypatch.setenv("OMNIGRAPH_TRAVERSAL_MODE", mode)
    graph = made(tmp_path / "g")
    for name in QUESTIONS:
        graph.query(question(name))
        graph.query(question(name))

    for name in QUESTIONS:
        warm = cost(graph, graph.query, question(name))
        assert "tables.open" not in warm
        assert warm["manifest.probe"] == 1
        if mode != "indexed":
            assert warm == {"manifest.probe": 1}


def test_invariant_62_deleting_derived_files_changes_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = made(tmp_path / "g")
    monkeypatch.setenv("OMNIGRAPH_TRAVERSAL_MODE", "csr")
    check(graph)
    derived = derived_directory(graph.uri)
    assert derived.exists()
    shutil.rmtree(derived)

    check(graph)
    check_all_ways(graph, monkeypatch)


def test_invariant_62_a_read_only_handle_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = made(tmp_path / "g")
    for derived in (False, True):
        if derived:
            monkeypatch.setenv("OMNIGRAPH_TRAVERSAL_MODE", "csr")
            check(writer)
            writer.load([lane("A", "F")], mode="append")
        before = contents(writer)
        assert before
        for mode in ("csr", "indexed", ""):
            monkeypatch.setenv("OMNIGRAPH_TRAVERSAL_MODE", mode)
            with og.connect(writer.uri, read_only=True) as reader:
                check(reader, writer)
        assert contents(writer) == before


def test_dropping_what_is_in_memory_changes_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMNIGRAPH_CACHE_BYTES", "1")
    graph = made(tmp_path / "g")

    check_all_ways(graph, monkeypatch)

    assert cached_tables(graph) == 1


def test_what_is_dropped_is_let_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMNIGRAPH_TRAVERSAL_MODE", "csr")
    graph = made(tmp_path / "g")
    check(graph)
    clear_topology(graph)
    gc.collect()

    assert open_derived_files(graph) == 0


@pytest.mark.parametrize("mode", ["csr", ""])
def test_concurrent_readers_build_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    monkeypatch.setenv("OMNIGRAPH_TRAVERSAL_MODE", mode)
    graph = made(tmp_path / "g")
    start = threading.Barrier(8)
    failures: list[BaseException] = []

    def read() -> None:
        try:
            start.wait()
            check(graph)
        except BaseException as error:  # handed to the test
            failures.append(error)

    threads = [threading.Thread(target=read) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert failures == []
    if mode == "csr":
        assert store_of(graph).storage.derived.calls["write"] == 4, "two edge types, two node types"
