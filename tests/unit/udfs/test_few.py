"""A few values are treated as the compiled kernels treat many."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from omnigraph_udfs import few
from omnigraph_udfs.arrays import frozen
from omnigraph_udfs.csr import Csr
from omnigraph_udfs.ids import IdIndex
from omnigraph_udfs.kernels import adjacency, hashing, hops
from omnigraph_udfs.strings import Strings
from tests.unit.udfs.graphs import Graph, graphs


@given(st.lists(st.text(), unique=True), st.lists(st.text()))
def test_find(known: list[str], others: list[str]) -> None:
    index = IdIndex.build(pa.array(known, pa.string()))
    asked = Strings.of(pa.array([*known, *others], pa.string()))
    compiled = np.empty(len(asked), np.int64)
    hashing.find(index.ids.offsets, index.ids.data, index.slots, asked.offsets, asked.data, compiled)

    found = few.find(index.ids.offsets, index.ids.data, index.slots, [asked[row] for row in range(len(asked))])

    assert found.tolist() == compiled.tolist()
    assert found[: len(known)].tolist() == list(range(len(known)))


@given(graphs(), st.data())
def test_counts_and_values(graph: Graph, data: st.DataObject) -> None:
    stored = graph.stored()
    frontier = frozen(data.draw(st.lists(st.integers(-1, graph.vertices - 1))), np.int64)
    counts = np.empty(len(frontier), np.int64)
    hops.counts(stored.offsets, frontier, counts)
    ends = np.concatenate([[0], np.cumsum(counts)])
    values = np.empty(ends[-1], np.int64)
    hops.fill(stored.offsets, stored.targets, frontier, 0, values)

    assert few.counts(stored.offsets, frontier).tolist() == counts.tolist()
    assert few.values(stored.offsets, stored.targets, frontier, ends).tolist() == values.tolist()


@given(graphs())
def test_firsts(graph: Graph) -> None:
    stored = graph.stored()
    counts = np.empty(stored.sources, np.int64)
    adjacency.distinct_counts(stored.offsets, stored.targets, counts)
    targets = np.empty(counts.sum(), stored.targets.dtype)
    adjacency.distinct_fill(stored.offsets, stored.targets, targets)

    once = few.firsts(stored.offsets, stored.targets)

    assert stored.targets[once].tolist() == targets.tolist()
    rows = np.repeat(np.arange(stored.sources), stored.degrees())
    assert np.bincount(rows[once], minlength=stored.sources).tolist() == counts.tolist()


def test_no_vertices() -> None:
    empty = Csr(np.zeros(1, np.int64), np.empty(0, np.int32), None, 0)

    assert few.counts(empty.offsets, np.array([-1, -1])).tolist() == [0, 0]
