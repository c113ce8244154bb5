"""DataFrames become types of a graph: one commit or nothing, checked by the rules of the schema."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import omnigraph_sql as og
from tests.spark.helpers import heads, keys, knows, orphans, persons, pins

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def people(spark: SparkSession, *rows: tuple[Any, ...], parts: int = 2) -> DataFrame:
    return spark.createDataFrame(list(rows), "key string, age int").repartition(parts)


def save(frame: DataFrame, graph: og.Graph, mode: str = "append", **options: Any) -> None:
    with og.spark.typed_errors():
        frame.write.format("omnigraph").options(**options).mode(mode).save(graph.uri)


def unchanged(graph: og.Graph, before: tuple[object, ...]) -> None:
    assert (heads(graph), pins(graph), orphans(graph)) == before


def state(graph: og.Graph) -> tuple[object, ...]:
    return heads(graph), pins(graph), orphans(graph)


def test_the_three_load_modes(spark: SparkSession, graph: og.Graph) -> None:
    save(people(spark, ("a", 1), ("b", 2)), graph, type="Person", message="first")
    assert [(row["p.key"], row["p.age"]) for row in persons(graph)] == [("a", 1), ("b", 2)]
    assert graph.commits()[0].message == "first"

    save(people(spark, ("b", 20), ("c", 3)), graph, type="Person", load_mode="merge")
    assert [(row["p.key"], row["p.age"]) for row in persons(graph)] == [("a", 1), ("b", 20), ("c", 3)]

    save(people(spark, ("z", 9)), graph, "overwrite", type="Person")
    assert keys(graph) == ["z"]
    assert len(graph.commits()) == 4
    assert orphans(graph) == []


def test_many_tables_are_one_commit(spark: SparkSession, graph: og.Graph) -> None:
    save(people(spark, ("a", 1), ("b", 2)), graph, type="Person", load_id="night-1")
    edges = spark.createDataFrame([("a", "b")], "src string, dst string")
    save(edges, graph, type="Knows", load_id="night-1")
    assert (keys(graph), og.spark.staged_loads(graph.uri)) == ([], ["night-1"])

    result = og.spark.publish(graph.uri, "night-1", message="both", actor="job")

    assert (keys(graph), knows(graph)) == (["a", "b"], [("a", "b")])
    assert result.commit is not None
    assert (result.commit.message, result.commit.actor_id) == ("both", "job")
    assert (dict(result.nodes), dict(result.edges)) == ({"Person": 2}, {"Knows": 1})
    again = og.spark.publish(graph.uri, "night-1")
    assert (again.replayed, again.commit) == (True, result.commit)
    assert (og.spark.staged_loads(graph.uri), orphans(graph)) == ([], [])


def test_a_graph_load_on_a_branch(spark: SparkSession, graph: og.Graph) -> None:
    """The first write on a branch forks its tables, which happens when it is published."""
    graph.load({"Person": pa.table({"key": ["a"]})}, mode="append")
    graph.create_branch("draft")

    with og.spark.GraphLoad(spark, graph.uri, branch="draft", message="draft") as load:
        load.nodes("Person", people(spark, ("b", 2)))
        pairs = spark.createDataFrame([("a", "b", None)], "who string, whom string, since date")
        load.edges("Knows", pairs, src="who", dst="whom")

    assert load.result.commit is not None
    assert (keys(graph), keys(graph, branch="draft")) == (["a"], ["a", "b"])
    assert (knows(graph), knows(graph, branch="draft")) == ([], [("a", "b")])
    with og.spark.GraphLoad(spark, graph.uri, branch="draft", mode="merge") as load:
        load.nodes("Person", people(spark, ("b", 3), ("c", 4)))
    assert [row["p.age"] for row in persons(graph, branch="draft")] == [None, 3, 4]
    assert og.spark.staged_loads(graph.uri) == []


def test_values_become_those_of_the_schema(spark: SparkSession, graph: og.Graph) -> None:
    rows = [("n1", "one", Decimal(5)), ("n2", "two", None)]
    frame = spark.createDataFrame(rows, "id string, text string, stars decimal(20,0)")

    save(frame, graph, type="Note")

    text = "query q() { match { $n: Note } return { $n.text, $n.stars } order { $n.text } }"
    assert graph.query(text).to_pylist() == [{"n.text": "one", "n.stars": 5}, {"n.text": "two", "n.stars": None}]


@pytest.mark.parametrize(
    ("rows", "kind", "words"),
    [
        ([("a", 1), ("b", 900)], og.errors.ValidationFailed, "@range violation: Person.age = 900"),
        ([("a", 1), (None, 2)], og.errors.ValidationFailed, "key"),
        ([("a", 1), ("a", 2)], og.errors.ValidationFailed, "@unique violation on Person.key"),
        ([("a", 1), ("there", 2)], og.errors.KeyConflict, "`there` exists already"),
    ],
)
def test_a_broken_rule_publishes_nothing(
    spark: SparkSession, graph: og.Graph, rows: list[Any], kind: type[Exception], words: str
) -> None:
    graph.load({"Person": pa.table({"key": ["there"]})}, mode="append")
    before = state(graph)

    with pytest.raises(kind, match=words):
        save(people(spark, *rows), graph, type="Person")

    unchanged(graph, before)


def test_rules_about_several_tables(spark: SparkSession, graph: og.Graph) -> None:
    graph.load({"Person": pa.table({"key": ["a", "b"]})}, mode="append")
    before = state(graph)
    with pytest.raises(og.errors.ValidationFailed, match="dst `nobody` of edge Knows not found"):
        save(spark.createDataFrame([("a", "nobody")], "src string, dst string"), graph, type="Knows")
    unchanged(graph, before)

    notes = spark.createDataFrame([(f"n{number}", "text") for number in range(3)], "id string, text string")
    owns = spark.createDataFrame([("a", f"n{number}") for number in range(3)], "src string, dst string")
    load = og.spark.GraphLoad(spark, graph.uri)
    load.nodes("Note", notes)
    load.edges("Owns", owns)
    with pytest.raises(og.errors.ValidationFailed, match="Owns"):
        load.publish()
    load.discard()
    unchanged(graph, before)


def test_rejected_rows_are_reported_and_left_out(spark: SparkSession, graph: og.Graph, tmp_path: Path) -> None:
    """Faulty values, repeated keys and edges that lose their node: as with a load of the same rows, and with their files."""
    rows = [("a", 1, "one.csv"), ("b", 900, "one.csv"), ("c", 3, "two.csv"), ("a", 4, "two.csv")]
    frame = spark.createDataFrame(rows, "key string, age int, file string").coalesce(1)
    edges = spark.createDataFrame([("a", "c"), ("a", "b")], "src string, dst string").coalesce(1)

    with og.spark.GraphLoad(spark, graph.uri, rejects=tmp_path / "spark.jsonl", max_rejects=3) as load:
        load.nodes("Person", frame, source_column="file")
        load.edges("Knows", edges)

    assert (keys(graph), knows(graph), load.result.rejected) == (["a", "c"], [("a", "c")], 3)
    found = [json.loads(line) for line in (tmp_path / "spark.jsonl").read_text().splitlines()]
    assert [(each["rule"], each["type"], each["value"], each["source"]) for each in found] == [
        ("range", "Person", "900", "one.csv"),
        ("unique", "Person", "a", "two.csv"),
        ("endpoint", "Knows", "b", None),
    ]
    other = og.init(tmp_path / "other", graph.schema)
    tables = {"Person": frame.drop("file").toArrow(), "Knows": edges.toArrow()}
    other.load(tables, mode="append", rejects=tmp_path / "plain.jsonl", max_rejects=3)
    plain = [json.loads(line) for line in (tmp_path / "plain.jsonl").read_text().splitlines()]
    assert [_told(each) for each in found] == [_told(each) for each in plain]
    assert orphans(graph) == []


def _told(reject: dict[str, Any]) -> dict[str, Any]:
    return {name: reject[name] for name in ("type", "rule", "property", "value")}


def test_more_rejects_than_allowed_publish_nothing(spark: SparkSession, graph: og.Graph, tmp_path: Path) -> None:
    before = state(graph)

    with (
        pytest.raises(og.errors.ValidationFailed, match="2 records are rejected, 1 allowed"),
        og.spark.GraphLoad(spark, graph.uri, rejects=tmp_path / "rejects.jsonl", max_rejects=1) as load,
    ):
        load.nodes("Person", people(spark, ("a", 1), ("b", 900), ("c", 901)))

    unchanged(graph, before)
    assert len((tmp_path / "rejects.jsonl").read_text().splitlines()) == 2


@pytest.mark.parametrize(
    ("options", "mode", "kind", "words"),
    [
        ({}, "append", og.errors.BadRequest, "needs the option `type`"),
        ({"type": "Persn"}, "append", og.errors.BadRequest, "Persn"),
        ({"type": "Person", "branch": "nowhere"}, "append", og.errors.NotFound, "nowhere"),
        ({"type": "Person", "load_mode": "upsert"}, "append", og.errors.BadRequest, "`upsert` is not a load mode"),
        ({"type": "Person", "load_mode": "merge"}, "overwrite", og.errors.BadRequest, "contradict"),
        ({"type": "Person", "load_id": "../x"}, "append", og.errors.BadRequest, "cannot be the id of a load"),
        ({"type": "Person", "load_id": "x", "message": "m"}, "append", og.errors.BadRequest, "og.spark.publish"),
        ({"type": "Person", "modus": "x"}, "append", og.errors.BadRequest, "no option `modus`"),
        ({"type": "Note"}, "append", og.errors.BadRequest, "unknown column `key` of node:Note"),
    ],
)
def test_bad_options_are_told_before_any_task_works(
    spark: SparkSession, graph: og.Graph, options: dict[str, str], mode: str, kind: type[Exception], words: str
) -> None:
    before = state(graph)

    with pytest.raises(kind, match=words):
        save(people(spark, ("a", 1)), graph, mode, **options)

    unchanged(graph, before)


@pytest.mark.parametrize("mode", ["error", "ignore"])
def test_save_modes_that_cannot_be_kept_are_refused(spark: SparkSession, graph: og.Graph, mode: str) -> None:
    with pytest.raises(Exception, match="UNSUPPORTED_DATA_SOURCE_SAVE_MODE"):
        save(people(spark, ("a", 1)), graph, mode, type="Person")


def test_wrong_columns_and_types_are_told_before_any_task_works(spark: SparkSession, graph: og.Graph) -> None:
    before = state(graph)
    cases = [
        (spark.createDataFrame([("a", 1)], "key string, height int"), "unknown column `height`"),
        (spark.createDataFrame([("a", "x")], "key string, age string"), "`Person.age`"),
        (spark.createDataFrame([("a", [1])], "key string, age array<int>"), "`Person.age`"),
        (spark.createDataFrame([("a", 1)], "name string, age int"), "the column `key` is missing"),
    ]
    for frame, words in cases:
        with pytest.raises(og.errors.OmnigraphError, match=words):
            save(frame, graph, type="Person")
    with pytest.raises(og.errors.BadRequest, match="node:Note: the column `text` is missing"):
        save(spark.createDataFrame([(1,)], "stars int"), graph, type="Note", load_id="x", collect_rejects="true")
    assert og.spark.staged_loads(graph.uri) == []
    with pytest.raises(og.errors.BadRequest, match="the column `dst`"):
        save(spark.createDataFrame([("a",)], "src string"), graph, type="Knows")
    unchanged(graph, before)


def test_writes_of_a_load_agree(spark: SparkSession, graph: og.Graph) -> None:
    save(people(spark, ("a", 1)), graph, type="Person", load_id="x")
    with pytest.raises(og.errors.BadRequest, match="has the mode `append`"):
        save(people(spark, ("b", 1)), graph, "overwrite", type="Person", load_id="x")

    og.spark.discard(graph.uri, "x")

    assert (og.spark.staged_loads(graph.uri), orphans(graph)) == ([], [])
    with pytest.raises(og.errors.NotFound, match="no staged load `x`"):
        og.spark.publish(graph.uri, "x")


def test_others_may_write_while_a_load_waits(spark: SparkSession, graph: og.Graph) -> None:
    """What was written stands on its own; it is checked against the graph as it is when it is published."""
    save(people(spark, ("a", 1)), graph, type="Person", load_id="first")
    save(people(spark, ("a", 2), ("b", 2)), graph, type="Person", load_id="second")
    graph.load({"Person": pa.table({"key": ["c"]})}, mode="append")

    og.spark.publish(graph.uri, "first")
    with pytest.raises(og.errors.KeyConflict, match="`a` exists already"):
        og.spark.publish(graph.uri, "second")

    assert keys(graph) == ["a", "c"]
    og.spark.discard(graph.uri, "second")
    assert orphans(graph) == []


def test_columns_that_need_not_be_there(spark: SparkSession, tmp_path: Path) -> None:
    graph = og.init(
        tmp_path / "defaults", 'node Task { key: String @key\n  state: String @default("open")\n  note: String? }'
    )

    save(spark.createDataFrame([("a",)], "key string"), graph, type="Task")

    found = graph.query("query q() { match { $t: Task } return { $t.key, $t.state } }").to_pylist()
    assert found == [{"t.key": "a", "t.state": "open"}]


def test_an_id_that_was_published_takes_no_more_rows(spark: SparkSession, graph: og.Graph) -> None:
    save(people(spark, ("a", 1)), graph, type="Person", load_id="night")
    published = og.spark.publish(graph.uri, "night").commit
    assert published is not None

    with pytest.raises(og.errors.Conflict, match=f"`night` was published already, as commit {published.graph_commit_id}"):
        save(people(spark, ("b", 2)), graph, type="Person", load_id="night")

    assert (og.spark.staged_loads(graph.uri), orphans(graph), keys(graph)) == ([], [], ["a"])


@pytest.mark.parametrize("name", ["load_id", "idempotency_key"])
def test_a_graph_load_that_is_repeated_gives_its_first_commit(spark: SparkSession, graph: og.Graph, name: str) -> None:
    """A job that is run again after it had succeeded: its rows are not even made."""
    found = []
    for frame in (people(spark, ("a", 1)), spark.sql("SELECT raise_error('made again') AS key, 1 AS age")):
        with og.spark.GraphLoad(spark, graph.uri, **{name: "night"}) as load:  # type: ignore[arg-type]
            load.nodes("Person", frame)
        found.append(load.result)

    assert [each.replayed for each in found] == [False, True]
    assert found[0].commit == found[1].commit
    assert (len(graph.commits()), orphans(graph), og.spark.staged_loads(graph.uri)) == (2, [], [])


def test_a_graph_load_without_writes_makes_no_commit(spark: SparkSession, graph: og.Graph) -> None:
    with og.spark.GraphLoad(spark, graph.uri) as load:
        pass

    assert (load.result.commit, dict(load.result.nodes), dict(load.result.edges)) == (None, {}, {})
    assert len(graph.commits()) == 1


@pytest.mark.parametrize(
    ("columns", "src", "dst"),
    [("who string", "who", "who"), ("src string", "src", "src"), ("dst string, src string", "dst", "src")],
)
def test_any_columns_can_be_the_ends_of_edges(
    spark: SparkSession, graph: og.Graph, columns: str, src: str, dst: str
) -> None:
    graph.load({"Person": pa.table({"key": ["a", "b"]})}, mode="append")
    row = ("a", "b")[: columns.count(" string")]

    with og.spark.GraphLoad(spark, graph.uri) as load:
        load.edges("Knows", spark.createDataFrame([row], columns), src=src, dst=dst)

    assert knows(graph) == [("a", row[-1])]


def test_rejects_of_an_unknown_kind_are_refused(spark: SparkSession, graph: og.Graph, tmp_path: Path) -> None:
    with pytest.raises(og.errors.BadRequest, match=r"neither \.jsonl nor \.parquet"):
        og.spark.GraphLoad(spark, graph.uri, rejects=tmp_path / "x.xlsx", max_rejects=1)
    with pytest.raises(og.errors.BadRequest, match=r"neither \.jsonl nor \.parquet"):
        og.spark.publish(graph.uri, "x", rejects=str(tmp_path / "x.xlsx"), max_rejects=1)


def test_tables_of_spark_publish_as_well(spark: SparkSession, graph: og.Graph) -> None:
    """Every way in which Spark writes to the data source ends with a commit."""
    place = f"OPTIONS (path '{graph.uri}', type 'Knows')"
    graph.load({"Person": pa.table({"key": ["a", "b"]})}, mode="append")
    spark.sql(f"CREATE TEMPORARY VIEW pairs USING omnigraph {place}")
    try:
        spark.sql("INSERT INTO pairs VALUES ('e1', 'a', 'b', NULL)")
    finally:
        spark.catalog.dropTempView("pairs")

    assert knows(graph) == [("a", "b")]
    assert len(graph.commits()) == 3


def test_without_typed_errors_spark_tells_what_is_wrong(spark: SparkSession, graph: og.Graph) -> None:
    from pyspark.errors import PySparkException

    with pytest.raises(
        PySparkException, match="EncodedError: BadRequest: a write needs the option `type`\nhint: "
    ) as raised:
        people(spark, ("a", 1)).write.format("omnigraph").mode("append").save(graph.uri)

    assert "direct cause" not in str(raised.value)
    with pytest.raises(ZeroDivisionError), og.spark.typed_errors():
        raise ZeroDivisionError
