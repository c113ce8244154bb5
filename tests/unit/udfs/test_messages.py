"""Aggregates over neighbours equal those over the rows a traversal would give."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph_udfs.csr import build
from omnigraph_udfs.path_aggregates import sum_edges, sum_over
from tests.unit.udfs.graphs import DIRECTIONS, Graph, graphs


@given(st.data(), graphs(), DIRECTIONS)
def test_sums_and_counts(data: st.DataObject, graph: Graph, direction: str) -> None:
    values = data.draw(st.lists(st.integers(-(2**40), 2**40), min_size=graph.vertices, max_size=graph.vertices))
    marks = data.draw(st.lists(st.booleans(), min_size=graph.vertices, max_size=graph.vertices))
    csr = graph.adjacency(direction)

    neighbours = [graph.neighbours(vertex, direction) for vertex in range(graph.vertices)]
    assert sum_over(csr, values).tolist() == [sum(values[each] for each in found) for found in neighbours]
    assert sum_over(csr, marks).tolist() == [sum(marks[each] for each in found) for found in neighbours]


@pytest.mark.parametrize("repeated", [1, 4000])
@given(st.data())
def test_edges_are_counted_and_weighed_at_an_end(repeated: int, data: st.DataObject) -> None:
    vertices = st.integers(0, 6)
    edges = data.draw(st.lists(st.tuples(vertices, vertices, st.booleans()), max_size=30))
    weights = data.draw(st.lists(st.integers(0, 1 << 44), min_size=7, max_size=7))
    ends, others, kept = (np.array([edge[place] for edge in edges] * repeated) for place in range(3))
    ends, others, kept = ends.astype(np.int32), others.astype(np.int32), kept.astype(np.bool_)

    counted = [repeated * sum(edge[0] == vertex and edge[2] for edge in edges) for vertex in range(7)]
    assert sum_edges(ends, others, kept, None, size=7).tolist() == counted
    weighed = [repeated * sum(weights[edge[1]] for edge in edges if edge[0] == vertex and edge[2]) for vertex in range(7)]
    assert sum_edges(ends, others, kept, np.array(weights), size=7).tolist() == weighed


@given(st.data(), graphs())
def test_over_stored_edges_each_edge_counts(data: st.DataObject, graph: Graph) -> None:
    values = data.draw(st.lists(st.integers(-9, 9), min_size=graph.vertices, max_size=graph.vertices))

    found = sum_over(graph.stored(), [float(value) for value in values])

    assert found.dtype == np.float64
    assert found.tolist() == [
        sum(values[target] for source, target in graph.edges if source == vertex) for vertex in range(graph.vertices)
    ]


@given(st.data(), graphs(), DIRECTIONS)
def test_two_hops_with_filters_are_counted_without_being_written_down(
    data: st.DataObject, graph: Graph, direction: str
) -> None:
    marks = st.lists(st.booleans(), min_size=graph.vertices, max_size=graph.vertices)
    middle, end = data.draw(marks), data.draw(marks)
    csr = graph.adjacency(direction)

    paths = sum_over(csr, np.where(middle, sum_over(csr, end), 0))

    assert paths.tolist() == [
        sum(
            1
            for through in graph.neighbours(vertex, direction)
            if middle[through]
            for last in graph.neighbours(through, direction)
            if end[last]
        )
        for vertex in range(graph.vertices)
    ]


def test_an_integer_sum_that_may_not_fit_is_refused_not_wrapped() -> None:
    csr = build([0, 0], [0, 1], sources=2, width=2)

    with pytest.raises(OverflowError, match="64 bits"):
        sum_over(csr, [2**62, 2**62])
    with pytest.raises(OverflowError, match="64 bits"):
        sum_over(csr, np.array([2**64 - 1, 0], np.uint64))
    assert sum_over(csr, [2**60, 2**60]).tolist() == [2**61, 0]
    assert sum_over(csr, [float(2**62), float(2**62)]).tolist() == [2.0**63, 0.0]


def test_one_large_value_beside_many_small_ones_is_no_overflow() -> None:
    csr = build([0] * 5 + [1], [1, 2, 3, 4, 5, 0], sources=6, width=6)

    assert sum_over(csr, [2**60, 1, 1, 1, 1, 1]).tolist() == [5, 2**60, 0, 0, 0, 0]


def test_values_must_fit_the_vertices() -> None:
    csr = build([0], [1], sources=1, width=2)

    with pytest.raises(ValueError, match="1 values for 2 target vertices"):
        sum_over(csr, [1])


def test_no_vertices() -> None:
    empty = build([], [], sources=2, width=0)

    assert sum_over(empty, np.empty(0, np.int64)).tolist() == [0, 0]
