"""Graphs on Spark, against Parquet on the same Spark; and a pipeline on Spark against the same one in one process."""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

import omnigraph_sql as og
from bench.measure import alternate, markdown, shown

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

INTRO = (
    "Spark, `local[2]`: rows of a node type with a key, a text, two numbers and a date are written and read, against "
    "Parquet files of the same rows on the same Spark; runs alternate. The ratio is the time of Parquet by ours, so more is "
    "better. What is written to a graph is converted to its schema, checked, and published in one commit. Rows are written "
    "from the memory of Spark, where nothing else takes time, and from CSV files, as jobs do. A data source in Python is "
    "handed its rows by Spark first: what that takes alone, with rows that are dropped at once, is a row of its own, and a "
    "bound for every such data source. Then a pipeline "
    "over JSONL files with duplicates, faulty rows and edges to nowhere, run with both engines in processes of their own: "
    "seconds, and seconds of processor time, Java and workers included."
)
PACKAGES = ("omnigraph-sql", "pyspark", "pylance", "pyarrow", "duckdb")
ROWS = 2_000_000
NODES, EDGES = 2_000_000, 5_000_000
REPEAT = 11
_ADOPT = 36
"""PR_SET_CHILD_SUBREAPER of Linux."""
SCHEMA = """
node Person { key: String @key
  name: String?
  age: I32?
  weight: F64?
  born: Date? }
"""
PIPELINE_SCHEMA = """
node Person { key: String @key
  name: String
  age: I32?
  @range(age, 0..150) }
edge Knows: Person -> Person { since: I32? }
"""
PIPELINE = """
graph: {engine}
mode: append
sources:
  people: {{format: jsonl, path: people.jsonl}}
  pairs: {{format: jsonl, path: pairs.jsonl}}
nodes:
  - {{type: Person, from: people, columns: {{key: id, name: name, age: age}}, dedupe: {{by: [key], keep: last}}}}
edges:
  - {{type: Knows, from: pairs, src: a, dst: b, columns: {{since: since}}}}
rejects: {{to: rejects-{engine}.jsonl, max: 10%}}
"""


def run(options: argparse.Namespace) -> str:
    """Measure, and return the tables of the report."""
    with tempfile.TemporaryDirectory() as place:
        pipeline = _pipelines(Path(place), options.scale)
        frames = _frames(Path(place), int(ROWS * options.scale))
    return f"## DataFrames\n\n{frames}\n\n## A pipeline\n\n{pipeline}"


def _frames(place: Path, rows: int) -> str:
    spark = og.spark.session("local[2]")
    frame = spark.range(0, rows, 1, 4).selectExpr(
        "concat('person-', id) as key",
        "concat('name ', id % 1000) as name",
        "cast(id % 100 as int) as age",
        "rand(7) * 100 as weight",
        "date_add(date'1950-01-01', cast(id % 20000 as int)) as born",
    )
    frame = frame.persist()
    frame.count()
    graph = og.init(place / "graph", SCHEMA)
    parquet = str(place / "parquet")

    frame.write.csv(str(place / "csv"))
    raw = spark.read.schema(frame.schema).csv(str(place / "csv"))

    def write_graph(rows: DataFrame) -> Callable[[int], None]:
        return lambda _: rows.write.format("omnigraph").option("type", "Person").mode("overwrite").save(graph.uri)

    def write_parquet(rows: DataFrame) -> Callable[[int], None]:
        return lambda _: rows.write.mode("overwrite").parquet(parquet)

    def dropped(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"n": [sum(batch.num_rows for batch in batches)]})

    def hand_over(_: int) -> None:
        frame.mapInArrow(dropped, "n long").collect()

    lines = [
        _line("write rows in memory", write_graph(frame), write_parquet(frame), 0.7),
        _line("hand rows in memory to Python", hand_over, write_parquet(frame)),
        _line("write rows of CSV files", write_graph(raw), write_parquet(raw), 0.7),
    ]
    # Only the columns of the files: Spark does not report the columns that it needs, and `id` repeats the key.
    read = spark.read.format("omnigraph").options(type="Person", columns=",".join(frame.columns)).load(graph.uri)
    some = spark.read.format("omnigraph").options(type="Person", columns="age,weight", filter="age = 7").load(graph.uri)
    plain = spark.read.parquet(parquet)

    def noop(made: Callable[[], object]) -> Callable[[int], None]:
        return lambda _: made().write.format("noop").mode("overwrite").save()  # type: ignore[attr-defined]

    lines.append(_line("read everything", noop(lambda: read), noop(lambda: plain), 0.5))
    filtered = (noop(lambda: some.where("age = 7")), noop(lambda: plain.select("age", "weight").where("age = 7")))
    lines.append(_line("read two columns of one in a hundred rows", *filtered, 0.7))
    spark.stop()
    return markdown([f"{rows:,} rows", "omnigraph ms", "Parquet ms", "Parquet / omnigraph", "target", "met"], lines)


