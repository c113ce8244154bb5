"""Distances to the last bit, and the exact nearest with every tie."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph_udfs.vector import Metric, Vectors, distances, nearest

METRICS = st.sampled_from(["l2", "cosine", "dot"])
SINGLE = st.floats(-1e10, 1e10, width=32) | st.integers(-2, 2).map(float)
"""Ordinary numbers and, for ties, a few small ones."""


def distance(vector: list[float] | None, query: list[float], metric: str) -> float | None:
    """One distance, added up from left to right; None if there is none."""
    if vector is None:
        return None
    total = own = size = 0.0
    for value, other in zip(vector, query, strict=True):
        total += (value - other) * (value - other) if metric == "l2" else value * other
        own += value * value
        size += other * other
    if metric == "l2":
        return total
    if metric == "dot":
        return 1.0 - total
    return None if own == 0.0 or size == 0.0 else 1.0 - total / math.sqrt(own * size)


def ranked(
    vectors: list[list[float] | None], query: list[float], metric: str, rows: list[int], limit: int
) -> list[tuple[float, int]]:
    found = [(each, row) for row in rows if (each := distance(vectors[row], query, metric)) is not None]
    found.sort()
    if limit <= 0:
        return []
    return [pair for pair in found if pair[0] <= found[limit - 1][0]] if limit < len(found) else found


@st.composite
def columns(draw: st.DrawFn) -> tuple[list[list[float] | None], list[list[float]]]:
    """Vectors, some null, and queries."""
    dimension = draw(st.integers(1, 9))
    vector = st.lists(SINGLE, min_size=dimension, max_size=dimension)
    grid = st.lists(st.sampled_from([-1.0, 0.0, 1.0]), min_size=dimension, max_size=dimension)
    rows = draw(st.lists(st.none() | vector | grid, max_size=25))
    return rows, draw(st.lists(vector | grid, min_size=1, max_size=6))


def column(rows: list[list[float] | None], dimension: int) -> pa.Array:
    return pa.array(rows, pa.list_(pa.float32(), dimension))


@given(columns(), METRICS, st.data())
def test_distances(drawn: tuple[list[list[float] | None], list[list[float]]], metric: Metric, data: st.DataObject) -> None:
    rows, queries = drawn
    at = data.draw(st.lists(st.integers(-1, len(rows) - 1), max_size=12))

    found, known = distances(Vectors.of(column(rows, len(queries[0]))), queries[0], at, metric=metric)

    expected = [distance(rows[row], queries[0], metric) if row >= 0 else None for row in at]
    assert [float(each) if has else None for each, has in zip(found, known, strict=True)] == expected


@given(columns(), METRICS, st.integers(0, 12), st.data())
def test_the_nearest_and_all_that_tie_with_the_last(
    drawn: tuple[list[list[float] | None], list[list[float]]], metric: Metric, limit: int, data: st.DataObject
) -> None:
    rows, queries = drawn
    vectors = Vectors.of(column(rows, len(queries[0])))
    chosen = data.draw(st.none() | st.lists(st.integers(0, max(len(rows) - 1, 0)), unique=True, max_size=len(rows)))
    among = sorted(chosen) if chosen is not None else list(range(len(rows)))

    for query in queries:
        found = nearest(vectors, query, limit=limit, metric=metric, candidates=chosen)
        pairs = list(zip(found.distances.tolist(), found.positions.tolist(), strict=True))
        assert pairs == ranked(rows, query, metric, among, limit)


@pytest.mark.parametrize("metric", ["l2", "cosine", "dot"])
@pytest.mark.parametrize("kind", ["numbers", "grid"])
@pytest.mark.parametrize("part", [None, 50_000])
def test_many_rows(metric: Metric, kind: str, part: int | None) -> None:
    random = np.random.default_rng(11)
    count, dimension = 150_000, 5
    if kind == "numbers":
        matrix = random.standard_normal((count, dimension)).astype(np.float32)
        queries = random.standard_normal((6, dimension))
    else:  # a few hundred different vectors: thousands of ties
        matrix = random.integers(-2, 3, (count, dimension)).astype(np.float32)
        queries = random.integers(-2, 3, (6, dimension)).astype(float)
    vectors = Vectors(matrix, valid=random.random(count) < 0.9)
    candidates = None if part is None else random.choice(count, part, replace=False)

    for query in queries:
        answer = nearest(vectors, query, limit=50, metric=metric, candidates=candidates)
        rows = np.arange(count) if candidates is None else np.sort(candidates)
        exact, known = distances(vectors, query, rows, metric=metric)
        rows, exact = rows[known], exact[known]
        within = np.flatnonzero(exact <= np.sort(exact)[49])
        order = within[np.argsort(exact[within], kind="stable")]
        assert (answer.positions == rows[order]).all()
        assert (answer.distances == exact[order]).all()


@pytest.mark.parametrize("metric", ["l2", "cosine", "dot"])
@pytest.mark.parametrize("scale", [1e-38, 1e-20, 1.0, 1e18, 3e38])
@pytest.mark.parametrize("asked", [1e-200, 1e-38, 1.0, 1e38, 1e150, 1e300])
def test_bounds_hold_at_the_ends_of_the_range(metric: Metric, scale: float, asked: float) -> None:
    random = np.random.default_rng(3)
    vectors = Vectors((random.uniform(-1, 1, (200, 7)) * scale).astype(np.float32))
    queries = random.uniform(-1, 1, (5, 7)) * asked

    for query in queries:
        found = nearest(vectors, query, limit=3, metric=metric)
        exact, known = distances(vectors, query, np.arange(200), metric=metric)
        assert known.all()
        bound = np.sort(exact)[2]
        within = exact <= bound if not np.isnan(bound) else np.ones(200, np.bool_)  # infinities may cancel out
        assert sorted(found.positions.tolist()) == np.flatnonzero(within).tolist()


def test_equal_vectors_are_at_equal_distance_wherever_they_stand() -> None:
    vector = np.random.default_rng(1).standard_normal(13).astype(np.float32)
    vectors = Vectors(np.tile(vector, (10_001, 1)))

    for metric in ("l2", "cosine", "dot"):
        found = nearest(vectors, np.arange(13.0), limit=1, metric=metric)
        assert len(found.positions) == 10_001


def test_a_vector_is_at_no_distance_from_itself() -> None:
    random = np.random.default_rng(2)
    vectors = Vectors(random.standard_normal((100, 33)).astype(np.float32))

    for row in range(100):
        for metric in ("l2", "cosine"):
            found, known = distances(vectors, vectors.matrix[row], [row], metric=metric)
            assert (found.tolist(), known.tolist()) == ([0.0], [True])


def test_under_cosine_a_zero_vector_counts_as_null() -> None:
    vectors = Vectors.of(column([[0.0, 0.0], [1.0, 0.0], None], 2))

    assert nearest(vectors, [2.0, 0.0], limit=3, metric="cosine").positions.tolist() == [1]
    assert nearest(vectors, [0.0, 0.0], limit=3, metric="cosine").positions.tolist() == []
    assert nearest(vectors, [0.0, 0.0], limit=3).positions.tolist() == [0, 1]


def test_a_vector_that_is_no_number_comes_last() -> None:
    vectors = Vectors.of(column([[math.nan], [math.inf], [1.0], [2.0]], 1))

    assert nearest(vectors, [0.0], limit=4).positions.tolist() == [2, 3, 1, 0]
    assert nearest(vectors, [0.0], limit=2).positions.tolist() == [2, 3]
    assert nearest(vectors, [0.0], limit=3).positions.tolist() == [2, 3, 1]


def test_slices_and_chunks_of_columns() -> None:
    rows: list[list[float] | None] = [[9.0], [1.0], None, [3.0]]
    sliced = Vectors.of(column(rows, 1).slice(1))
    chunked = Vectors.of(pa.chunked_array([column(rows[:2], 1), column(rows[2:], 1)]))

    assert nearest(sliced, [3.0], limit=1).positions.tolist() == [2]
    assert nearest(chunked, [3.0], limit=2).positions.tolist() == [3, 1]
    assert nearest(Vectors.of(column([], 1)), [3.0], limit=2).positions.tolist() == []


def test_what_does_not_fit_is_refused() -> None:
    vectors = Vectors.of(column([[1.0, 2.0]], 2))

    with pytest.raises(ValueError, match="a query of 1 numbers for vectors of 2"):
        nearest(vectors, [1.0], limit=1)
    with pytest.raises(ValueError, match="finite"):
        nearest(vectors, [1.0, math.inf], limit=1)
    with pytest.raises(ValueError, match="no metric 'l1'; there are l2, cosine, dot"):
        nearest(vectors, [1.0, 2.0], limit=1, metric="l1")  # type: ignore[arg-type]
    with pytest.raises(IndexError, match="position 1"):
        nearest(vectors, [1.0, 2.0], limit=1, candidates=[1])
    with pytest.raises(TypeError, match="float32 vectors are needed, not list<item: double>"):
        Vectors.of(pa.array([[1.0]]))
    with pytest.raises(ValueError, match="3 dimensions"):
        Vectors(np.zeros((1, 1, 1), np.float32))
    with pytest.raises(ValueError, match="2 marks for 1 vectors"):
        Vectors(np.zeros((1, 1), np.float32), valid=np.ones(2, np.bool_))
