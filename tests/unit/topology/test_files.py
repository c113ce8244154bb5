"""Derived files: written after a build, mapped when they fit, grown when rows were only added, and never trusted blindly."""

import shutil
from pathlib import Path

import pytest

import omnigraph_sql as og
from tests.cost.counting import Cost, cost
from tests.unit.topology.world import check, home, lane, made, port, question, ship


@pytest.fixture(autouse=True)
def _with_adjacency(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMNIGRAPH_TRAVERSAL_MODE", "csr")


def derived(graph: og.Graph) -> list[Path]:
    return sorted((Path(graph.uri) / "_derived").rglob("*.arrays"))


def asked(graph: og.Graph, name: str = "hop") -> Cost:
    return cost(graph, graph.query, question(name))


def test_a_build_is_kept_for_the_next_process(tmp_path: Path) -> None:
    graph = made(tmp_path / "g")
    first = asked(graph)
    files = derived(graph)

    with og.connect(graph.uri) as opened:
        second = asked(opened)

    assert [path.parent.name for path in files] == ["ids", "topology"]
    assert (first["derived.write"], second.get("derived.write", 0)) == (2, 0)
    assert second["tables.rows"] == 6, "the column that is shown is read, and nothing else"
    assert derived(graph) == files


def test_nothing_unfinished_is_left(tmp_path: Path) -> None:
    graph = made(tmp_path / "g")
    check(graph)

    assert [path for path in (tmp_path / "g" / "_derived").rglob("*") if path.is_file() and path.suffix != ".arrays"] == []


@pytest.mark.parametrize("content", [b"", b"something else", b"ARROW1\0\0", None])
def test_a_broken_file_is_made_again(tmp_path: Path, content: bytes | None) -> None:
    graph = made(tmp_path / "g")
    check(graph)
    for path in derived(graph):
        whole = path.read_bytes()
        path.write_bytes(whole[: len(whole) * 2 // 3] if content is None else content)

    with og.connect(graph.uri) as opened:
        check(opened, graph)
        assert cost(opened, check, opened) == cost(opened, check, opened)
    with og.connect(graph.uri) as again:
        assert "derived.write" not in cost(again, check, again)


def test_a_file_made_for_other_versions_is_not_used(tmp_path: Path) -> None:
    graph, other = made(tmp_path / "g"), made(tmp_path / "other")
    other.load([lane("F", "A"), lane("A", "C")], mode="append")
    check(graph)
    check(other)
    topologies = [[path for path in derived(each) if path.parent.name == "topology"] for each in (graph, other)]
    for path in topologies[0]:
        shutil.copy(topologies[1][0], path)

    with og.connect(graph.uri) as opened:
        check(opened, graph)


def test_a_directory_that_cannot_be_written_only_costs_time(tmp_path: Path) -> None:
    graph = made(tmp_path / "g")
    (tmp_path / "g" / "_derived").write_text("this is no directory")

    check(graph)

    with og.connect(graph.uri) as opened:
        check(opened, graph)


def test_added_rows_are_added(tmp_path: Path) -> None:
    """A later version is made from the file of an earlier one: only the new rows are read."""
    graph = made(tmp_path / "g")
    asked(graph)
    graph.load([lane("F", "A"), port("G")], mode="append")

    with og.connect(graph.uri) as opened:
        found = asked(opened)
        check(opened, graph)

    shown = 7  # codes of ports
    assert found["tables.rows"] == shown + 1 + 1


def test_edges_stay_when_nodes_change_places(tmp_path: Path) -> None:
    """An updated row moves to the end of its table. The edges are not read again for that."""
    graph = made(tmp_path / "g")
    asked(graph)
    graph.mutate('query q() { update Port set { depth: 1.0 } where code = "A" }')

    with og.connect(graph.uri) as opened:
        found = asked(opened)
        check(opened, graph)

    ids, shown = 6, 6
    assert found["tables.rows"] == ids + shown


def test_added_rows_are_added_in_memory_too(tmp_path: Path) -> None:
    writer = made(tmp_path / "g")
    reader = og.connect(writer.uri, read_only=True)
    asked(reader)
    writer.load([lane("F", "A")], mode="append")

    assert asked(reader)["tables.rows"] == 1, "one edge; the ports are the same"
    check(reader, writer)
    assert derived(writer) == []


def test_files_of_old_versions_go(tmp_path: Path) -> None:
    graph = made(tmp_path / "g")
    for number in range(8):
        graph.load([lane("A", "F"), port(f"n{number}"), ship(f"s{number}"), home(f"s{number}", "A")], mode="append")
        check(graph)

    kinds = [path.parent.name for path in derived(graph)]
    assert (kinds.count("topology"), kinds.count("ids")) == (8, 8), "four versions of two edge types and of two node types"
