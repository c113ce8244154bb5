"""A short job with some of everything, run by itself: `python cluster_job.py DIRECTORY [MASTER]`.

Prints what it saw, as JSON in the last line.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import omnigraph_sql as og

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONFIG = {
    "spark.driver.memory": "1g",
    "spark.executor.memory": "1g",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
}
FRIENDS = "query q($k: String) { match { $p: Person { key: $k } $p knows{1,2} $q } return { $q.key } order { $q.key } }"
TOTAL = "query q() { match { $p: Person } return { count($p) as n, sum($p.age) as ages } }"


def loaded(spark: SparkSession, uri: str, place: Path) -> dict[str, Any]:
    """Nodes and edges in one commit, some of them faulty."""
    people = spark.range(0, 40, 1, 4).selectExpr(
        "concat('p', id) as key", "cast(if(id = 39, 900, id) as int) as age", "concat('part ', id % 4) as file"
    )
    pairs = spark.range(0, 40, 1, 2).selectExpr("concat('p', id) as who", "concat('p', id + 1) as whom")
    rejects = place / "rejects.jsonl"
    with og.spark.GraphLoad(spark, uri, message="first", rejects=rejects, max_rejects=10) as load:
        load.nodes("Person", people, source_column="file")
        load.edges("Knows", pairs, src="who", dst="whom")
    found = [json.loads(line) for line in rejects.read_text().splitlines()]
    return {
        "rows": [dict(load.result.nodes), dict(load.result.edges)],
        "rejects": sorted([each["rule"], each["value"], each["source"]] for each in found),
    }


def refused(spark: SparkSession, uri: str) -> list[str]:
    """Errors cross all processes with their kind, the place where they arose and the remedy."""
    found = []
    people = spark.createDataFrame([("x", 1), ("x", 2)], "key string, age int")
    wrong = spark.createDataFrame([("y", 999)], "key string, age int")
    for frame, type_ in ((people, "Person"), (wrong, "Person"), (people, "Nobody")):
        try:
            with og.spark.typed_errors():
                frame.write.format("omnigraph").options(type=type_).mode("append").save(uri)
        except og.errors.OmnigraphError as error:
            found.append(f"{type(error).__name__}: {error.message.splitlines()[0]}")
    return found


def read(spark: SparkSession, uri: str) -> list[str]:
    options = {"type": "Person", "columns": "key,age", "filter": "age >= 30", "partition_rows": "10"}
    frame = spark.read.format("omnigraph").options(**options).load(uri).where("age < 33")
    return sorted(row["key"] for row in frame.collect())


def streamed(spark: SparkSession, uri: str, place: Path) -> list[int]:
    """The rows that a stream added: all of them, then what came later, then none."""
    graph, source, added = og.connect(uri), place / "arrivals", []
    source.mkdir()
    for number in range(3):
        if number < 2:
            (source / f"{number}.json").write_text(f'{{"key": "s{number}", "age": {number}}}\n')
        frame = spark.readStream.schema("key string, age int").json(str(source))
        stream = frame.writeStream.format("omnigraph").option("type", "Person")
        stream = stream.option("checkpointLocation", str(place / "checkpoint")).trigger(availableNow=True)
        before = count(graph)
        stream.start(uri).awaitTermination()
        added.append(count(graph) - before)
    return added


def count(graph: og.Graph) -> int:
    return int(graph.query(TOTAL).to_pylist()[0]["n"])


def pipeline(place: Path, uri: str, master: str | None) -> dict[str, Any]:
    (place / "raw.jsonl").write_text('{"key": "j1", "age": 1}\n{"key": "j2", "age": "old"}\n{broken\n')
    (place / "raw.csv").write_text("key,age\nc1,5\nc2,6\nc2,7\n")
    file = place / "pipeline.yaml"
    file.write_text(f"""
graph: {uri}
mode: merge
sources:
  lines: {{format: jsonl, path: raw.jsonl}}
  rows: {{format: csv, path: raw.csv}}
nodes:
  - {{type: Person, from: lines, columns: {{key: key, age: age}}}}
  - {{type: Person, from: rows, columns: {{key: key, age: age}}, dedupe: {{by: [key], keep: last}}}}
edges:
  - {{type: Knows, from: rows, src: key, dst: "'p1'", where: "key <> '{{no}}'"}}
rejects: {{to: rejects-of-pipeline.jsonl, max: 5}}
""")
    report = og.spark.run_pipeline(file, master=master)
    found = [json.loads(line) for line in (place / "rejects-of-pipeline.jsonl").read_text().splitlines()]
    return {
        "sources": [[each.name, each.rows, each.malformed] for each in report.sources],
        "tables": [[each.table_key, each.rows, each.rejected, each.published] for each in report.tables],
        "rejects": sorted([each["rule"], each["source"]] for each in found),
    }


def main(place: Path, master: str | None) -> None:
    uri = str(place / "graph")
    spark = og.spark.session(master, config=CONFIG)
    saw: dict[str, Any] = {"load": loaded(spark, uri, place), "refused": refused(spark, uri), "read": read(spark, uri)}
    graph = og.connect(uri)
    saw["query"] = [row["q.key"] for row in graph.query(FRIENDS, params={"k": "p3"}, engine="spark").to_pylist()]
    saw["total"] = graph.query(TOTAL, engine="spark").to_pylist()
    asked = spark.read.format("omnigraph").options(query=FRIENDS, params='{"k": "p3"}').load(uri)
    saw["rows of a query"] = sorted(row["q.key"] for row in asked.collect())
    saw["stream"] = streamed(spark, uri, place)
    saw["pipeline"] = pipeline(place, uri, master)
    spark.stop()
    print(json.dumps(saw))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else None)
