"""Streams: every batch is one commit, once, also when the query is started again or a batch is repeated."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import omnigraph_sql as og
from omnigraph_sql.engines.spark.failures import told
from tests.spark.helpers import heads, keys, orphans, pins

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def drop(directory: Path, name: str, *found: str) -> None:
    directory.mkdir(exist_ok=True)
    lines = [json.dumps({"key": key, "age": number}) for number, key in enumerate(found)]
    (directory / name).write_text("\n".join(lines))


def run(spark: SparkSession, graph: og.Graph, source: Path, checkpoint: Path, **options: Any) -> None:
    frame = spark.readStream.schema("key string, age int").json(str(source))
    writer = frame.writeStream.format("omnigraph").options(type="Person", **options)
    with told():
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
