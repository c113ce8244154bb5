"""Ids are found where they stand, and nowhere else."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph_udfs.ids import IdIndex

IDS = st.text(max_size=20) | st.text(alphabet="ab", max_size=30) | st.integers(0, 300).map(str)
TYPES = [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())]


@given(st.lists(IDS, unique=True, max_size=60), st.lists(st.none() | IDS, max_size=60), st.sampled_from(TYPES))
def test_every_id_is_found_at_its_position_and_no_other_is(ids: list[str], asked: list[str | None], type_: Any) -> None:
    index = IdIndex.build(pa.array(ids, pa.string()))
    places = {id_: position for position, id_ in enumerate(ids)}
    questions = [*ids, *asked]

    found = index.find(pa.array(questions, pa.string()).cast(type_))

    assert found.tolist() == [places.get(id_, -1) if id_ is not None else -1 for id_ in questions]
    assert len(index) == len(ids)


@given(st.lists(IDS, unique=True, max_size=60), st.integers(0, 60))
def test_an_extended_index_finds_old_and_new(ids: list[str], cut: int) -> None:
    before = IdIndex.build(pa.array(ids[:cut], pa.string()))

    after = before.extended(pa.array(ids[cut:], pa.string()))

    assert after.find(pa.array(ids, pa.string())).tolist() == list(range(len(ids)))
    assert before.find(pa.array(ids, pa.string())).tolist() == [n if n < cut else -1 for n in range(len(ids))]


@given(st.lists(IDS, unique=True, min_size=1, max_size=20), st.data())
def test_positions_lead_back_to_ids(ids: list[str], data: st.DataObject) -> None:
    index = IdIndex.build(pa.array(ids))
    at = data.draw(st.lists(st.integers(-1, len(ids) - 1), max_size=20))

    assert index.take(at).to_pylist() == [ids[position] if position >= 0 else None for position in at]
    assert [index.position(id_) for id_ in ids] == list(range(len(ids)))


def test_slices_and_chunks_of_columns() -> None:
    column = pa.chunked_array([pa.array(["x", "a", "b"]).slice(1), pa.array(["c"]), pa.array([], pa.string())])

    index = IdIndex.build(column)

    assert index.find(pa.chunked_array([["c"], ["x", None], ["a"]])).tolist() == [2, -1, -1, 0]
    assert index.find(pa.array(["z", "b", "a", "q"]).slice(1, 2)).tolist() == [1, 0]
    encoded = pa.chunked_array([pa.array(["a", None, "a"]).dictionary_encode(), pa.array(["b"]).dictionary_encode()])
    assert index.find(encoded).tolist() == [0, -1, 0, 1]


def test_a_hundred_thousand_ids() -> None:
    ids = pa.array([f"person-{number:07}" for number in range(100_000)])
    index = IdIndex.build(ids)
    backwards = ids.take(pa.array(range(99_999, -1, -1)))

    assert index.find(backwards).tolist() == list(range(99_999, -1, -1))
    assert (index.find(pa.array([f"person-{number}" for number in range(100_000)])) == -1).all()


def test_more_questions_than_one_core_takes() -> None:
    index = IdIndex.build(pa.array(["a", "b", "c"]))

    found = index.find(pa.array(["c", "b", "z"] * 400_000))

    assert found.reshape(-1, 3).min(axis=0).tolist() == found.reshape(-1, 3).max(axis=0).tolist() == [2, 1, -1]


def test_nothing_is_found_in_nothing() -> None:
    index = IdIndex.build(pa.array([], pa.string()))

    assert index.find(pa.array(["", "a", None])).tolist() == [-1, -1, -1]
    assert index.find(pa.array([], pa.string())).tolist() == []


def test_columns_that_are_no_ids_are_refused() -> None:
    with pytest.raises(ValueError, match="'b' occurs twice"):
        IdIndex.build(pa.array(["a", "b", "c", "b"]))
    with pytest.raises(ValueError, match="'a' occurs twice"):
        IdIndex.build(pa.array(["a"])).extended(pa.array(["a"]))
    with pytest.raises(ValueError, match="1 of 2 strings are null"):
        IdIndex.build(pa.array(["a", None]))
    with pytest.raises(TypeError, match="strings are needed, not int64"):
        IdIndex.build(pa.array([1]))
    with pytest.raises(TypeError, match="strings are needed, not int64"):
        IdIndex.build(pa.array(["a"])).find(pa.array([1]))
