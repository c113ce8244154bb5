"""A few values are treated as the compiled kernels treat many."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from omnigraph_udfs import numpy_fallback
from omnigraph_udfs.arrays import frozen
from omnigraph_udfs.csr import Csr, build, distinct, extend, transpose
from omnigraph_udfs.ids import IdIndex
from omnigraph_udfs.kernels import adjacency, bfs, expand, hashing
from omnigraph_udfs.strings import Strings
from tests.unit.udfs.graphs import Graph, graphs


@given(st.lists(st.text(), unique=True), st.lists(st.text()))
def test_find(known: list[str], others: list[str]) -> None:
    index = IdIndex.build(pa.array(known, pa.string()))
    asked = Strings.of(pa.array([*known, *others], pa.string()))
    compiled = np.empty(len(asked), np.int64)
    hashing.find(index.ids.offsets, index.ids.data, index.slots, asked.offsets, asked.data, compiled)

    found = numpy_fallback.find(index.ids.offsets, index.ids.data, index.slots, [asked[row] for row in range(len(asked))])

    assert found.tolist() == compiled.tolist()
    assert found[: len(known)].tolist() == list(range(len(known)))


@given(st.lists(st.text()), st.integers(0, 5))
def test_insert(texts: list[str], first: int) -> None:
    strings = Strings.of(pa.array(texts, pa.string()))
    first = min(first, len(texts))
    slots = np.zeros(1 << max(3, (2 * len(texts) - 1).bit_length()), np.uint64)
    if len(set(texts[:first])) == first:
        hashing.insert(strings.offsets[: first + 1], strings.data, 0, slots)
    else:
        first = 0
    compiled = slots.copy()
    twice = hashing.insert(strings.offsets, strings.data, first, compiled)

    assert numpy_fallback.insert(strings.offsets, strings.data, first, slots) == twice
    if twice < 0:
        found = np.empty(len(texts), np.int64)
        hashing.find(strings.offsets, strings.data, slots, strings.offsets, strings.data, found)
        assert found.tolist() == list(range(len(texts)))
        assert sorted(slots.tolist()) == sorted(compiled.tolist())


@given(graphs())
def test_sorting_and_union(graph: Graph) -> None:
    stored = graph.stored()
    assert stored.edges is not None
    keys, count = stored.targets, stored.width
    cursor = np.zeros(count, np.int64)
    adjacency.tally(keys, cursor)
    offsets, order = numpy_fallback.sorted_by(keys, count)
    assert np.diff(offsets).tolist() == cursor.tolist()
    values, tags = np.empty(len(keys), np.int32), np.empty(len(keys), stored.edges.dtype)
    adjacency.scatter(keys, frozen(np.arange(len(keys)), np.int32), stored.edges, offsets[:-1].copy(), values, tags)
    assert order.tolist() == values.tolist()
    assert stored.edges[order].tolist() == tags.tolist()

    back = transpose(stored)
    assert back.edges is not None
    ends = (stored.offsets, stored.targets, stored.edges, back.offsets, back.targets, back.edges)
    sizes = np.empty(stored.sources, np.int64)
    adjacency.union_counts(*ends, sizes)
    heads, edges = np.empty(sizes.sum(), stored.targets.dtype), np.empty(sizes.sum(), stored.edges.dtype)
    adjacency.union_fill(*ends, heads, edges)
    begins, others, marks = numpy_fallback.union(*ends)
    assert np.diff(begins).tolist() == sizes.tolist()
    assert (others.tolist(), marks.tolist()) == (heads.tolist(), edges.tolist())


@given(graphs(), st.data())
def test_counts_and_values(graph: Graph, data: st.DataObject) -> None:
    stored = graph.stored()
    frontier = frozen(data.draw(st.lists(st.integers(-1, graph.vertices - 1))), np.int64)
    counts = np.empty(len(frontier), np.int64)
    expand.counts(stored.offsets, frontier, counts)
    ends = np.concatenate([[0], np.cumsum(counts)])
    values = np.empty(ends[-1], np.int64)
    expand.fill(stored.offsets, stored.targets, frontier, values)

    assert numpy_fallback.counts(stored.offsets, frontier).tolist() == counts.tolist()
    assert numpy_fallback.values(stored.offsets, stored.targets, frontier, ends).tolist() == values.tolist()


@given(graphs())
def test_firsts(graph: Graph) -> None:
    stored = graph.stored()
    counts = np.empty(stored.sources, np.int64)
    adjacency.distinct_counts(stored.offsets, stored.targets, counts)
    targets = np.empty(counts.sum(), stored.targets.dtype)
    adjacency.distinct_fill(stored.offsets, stored.targets, targets)

    once = numpy_fallback.firsts(stored.offsets, stored.targets)

    assert stored.targets[once].tolist() == targets.tolist()
    rows = np.repeat(np.arange(stored.sources), stored.degrees())
    assert np.bincount(rows[once], minlength=stored.sources).tolist() == counts.tolist()


@given(graphs(), st.data())
def test_merging(graph: Graph, data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(graph.edges)))
    old = Graph(graph.vertices, graph.edges[:cut]).stored()
    tails, heads = ([edge[end] for edge in graph.edges[cut:]] for end in (0, 1))
    new = build(tails, heads, sources=graph.vertices, width=graph.vertices, first_edge=cut)
    assert old.edges is not None
    assert new.edges is not None
    size = old.size + new.size
    targets, edges = np.empty(size, new.targets.dtype), np.empty(size, new.edges.dtype)
    adjacency.merge_fill(old.offsets, old.targets, old.edges, new.offsets, new.targets, new.edges, targets, edges)

    merged = extend(old, tails, heads, sources=graph.vertices, width=graph.vertices, first_edge=cut)

    assert merged.edges is not None
    assert (merged.targets.tolist(), merged.edges.tolist()) == (targets.tolist(), edges.tolist())


@given(graphs(), st.data(), st.integers(1, 4), st.integers(0, 3))
def test_searches(graph: Graph, data: st.DataObject, least: int, more: int) -> None:
    csr = distinct(graph.stored()) if data.draw(st.booleans()) else graph.stored()
    sources = frozen(data.draw(st.lists(st.integers(-1, graph.vertices - 1))), np.int64)
    low, high = min(least, csr.width + 1), min(least + more, csr.width)
    seen, queue = np.zeros(csr.width, np.int32), np.empty(csr.width, csr.targets.dtype)
    ends, out = np.zeros(len(sources) + 1, np.int64), np.empty(len(sources) * csr.width, np.int64)
    done, _ = bfs.reached(csr.offsets, csr.targets, sources, 0, low, high, seen, queue, ends[1:], out)
    assert done == len(sources)

    begins, found = numpy_fallback.reached(csr.offsets, csr.targets, sources, low, high)

    assert begins.tolist() == ends.tolist()
    assert found.tolist() == out[: ends[-1]].tolist()


def test_no_vertices() -> None:
    empty = Csr(np.zeros(1, np.int64), np.empty(0, np.int32), None, 0)

    assert numpy_fallback.counts(empty.offsets, np.array([-1, -1])).tolist() == [0, 0]
