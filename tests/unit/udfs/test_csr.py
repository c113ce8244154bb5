"""Adjacency arrays hold exactly the edges, in order, however they came about."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph_udfs.csr import Csr, build, distinct, extend, transpose, undirected
from tests.unit.udfs.graphs import DIRECTIONS, Graph, graphs


def entries(csr: Csr) -> list[list[tuple[int, int]]]:
    """Neighbour and edge, for each vertex."""
    assert csr.edges is not None
    pairs = list(zip(csr.targets.tolist(), csr.edges.tolist(), strict=True))
    return [pairs[low:high] for low, high in zip(csr.offsets[:-1].tolist(), csr.offsets[1:].tolist(), strict=True)]


def same(first: Csr, second: Csr) -> None:
    assert first.width == second.width
    assert first.offsets.tolist() == second.offsets.tolist()
    assert first.targets.tolist() == second.targets.tolist()
    assert (first.edges is None) == (second.edges is None)
    if first.edges is not None and second.edges is not None:
        assert first.edges.tolist() == second.edges.tolist()


@given(graphs(), DIRECTIONS)
def test_every_stored_edge_is_there_once_sorted_by_neighbour_then_edge(graph: Graph, direction: str) -> None:
    out = graph.stored()
    csr = {"out": out, "in": transpose(out), "both": undirected(out, transpose(out))}[direction]

    assert entries(csr) == [graph.touching(vertex, direction) for vertex in range(graph.vertices)]
    assert csr.degrees().tolist() == [len(graph.touching(vertex, direction)) for vertex in range(graph.vertices)]


@given(graphs(), DIRECTIONS)
def test_distinct_neighbours_are_a_sorted_set(graph: Graph, direction: str) -> None:
    csr = graph.adjacency(direction)

    found = [csr.targets[low:high].tolist() for low, high in zip(csr.offsets[:-1], csr.offsets[1:], strict=True)]
    assert found == [sorted(graph.neighbours(vertex, direction)) for vertex in range(graph.vertices)]
    assert csr.edges is None


@given(st.data(), graphs())
def test_an_extended_adjacency_equals_one_built_anew(data: st.DataObject, graph: Graph) -> None:
    cut = data.draw(st.integers(0, len(graph.edges)))
    more = data.draw(st.integers(0, 2))
    before = Graph(graph.vertices, graph.edges[:cut]).stored()
    after = graph.stored().resized(sources=graph.vertices + more, width=graph.vertices + more)
    source, target = [edge[0] for edge in graph.edges[cut:]], [edge[1] for edge in graph.edges[cut:]]

    extended = extend(before, source, target, sources=graph.vertices + more, width=graph.vertices + more, first_edge=cut)

    same(extended, after)


@given(graphs())
def test_transposing_twice_changes_nothing(graph: Graph) -> None:
    out = graph.stored()

    same(transpose(transpose(out)), out)
    same(transpose(distinct(out)), distinct(transpose(out)))


def test_edges_between_two_types() -> None:
    homes = build([0, 2, 1], [4, 4, 0], sources=3, width=5)

    assert entries(homes) == [[(4, 0)], [(0, 2)], [(4, 1)]]
    assert entries(transpose(homes)) == [[(1, 2)], [], [], [], [(0, 0), (2, 1)]]


def test_an_edge_whose_vertex_is_missing_is_left_out_and_the_others_keep_their_numbers() -> None:
    assert entries(build([0, -1, 0, 1], [1, 1, -1, 0], sources=2, width=2)) == [[(1, 0)], [(0, 3)]]


def test_no_edges_and_no_vertices() -> None:
    empty = build([], [], sources=0, width=0)

    assert (empty.size, empty.sources, empty.width) == (0, 0, 0)
    same(distinct(transpose(empty)), Csr(np.zeros(1, np.int64), np.empty(0, np.int32), None, 0))
    assert undirected(empty, empty).size == 0


def test_millions_of_edges_are_sorted_by_all_cores_as_by_one() -> None:
    random = np.random.default_rng(5)
    src, dst = random.integers(0, 1000, 2_500_000), random.integers(0, 1000, 2_500_000)

    csr = build(src, dst, sources=1000, width=1000)

    order = np.lexsort((dst, src))
    assert csr.edges is not None
    assert (csr.targets == dst[order]).all()
    assert (csr.edges == order).all()
    assert (csr.degrees() == np.bincount(src, minlength=1000)).all()


def test_without_parallel_edges_the_set_of_neighbours_shares_the_arrays() -> None:
    out = build([0, 1], [1, 0], sources=2, width=2)

    assert np.shares_memory(distinct(out).targets, out.targets)


def test_the_arrays_cannot_be_written() -> None:
    out = build([0], [0], sources=1, width=1)

    with pytest.raises(ValueError, match="read-only"):
        out.targets[0] = 5


@given(graphs(), DIRECTIONS)
def test_wide_indexes_say_the_same_as_narrow_ones(graph: Graph, direction: str) -> None:
    narrow = graph.stored()
    assert narrow.edges is not None
    wide = replace(narrow, targets=narrow.targets.astype(np.int64), edges=narrow.edges.astype(np.int64))

    same(transpose(wide), transpose(narrow))
    same(distinct(wide), distinct(narrow))
    same(undirected(wide, transpose(wide)), undirected(narrow, transpose(narrow)))
    assert graph.adjacency(direction).targets.dtype == np.int32
    assert wide.targets.dtype == np.int64


@pytest.mark.parametrize(
    ("src", "dst", "message"),
    [([0], [2], "out of the 2 x 2"), ([2], [0], "out of the 2 x 2"), ([0, 1], [0], "2 sources and 1 targets")],
)
def test_ends_that_do_not_fit_are_refused(src: list[int], dst: list[int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build(src, dst, sources=2, width=2)


def test_what_needs_stored_edges_says_so() -> None:
    stored = build([0], [1], sources=2, width=2)

    with pytest.raises(ValueError, match="stored edges"):
        undirected(distinct(stored), transpose(stored))
    with pytest.raises(ValueError, match="stored edges"):
        extend(distinct(stored), [0], [0], sources=2, width=2, first_edge=1)
    with pytest.raises(ValueError, match="one type"):
        undirected(build([0], [1], sources=1, width=2), build([1], [0], sources=2, width=1))
    with pytest.raises(ValueError, match="cannot shrink from 2 x 2 to 1 x 2"):
        stored.resized(sources=1, width=2)
