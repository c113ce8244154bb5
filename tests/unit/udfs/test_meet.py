"""Common neighbours, against sets."""

import numpy as np
import numpy.typing as npt
import pytest

from omnigraph_udfs.common_neighbours import meet, meet_counts, meet_weights
from omnigraph_udfs.csr import Csr, build, distinct


def adjacency(random: np.random.Generator, sources: int, width: int, edges: int) -> tuple[Csr, list[set[int]]]:
    src, dst = random.integers(0, sources, edges), random.integers(0, width, edges)
    neighbours = [set(dst[src == vertex].tolist()) for vertex in range(sources)]
    return distinct(build(src, dst, sources=sources, width=width)), neighbours


@pytest.mark.parametrize("seed", range(12))
def test_common_neighbours_are_those_of_both(seed: int) -> None:
    random = np.random.default_rng(seed)
    width = int(random.integers(1, 60))
    first, a = adjacency(random, 20, width, int(random.integers(0, 400)))
    second, b = adjacency(random, 30, width, int(random.integers(0, 900)))
    us, vs = random.integers(-1, 20, 200), random.integers(-1, 30, 200)
    if seed % 3 == 0:
        us = np.sort(us)
    elif seed % 3 == 1:
        vs = np.sort(vs)
    expected = [sorted(a[u] & b[v]) if u >= 0 and v >= 0 else [] for u, v in zip(us, vs, strict=True)]
    weights: npt.NDArray[np.int64] = random.integers(0, 9, width)

    assert meet(first, second, us, vs).to_list().to_pylist() == expected
    assert meet_counts(first, second, us, vs).tolist() == [len(found) for found in expected]
    assert meet_weights(first, second, us, vs, weights).tolist() == [int(weights[found].sum()) for found in expected]


def test_few_neighbours_are_looked_for_among_many() -> None:
    few = build([0, 0], [5, 900], sources=1, width=1000)
    many = build(np.zeros(500, np.int64), np.arange(0, 1000, 2), sources=1, width=1000)

    assert meet(few, many, [0], [0]).targets.tolist() == [900]
    assert meet(many, few, [0], [0]).targets.tolist() == [900]


def test_neighbours_of_two_types_are_never_common() -> None:
    with pytest.raises(ValueError, match="two types"):
        meet(build([0], [0], sources=1, width=1), build([0], [1], sources=1, width=2), [0], [0])


def test_every_row_needs_two_vertices() -> None:
    one = build([0], [0], sources=1, width=1)
    with pytest.raises(ValueError, match="every row needs two"):
        meet_counts(one, one, [0, 0], [0])
    with pytest.raises(IndexError):
        meet_counts(one, one, [1], [0])
