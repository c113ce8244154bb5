"""Graphs on Sparks of several processes: the same job gives the same, whoever runs it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import omnigraph_sql as og
from tests.docs.blocks import read_blocks
from tests.spark import clusters
from tests.spark.conftest import SCHEMA
from tests.spark.helpers import heads, keys, knows, orphans, pins

pytestmark = pytest.mark.slow

JOB = Path(__file__).with_name("cluster_job.py")
SEEN = {
    "load": {
        "rows": [{"Person": 39}, {"Knows": 38}],
        "rejects": [["endpoint", "p39", None], ["endpoint", "p39", None], ["range", "900", "part 3"]],
    },
    "refused": [
        "ValidationFailed: row 2: @unique violation on Person.key: `x` occurs more than once",
        "ValidationFailed: row 1: @range violation: Person.age = 999 (id `y`)",
        "BadRequest: unknown node type or edge type `Nobody`",
    ],
    "read": ["p30", "p31", "p32"],
    "query": ["p4", "p5"],
    "total": [{"n": 39, "ages": sum(range(39))}],
    "rows of a query": ["p4", "p5"],
    "stream": [1, 1, 0],
    "pipeline": {
        "sources": [["lines", 3, 1], ["rows", 3, 0]],
        "tables": [["node:Person", 4, 1, 3], ["edge:Knows", 3, 0, 3]],
        "rejects": [["json", "raw.jsonl"], ["type", "raw.jsonl"]],
    },
}


def check(place: Path, said: str) -> None:
    """What the job saw, and what it left."""
    saw: dict[str, Any] = json.loads(said.splitlines()[-1])
    assert saw == SEEN
    graph = og.connect(place / "graph")
    assert set(keys(graph)) == {*(f"p{number}" for number in range(39)), "s0", "s1", "j1", "c1", "c2"}
    assert len(knows(graph)) == 40  # two of the 41 edges join the same nodes
    assert heads(graph) == pins(graph)
    assert orphans(graph) == []


def prepared(tmp_path: Path) -> Path:
    place = tmp_path / "work"
    place.mkdir()
    og.init(place / "graph", SCHEMA)
    return place


def test_one_process_that_pretends_to_be_a_cluster(tmp_path: Path) -> None:
    place = prepared(tmp_path)
    check(place, clusters.run([sys.executable, str(JOB), str(place), "local-cluster[2,1,1024]"], place))


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with clusters.standalone(tmp_path_factory.mktemp("cluster")) as found:
        yield found


def test_a_master_with_two_workers(master: str, tmp_path: Path) -> None:
    place = prepared(tmp_path)
    check(place, clusters.run([sys.executable, str(JOB), str(place), master], place))


@pytest.mark.parametrize("where", ["this machine", "two workers"])
def test_a_program_that_is_submitted(request: pytest.FixtureRequest, tmp_path: Path, where: str) -> None:
    """It does not say where it runs: that is for `spark-submit`."""
    place = prepared(tmp_path)
    master = "local[2]" if where == "this machine" else request.getfixturevalue("master")
    submit = [str(clusters.SPARK_HOME / "bin" / "spark-submit"), "--master", master, "--executor-memory", "1g"]
    check(place, clusters.run([*submit, str(JOB), str(place)], place))


def test_the_program_of_the_guide(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "graph", SCHEMA)
    pq.write_table(pa.table({"key": ["a", "b"]}), tmp_path / "people.parquet")
    (program,) = [each for each in read_blocks(clusters.ROOT / "docs/guides/spark.md") if each.title == "job.py"]
    (tmp_path / "job.py").write_text(program.text)
    submit = [str(clusters.SPARK_HOME / "bin" / "spark-submit"), "--master", "local[2]", "job.py"]

    clusters.run([*submit, graph.uri, str(tmp_path / "people.parquet")], tmp_path)

    assert keys(graph) == ["a", "b"]


def test_pipelines_of_the_command_line(master: str, tmp_path: Path) -> None:
    graph = og.init(tmp_path / "graph", SCHEMA)
    (tmp_path / "raw.csv").write_text("key,age\na,5\nb,6\nc,old\n")
    (tmp_path / "pipeline.yaml").write_text(
        "graph: graph\nsources: {rows: {format: csv, path: raw.csv}}\nrejects: {max: 1}\n"
        "nodes: [{type: Person, from: rows, columns: {key: key, age: age}}]\n"
    )
    command = [sys.executable, "-m", "ogsql", "pipeline", "run", "pipeline.yaml", "--master", master, "--json"]

    first = json.loads(clusters.run(command, tmp_path))
    again = json.loads(clusters.run(command, tmp_path))

    assert [(each["rows"], each["rejected"], each["published"]) for each in first["tables"]] == [(3, 1, 2)]
    assert (first["replayed"], again["replayed"]) == (False, True)
    assert (keys(graph), orphans(graph)) == (["a", "b"], [])


# Spark Connect -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with clusters.connect_server(tmp_path_factory.mktemp("server")) as found:
        yield found


def test_a_server_of_spark_connect(server: str, tmp_path: Path) -> None:
    place = prepared(tmp_path)
    check(place, clusters.run([sys.executable, str(JOB), str(place), server], place))


def test_a_server_that_the_environment_names(server: str, tmp_path: Path) -> None:
    """A client of it needs no Java."""
    place = prepared(tmp_path)
    told = clusters.run([sys.executable, str(JOB), str(place)], place, SPARK_REMOTE=server, PATH="", JAVA_HOME="/nowhere")
    check(place, told)
