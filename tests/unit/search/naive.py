"""What search has to answer, worked out in plain Python over all rows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import omnigraph_sql as og

SCHEMA = """
node Doc { k: String @key  t: String?  v: Vector(3)?  n: I32? }
node Tag { k: String @key }
edge Has: Tag -> Doc
"""
SCORES = "query q($q: String) { match { $d: Doc } return { $d.k, bm25($d.t, $q) as s } }"
BEST = "query q($q: String) { match { $d: Doc } return { $d.k, bm25($d.t, $q) as s } order { bm25($d.t, $q) } limit 7 }"
NEAR = """
query q($v: Vector(3)) { match { $d: Doc } return { $d.k, nearest($d.v, $v) as s } order { nearest($d.v, $v) } limit 7 }
"""
NEAR_SOME = """
query q($v: Vector(3)) {
  match { $d: Doc $d.n >= 3 } return { $d.k, nearest($d.v, $v) as s } order { nearest($d.v, $v) } limit 7
}
"""
FUSED = """
query q($v: Vector(3), $q: String) {
  match { $d: Doc } return { $d.k, rrf(nearest($d.v, $v), bm25($d.t, $q)) as s }
  order { rrf(nearest($d.v, $v), bm25($d.t, $q)) } limit 7
}
"""
FUZZY = 'query q() { match { $d: Doc fuzzy($d.t, "sea1x", 1) } return { $d.k } }'
QUESTION = {"q": "sea1 oak2 sea1 reef3", "v": [0.5, -1.0, 2.0]}


@dataclass
class Model:
    """The documents there should be. Words end in digits, so that no stem is cut off and none is a stop word."""

    docs: dict[str, dict[str, Any]] = field(default_factory=dict)

    def copy(self) -> Model:
        return Model(dict(self.docs))

    def put(self, rows: list[dict[str, Any]]) -> None:
        self.docs |= {row["k"]: row for row in rows}

    def scores(self, query: str) -> dict[str, float]:
        words = {key: (doc.get("t") or "").split() for key, doc in self.docs.items()}
        lengths = [len(each) for each in words.values() if each]
        average = sum(lengths) / len(lengths) if lengths else 0.0
        found = dict.fromkeys(words, 0.0)
        for token in query.split():
            holders = sum(token in each for each in words.values())
            idf = math.log(1 + (len(lengths) - holders + 0.5) / (holders + 0.5))
            for key, each in words.items():
                count = each.count(token)
                if count:
                    found[key] += idf * count * 2.2 / (count + 1.2 * (0.25 + 0.75 * len(each) / average))
        return found

    def distances(self, query: list[float], least: int | None = None) -> dict[str, float]:
        return {
            key: sum((a - b) ** 2 for a, b in zip(doc["v"], query, strict=True))
            for key, doc in self.docs.items()
            if doc.get("v") is not None and (least is None or (doc.get("n") is not None and doc["n"] >= least))
        }

    def fused(self, limit: int) -> list[str]:
        near = _listed(self.distances(QUESTION["v"]))[:limit]  # type: ignore[arg-type]
        scores = self.scores(QUESTION["q"])  # type: ignore[arg-type]
        texts = _listed({key: -score for key, score in scores.items() if score > 0})
        ranks = [{key: place for place, key in enumerate(each, 1)} for each in (near, texts)]
        away = math.inf

        def order(key: str) -> tuple[float, float, float]:
            total = sum(1 / (60 + each[key]) for each in ranks if key in each)
            return -total, ranks[0].get(key, away), ranks[1].get(key, away)

        return sorted({*near, *texts}, key=order)[:limit]


def _listed(values: Mapping[str, float]) -> list[str]:
    """Keys by ascending value; what differs in the last digits only is a tie."""
    return sorted(values, key=lambda key: (round(values[key], 9), key.encode()))


def check(graph: og.Graph, model: Model, **target: Any) -> None:
    """Every search of the graph gives what plain Python says."""

    def ask(query: str, *names: str) -> dict[str, float]:
        rows = graph.query(query, params={name: QUESTION[name] for name in names}, **target).to_pylist()
        return {row["d.k"]: row.get("s", 0.0) for row in rows}

    wanted = model.scores(QUESTION["q"])  # type: ignore[arg-type]
    _same(ask(SCORES, "q"), wanted)
    hits = {key: score for key, score in wanted.items() if score > 0}
    best = ask(BEST, "q")
    assert list(best) == _listed({key: -score for key, score in hits.items()})[:7]
    _same(best, {key: hits[key] for key in best})
    for query, least in ((NEAR, None), (NEAR_SOME, 3)):
        away = model.distances(QUESTION["v"], least)  # type: ignore[arg-type]
        near = ask(query, "v")
        assert list(near) == _listed(away)[:7]
        _same(near, {key: away[key] for key in near})
    assert list(ask(FUSED, "v", "q")) == model.fused(7)
    close = {key for key, doc in model.docs.items() if {"sea1", "sea12"} & set((doc.get("t") or "").split())}
    assert set(ask(FUZZY)) == close


def _same(found: Mapping[str, float], wanted: Mapping[str, float]) -> None:
    assert found.keys() == wanted.keys()
    for key, value in found.items():
        assert math.isclose(value, wanted[key], rel_tol=1e-12, abs_tol=1e-12), key


def derived(graph_or_path: og.Graph | Path, kind: str) -> dict[str, bytes]:
    """The derived files of a graph by name."""
    root = Path(graph_or_path.uri) if isinstance(graph_or_path, og.Graph) else graph_or_path
    return {path.name: path.read_bytes() for path in sorted((root / "_derived" / kind).glob("*"))}
