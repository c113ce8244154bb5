"""One hop: the destinations of a frontier, in one piece and in many."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph_udfs.csr import build, distinct, transpose, undirected
from omnigraph_udfs.expand import expand, expand_few, functional, has_edge
from tests.unit.udfs.graphs import DIRECTIONS, Graph, frontiers, graphs, listed


@given(st.data(), graphs(), DIRECTIONS)
def test_destinations_are_the_neighbours_of_each_row(data: st.DataObject, graph: Graph, direction: str) -> None:
    frontier = data.draw(frontiers(graph))

    found = expand(graph.adjacency(direction), frontier)

    expected = [sorted(graph.neighbours(vertex, direction)) if vertex >= 0 else [] for vertex in frontier]
    assert found.to_list().to_pylist() == expected
    assert listed(found.rows().tolist(), found.targets.tolist(), len(frontier)) == expected
    assert found.edges is None


@given(st.data(), graphs(), DIRECTIONS)
def test_with_edges_there_is_one_destination_per_stored_edge(data: st.DataObject, graph: Graph, direction: str) -> None:
    frontier = data.draw(frontiers(graph))
    out = graph.stored()
    csr = {"out": out, "in": transpose(out), "both": undirected(out, transpose(out))}[direction]

    found = expand(csr, frontier)

    assert found.edges is not None
    triples = list(zip(found.rows().tolist(), found.targets.tolist(), found.edges.tolist(), strict=True))
    assert triples == [
        (row, *pair) for row, vertex in enumerate(frontier) if vertex >= 0 for pair in graph.touching(vertex, direction)
    ]


@given(st.data(), graphs(), DIRECTIONS, st.integers(0, 9))
def test_more_destinations_than_asked_for_are_none(data: st.DataObject, graph: Graph, direction: str, most: int) -> None:
    frontier = data.draw(frontiers(graph))
    csr = graph.adjacency(direction)

    few, whole = expand_few(csr, frontier, most=most), expand(csr, frontier)

    assert (few is None) == (len(whole.targets) > most)
    assert few is None or few.to_list() == whole.to_list()


@given(st.data(), graphs(), DIRECTIONS)
def test_an_edge_is_there_or_not(data: st.DataObject, graph: Graph, direction: str) -> None:
    ends = st.integers(-1, graph.vertices - 1)
    pairs = data.draw(st.lists(st.tuples(ends, ends), max_size=12))

    found = has_edge(graph.adjacency(direction), [source for source, _ in pairs], [target for _, target in pairs])

    assert found.tolist() == [
        source >= 0 and target >= 0 and target in graph.neighbours(source, direction) for source, target in pairs
    ]


@given(st.data(), graphs(), DIRECTIONS, st.booleans())
def test_edges_asked_for_in_runs(data: st.DataObject, graph: Graph, direction: str, held_is_source: bool) -> None:
    """One vertex many times in a row, with others that mostly ascend, are none, or begin again."""
    vertices = st.integers(-1, graph.vertices - 1)
    others = st.lists(st.integers(-1, graph.vertices - 1), min_size=1, max_size=9)
    runs = data.draw(st.lists(st.tuples(vertices, others, st.booleans()), min_size=1, max_size=8))
    pairs = [(one, other) for one, run, ascends in runs for other in (sorted(run) if ascends else run) * 5]
    pairs = pairs if held_is_source else [(other, one) for one, other in pairs]
    back = graph.adjacency({"out": "in", "in": "out", "both": "both"}[direction])
    given_pairs = [source for source, _ in pairs], [target for _, target in pairs]

    expected = [source >= 0 and target >= 0 and target in graph.neighbours(source, direction) for source, target in pairs]
    assert has_edge(graph.adjacency(direction), *given_pairs, back=back).tolist() == expected
    assert has_edge(graph.adjacency(direction), *given_pairs).tolist() == expected


def test_one_vertex_with_very_many_neighbours_in_a_run() -> None:
    """What is asked for lies far apart, so that it is searched for."""
    star = build([0] * 500, range(0, 1000, 2), sources=1000, width=1000)
    asked = list(range(0, 1000, 37))

    assert has_edge(star, [0] * len(asked), asked).tolist() == [each % 2 == 0 for each in asked]


@given(graphs())
def test_functional_edges_are_recognised(graph: Graph) -> None:
    targets = functional(graph.adjacency("out"))

    neighbours = [sorted(graph.neighbours(vertex, "out")) for vertex in range(graph.vertices)]
    if any(len(each) > 1 for each in neighbours):
        assert targets is None
    else:
        assert targets is not None
        assert targets.tolist() == [each[0] if each else -1 for each in neighbours]


def test_a_single_hop_with_parallel_edges_and_a_self_loop() -> None:
    lanes = build([0, 0, 0], [1, 1, 0], sources=2, width=2)  # A>B, A>B, A>A

    assert expand(distinct(lanes), [0]).targets.tolist() == [0, 1]
    assert expand(lanes, [0]).targets.tolist() == [0, 1, 1]


def test_opposite_edges_are_one_neighbour_but_two_edges() -> None:
    out = build([0, 1, 0], [1, 0, 0], sources=2, width=2)  # A>B, B>A, A>A
    both = undirected(out, transpose(out))

    assert expand(distinct(both), [0, 1]).to_list().to_pylist() == [[0, 1], [0]]
    found = expand(both, [0])
    assert found.edges is not None
    assert sorted(found.edges.tolist()) == [0, 1, 2]


def test_a_frontier_may_come_from_arrow_and_be_read_only() -> None:
    lanes = build([0, 1], [1, 0], sources=2, width=2)
    frontier = pa.array([1, 0, 1]).to_numpy()

    assert expand(lanes, frontier).targets.tolist() == [0, 1, 0]
    assert expand(lanes, np.array([1, 0], np.int32)).targets.tolist() == [0, 1]


def test_an_empty_frontier() -> None:
    lanes = build([0], [0], sources=1, width=1)

    assert expand(lanes, []).to_list().to_pylist() == []


def test_a_vertex_outside_the_adjacency_is_refused() -> None:
    lanes = build([0], [0], sources=1, width=1)

    with pytest.raises(IndexError, match="position 1 is out of range: there are 1 rows"):
        expand(lanes, [1])
    with pytest.raises(IndexError, match="position 7"):
        has_edge(lanes, [0], [7])
    with pytest.raises(TypeError, match="integers"):
        expand(lanes, [0.5])
    with pytest.raises(ValueError, match="every row needs both"):
        has_edge(lanes, [0], [0, 0])
