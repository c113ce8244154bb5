"""Search by text, by vector and by both, against LanceDB with its indexes built."""

from __future__ import annotations

import argparse
import gc
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import omnigraph_sql as og
from bench import documents
from bench.documents import Documents, Question
from bench.measure import Sample, alternate, markdown, shown

INTRO = (
    "The ten best of 200,000 documents by text (bm25), by vector (64 dimensions), and by both (reciprocal rank fusion); "
    "then among the 0.1 % of them in one bucket. omnigraph ranks exactly. The peer is LanceDB with an IVF_PQ index on the "
    "vectors (20 probes, its default), a full-text index and a BTREE on the bucket; its vector search is approximate. Both "
    "run in one process, their queries alternate, and each query is another one."
)
PACKAGES = ("omnigraph-sql", "pylance", "datafusion", "lancedb", "numpy", "numba")
REPEAT = 40
QUESTIONS = 50

_NEAREST, _BM25 = "nearest($d.v, $v)", "bm25($d.text, $t)"


def _query(rank: str, *, filtered: bool) -> str:
    types = {"$v": "Vector(64)", "$t": "String", "$b": "I32"}
    used = [name for name in ("$v", "$t") if f"{name})" in rank] + (["$b"] if filtered else [])
    match = "$d: Doc { bucket: $b }" if filtered else "$d: Doc"
    head = ", ".join(f"{name}: {types[name]}" for name in used)
    return f"query q({head}) {{ match {{ {match} }} return {{ $d.k }} order {{ {rank} }} limit 10 }}"


@dataclass(frozen=True)
class Workload:
    name: str
    rank: str
    filtered: bool
    target: float | None


WORKLOADS = (
    Workload("hybrid (rrf)", f"rrf({_NEAREST}, {_BM25})", False, 0.8),
    Workload("hybrid (rrf), filtered to 0.1 %", f"rrf({_NEAREST}, {_BM25})", True, 0.5),
    Workload("nearest, filtered to 0.1 %", _NEAREST, True, 0.5),
    Workload("bm25", _BM25, False, None),
    Workload("nearest", _NEAREST, False, None),
)


class Peer:
    """LanceDB over the same table."""

    def __init__(self, directory: Path, data: Documents) -> None:
        os.environ.setdefault("LANCE_LOG", "error")
        import lancedb
        from lancedb.index import FTS, BTree, IvfPq
        from lancedb.rerankers import RRFReranker

        self._reranker = RRFReranker()
        self.table = lancedb.connect(directory).create_table("docs", data.table)
        self.table.create_index("v", config=IvfPq(distance_type="l2"))
        self.table.create_index("text", config=FTS())
        self.table.create_index("bucket", config=BTree())

    def ask(self, workload: Workload, question: Question) -> list[str]:
        """Return the keys of the ten best documents."""
        search: Any
        if "rrf" in workload.rank:
            search = self.table.search(query_type="hybrid").vector(question.vector).text(question.text)
            search = search.rerank(self._reranker)
        elif "bm25" in workload.rank:
            search = self.table.search(question.text, query_type="fts")
        else:
            search = self.table.search(question.vector, vector_column_name="v")
        if workload.filtered:
            search = search.where(f"bucket = {question.bucket}", prefilter=True)
        keys: list[str] = search.limit(10).select(["k"]).to_arrow().column("k").to_pylist()
        return keys

    def nearest(self, question: Question, configure: Callable[[Any], Any]) -> list[str]:
        """Return the keys of the ten nearest documents, by a configured search."""
        search = configure(self.table.search(question.vector, vector_column_name="v"))
        keys: list[str] = search.limit(10).select(["k"]).to_arrow().column("k").to_pylist()
        return keys


