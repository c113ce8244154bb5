"""Upserts by Spark: tasks join many rows with the table themselves, and leave a few to the one who publishes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest

import omnigraph_sql as og
from tests.spark.helpers import orphans

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MANY = 60_000
"""Three tasks with this many rows join them themselves."""


@pytest.fixture
def graph(graph: og.Graph) -> og.Graph:
    """Persons with even numbers, one of whom is deleted."""
    numbers = range(0, MANY, 2)
    people = pa.table({"key": [f"p{each}" for each in numbers], "age": pa.array([1] * len(numbers), pa.int32())})
    graph.load({"Person": people}, mode="append")
    graph.mutate('query q() { delete Person where key = "p10" }')
    return graph


def people(spark: SparkSession, count: int = MANY, parts: int = 3) -> DataFrame:
    return spark.range(0, count, 1, parts).selectExpr(
        "concat('p', id) as key", "concat('name ', id) as name", "cast(id % 100 as int) as age"
    )


def rows(graph: og.Graph) -> list[dict[str, Any]]:
    return graph.sql('select key, name, age from "Person" order by key').to_pylist()


def expected(graph: og.Graph, frame: DataFrame, tmp_path: Path) -> list[dict[str, Any]]:
    """What the same upsert gives in one process."""
    other = og.init(tmp_path / "other", graph.schema)
    other.load(graph.export(), mode="append")
    other.load({"Person": frame.toArrow()}, mode="merge")
    return rows(other)


def data_files(graph: og.Graph) -> set[str]:
    path = graph.snapshot().entry("node:Person").path
    return {each.name for each in (Path(graph.uri) / path / "data").iterdir()}


def row_ids(graph: og.Graph) -> dict[str, int]:
    entry = graph.snapshot().entry("node:Person")
    found = lance.dataset(f"{graph.uri}/{entry.path}").to_table(["key"], with_row_id=True)
    return dict(zip(found.column("key").to_pylist(), found.column("_rowid").to_pylist(), strict=True))


def staged(frame: DataFrame, graph: og.Graph, load_id: str) -> None:
    writer = frame.write.format("omnigraph").option("type", "Person").option("load_id", load_id)
    writer.option("load_mode", "merge").mode("append").save(graph.uri)


def test_tasks_write_what_is_published(spark: SparkSession, graph: og.Graph, tmp_path: Path) -> None:
    frame = people(spark)
    wanted, before = expected(graph, frame, tmp_path), row_ids(graph)
    staged(frame, graph, "many")
    written = data_files(graph)
    result = og.spark.publish(graph.uri, "many")
    assert dict(result.nodes) == {"Person": MANY}
    assert rows(graph) == wanted
    assert data_files(graph) == written
    after = row_ids(graph)
    assert {key: after[key] for key in before} == before
    assert len(set(after.values())) == MANY
    assert orphans(graph) == []


def test_what_changed_is_told_as_changed(spark: SparkSession, graph: og.Graph) -> None:
    before = graph.commits()[0].graph_commit_id
    with og.spark.GraphLoad(spark, graph.uri, mode="merge") as load:
        load.nodes("Person", people(spark))
    changes = graph.diff(before, "main").changes
    assert {(each.op, int(each.id[1:]) % 2) for each in changes if each.id != "p10"} == {("update", 0), ("insert", 1)}
    assert [each.op for each in changes if each.id == "p10"] == ["insert"]
    assert len(changes) == MANY


def test_large_and_small_tasks_of_one_write(spark: SparkSession, graph: og.Graph, tmp_path: Path) -> None:
    few = people(spark, 100, 1).selectExpr("concat(key, '-few') as key", "name", "age")
    again = spark.createDataFrame([("p2x", "new", 3), (f"p{MANY + 2}", "new", 4)], "key string, name string, age int")
    frame = people(spark).unionByName(few).unionByName(again)
    wanted = expected(graph, frame, tmp_path)
    with og.spark.GraphLoad(spark, graph.uri, mode="merge") as load:
        load.nodes("Person", frame)
    assert rows(graph) == wanted
    assert orphans(graph) == []


def test_a_table_that_changed_meanwhile_is_joined_anew(spark: SparkSession, graph: og.Graph, tmp_path: Path) -> None:
    frame = people(spark)
    staged(frame, graph, "late")
    graph.load(['{"type": "Person", "data": {"key": "p1", "age": 150}}'], mode="append")
    graph.mutate('query q() { update Person set { age: 149 } where key = "p4" }')
    graph.mutate('query q() { delete Person where key = "p6" }')
    wanted, before = expected(graph, frame, tmp_path), row_ids(graph)
    og.spark.publish(graph.uri, "late")
    assert rows(graph) == wanted
    after = row_ids(graph)
    assert {key: after[key] for key in before} == before
    assert orphans(graph) == []


def test_of_rows_with_the_same_id_the_last_one_stays(spark: SparkSession, graph: og.Graph) -> None:
    frame = spark.range(0, MANY, 1, 3).selectExpr("concat('n', id % 55000) as id", "cast(id as string) as text")
    graph.load(['{"type": "Note", "data": {"id": "n3", "text": "old"}}'], mode="append")
    with og.spark.GraphLoad(spark, graph.uri, mode="merge") as load:
        load.nodes("Note", frame)
    found = graph.sql('select id, text from "Note"').to_pylist()
    assert len(found) == MANY - 5000
    assert {row["text"] for row in found} == {str(each) for each in range(5000, MANY)}
    assert orphans(graph) == []


def test_a_key_that_two_tasks_have_publishes_nothing(spark: SparkSession, graph: og.Graph) -> None:
    twice = people(spark).unionByName(people(spark, 5, 1))
    before = rows(graph)
    with (
        pytest.raises(og.errors.OmnigraphError, match=r"p[0-4]"),
        og.spark.GraphLoad(spark, graph.uri, mode="merge") as load,
    ):
        load.nodes("Person", twice)
    assert rows(graph) == before
    assert orphans(graph) == []
