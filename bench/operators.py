"""The speed of the operators, compared with the closest equivalents in other libraries: `python -m bench.operators [SCALE]`.

Scale 1 is a graph of 100 000 vertices and 2.4 million edges, 1 000 000 ids, 200 000 vectors of 64 numbers, and 20 000
texts of 50 words. Peers: SciPy and NumPy over the same arrays, PyArrow, and DuckDB over its own tables. DuckDB's times
include converting the result to arrays; its two-hop count is the query as a user would write it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse

from bench.measure import Row, measure, table
from omnigraph_sql.storage.analysis import ANALYSER
from omnigraph_udfs.csr import Csr, build, distinct, extend, transpose
from omnigraph_udfs.expand import expand
from omnigraph_udfs.ids import IdIndex
from omnigraph_udfs.path_aggregates import sum_over
from omnigraph_udfs.ranking import by_id
from omnigraph_udfs.reach import reach
from omnigraph_udfs.segments import build_segment, merge_segments
from omnigraph_udfs.text import Part, TextIndex
from omnigraph_udfs.vector import Metric, Vectors, nearest

RANDOM = np.random.default_rng(7)


def graph_rows(scale: float) -> list[Row]:
    vertices, count = int(100_000 * scale), int(2_400_000 * scale)
    src, dst = RANDOM.integers(0, vertices, count), RANDOM.zipf(1.3, count) % vertices
    database = duckdb.connect()
    edges = pa.table({"src": src, "dst": dst})
    database.execute("create table e as select distinct src, dst from edges")
    stored = build(src, dst, sources=vertices, width=vertices)
    csr = distinct(stored)
    matrix = scipy.sparse.csr_matrix((np.ones(csr.size, np.int64), csr.targets, csr.offsets), shape=(vertices, vertices))
    frontier = RANDOM.integers(0, vertices, vertices // 10)
    database.register("f", pa.table({"v": frontier}))
    weights = RANDOM.random(vertices) < 0.5
    more = RANDOM.integers(0, vertices, 10_000), RANDOM.integers(0, vertices, 10_000)
    start = np.arange(100)
    assert len(edges) == count
    return [
        Row(
            f"adjacency of {count:,} edges",
            measure(lambda: build(src, dst, sources=vertices, width=vertices), repeat=7),
            {"scipy": measure(lambda: _scipy_build(src, dst, vertices), repeat=7)},
        ),
        Row(
            "the same, extended by 10 000 edges, against rebuilding",
            measure(lambda: extend(stored, *more, sources=vertices, width=vertices, first_edge=count), repeat=7),
            {"numpy": measure(lambda: np.lexsort((np.append(dst, more[1]), np.append(src, more[0]))), repeat=3)},
        ),
        Row(
            "the other direction",
            measure(lambda: transpose(csr), repeat=7),
            {"scipy": measure(matrix.tocsc, repeat=7)},
        ),
        Row(
            f"one hop from {len(frontier):,} vertices",
            measure(lambda: expand(csr, frontier)),
            {
                "numpy": measure(lambda: _numpy_expand(csr, frontier)),
                "duckdb": measure(lambda: database.sql("select f.v, e.dst from f join e on e.src = f.v").fetchnumpy()),
            },
        ),
        Row(
            "two-hop paths with a filter in the middle, counted",
            measure(lambda: int(sum_over(csr, np.where(weights, csr.degrees(), 0)).sum())),
            {
                "scipy": measure(lambda: int((matrix @ np.where(weights, csr.degrees(), 0)).sum())),
                "duckdb": measure(lambda: _two_hops(database, weights), repeat=5, warm_up=1),
            },
        ),
        Row(
            "reach of 1 to 3 hops from 100 vertices",
            measure(lambda: reach(csr, start, least=1, most=3), repeat=7),
            {"scipy": measure(lambda: _scipy_reach(matrix, start, 3), repeat=5, warm_up=1)},
        ),
    ]


def id_rows(scale: float) -> list[Row]:
    count = int(1_000_000 * scale)
    ids = pa.array([f"person-{number:09}" for number in range(count)])
    sought = ids.take(pa.array(RANDOM.integers(0, count, count)))
    index = IdIndex.build(ids)
    return [
        Row(
            f"{count:,} ids looked up among as many, index at hand",
            measure(lambda: index.find(sought), repeat=7),
            {"pyarrow": measure(lambda: pc.index_in(sought, value_set=ids), repeat=7)},
        ),
        Row(
            "the same, index built first",
            measure(lambda: IdIndex.build(ids).find(sought), repeat=7),
            {"pyarrow": measure(lambda: pc.index_in(sought, value_set=ids), repeat=7)},
        ),
    ]


def vector_rows(scale: float) -> list[Row]:
    count, dimension = int(200_000 * scale), 64
    matrix = RANDOM.standard_normal((count, dimension)).astype(np.float32)
    vectors, query = Vectors(matrix), RANDOM.standard_normal(dimension)
    some = RANDOM.choice(count, min(10_000, count), replace=False)
    metrics: tuple[Metric, ...] = ("l2", "cosine", "dot")
    rows = [
        Row(
            f"10 nearest of {count:,} x {dimension}, {metric}",
            measure(partial(nearest, vectors, query, limit=10, metric=metric)),
            {"numpy": measure(partial(_numpy_nearest, matrix, query, metric))},
        )
        for metric in metrics
    ]
    rows.append(
        Row(
            f"10 nearest of {len(some):,} candidates, l2",
            measure(lambda: nearest(vectors, query, limit=10, candidates=some)),
            {"numpy": measure(lambda: _numpy_nearest(matrix[some], query, "l2"))},
        )
    )
    return rows


def text_rows(scale: float) -> list[Row]:
    count = int(20_000 * scale)
    words = np.array(["".join(RANDOM.choice(list("abcdefghilmnoprstu"), RANDOM.integers(3, 11))) for _ in range(20_000)])
    chances = 1 / np.arange(1, len(words) + 1)
    picked = RANDOM.choice(len(words), (count, 50), p=chances / chances.sum())
    texts = pa.array([" ".join(words[row]) for row in picked])
    ids = pa.array([f"text-{number:09}" for number in range(count)])
    segment = build_segment(texts, ANALYSER)
    half = [build_segment(texts[: count // 2], ANALYSER), build_segment(texts[count // 2 :], ANALYSER)]
    index = TextIndex([Part(segment, np.arange(count))], size=count)
    query = ANALYSER.terms(" ".join(words[[3, 30, 300, 3000]]))
    counts = _scipy_counts(segment.terms.docs, segment.terms.offsets, segment.terms.counts, count)
    columns = [segment.terms.number(term) for term in query]

    def best() -> object:
        scores = index.bm25(query)
        return by_id(-scores.values[scores.hits], scores.hits, ids.take, limit=10)

    return [
        Row(
            f"segment of {count:,} texts, against splitting at blanks alone",
            measure(lambda: build_segment(texts, ANALYSER), repeat=3, warm_up=1),
            {"pyarrow": measure(lambda: pc.list_flatten(pc.utf8_split_whitespace(texts)).dictionary_encode(), repeat=3)},
        ),
        Row(
            "merging two halves, against building anew",
            measure(lambda: merge_segments(half), repeat=5, warm_up=1),
            {"rebuild": measure(lambda: build_segment(texts, ANALYSER), repeat=3, warm_up=1)},
        ),
        Row(
            "10 best of a query of 4 words",
            measure(best),
            {"scipy": measure(lambda: _scipy_best(counts, columns, segment.lengths.astype(float)))},
        ),
        Row("fuzzy search within 2 edits", measure(lambda: index.fuzzy([str(words[77])], 2)), {}),
    ]


def _scipy_build(src: np.ndarray, dst: np.ndarray, vertices: int) -> object:
    ones = np.ones(len(src), np.int32)
    return scipy.sparse.coo_matrix((ones, (src, dst)), shape=(vertices, vertices)).tocsr().sort_indices()


def _numpy_expand(csr: Csr, frontier: np.ndarray) -> object:
    start, count = csr.offsets[frontier], csr.offsets[frontier + 1] - csr.offsets[frontier]
    offsets = np.append(0, np.cumsum(count))
    at = np.repeat(start - offsets[:-1], count) + np.arange(offsets[-1])
    return offsets, csr.targets[at].astype(np.int64)


def _scipy_reach(matrix: scipy.sparse.csr_matrix, start: np.ndarray, hops: int) -> object:
    reached = frontier = scipy.sparse.identity(matrix.shape[0], format="csr", dtype=np.bool_)[start]
    adjacency = matrix.astype(np.bool_)
    for _ in range(hops):
        frontier = frontier @ adjacency
        frontier = frontier > reached.multiply(frontier)
        reached = reached + frontier
    return reached


def _two_hops(database: duckdb.DuckDBPyConnection, weights: np.ndarray) -> object:
    database.register("w", pa.table({"v": np.flatnonzero(weights)}))
    return database.sql("select count(*) from e a join w on a.dst = w.v join e b on b.src = w.v").fetchall()


def _numpy_nearest(matrix: np.ndarray, query: np.ndarray, metric: str) -> object:
    """Compute in float32, without ties: a lower bound of the work."""
    point = query.astype(np.float32)
    product = matrix @ point
    if metric == "l2":
        distance = np.einsum("ij,ij->i", matrix, matrix) - 2 * product
    elif metric == "dot":
        distance = 1 - product
    else:
        distance = 1 - product / np.sqrt(np.einsum("ij,ij->i", matrix, matrix))
    best = np.argpartition(distance, 10)[:10]
    return best[np.argsort(distance[best])]


def _scipy_counts(docs: np.ndarray, offsets: np.ndarray, counts: np.ndarray | None, rows: int) -> scipy.sparse.csc_matrix:
    return scipy.sparse.csc_matrix((counts, docs, offsets), shape=(rows, len(offsets) - 1))


def _scipy_best(counts: scipy.sparse.csc_matrix, columns: list[int], lengths: np.ndarray) -> object:
    scores = np.zeros(counts.shape[0])
    for column in columns:
        held = counts[:, [column]].tocoo()
        idf = np.log(1 + (len(scores) - held.nnz + 0.5) / (held.nnz + 0.5))
        weight = held.data + 1.2 * (0.25 + 0.75 * lengths[held.row] / lengths.mean())
        scores[held.row] += idf * held.data * 2.2 / weight
    best = np.argpartition(-scores, 10)[:10]
    return best[np.argsort(-scores[best])]


GROUPS: tuple[Callable[[float], list[Row]], ...] = (graph_rows, id_rows, vector_rows, text_rows)


def run(scale: float = 1.0) -> list[Row]:
    return [row for group in GROUPS for row in group(scale)]


if __name__ == "__main__":
    print(table(run(float(sys.argv[1]) if len(sys.argv) > 1 else 1.0)))