def _line(name: str, ours: Callable[[int], object], theirs: Callable[[int], None], target: float | None = None) -> list[str]:
    mine, peer = alternate(ours, theirs, repeat=REPEAT)
    ratio = peer.median / mine.median
    judged = ["—", "—"] if target is None else [f"≥ {target}", "yes" if ratio >= target else "no"]
    return [name, shown(mine), shown(peer), f"{ratio:.2f}", *judged]


# A pipeline ----------------------------------------------------------------------------------------------------------

CHILD = """
import sys
import omnigraph_sql as og
from omnigraph_sql.pipeline import run_pipeline
og.init(sys.argv[1], open("schema.pg").read())
report = run_pipeline(f"{sys.argv[1]}.yaml", engine=sys.argv[1], master="local[2]" if sys.argv[1] == "spark" else None)
print(report.rejected, *(table.published for table in report.tables))
"""


def _pipelines(place: Path, scale: float) -> str:
    _raw(place, int(NODES * scale), int(EDGES * scale))
    (place / "schema.pg").write_text(PIPELINE_SCHEMA)
    measured = {}
    for engine in ("local", "spark"):
        (place / f"{engine}.yaml").write_text(PIPELINE.format(engine=engine))
        measured[engine] = _child(place, engine)
    assert measured["local"][2] == measured["spark"][2], f"the engines differ: {measured}"
    (local_wall, local_cpu, counts), (wall, cpu, _) = measured["local"], measured["spark"]
    rejected, nodes, edges = counts.split()
    ratio = cpu / local_cpu
    lines = [
        ["local", f"{local_wall:.1f}", f"{local_cpu:.1f}", "1.00", "—", "—"],
        ["spark", f"{wall:.1f}", f"{cpu:.1f}", f"{ratio:.2f}", "≤ 4", "yes" if ratio <= 4 else "no"],
    ]
    text = f"{int(nodes):,} nodes and {int(edges):,} edges published, {int(rejected):,} rows rejected; the same by both."
    return f"{markdown(['engine', 'seconds', 'CPU seconds', 'CPU / local', 'target', 'met'], lines)}\n\n{text}"


def _child(place: Path, engine: str) -> tuple[float, float, str]:
    """Return the seconds, the processor seconds of the process and all its descendants, and its output."""
    # Java and its workers outlive their parents; this process adopts them, so that their time is counted.
    ctypes.CDLL(None).prctl(_ADOPT, 1, 0, 0, 0)
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)}
    command = [sys.executable, "-c", CHILD, engine]
    done = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, check=True)
    seconds = time.perf_counter() - start
    with suppress(ChildProcessError):
        while True:
            os.waitpid(-1, 0)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds, cpu, done.stdout.strip()


def _raw(place: Path, nodes: int, edges: int) -> None:
    """Write raw files in which about one row in a hundred repeats a key, is faulty, or has a missing end."""
    rng = np.random.default_rng(7)
    ids = np.arange(nodes)
    ids[rng.random(nodes) < 0.01] = 0
    ages = np.where(rng.random(nodes) < 0.001, 999, rng.integers(0, 100, nodes))
    with (place / "people.jsonl").open("w") as file:
        for number, age in zip(ids.tolist(), ages.tolist(), strict=True):
            file.write(f'{{"id": "p{number}", "name": "name {number % 1000}", "age": {age}}}\n')
    with (place / "pairs.jsonl").open("w") as file:
        ends = rng.integers(0, int(nodes * 1.005), (edges, 2)).tolist()
        for start, end in ends:
            file.write(json.dumps({"a": f"p{start}", "b": f"p{end}", "since": 2000 + end % 25}) + "\n")
