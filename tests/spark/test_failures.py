"""Tasks that fail, drivers that are killed, jobs that race: afterwards everything of a job is there, or nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import omnigraph_sql as og
from tests.spark.helpers import heads, keys, orphans, pins

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession


def spread(spark: SparkSession, count: int = 40, parts: int = 4) -> DataFrame:
    """Keys in several partitions."""
    return spark.range(0, count, 1, parts).selectExpr("concat('p', id) as key", "cast(id as int) as age")


def save(frame: DataFrame, graph: og.Graph, **options: str) -> None:
    with og.spark.typed_errors():
        frame.write.format("omnigraph").options(type="Person", **options).mode("append").save(graph.uri)


def test_a_task_that_fails_once_is_repeated(spark: SparkSession, graph: og.Graph, tmp_path: Path) -> None:
    mark = str(tmp_path / "failed")

    def fails_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        if not os.path.exists(mark):
            open(mark, "w").close()
            raise RuntimeError("the first attempt fails, after its rows were given")

    save(spread(spark).mapInArrow(fails_once, "key string, age int"), graph)

    assert os.path.exists(mark)
    assert len(keys(graph)) == 40
    assert orphans(graph) == []


def test_a_task_that_always_fails_publishes_nothing(spark: SparkSession, graph: og.Graph) -> None:
    before = heads(graph), pins(graph)

    def fails(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if "p39" in batch.column("key").to_pylist():
                raise RuntimeError("a bad row")
            yield batch

    with pytest.raises(Exception, match="a bad row"):
        save(spread(spark).mapInArrow(fails, "key string, age int"), graph)

    assert (heads(graph), pins(graph), orphans(graph)) == (*before, [])
    save(spread(spark), graph)
    assert len(keys(graph)) == 40


def test_a_failure_in_an_expression_of_spark_publishes_nothing(spark: SparkSession, graph: og.Graph) -> None:
    """The rows of a task just end there, as if they were all."""
    before = heads(graph), pins(graph)
    frame = spark.range(0, 2000, 1, 4).selectExpr(
        "concat('p', id) as key", "cast(if(id = 1999, raise_error('bad row'), id % 100) as int) as age"
    )

    with pytest.raises(Exception, match="bad row"):
        save(frame, graph)

    assert (heads(graph), pins(graph)) == before
    # Tasks that ended after the job was given up remove what they wrote.
    assert orphans(graph) == []


def test_a_schema_that_differs_from_the_job_s(spark: SparkSession, graph: og.Graph, tmp_path: Path) -> None:
    """What was written under one schema is not published under another."""
    save(spread(spark), graph, load_id="old")
    other = og.init(tmp_path / "other", graph.schema.replace("name: String?", "nick: String?"))
    for name in ("_schema.pg", "_schema.ir.json"):
        (Path(graph.uri) / name).write_text((Path(other.uri) / name).read_text())
    states = [json.loads((Path(uri) / "__schema_state.json").read_text()) for uri in (graph.uri, other.uri)]
    identity = {name: states[0][name] for name in ("graph_id", "manifest")}
    (Path(graph.uri) / "__schema_state.json").write_text(json.dumps(states[1] | identity))

    with pytest.raises(og.errors.Conflict, match="the schema of the graph has changed"):
        og.spark.publish(graph.uri, "old")


def test_jobs_race_to_one_branch(spark: SparkSession, graph: og.Graph) -> None:
    """All succeed that do not touch the same ids; of two that do, one is told of the conflict."""
    found: list[BaseException] = []
    for first in (0, 100, 105):
        frame = spark.range(first, first + 10).selectExpr("concat('p', id) as key", "1 as age")
        save(frame, graph, load_id=f"from-{first}")

    def run(first: int) -> None:
        try:
            og.spark.publish(graph.uri, f"from-{first}")
        except BaseException as error:
            found.append(error)

    threads = [threading.Thread(target=run, args=(first,)) for first in (0, 100, 105)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [type(error) for error in found] == [og.errors.KeyConflict]
    assert len(keys(graph)) == 20
    (loser,) = og.spark.staged_loads(graph.uri)
    og.spark.discard(graph.uri, loser)
    assert orphans(graph) == []


DRIVER = """
import sys
import omnigraph_sql as og
spark = og.spark.session("local[1]", config={"spark.driver.memory": "512m"})
with og.spark.GraphLoad(spark, sys.argv[1], load_id="night") as load:
    load.nodes("Person", spark.range(0, 20, 1, 2).selectExpr("concat('p', id) as key"))
"""


def killed_at(failpoint: str, graph: og.Graph) -> None:
    """Run a driver to a point, where it stops, and kill it there."""
    environment = {**os.environ, "OMNIGRAPH_FAILPOINTS": f"{failpoint}=stop"}
    driver = subprocess.Popen([sys.executable, "-c", DRIVER, graph.uri], env=environment, stderr=subprocess.DEVNULL)
    until = time.monotonic() + 300
    while Path(f"/proc/{driver.pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
        assert driver.poll() is None, f"the driver ended with {driver.returncode} before it came to {failpoint}"
        assert time.monotonic() < until
        time.sleep(0.1)
    driver.send_signal(signal.SIGKILL)
    assert driver.wait() == -signal.SIGKILL


@pytest.mark.parametrize(
    ("failpoint", "is_published"),
    [
        pytest.param("remote.before_publish", False, marks=pytest.mark.slow),
        ("write.post_effects_pre_publish", True),
        pytest.param("remote.after_publish", True, marks=pytest.mark.slow),
    ],
)
def test_a_driver_that_is_killed(graph: og.Graph, failpoint: str, is_published: bool) -> None:
    """Between staging and publishing, in the middle of publishing, and before it could clean up."""
    killed_at(failpoint, graph)

    again = og.connect(graph.uri)  # recovers

    assert len(keys(again)) == (20 if is_published else 0)
    assert heads(again) == pins(again)
    assert og.spark.staged_loads(graph.uri) == ["night"]
    result = og.spark.publish(graph.uri, "night")
    assert result.replayed == is_published
    assert len(keys(again)) == 20
    assert (og.spark.staged_loads(graph.uri), orphans(again)) == ([], [])


@pytest.mark.slow
def test_what_was_published_survives_a_late_discard(graph: og.Graph) -> None:
    killed_at("remote.after_publish", graph)

    og.spark.discard(graph.uri, "night")

    assert len(keys(og.connect(graph.uri))) == 20
    assert og.spark.staged_loads(graph.uri) == []
