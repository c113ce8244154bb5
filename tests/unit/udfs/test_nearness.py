"""Vectors in parts: as one column of the live rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph_udfs.vector import Metric, Vectors, distances, nearest
from omnigraph_udfs.vector_index import VectorIndex, VectorPart

PARTS = st.lists(st.lists(st.tuples(st.booleans(), st.booleans()), max_size=8), max_size=5)
"""For each row of each part whether it is live, and whether it has a vector."""


@given(PARTS, st.integers(0, 2**32), st.integers(1, 12), st.sampled_from(["l2", "cosine", "dot"]), st.data())
def test_parts_answer_as_the_whole(
    parts: list[list[tuple[bool, bool]]], seed: int, limit: int, metric: Metric, data: st.DataObject
) -> None:
    generator = np.random.default_rng(seed)
    made, rows, marks, size = [], [np.empty((0, 3), np.float32)], [np.empty(0, np.bool_)], 0
    for part in parts:
        live, known = (np.array([pair[place] for pair in part], np.bool_) for place in (0, 1))
        matrix = generator.integers(-2, 3, (len(part), 3)).astype(np.float32)
        made.append(VectorPart(Vectors(matrix, known), np.where(live, size - 1 + np.cumsum(live), -1)))
        rows.append(matrix[live])
        marks.append(known[live])
        size += int(live.sum())
    index, whole = VectorIndex(made, size=size), Vectors(np.concatenate(rows), np.concatenate(marks))
    query = [1.0, 0.0, -1.0]
    chosen = data.draw(st.none() | st.permutations(range(size)).map(lambda order: order[: size // 2]))

    found, wanted = (
        index.nearest(query, limit=limit, metric=metric, candidates=chosen),
        nearest(whole, query, limit=limit, metric=metric, candidates=chosen),
    )
    assert found.positions.tolist() == wanted.positions.tolist()
    assert found.distances.tolist() == wanted.distances.tolist()
    asked = np.arange(-1, size)
    for one, other in zip(
        index.distances(query, asked, metric=metric), distances(whole, query, asked, metric=metric), strict=True
    ):
        assert one.tolist() == other.tolist()


def test_a_part_has_a_position_for_each_vector() -> None:
    with pytest.raises(ValueError, match="1 positions for 2 vectors"):
        VectorPart(Vectors(np.zeros((2, 3), np.float32)), [0])
