"""Above a number of rows the nearest of a whole type are sought by an index of vectors; everything else stays exact."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

import omnigraph_sql as og

COUNT, WIDTH = 4000, 8
ALL = f"""
query q($v: Vector({WIDTH})) {{
  match {{ $p: Point }} return {{ $p.n, nearest($p.v, $v) as away }} order {{ nearest($p.v, $v) }} limit 10
}}
"""
SOME = f"""
query q($v: Vector({WIDTH}), $n: I32) {{
  match {{ $p: Point $p.n >= $n }} return {{ $p.n, nearest($p.v, $v) as away }} order {{ nearest($p.v, $v) }} limit 10
}}
"""


@pytest.fixture
def vectors() -> npt.NDArray[np.float32]:
    return np.random.default_rng(5).standard_normal((COUNT, WIDTH)).astype(np.float32)


@pytest.fixture
def graph(tmp_path: Path, vectors: npt.NDArray[np.float32], monkeypatch: pytest.MonkeyPatch) -> og.Graph:
    monkeypatch.setenv("OMNIGRAPH_VECTOR_INDEX_ROWS", "1000")
    made = og.init(tmp_path / "graph", f"node Point {{ n: I32 @key  v: Vector({WIDTH})? @index }}")
    column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), WIDTH)
    made.load({"Point": pa.table({"n": pa.array(range(COUNT), pa.int32()), "v": column})}, mode="append")
    assert made.ensure_indices() == []
    return made


def away(vectors: npt.NDArray[np.float32], point: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    found: npt.NDArray[np.float64] = ((vectors.astype(np.float64) - point.astype(np.float64)) ** 2).sum(axis=1)
    return found


def asked(graph: og.Graph, query: str, point: npt.NDArray[np.float32], **params: Any) -> dict[int, float]:
    rows = graph.query(query, params={"v": point.tolist(), **params}).to_pylist()
    assert [row["away"] for row in rows] == sorted(row["away"] for row in rows)
    return {row["p.n"]: row["away"] for row in rows}


def test_most_of_the_nearest_are_found_and_distances_are_exact(graph: og.Graph, vectors: npt.NDArray[np.float32]) -> None:
    found = 0
    points = np.random.default_rng(6).standard_normal((20, WIDTH)).astype(np.float32)
    for point in points:
        distances = away(vectors, point)
        shown = asked(graph, ALL, point)
        assert shown == pytest.approx({number: distances[number] for number in shown})
        found += len(set(shown) & set(np.argsort(distances, kind="stable")[:10].tolist()))
    assert found >= 0.95 * 10 * len(points)
    work = graph.explain(ALL, params={"v": points[0].tolist()}, analyze=True).work
    assert work is not None
    assert "index" in str(work)


def test_any_condition_makes_it_exact(graph: og.Graph, vectors: npt.NDArray[np.float32]) -> None:
    for number, point in enumerate(np.random.default_rng(7).standard_normal((5, WIDTH)).astype(np.float32)):
        first = 1 + 700 * number
        nearest = first + np.argsort(away(vectors[first:], point), kind="stable")[:10]
        assert list(asked(graph, SOME, point, n=first)) == nearest.tolist()


def test_later_rows_are_found_and_deleted_ones_are_not(graph: og.Graph, vectors: npt.NDArray[np.float32]) -> None:
    point = np.full(WIDTH, 9.0, np.float32)
    text = "query q($n: I32, $v: Vector(8)) { insert Point { n: $n, v: $v } }"
    graph.mutate(text, params={"n": COUNT + 1, "v": point.tolist()})
    assert next(iter(asked(graph, ALL, point).items())) == (COUNT + 1, 0.0)
    nearest = int(np.argmin(away(vectors, vectors[17])))
    assert next(iter(asked(graph, ALL, vectors[17]))) == nearest == 17
    graph.mutate("query q($n: I32) { delete Point where n = $n }", params={"n": 17})
    assert 17 not in asked(graph, ALL, vectors[17])
    graph.mutate(text, params={"n": 18, "v": vectors[17].tolist()})
    assert next(iter(asked(graph, ALL, vectors[17]).items())) == (18, 0.0)


def test_rows_of_a_folding_write_are_found(graph: og.Graph) -> None:
    text = "query q($n: I32, $v: Vector(8)) { insert Point { n: $n, v: $v } }"
    for number in range(40):  # enough for small fragments to be folded
        graph.mutate(text, params={"n": COUNT + number, "v": np.full(WIDTH, 9.0 + number, np.float32).tolist()})
    for number in (0, 20, 39):
        nearest = asked(graph, ALL, np.full(WIDTH, 9.0 + number, np.float32))
        assert next(iter(nearest.items())) == (COUNT + number, 0.0)


def test_rows_of_an_upsert_larger_than_memory_are_found(
    graph: og.Graph, vectors: npt.NDArray[np.float32], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMNIGRAPH_LOAD_MEMORY", "0")
    moved = pa.FixedSizeListArray.from_arrays(pa.array((vectors[:2000] + 50).ravel()), WIDTH)
    graph.load({"Point": pa.table({"n": pa.array(range(2000), pa.int32()), "v": moved})}, mode="merge")
    for number in (3, 1999):
        assert next(iter(asked(graph, ALL, vectors[number] + np.float32(50)))) == number
