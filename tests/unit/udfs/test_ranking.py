"""The best of many, ties included, and their order by id."""

from __future__ import annotations

import math

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from omnigraph_udfs.ranking import by_id, least

VALUES = st.lists(st.sampled_from([0.0, -0.0, 1.0, 2.5, -3.0, math.inf, -math.inf, math.nan]) | st.floats(), max_size=25)


def order(value: float) -> tuple[bool, float]:
    return (math.isnan(value), 0.0 if math.isnan(value) else value)


@given(VALUES, st.integers(-1, 30))
def test_the_smallest_and_all_that_tie_with_the_last(values: list[float], limit: int) -> None:
    found = least(values, limit).tolist()

    ranked = sorted(range(len(values)), key=lambda at: (order(values[at]), at))
    if 0 < limit < len(values):
        last = order(values[ranked[limit - 1]])
        ranked = [at for at in ranked if order(values[at]) <= last]
    assert found == (ranked if limit > 0 else [])


@given(st.data(), VALUES, st.none() | st.integers(0, 30))
def test_ties_go_by_id_in_byte_order(data: st.DataObject, values: list[float], limit: int | None) -> None:
    ids = data.draw(st.lists(st.text(max_size=3), unique=True, min_size=len(values), max_size=len(values) + 5))
    at = data.draw(st.permutations(range(len(ids))))[: len(values)]

    found = by_id(values, at, pa.array(ids, pa.string()).take, limit=limit).tolist()

    assert found == sorted(range(len(values)), key=lambda row: (order(values[row]), ids[at[row]].encode()))[:limit]


def test_an_id_column_in_chunks() -> None:
    ids = pa.chunked_array([["b"], ["a", "c"]])

    assert by_id([1.0, 1.0, 1.0], [0, 1, 2], ids.take, limit=2).tolist() == [1, 0]
