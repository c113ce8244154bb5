"""Types and queries of a graph as DataFrames: the rows of one state, as Spark's types, filtered by the tables."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import omnigraph_sql as og

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TYPES = """
node Thing { key: String @key
  b: Bool?
  i: I32?
  l: I64?
  u: U32?
  w: U64?
  f: F32?
  d: F64?
  day: Date?
  at: DateTime?
  tags: [String]?
  counts: [U32]?
  v: Vector(2)?
  raw: Blob? }
edge Near: Thing -> Thing { how: F64? }
"""
NOON = datetime.datetime(2024, 2, 29, 12, 0, 0, 5000, tzinfo=datetime.UTC)


def frame(spark: SparkSession, uri: str, **options: Any) -> DataFrame:
    with og.spark.typed_errors():
        return spark.read.format("omnigraph").options(**options).load(uri)


@pytest.fixture(scope="module")
def things(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    graph = og.init(tmp_path_factory.mktemp("things") / "graph", TYPES)
    lines = [
        {
            "key": "full",
            "b": True,
            "i": -5,
            "l": -(2**60),
            "u": 2**32 - 1,
            "w": 2**64 - 1,
            "f": 0.5,
            "d": 1e300,
            "day": "2024-02-29",
            "at": "2024-02-29T12:00:00.005Z",
            "tags": ["a", "b"],
            "counts": [1, 4294967295],
            "v": [1.5, -2.0],
            "raw": "base64:AAH/",
        },
        {"key": "empty"},
        {"key": "it's; -- `odd`", "i": 7, "f": 0.0, "d": -0.0, "tags": []},
    ]
    graph.load([json.dumps({"type": "Thing", "data": each}) for each in lines], mode="append")
    graph.load([json.dumps({"edge": "Near", "from": "full", "to": "empty", "data": {"how": 0.25}})], mode="append")
    return graph


def test_all_types_arrive_as_spark_has_them(spark: SparkSession, things: og.Graph) -> None:
    rows = {row["key"]: row.asDict() for row in frame(spark, things.uri, type="Thing").collect()}

    full = rows["full"]
    assert (full["b"], full["i"], full["l"], full["u"]) == (True, -5, -(2**60), 2**32 - 1)
    assert (full["w"], full["f"], full["d"]) == (Decimal(2**64 - 1), 0.5, 1e300)
    assert full["day"] == datetime.date(2024, 2, 29)
    assert full["tags"] == ["a", "b"]
    assert full["counts"] == [1, 4294967295]
    assert full["v"] == [1.5, -2.0]
    assert bytes(full["raw"]) == b"\x00\x01\xff"
    assert {name for name, value in rows["empty"].items() if value is not None} == {"id", "key"}
    assert rows["it's; -- `odd`"]["tags"] == []
    kinds = dict(frame(spark, things.uri, type="Thing").dtypes)
    assert (kinds["u"], kinds["w"], kinds["v"], kinds["raw"]) == ("bigint", "decimal(20,0)", "array<float>", "binary")


@pytest.fixture(scope="module")
def plain(spark: SparkSession, things: og.Graph) -> DataFrame:
    """The same rows in memory."""
    return spark.createDataFrame(frame(spark, things.uri, type="Thing").toArrow())


@pytest.mark.parametrize(
    "condition",
    [
        "key = 'full'",
        'key = "it\'s; -- `odd`"',
        "key in ('full', 'empty', 'none')",
        "key like 'f%'",
        "key like '%odd`'",
        "contains(key, '; --')",
        "i > -5",
        "i >= -5 and i < 7",
        "not (i = 7)",
        "i is null",
        "b",
        "u = 4294967295",
        "w = 18446744073709551615",
        "w > 5",
        "f = 0.5",
        "f = 0",
        "d = 0",
        "d <= 0.0",
        "d > 1e299",
        "day = date'2024-02-29'",
        "day < date'2024-02-29'",
        "at = timestamp'2024-02-29 12:00:00.005'",
        "at > timestamp'2024-02-29 12:00:00.0049'",
        "i = 7 or key = 'full'",
        "l = -1152921504606846976",
    ],
)
def test_a_filter_gives_the_rows_that_spark_would_keep(
    spark: SparkSession, things: og.Graph, plain: DataFrame, condition: str
) -> None:
    """What the tables answer is compared with Spark's own answer over the same rows."""
    found = frame(spark, things.uri, type="Thing", pushdown="true").where(condition)

    assert sorted(row["key"] for row in found.collect()) == sorted(row["key"] for row in plain.where(condition).collect())


