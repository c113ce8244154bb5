"""Pipelines on Spark give the graph and the rejects that they give on one machine without it."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import omnigraph_sql as og
from omnigraph_sql.pipeline import RunReport, run_pipeline
from tests.spark.helpers import heads, keys, knows, orphans, persons, pins

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PIPELINE = """
graph: {graph}
mode: {mode}
sources:
  people: {{format: jsonl, path: raw/people/*.jsonl, columns: {{name: TEXT, born: BIGINT, mail: TEXT}}}}
  more: {{format: csv, path: raw/more.csv}}
  pairs: {{format: parquet, path: raw/pairs.parquet}}
nodes:
  - type: Person
    from: people
    columns: {{key: "lower(trim(name))", name: name, age: 2026 - born, mail: mail}}
    where: name <> 'skip'
    dedupe: {{by: [key], order: born, keep: last}}
  - type: Person
    from: more
    columns: {{key: key, age: age}}
edges:
  - type: Knows
    from: pairs
    src: a
    dst: b
    columns: {{since: day}}
rejects: {{to: rejects-{engine}.jsonl, max: 90%}}
tests:
  - {{name: nobody is a child, sql: 'select key from "Person" where age < 3'}}
"""


def dirty(place: Path, seed: int) -> None:
    """Raw files with every kind of fault: in the format, in values, in what they have in common."""
    rng = random.Random(seed)
    names = [f"P{number}" for number in range(40)]
    (place / "raw" / "people").mkdir(parents=True)
    for file in range(3):
        lines = []
        for _ in range(60):
            record: dict[str, Any] = {"name": rng.choice([*names, None, "skip", " p1 "])}
            record["born"] = rng.choice([1980, 1999, 2001, 1850, "no year", None, "1970"])
            if rng.random() < 0.5:
                record["mail"] = rng.choice(["a@x", "b@x", "c@x", None, f"m{rng.random()}"])
            lines.append(rng.choice([json.dumps(record)] * 12 + ["{broken", "[1]", "", '{"name": "x"'] * 1))
        (place / "raw" / "people" / f"{file}.jsonl").write_text("\n".join(lines) + "\n")
    rows = [f"{rng.choice(['q1', 'q2', 'q3', 'p1', ''])},{rng.choice(['5', '200', 'x', '', '7,8'])}" for _ in range(12)]
    (place / "raw" / "more.csv").write_text("key,age\n" + "\n".join(rows) + "\n")
    ends = [each.lower() for each in names] + ["nobody"]
    pairs = {"a": rng.choices(ends, k=50), "b": rng.choices(ends, k=50), "day": [None] * 50}
    pq.write_table(
        pa.table(pairs, schema=pa.schema([("a", "string"), ("b", "string"), ("day", pa.date32())])),
        place / "raw/pairs.parquet",
    )


def run(place: Path, engine: og.PipelineEngineName, mode: str = "merge") -> tuple[og.Graph, RunReport]:
    graph = og.init(place / engine, SCHEMA)
    file = place / f"{engine}.yaml"
    file.write_text(PIPELINE.format(graph=engine, mode=mode, engine=engine))
    return graph, run_pipeline(file, engine=engine)


SCHEMA = """
node Person { key: String @key
  name: String?
  age: I32?
  @range(age, 0..150)
  mail: String? @unique }
edge Knows: Person -> Person { since: Date? }
"""


def rejected(path: Path) -> list[tuple[Any, ...]]:
    found = [json.loads(line) for line in path.read_text().splitlines()]
    told = ("type", "rule", "property", "value", "source")
    return sorted(tuple(str(each[name]) for name in told) for each in found)


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow), pytest.param(3, marks=pytest.mark.slow)])
def test_both_engines_give_the_same_graph_and_the_same_rejects(tmp_path: Path, seed: int) -> None:
    dirty(tmp_path, seed)

    spark, spark_report = run(tmp_path, "spark")
    local, local_report = run(tmp_path, "local")

    assert persons(spark) == persons(local)
    assert knows(spark) == knows(local)
    assert rejected(tmp_path / "rejects-spark.jsonl") == rejected(tmp_path / "rejects-local.jsonl")
    assert len(rejected(tmp_path / "rejects-spark.jsonl")) > 20
    assert spark_report.tables == local_report.tables
    assert spark_report.sources == local_report.sources
    assert (spark_report.rejected, spark_report.tests) == (local_report.rejected, local_report.tests)
    assert orphans(spark) == []
    again = run_pipeline(tmp_path / "spark.yaml", engine="spark")
    assert (again.replayed, again.commit) == (True, spark_report.commit)


def small(tmp_path: Path, lines: list[dict[str, Any]], more: str = "") -> tuple[og.Graph, Path]:
    graph = og.init(tmp_path / "graph", SCHEMA)
    (tmp_path / "people.jsonl").write_text("\n".join(json.dumps(line) for line in lines))
    file = tmp_path / "pipeline.yaml"
    file.write_text(
        "graph: graph\nmode: append\nsources: {people: {format: jsonl, path: people.jsonl}}\n"
        "nodes: [{type: Person, from: people, columns: {key: name, age: age}}]\n" + more
    )
    return graph, file


@pytest.mark.usefixtures("spark")
def test_a_test_that_fails_publishes_nothing(tmp_path: Path) -> None:
    more = "tests: [{name: nobody old, sql: 'select key from \"Person\" where age > 90'}]\n"
    graph, file = small(tmp_path, [{"name": "a", "age": 1}, {"name": "b", "age": 99}], more)
    before = heads(graph), pins(graph)

    with pytest.raises(og.errors.DataTestFailed, match="nobody old"):
        og.spark.run_pipeline(file)

    assert (heads(graph), pins(graph), orphans(graph)) == (*before, [])


@pytest.mark.usefixtures("spark")
def test_a_bad_row_without_a_budget_publishes_nothing(tmp_path: Path) -> None:
    graph, file = small(tmp_path, [{"name": "a", "age": 1}, {"name": "b", "age": 990}])

    with pytest.raises(og.errors.ValidationFailed, match="@range violation: Person"):
        og.spark.run_pipeline(file)

    assert (keys(graph), orphans(graph)) == ([], [])


NO_OBJECTS = [
    "[1]",
    "17",
    "null",
    '"k"',
    '{"name": "k"',
    '{"name": "k"}}',
    '{"name": "k"} x',
    '{"name": "k"},',
    '{"name": "k"}, {"name": "l"}',
    '{"name": "k"}, "name": {"name": "l"}',
    '{"name": "k"}], "name": [',
    '{"name": "k"}]}',
    '{"name": [1, 2}]',
    '{"name": "k", "age": 01}',
    "{'name': 'k'}",
]


@pytest.mark.usefixtures("spark")
def test_a_line_is_one_object_and_nothing_more(tmp_path: Path) -> None:
    graph, file = small(tmp_path, [], "rejects: {to: rejects.jsonl, max: 100%}\n")
    (tmp_path / "people.jsonl").write_text("\n".join([*NO_OBJECTS, ' {"name": "a", "rest": {"name": [1, "]}"]}} ']))

    for engine in ("local", "spark"):
        report = run_pipeline(file, engine=engine, key=f"by {engine}", branch="main")

        told = [json.loads(line) for line in (tmp_path / "rejects.jsonl").read_text().splitlines()]
        assert sorted(json.loads(each["value"]) for each in told if each["rule"] == "json") == sorted(NO_OBJECTS), engine
        assert report.sources[0].malformed == len(NO_OBJECTS)
    assert keys(graph) == ["a"]


TWO = """
graph: graph
mode: append
sources: {people: {format: jsonl, path: people.jsonl}, pairs: {format: jsonl, path: pairs.jsonl}}
nodes: [{type: Person, from: people, columns: {key: name, age: age}}]
edges: [{type: Knows, from: pairs, src: a, dst: b}]
rejects: {to: rejects.jsonl, max: 5}
"""
RUN = """
import sys
import omnigraph_sql as og
og.spark.session("local[1]", config={"spark.driver.memory": "512m"})
og.spark.run_pipeline(sys.argv[1])
"""


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    ("point", "stages"),
    [
        ("pipeline.post_target@2", {"validate", "stage", "publish"}),
        pytest.param("pipeline.pre_note", {"read", "validate", "stage", "publish"}, marks=pytest.mark.slow),
        pytest.param("pipeline.pre_note@2", {"read", "validate", "stage", "publish"}, marks=pytest.mark.slow),
        pytest.param("pipeline.post_stage", {"publish"}, marks=pytest.mark.slow),
    ],
)
def test_a_run_that_was_killed_is_gone_on_with(tmp_path: Path, point: str, stages: set[str]) -> None:
    graph = og.init(tmp_path / "graph", SCHEMA)
    (tmp_path / "people.jsonl").write_text("".join(f'{{"name": "p{n}", "age": {n * 30}}}\n' for n in range(8)))
    (tmp_path / "pairs.jsonl").write_text('{"a": "p1", "b": "p2"}\n{"a": "p1", "b": "p7"}\n{"a": "p3", "b": "p4"}\nno\n')
    file = tmp_path / "pipeline.yaml"
    file.write_text(TWO)
    name, _, nth = point.partition("@")
    environment = {**os.environ, "OMNIGRAPH_FAILPOINTS": f"{name}=exit{'@' + nth if nth else ''}"}
    killed = subprocess.run(
        [sys.executable, "-c", RUN, file], env=environment, check=False, capture_output=True, text=True, timeout=300
    )
    assert killed.returncode == 86, killed.stderr
    assert keys(graph) == []

    seen: list[tuple[str, int | None]] = []
    report = og.spark.run_pipeline(file, progress=lambda step: seen.append((step.stage, step.rows)))

    # What is told of a target that is not read again is how many rows it had.
    assert {stage for stage, rows in seen if rows is None} == stages
    assert report.resumed == (point != "pipeline.pre_note")
    assert (keys(graph), len(knows(graph))) == ([f"p{n}" for n in range(6)], 2)
    assert [(each.name, each.rows, each.malformed) for each in report.sources] == [("people", 8, 0), ("pairs", 4, 1)]
    assert [(each.rows, each.rejected, each.published) for each in report.tables] == [(8, 2, 6), (3, 1, 2)]
    assert len((tmp_path / "rejects.jsonl").read_text().splitlines()) == 4
    assert orphans(graph) == []
    assert list((tmp_path / "graph" / "_staged").glob("*/*")) == []


ODD = [
    *("12345678.5", "1e400", "-0", "1E5", "1.10", "0.0001", "123456789012345678901234567890", "NaN", "-Infinity", "[1,]"),
    *(
        '"\\ud800"',
        '"\\ud83d\\ude00"',
        '"\\u0000"',
        '{"b": 1.0, "a": null}',
        "true",
        "1.",
        "+1",
        "01",
        '"\\x"',
        '"a\tb"',
        "null",
    ),
]


@pytest.mark.usefixtures("spark")
def test_both_engines_read_odd_json_alike(tmp_path: Path) -> None:
    graph, file = small(tmp_path, [])
    lines = [f'{{"name": "{place}", "age": {value}}}' for place, value in enumerate(ODD)]
    lines += [
        '{"name": "first", "name": "second"}',
        '{"name": "comma",}',
        '\ufeff{"name": "bom"}',
        '{"NAME": "x", "name": "y"}',
    ]
    (tmp_path / "people.jsonl").write_bytes("\n".join(lines).encode() + b'\n{"name": "\xff"}\n')
    file.write_text(file.read_text().replace("append", "overwrite").replace("age: age", "name: age"))
    file.write_text(file.read_text() + "rejects: {to: rejects.jsonl, max: 100%}\n")

    found = []
    for engine in ("local", "spark"):
        run_pipeline(file, engine=engine, key=f"by {engine}")
        found.append((persons(graph), rejected(tmp_path / "rejects.jsonl")))

    assert found[0] == found[1]
    assert len(found[0][0]) + len(found[0][1]) == len(lines) + 1
    assert {each["p.key"]: each["p.name"] for each in found[1][0]}["0"] == "12345678.5"


NUMBERS = [
    *(
        "3.5",
        "3.0",
        "1e2",
        " 7 ",
        "+8",
        "",
        "\uff19",
        "0x10",
        "1_000",
        "9\n",
        "\t9",
        "-0",
        "9" * 19,
        "9" * 30,
        "1.5d",
        "NaN",
    ),
    *("-inf", "Infinity", ".5", "5.", "1e", "1e400", "true", "\u0663", "1,5", " ", "+", "--1", "1 2"),
]


TIMES = [
    *(
        "2024-01-05",
        "2024-1-5",
        " 2024-01-05 ",
        "2024",
        "2024-01",
        "2024/01/05",
        "20240105",
        "2024-02-30",
        "epoch",
        "infinity",
    ),
    *("2024-01-05 10:00:00", "2024-01-05T10:00", "2024-01-05 10:00:00.5", "2024-01-05T10:00:00.123456Z", "2024-01-05 10"),
    *("2024-01-05T10:00:00+02:00", "2024-01-05 10:00:00 +02:00", "2024-01-05 25:00:00", "10:00:00", "12024-01-05", "now"),
    *("2024-01-05 24:00:00", "2024-01-05 10:00:60", "2024-01-05Z", "2024-01-05T10:00:00-11:30", "0001-01-01", "-2024-01-05"),
]


@pytest.mark.usefixtures("spark")
def test_both_engines_take_the_same_texts_for_numbers_days_and_times(tmp_path: Path) -> None:
    wanted = [(n, text) for n in "bdi" for text in NUMBERS] + [(n, text) for n in "xtz" for text in TIMES]
    graph, file = small(tmp_path, [{"name": f"{n}{text!r}", n: text} for n, text in wanted])
    columns = "columns: {name: TEXT, b: BIGINT, d: DOUBLE, i: INT, x: DATE, t: TIMESTAMP, z: TIMESTAMPTZ}"
    text = file.read_text().replace("path: people.jsonl", f"path: people.jsonl, {columns}").replace("append", "overwrite")
    text = text.replace("age: age", 'name: "coalesce(cast(b as text), cast(i as text), cast(d > 1 as text), REST)"')
    text = text.replace("REST", "cast(x as text), cast(t as text), cast(cast(epoch(z) as bigint) as text)")
    file.write_text(text + "rejects: {to: rejects.jsonl, max: 100%}\n")

    found = []
    for engine in ("local", "spark"):
        run_pipeline(file, engine=engine, key=f"by {engine}")
        found.append((persons(graph), rejected(tmp_path / "rejects.jsonl")))

    local, spark = ({str(each) for part in parts for each in part} for parts in found)
    assert (local - spark, spark - local) == (set(), set())
    assert len(found[0][0]) + len(found[0][1]) == len(wanted)


def test_formats_that_only_spark_reads(spark: SparkSession, tmp_path: Path) -> None:
    graph, file = small(tmp_path, [])
    spark.createDataFrame([("o", 5)], "name string, age int").write.orc(str(tmp_path / "people.orc"))
    text = file.read_text().replace("format: jsonl, path: people.jsonl", f"format: orc, path: {tmp_path / 'people.orc'}")
    file.write_text(text)
    with pytest.raises(og.errors.Configuration, match="only Spark reads"):
        run_pipeline(file, engine="local")

    report = og.spark.run_pipeline(file, branch="main", key=f"run-{os.getpid()}")

    assert (keys(graph), report.tables[0].published) == (["o"], 1)
