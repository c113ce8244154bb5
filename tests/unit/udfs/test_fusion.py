"""Reciprocal rank fusion: sums, ties, absence."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph_udfs.fusion import Arm, rrf

P, Q, R, S = 0, 1, 2, 3
LISTS = st.lists(st.integers(0, 15), unique=True, max_size=16)


def fused(first: list[int], second: list[int], k: int, limit: int) -> list[tuple[int, float]]:
    """The definition, entity by entity."""
    found: list[tuple[float, float, float, int]] = []
    for entity in {*first, *second}:
        ranks = [arm.index(entity) + 1 if entity in arm else None for arm in (first, second)]
        score = sum(1 / (k + rank) for rank in ranks if rank is not None)
        first_rank, second_rank = (math.inf if rank is None else rank for rank in ranks)
        found.append((-score, first_rank, second_rank, entity))
    return [(entity, -score) for score, _, _, entity in sorted(found)][:limit]


@given(LISTS, LISTS, st.integers(1, 100), st.integers(0, 20))
def test_the_definition(first: list[int], second: list[int], k: int, limit: int) -> None:
    found = rrf(Arm.of(first), Arm.of(second), k=k, limit=limit)

    assert list(zip(found.positions.tolist(), found.scores.tolist(), strict=True)) == fused(first, second, k, limit)


@given(LISTS, st.permutations(range(16)), st.integers(1, 100), st.integers(1, 16))
def test_a_long_arm_may_be_shortened_to_what_can_win(first: list[int], second: list[int], k: int, limit: int) -> None:
    first = first[:limit]
    needed = [entity for rank, entity in enumerate(second) if rank < limit or entity in first]
    ranks = [second.index(entity) + 1 for entity in needed]

    short = rrf(Arm.of(first), Arm(np.array(needed, np.int64), np.array(ranks)), k=k, limit=limit)

    assert short.positions.tolist() == rrf(Arm.of(first), Arm.of(second), k=k, limit=limit).positions.tolist()


def test_by_example() -> None:
    assert rrf(Arm.of([P, Q]), Arm.of([R, P]), limit=2).positions.tolist() == [P, R]
    tied = rrf(Arm.of([P, Q]), Arm.of([R, S]), limit=2)
    assert tied.positions.tolist() == [P, R]
    assert tied.scores.tolist() == [1 / 61, 1 / 61]


def test_nothing_listed_is_nothing_found() -> None:
    assert rrf(Arm.of([]), Arm.of([]), limit=5).positions.tolist() == []


@pytest.mark.parametrize("k", [0, -60])
def test_k_must_be_positive(k: int) -> None:
    with pytest.raises(ValueError, match=f"k = {k}"):
        rrf(Arm.of([P]), Arm.of([P]), k=k, limit=1)


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 4)), unique_by=lambda pair: pair[0], max_size=30),
    st.lists(st.integers(0, 30), unique=True, max_size=12),
    st.integers(1, 12),
)
def test_ranks_of_a_few_are_those_of_all(pairs: list[tuple[int, int]], others: list[int], limit: int) -> None:
    at, values = [place for place, _ in pairs], [float(value) for _, value in pairs]
    ids = pa.array([f"id-{(7 * place) % 31:02}" for place in range(31)]).take
    whole = Arm.first(at, values, ids)
    ranks = dict(zip(whole.positions.tolist(), whole.ranks.tolist(), strict=True))

    short = Arm.first(at, values, ids, limit=limit)
    found = short.with_ranks_of(others, at, values, ids)

    assert short.positions.tolist() == whole.positions.tolist()[:limit]
    wanted = {place: rank for place, rank in ranks.items() if rank <= limit or place in others}
    assert dict(zip(found.positions.tolist(), found.ranks.tolist(), strict=True)) == wanted