def test_a_frame_can_be_used_again(spark: SparkSession, things: og.Graph) -> None:
    """Spark keeps what a reader made of one query's conditions, and would use it for the next query."""
    found = frame(spark, things.uri, type="Thing")

    assert found.where("key = 'full'").count() == 1
    assert found.where("i = 7 or key = 'full'").count() == 2
    assert found.count() == 3


def test_a_condition_of_the_table(spark: SparkSession, things: og.Graph) -> None:
    found = frame(spark, things.uri, type="Thing", filter="i < 0 OR `key` LIKE 'it''s%'", columns="key")

    assert sorted(row["key"] for row in found.collect()) == ["full", "it's; -- `odd`"]
    assert found.where("key = 'full'").count() == 1
    with pytest.raises(og.errors.BadRequest, match="the option `filter` cannot be read"):
        frame(spark, things.uri, type="Thing", filter="nome = 1")


def test_filters_reach_the_tables(spark: SparkSession, things: og.Graph) -> None:
    """Spark has nothing left to filter by what the table has taken."""
    found = frame(spark, things.uri, type="Thing", pushdown="true").where("key = 'full' and i < 0")

    plan = found._jdf.queryExecution().executedPlan().toString()

    assert "Filter" not in plan.replace("RuntimeFilters", "")
    assert found.count() == 1


def test_a_session_without_the_setting_reads_too(spark: SparkSession, things: og.Graph) -> None:
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "false")
    try:
        assert frame(spark, things.uri, type="Thing").where("key = 'full'").count() == 1
    finally:
        spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")


def test_columns_edges_and_sql(spark: SparkSession, things: og.Graph) -> None:
    near = frame(spark, things.uri, type="Near", columns="src, how")
    assert [row.asDict() for row in near.collect()] == [{"src": "full", "how": 0.25}]

    spark.sql(f"CREATE TEMPORARY VIEW near_things USING omnigraph OPTIONS (path '{things.uri}', type 'Near')")
    assert [tuple(row) for row in spark.sql("select src, dst from near_things").collect()] == [("full", "empty")]
    spark.catalog.dropTempView("near_things")


def test_a_job_reads_one_state(spark: SparkSession, graph: og.Graph) -> None:
    """A frame is pinned when it is planned; branches, versions, commits and tags are states of their own."""
    graph.load({"Person": pa.table({"key": ["a", "b"]})}, mode="append")
    first = graph.commits()[0]
    graph.tag("v1")
    graph.create_branch("draft")
    graph.load({"Person": pa.table({"key": ["c"]})}, mode="append", branch="draft")
    version = graph.snapshot().manifest_version
    graph.load({"Person": pa.table({"key": ["d"]})}, mode="append")

    def found(**options: Any) -> list[str]:
        return sorted(row["key"] for row in frame(spark, graph.uri, type="Person", **options).collect())

    assert found() == ["a", "b", "d"]
    assert found(branch="draft") == ["a", "b", "c"]
    assert found(version=version) == ["a", "b"]
    assert found(commit=first.graph_commit_id) == ["a", "b"]
    assert found(commit="v1") == ["a", "b"]


def test_fragments_are_read_by_several_tasks(spark: SparkSession, graph: og.Graph) -> None:
    for start in range(0, 6, 2):
        graph.load({"Person": pa.table({"key": [f"p{start}", f"p{start + 1}"]})}, mode="append")

    found = frame(spark, graph.uri, type="Person", partition_rows=2)

    assert found.rdd.getNumPartitions() == 3
    assert sorted(row["key"] for row in found.collect()) == [f"p{number}" for number in range(6)]
    assert frame(spark, graph.uri, type="Note").count() == 0


def test_a_query_is_a_frame(spark: SparkSession, things: og.Graph) -> None:
    text = "query near($k: String) { match { $t: Thing { key: $k } $t near $o } return { $o.key as other, $o.u, $t.at } }"

    found = frame(spark, things.uri, query=text, params=json.dumps({"k": "full"}))

    assert found.columns == ["other", "o.u", "t.at"]
    assert [row["other"] for row in found.collect()] == ["empty"]
    assert [row["t.at"].astimezone(datetime.UTC) for row in found.collect()] == [NOON]