class Ours:
    """A graph of the same documents."""

    def __init__(self, directory: Path, data: Documents) -> None:
        self.graph = og.init(directory, documents.SCHEMA)
        self.graph.load({"Doc": data.table}, mode="append")
        self._queries = {workload: _query(workload.rank, filtered=workload.filtered) for workload in WORKLOADS}

    def ask(self, workload: Workload, question: Question) -> list[str]:
        query = self._queries[workload]
        values = {"v": question.vector.tolist(), "t": question.text, "b": question.bucket}
        params = {name: value for name, value in values.items() if f"${name}:" in query}
        return self.graph.query(query, params=params).to_arrow().column(0).to_pylist()  # type: ignore[no-any-return]


def run(options: argparse.Namespace) -> str:
    """Measure, and return the tables of the report."""
    data = documents.generate(max(int(documents.DOCUMENTS * options.scale), 10_000), QUESTIONS)
    with tempfile.TemporaryDirectory(prefix="omnigraph-bench-") as name:
        ours, build_ours = _timed(lambda: Ours(Path(name) / "graph", data))
        _, first = _timed(lambda: [ours.ask(workload, data.questions[0]) for workload in WORKLOADS])
        peer, build_peer = _timed(lambda: Peer(Path(name) / "lancedb", data))
        gc.freeze()  # collecting before each run must not look at all of this
        measured = [(workload, *_measured(workload, ours, peer, data.questions)) for workload in WORKLOADS]
        agreement = _agreement(ours, peer, data.questions)
    built = [
        ["load", f"{build_ours:.1f}", "—"],
        ["text and vector files, made by the first query", f"{first:.1f}", "—"],
        ["load and indexes", f"{build_ours + first:.1f}", f"{build_peer:.1f}"],
    ]
    sections = [
        ("Queries", _comparisons(measured)),
        ("The same answers?", agreement),
        ("Getting ready", markdown(["step", "omnigraph s", "LanceDB s"], built)),
    ]
    return "\n\n".join(f"## {title}\n\n{text}" for title, text in sections)


def _timed(make: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    made = make()
    return made, time.perf_counter() - start


def _measured(workload: Workload, ours: Ours, peer: Peer, questions: list[Question]) -> tuple[Sample, Sample]:
    def asking(one: Ours | Peer) -> Callable[[int], object]:
        def ask(number: int) -> None:
            one.ask(workload, questions[number % len(questions)])

        return ask

    mine, theirs = alternate(asking(ours), asking(peer), repeat=REPEAT, warm_up=5)
    return mine, theirs


def _comparisons(measured: list[tuple[Workload, Sample, Sample]]) -> str:
    head = ["the ten best by", "omnigraph ms (quartiles)", "LanceDB ms (quartiles)", "omnigraph / LanceDB", "target"]
    lines = (
        [
            workload.name,
            shown(mine),
            shown(theirs),
            f"{mine.median / theirs.median:.2f}",
            "—" if workload.target is None else f"≤ {workload.target:g}",
        ]
        for workload, mine, theirs in measured
    )
    return markdown(head, lines)


def _agreement(ours: Ours, peer: Peer, questions: list[Question]) -> str:
    """Return the recall of both systems against an exact search."""
    near, text = WORKLOADS[4], WORKLOADS[3]
    ways: dict[str, Callable[[Any], Any]] = {
        "without its index": lambda search: search.bypass_vector_index(),
        "with its index": lambda search: search,
        "with its index, 100 candidates measured exactly": lambda search: search.refine_factor(10),
    }
    mine, rows = [ours.ask(near, question) for question in questions], []
    for name, how in ways.items():
        other = [peer.nearest(question, how) for question in questions]
        rows.append([f"nearest: LanceDB {name}", f"{_shared(mine, other):.3f}"])
    texts = [peer.ask(text, question) for question in questions]
    rows.append(
        ["bm25: LanceDB's text index", f"{_shared([ours.ask(text, question) for question in questions], texts):.3f}"]
    )
    note = "By text, both are exact; they differ in which of several equal scores comes tenth."
    return markdown(["omnigraph's ten best, compared with", "share in common"], rows) + f"\n\n{note}"


def _shared(mine: list[list[str]], theirs: list[list[str]]) -> float:
    return float(np.mean([len(set(a) & set(b)) / max(len(a), 1) for a, b in zip(mine, theirs, strict=True)]))
