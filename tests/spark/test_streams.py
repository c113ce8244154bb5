"""Streams: every batch is one commit, once, also when the query is started again or a batch is repeated."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import omnigraph_sql as og
from tests.spark.clusters import eventually
from tests.spark.helpers import heads, keys, orphans, pins

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def drop(directory: Path, name: str, *found: str) -> None:
    directory.mkdir(exist_ok=True)
    lines = [json.dumps({"key": key, "age": number}) for number, key in enumerate(found)]
    (directory / name).write_text("\n".join(lines))


def run(spark: SparkSession, graph: og.Graph, source: Path, checkpoint: Path | str, **options: Any) -> None:
    frame = spark.readStream.schema("key string, age int").json(str(source))
    if options.get("type") == "Note":
        frame = frame.selectExpr("key as text")
    writer = frame.writeStream.format("omnigraph").options(**{"type": "Person", **options})
    with og.spark.typed_errors():
        query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start(graph.uri)
        query.awaitTermination()


def test_a_stream_goes_on_where_it_stopped(spark: SparkSession, graph: og.Graph, tmp_path: Path) -> None:
    source, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    drop(source, "one.json", "a", "b")
    run(spark, graph, source, checkpoint, message="arrivals")
    assert keys(graph) == ["a", "b"]

    drop(source, "two.json", "c")
    run(spark, graph, source, checkpoint, message="arrivals")

    assert keys(graph) == ["a", "b", "c"]
    assert [commit.message for commit in graph.commits()] == ["arrivals", "arrivals", "init"]
    assert orphans(graph) == []


def test_a_batch_that_is_repeated_changes_nothing(spark: SparkSession, graph: og.Graph, tmp_path: Path) -> None:
    """Killed after the commit to the graph and before its own note of it, Spark runs the batch again."""
    source, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    drop(source, "one.json", "a", "b")
    run(spark, graph, source, checkpoint, query_id="arrivals")
    before = (heads(graph), pins(graph), len(graph.commits()))
    shutil.rmtree(checkpoint / "commits")

    run(spark, graph, source, checkpoint, query_id="arrivals")

    assert (heads(graph), pins(graph), len(graph.commits())) == before
    assert (keys(graph), orphans(graph)) == (["a", "b"], [])


def test_a_new_checkpoint_is_a_new_query(spark: SparkSession, graph: og.Graph, tmp_path: Path) -> None:
    """Its batches count from nought again, and are others than those of the query that had this checkpoint before."""
    source, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    drop(source, "one.json", "a")
    run(spark, graph, source, checkpoint)
    shutil.rmtree(checkpoint)
    (source / "one.json").unlink()
    drop(source, "two.json", "b")

    run(spark, graph, source, checkpoint)

    assert keys(graph) == ["a", "b"]


def test_a_checkpoint_may_be_written_in_several_ways(spark: SparkSession, graph: og.Graph, tmp_path: Path) -> None:
    """A batch that is repeated is the same batch, however the address of its checkpoint is spelt."""
    source, checkpoint = tmp_path / "in", tmp_path / "check point%20"
    drop(source, "one.json", "a")
    spellings = [
        str(checkpoint),
        f"{checkpoint}/",
        f"file:{checkpoint}",
        f"file://{checkpoint}",
        os.path.relpath(checkpoint),
        f"{tmp_path}/in/../{checkpoint.name}",
    ]
    for spelling in spellings:
        run(spark, graph, source, spelling, load_mode="merge")
        shutil.rmtree(checkpoint / "commits")

    assert (keys(graph), len(graph.commits())) == (["a"], 2)


@pytest.mark.parametrize("second", [{"type": "Note"}, {"branch": "draft"}])
def test_streams_of_one_query_id_do_not_meet(
    spark: SparkSession, graph: og.Graph, tmp_path: Path, second: dict[str, str]
) -> None:
    drop(tmp_path / "in", "one.json", "a")
    run(spark, graph, tmp_path / "in", tmp_path / "first", query_id="q")
    graph.create_branch("draft")
    before = len(graph.commits(branch="draft"))

    run(spark, graph, tmp_path / "in", tmp_path / "second", query_id="q", load_mode="merge", **second)

    assert len(graph.commits(branch=second.get("branch", "main"))) == before + 1


def test_a_stream_whose_checkpoint_is_not_told_needs_a_name(spark: SparkSession, graph: og.Graph, tmp_path: Path) -> None:
    """A setting of Spark says where checkpoints are, and the writer does not hear of it."""
    drop(tmp_path / "in", "one.json", "a")
    frame = spark.readStream.schema("key string, age int").json(str(tmp_path / "in"))
    writer = frame.writeStream.format("omnigraph").option("type", "Person").trigger(availableNow=True)
    spark.conf.set("spark.sql.streaming.checkpointLocation", str(tmp_path / "checkpoints"))
    try:
        with (
            pytest.raises(og.errors.BadRequest, match="was given no checkpoint\\nhint: set the option `query_id`"),
            og.spark.typed_errors(),
        ):
            writer.start(graph.uri).awaitTermination()
        assert keys(graph) == []
        with og.spark.typed_errors():
            writer.option("query_id", "arrivals").start(graph.uri).awaitTermination()
    finally:
        spark.conf.unset("spark.sql.streaming.checkpointLocation")

    assert keys(graph) == ["a"]


def test_a_batch_with_a_bad_row_stops_the_stream(spark: SparkSession, graph: og.Graph, tmp_path: Path) -> None:
    source, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    drop(source, "one.json", "a", "a")

    with pytest.raises(og.errors.ValidationFailed, match="@unique violation on Person"):
        run(spark, graph, source, checkpoint)

    assert (keys(graph), orphans(graph)) == ([], [])
    drop(source, "one.json", "a")
    run(spark, graph, source, tmp_path / "another")
    assert keys(graph) == ["a"]


def test_a_stream_cannot_overwrite(spark: SparkSession, graph: og.Graph, tmp_path: Path) -> None:
    drop(tmp_path / "in", "one.json", "a")

    with pytest.raises(og.errors.BadRequest, match="a stream cannot overwrite"):
        run(spark, graph, tmp_path / "in", tmp_path / "checkpoint", load_mode="overwrite")


DRIVER = """
import sys
import omnigraph_sql as og
spark = og.spark.session("local[1]", config={"spark.driver.memory": "512m"})
arrivals = spark.readStream.schema("key string, age int").json(sys.argv[2])
writer = arrivals.writeStream.format("omnigraph").options(type="Person", checkpointLocation=sys.argv[3])
writer.trigger(availableNow=True).start(sys.argv[1]).awaitTermination()
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="there is no list of processes")
@pytest.mark.parametrize(("failpoint", "is_published"), [("remote.before_publish", False), ("remote.after_publish", True)])
def test_a_stream_that_is_killed(
    spark: SparkSession, graph: og.Graph, tmp_path: Path, failpoint: str, is_published: bool
) -> None:
    """Started again from its checkpoint it repeats the batch, which counts once."""
    source, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    drop(source, "one.json", "a", "b")
    driver = [sys.executable, "-c", DRIVER, graph.uri, str(source), str(checkpoint)]
    environment = {**os.environ, "OMNIGRAPH_FAILPOINTS": f"{failpoint}=stop"}
    running = subprocess.Popen(driver, env=environment, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        eventually(lambda: any(state == "T" for _, state in descendants(running.pid)), failpoint)
    finally:
        for process, _ in [(running.pid, ""), *descendants(running.pid)]:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        running.wait()
    assert keys(og.connect(graph.uri)) == (["a", "b"] if is_published else [])

    drop(source, "two.json", "c")
    run(spark, graph, source, checkpoint)

    assert keys(graph) == ["a", "b", "c"]
    assert len(graph.commits()) == 3
    assert (heads(graph), orphans(graph)) == (pins(graph), [])


def descendants(process: int) -> list[tuple[int, str]]:
    """The processes that a process started, and those that they did, with their states."""
    found: dict[int, tuple[int, str]] = {}
    for each in Path("/proc").iterdir():
        if each.name.isdigit():
            with suppress(OSError):
                state, parent = (each / "stat").read_text().rpartition(")")[2].split()[:2]
                found[int(each.name)] = int(parent), state

    def is_below(one: int) -> bool:
        return one in found and (found[one][0] == process or is_below(found[one][0]))

    return [(one, state) for one, (_, state) in found.items() if is_below(one)]


def test_a_stream_leaves_bad_rows_out_where_it_reports_them(spark: SparkSession, graph: og.Graph, tmp_path: Path) -> None:
    source, checkpoint, reports = tmp_path / "in", tmp_path / "checkpoint", tmp_path / "bad"
    options = {"load_mode": "merge", "rejects": str(reports)}
    source.mkdir()
    (source / "one.json").write_text('{"key": "a", "age": 1}\n{"age": 2}\n')
    run(spark, graph, source, checkpoint, **options)
    drop(source, "two.json", "b")
    run(spark, graph, source, checkpoint, **options)

    assert (keys(graph), orphans(graph)) == (["a", "b"], [])
    assert sorted(each.name for each in reports.iterdir()) == ["batch-0.jsonl"]
    (found,) = [json.loads(line) for line in (reports / "batch-0.jsonl").read_text().splitlines()]
    assert (found["table_key"], found["rule"], found["property"]) == ("node:Person", "required", "key")

    (source / "three.json").write_text('{"key": "c", "age": 1}\n{"age": 2}\n')
    with pytest.raises(og.errors.ValidationFailed, match="1 record is rejected, 0 allowed"):
        run(spark, graph, source, checkpoint, max_rejects="0", **options)
    assert keys(graph) == ["a", "b"]
    run(spark, graph, source, checkpoint, max_rejects="50%", **options)
    assert keys(graph) == ["a", "b", "c"]
    for wrong in ({"rejects": str(tmp_path / "in" / "one.json")}, {"rejects": graph.uri}, {"max_rejects": "half"}):
        with pytest.raises(og.errors.BadRequest):
            run(spark, graph, source, tmp_path / "other", **wrong)


def test_edges_of_a_unique_pair_are_replaced_by_a_merge(spark: SparkSession, tmp_path: Path) -> None:
    schema = "node N { k: I32 @key } edge E: N -> N { x: I32?  @unique(src, dst) } edge F: N -> N"
    with og.init(tmp_path / "pairs", schema) as graph:
        for number in (1, 2):
            with og.spark.GraphLoad(spark, graph.uri, mode="merge") as load:
                load.nodes("N", spark.createDataFrame([(1,), (2,)], "k int"))
                load.edges("E", spark.createDataFrame([(1, 2, number), (2, 1, number)], "src int, dst int, x int"))
            assert load.result.warnings == ()
        rows = graph.sql('select src, dst, x from "E" order by src').to_pylist()
        assert [tuple(row.values()) for row in rows] == [("1", "2", 2), ("2", "1", 2)]
        with pytest.warns(og.errors.ParallelEdgesWarning), og.spark.GraphLoad(spark, graph.uri, mode="merge") as load:
            load.edges("F", spark.createDataFrame([(1, 2)], "src int, dst int"))
        assert "F" in load.result.warnings[0]
