"""Variable length: every rule of the search, by example and against the search written down in plain Python."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph_udfs import reach as reach_module
from omnigraph_udfs.csr import build, transpose
from omnigraph_udfs.reach import FEW, distances, reach, reach_sums, reaches
from tests.unit.udfs.graphs import DIRECTIONS, Graph, frontiers, graphs, listed

A, B, C = 0, 1, 2
BOUNDS = st.integers(1, 5).flatmap(lambda least: st.tuples(st.just(least), st.integers(least, 12)))


def reached(graph: Graph, source: int, bounds: tuple[int, int], direction: str) -> set[int]:
    return graph.reached(source, *bounds, direction) if source >= 0 else set()


@given(st.data(), graphs(), DIRECTIONS, BOUNDS)
def test_destinations_are_those_of_the_search(
    data: st.DataObject, graph: Graph, direction: str, bounds: tuple[int, int]
) -> None:
    frontier = data.draw(frontiers(graph))
    least, most = bounds

    found = reach(graph.adjacency(direction), frontier, least=least, most=most)

    expected = [sorted(reached(graph, vertex, bounds, direction)) for vertex in frontier]
    assert listed(found.rows().tolist(), found.targets.tolist(), len(frontier)) == expected


@given(st.data(), graphs(), DIRECTIONS, BOUNDS, st.integers(1, 6))
def test_destinations_are_the_same_whatever_a_piece_holds(
    data: st.DataObject, graph: Graph, direction: str, bounds: tuple[int, int], size: int
) -> None:
    frontier = data.draw(frontiers(graph))
    least, most = bounds

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reach_module, "PIECE", size)
        destinations = reach(graph.adjacency(direction), frontier, least=least, most=most)

    expected = [sorted(reached(graph, vertex, bounds, direction)) for vertex in frontier]
    assert [sorted(row) for row in destinations.to_list().to_pylist()] == expected


@given(st.data(), graphs(), DIRECTIONS, BOUNDS, st.booleans())
def test_sums_are_those_of_the_destinations(
    data: st.DataObject, graph: Graph, direction: str, bounds: tuple[int, int], both: bool
) -> None:
    frontier = data.draw(frontiers(graph)) * data.draw(st.sampled_from([1, FEW]))
    weights = data.draw(st.lists(st.integers(0, 9) | st.just(1 << 50), min_size=graph.vertices, max_size=graph.vertices))
    csr, (least, most) = graph.adjacency(direction), bounds
    back = transpose(csr) if both else None

    found = [reached(graph, vertex, bounds, direction) for vertex in frontier]
    counts = reach_sums(csr, frontier, least=least, most=most, back=back)
    assert counts.tolist() == [len(each) for each in found]
    sums = reach_sums(csr, frontier, least=least, most=most, weights=weights, back=back)
    assert sums.tolist() == [sum(weights[target] for target in each) for each in found]


@given(graphs(), BOUNDS, st.booleans())
def test_sums_from_all_vertices_at_once(graph: Graph, bounds: tuple[int, int], both: bool) -> None:
    """Also the other way round, where loops count at the vertex that a search begins with."""
    csr, (least, most) = graph.adjacency("out"), bounds
    everybody = list(range(graph.vertices))
    found = [reached(graph, vertex, bounds, "out") for vertex in everybody]
    back = graph.adjacency("in") if both else None
    assert reach_sums(csr, everybody, least=least, most=most, back=back).tolist() == [len(each) for each in found]
    loops = [vertex in graph.reached(vertex, 1, 1, "out") for vertex in everybody]
    turned = reach_sums(graph.adjacency("in"), everybody, least=least, most=most, turned=loops, back=csr if both else None)
    assert turned.tolist() == [sum(vertex in each for each in found) for vertex in everybody]


def test_a_crowd_is_searched_word_by_word() -> None:
    """A ring with chords, from more sources than there are bits."""
    count = 700
    ring = build(
        [*range(count)] * 2,
        [(v + 1) % count for v in range(count)] + [(v + 9) % count for v in range(count)],
        sources=count,
        width=count,
    )
    found = reach(ring, range(count), least=2, most=40)
    expected = [len(each) for each in found.to_list().to_pylist()]
    for back in (None, transpose(ring)):
        assert reach_sums(ring, range(count), least=2, most=40, back=back).tolist() == expected


def test_sums_that_cannot_be_held_are_refused() -> None:
    line = build([0], [1], sources=2, width=2)
    with pytest.raises(OverflowError):
        reach_sums(line, [0], least=1, most=1, weights=[1 << 61, 1 << 61])
    with pytest.raises(ValueError, match="needs a weight"):
        reach_sums(line, [0], least=1, most=1, weights=[1])


@given(st.data(), graphs(), DIRECTIONS, BOUNDS)
def test_a_pair_is_joined_exactly_if_the_search_finds_it(
    data: st.DataObject, graph: Graph, direction: str, bounds: tuple[int, int]
) -> None:
    ends = st.integers(-1, graph.vertices - 1)
    pairs = data.draw(st.lists(st.tuples(ends, ends), max_size=12))
    least, most = bounds
    sources, targets = [pair[0] for pair in pairs], [pair[1] for pair in pairs]

    found = reaches(graph.adjacency(direction), sources, targets, least=least, most=most)

    assert found.tolist() == [target in reached(graph, source, bounds, direction) for source, target in pairs]


@given(st.data(), graphs(), DIRECTIONS, st.integers(0, 9))
def test_distances_are_the_shortest(data: st.DataObject, graph: Graph, direction: str, most: int) -> None:
    ends = st.integers(-1, graph.vertices - 1)
    pairs = data.draw(st.lists(st.tuples(ends, ends), max_size=12))
    sources, targets = [pair[0] for pair in pairs], [pair[1] for pair in pairs]

    found = distances(graph.adjacency(direction), sources, targets, most=most).tolist()

    for (source, target), distance in zip(pairs, found, strict=True):
        shortest = graph.distance(source, target, direction) if source >= 0 and target >= 0 else None
        assert distance == (-1 if shortest is None or shortest > most else shortest)


@given(st.data(), graphs(), BOUNDS)
def test_parallel_edges_change_nothing(data: st.DataObject, graph: Graph, bounds: tuple[int, int]) -> None:
    frontier = data.draw(frontiers(graph))
    least, most = bounds

    found = reach(graph.stored(), frontier, least=least, most=most)

    expected = [sorted(reached(graph, vertex, bounds, "out")) for vertex in frontier]
    assert listed(found.rows().tolist(), found.targets.tolist(), len(frontier)) == expected


@pytest.mark.parametrize(
    ("edges", "bounds", "direction", "expected"),
    [
        pytest.param([(A, B), (A, C), (B, C)], (2, 2), "out", set(), id="only at the shortest distance"),
        pytest.param([(A, B), (B, A)], (1, 4), "out", {B}, id="the source is not reported through a cycle"),
        pytest.param([(A, B), (B, B)], (2, 2), "out", {B}, id="a self-loop reports its vertex one hop later"),
        pytest.param([(A, A)], (2, 3), "out", set(), id="a self-loop on the source is seen at the first hop only"),
        pytest.param([(A, A)], (1, 3), "out", {A}, id="a self-loop on the source"),
        pytest.param([(A, B), (B, A)], (1, 1), "both", {B}, id="opposite edges are one neighbour"),
        pytest.param([(A, B)], (2, 2), "both", set(), id="there and back is no path"),
        pytest.param([(A, B), (B, C)], (2, 9_999_999_999), "out", {C}, id="bounds beyond the graph"),
        pytest.param([(A, B), (B, C)], (9_999_999_999, 9_999_999_999), "out", set(), id="both bounds beyond the graph"),
    ],
)
def test_the_rules_by_example(
    edges: list[tuple[int, int]], bounds: tuple[int, int], direction: str, expected: set[int]
) -> None:
    csr = Graph(3, tuple(edges)).adjacency(direction)

    found = reach(csr, [A], least=bounds[0], most=bounds[1]).targets.tolist()

    assert sorted(found) == sorted(expected)
    assert [target in expected for target in (A, B, C)] == reaches(
        csr, [A, A, A], [A, B, C], least=bounds[0], most=bounds[1]
    ).tolist()


def test_a_row_with_more_destinations_than_a_piece_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    star = build([0] * 5, range(1, 6), sources=6, width=6)
    monkeypatch.setattr(reach_module, "PIECE", 2)

    assert reach(star, [1, 0, 0, 2], least=1, most=1).to_list().to_pylist() == [[], [1, 2, 3, 4, 5], [1, 2, 3, 4, 5], []]


def test_what_cannot_be_searched_is_refused() -> None:
    lanes = build([0], [1], sources=2, width=2)
    homes = build([0], [1], sources=1, width=2)

    for least, most in [(0, 1), (2, 1), (-1, 1)]:
        with pytest.raises(ValueError, match=f"{least} to {most} hops"):
            reach(lanes, [0], least=least, most=most)
    with pytest.raises(ValueError, match="two types"):
        reach(homes, [0], least=1, most=2)
    with pytest.raises(IndexError, match="position 2"):
        reach(lanes, [2], least=1, most=2)
    with pytest.raises(ValueError, match="every row needs both"):
        distances(lanes, [0], [], most=1)


def test_an_empty_graph() -> None:
    empty = build([], [], sources=0, width=0)

    assert reach(empty, [-1], least=1, most=2).to_list().to_pylist() == [[]]
