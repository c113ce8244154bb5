"""How good answers are: nothing is missed among many vectors, and two rankings together beat each of them."""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import omnigraph_sql as og


@pytest.mark.slow
@pytest.mark.parametrize("metric", ["l2", "cosine", "dot"])
def test_the_ten_nearest_of_many_are_all_found(tmp_path: Path, metric: str) -> None:
    generator = np.random.default_rng(3)
    count, width = 100_000, 32
    stored = generator.standard_normal((count, width)).astype(np.float32)
    graph = og.init(tmp_path / "g", f'node Point {{ k: String @key  n: I32  v: Vector({width}) @metric("{metric}") }}')
    column = pa.FixedSizeListArray.from_arrays(pa.array(stored.ravel()), width)
    names = pa.array([f"p{number:06}" for number in range(count)])
    graph.load({"Point": pa.table({"k": names, "n": pa.array(range(count), pa.int32()), "v": column})}, mode="append")
    query = f"""
    query q($v: Vector({width}), $n: I32) {{
      match {{ $p: Point $p.n >= $n }} return {{ $p.n }} order {{ nearest($p.v, $v) }} limit 10
    }}
    """
    exact = stored.astype(np.float64)
    for first in (0, 1, 99_800):
        for _ in range(10):
            asked = generator.standard_normal(width).astype(np.float32)
            products = exact[first:] @ asked.astype(np.float64)
            away = {
                "l2": ((exact[first:] - asked.astype(np.float64)) ** 2).sum(axis=1),
                "cosine": -products / np.linalg.norm(exact[first:], axis=1),
                "dot": -products,
            }[metric]
            found = graph.query(query, params={"v": asked.tolist(), "n": first}).to_pylist()
            assert [row["p.n"] for row in found] == (first + np.argsort(away, kind="stable")[:10]).tolist()


TOPICS, DOCUMENTS, WIDTH = 40, 800, 16


def gain(found: Sequence[int], relevant: set[int]) -> float:
    """NDCG of the first ten."""
    hits = sum(1 / math.log2(place + 2) for place, each in enumerate(found[:10]) if each in relevant)
    return hits / sum(1 / math.log2(place + 2) for place in range(min(10, len(relevant))))


def test_fused_ranks_are_better_than_either_arm(tmp_path: Path) -> None:
    """Texts and vectors tell of the same topics, each with noise of its own."""
    generator = np.random.default_rng(9)
    topics = generator.integers(0, TOPICS, DOCUMENTS)
    texts = []
    for topic in topics:
        shown = topic if generator.random() < 0.7 else generator.integers(0, TOPICS)
        words = [f"topic{shown}x"] * int(generator.integers(1, 3)) + [f"noise{n}x" for n in generator.integers(0, 50, 12)]
        texts.append(" ".join(words))
    centres = generator.standard_normal((TOPICS, WIDTH))
    vectors = (centres[topics] + 0.9 * generator.standard_normal((DOCUMENTS, WIDTH))).astype(np.float32)
    graph = og.init(tmp_path / "g", f"node Doc {{ k: String @key  n: I32  t: String  v: Vector({WIDTH}) }}")
    table = {
        "k": pa.array([f"d{number:04}" for number in range(DOCUMENTS)]),
        "n": pa.array(range(DOCUMENTS), pa.int32()),
        "t": pa.array(texts),
        "v": pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), WIDTH),
    }
    graph.load({"Doc": pa.table(table)}, mode="append")
    arms = {"nearest": "nearest($d.v, $v)", "bm25": "bm25($d.t, $t)"}
    arms["rrf"] = f"rrf({arms['nearest']}, {arms['bm25']})"
    gains = dict.fromkeys(arms, 0.0)
    for topic in range(TOPICS):
        asked = centres[topic] + 0.5 * generator.standard_normal(WIDTH)
        relevant = set(np.flatnonzero(topics == topic).tolist())
        for name, arm in arms.items():
            given = {"v": asked.tolist(), "t": f"topic{topic}x noise{topic}x"}
            used = [each for each in ("v", "t") if f"${each}" in arm.replace("$d.v", "").replace("$d.t", "")]
            kinds = {"v": f"Vector({WIDTH})", "t": "String"}
            head = ", ".join(f"${each}: {kinds[each]}" for each in used)
            query = f"query q({head}) {{ match {{ $d: Doc }} return {{ $d.n }} order {{ {arm} }} limit 10 }}"
            rows = graph.query(query, params={each: given[each] for each in used}).to_pylist()
            gains[name] += gain([row["d.n"] for row in rows], relevant) / TOPICS
    assert gains["rrf"] > max(gains["nearest"], gains["bm25"]) + 0.02, gains