@pytest.mark.parametrize(
    ("options", "kind", "words"),
    [
        ({}, og.errors.BadRequest, "exactly one of the options `type` and `query`"),
        ({"type": "Thong"}, og.errors.BadRequest, "Thong"),
        ({"type": "Thing", "colums": "id"}, og.errors.BadRequest, "no option `colums`"),
        ({"type": "Thing", "columns": "id,nome"}, og.errors.BadRequest, "no column `nome`"),
        ({"type": "Thing", "branch": "nowhere"}, og.errors.NotFound, "nowhere"),
        ({"type": "Thing", "columns": "key, id,key"}, og.errors.BadRequest, "names `key` more than once"),
        ({"type": "Thing", "graph": "elsewhere"}, og.errors.BadRequest, "two graphs are named: .* and elsewhere"),
        ({"type": "Thing", "filter": "i > 1000) or (1=1"}, og.errors.BadRequest, "`filter` cannot be read"),
        ({"type": "Thing", "filter": "i > 1000 limit 1"}, og.errors.BadRequest, "`filter` cannot be read"),
        ({"type": "Thing", "filter": "(i > 1000"}, og.errors.BadRequest, "`filter` cannot be read"),
        ({"type": "Thing", "filter": "i"}, og.errors.BadRequest, "`filter` cannot be read"),
        ({"type": "Thing", "version": "²"}, og.errors.BadRequest, "`version` is `²`"),
        ({"type": "Thing", "version": "new"}, og.errors.BadRequest, "`version` is `new`"),
        ({"type": "Thing", "commit": "x", "branch": "main"}, og.errors.BadRequest, "without the options"),
        ({"query": "query q() { match { $p: Nobody } return { $p.key } }"}, og.errors.Compile, "Nobody"),
        ({"query": "query q() { match { $p: Thing } return { $p.key } }", "params": "{"}, og.errors.BadRequest, "not JSON"),
    ],
)
def test_bad_options_are_told_at_once(
    spark: SparkSession, things: og.Graph, options: dict[str, str], kind: type[Exception], words: str
) -> None:
    with pytest.raises(kind, match=words):
        frame(spark, things.uri, **options)


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ("key int", "the column `key` of Thing is string in Spark, and was requested as int"),
        ("key string, i bigint", "the column `i` of Thing is int in Spark, and was requested as bigint"),
        ("key string, v array<double>", "the column `v` of Thing is array<float> in Spark"),
        ("keys string", "Thing has no column `keys`\nhint: did you mean `key`"),
    ],
)
def test_a_schema_is_that_of_the_type(spark: SparkSession, things: og.Graph, columns: str, words: str) -> None:
    found = spark.read.schema(columns).format("omnigraph").option("type", "Thing").load(things.uri)

    with pytest.raises(og.errors.BadRequest, match=words), og.spark.typed_errors():
        found.collect()


def test_a_schema_may_be_given(spark: SparkSession, things: og.Graph) -> None:
    given = "v array<float>, at timestamp, w decimal(20,0), key string"

    found = spark.read.schema(given).format("omnigraph").option("type", "Thing").load(things.uri)

    assert [list(row) for row in found.where("key = 'empty'").collect()] == [[None, None, None, "empty"]]


def test_a_condition_may_end_with_a_comment(spark: SparkSession, things: og.Graph) -> None:
    found = frame(spark, things.uri, type="Thing", filter="i < 0 -- the cold ones", pushdown="true")

    assert [row["key"] for row in found.where("key like 'f%'").collect()] == ["full"]


def test_there_is_no_stream_of_a_graph(spark: SparkSession, things: og.Graph, tmp_path: Path) -> None:
    found = spark.readStream.format("omnigraph").option("type", "Thing").load(things.uri)
    writer = found.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))

    with pytest.raises(og.errors.BadRequest, match="cannot be read as a stream"), og.spark.typed_errors():
        writer.trigger(availableNow=True).start().awaitTermination()


def test_no_graph(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(og.errors.NotFound, match="there is no graph"):
        frame(spark, str(tmp_path / "none"), type="Thing")


def test_many_rows_of_numbers(spark: SparkSession, graph: og.Graph) -> None:
    graph.load({"Person": pa.table({"key": [f"p{n}" for n in range(5000)], "age": np.arange(5000) % 150})}, mode="append")

    found = frame(spark, graph.uri, type="Person", columns="age").groupBy().sum("age").collect()

    assert found[0][0] == int((np.arange(5000) % 150).sum())
