"""A pipeline.yaml says exactly what it means, or is refused with the place and what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import omnigraph_sql as og
from omnigraph_sql import errors
from omnigraph_sql.pipeline import load_pipeline, make_plan, run_pipeline, validate
from tests.pipeline.world import KNOWS, PEOPLE, World

POSTGRES = {"format": "postgres", "uri": "postgresql://h/d"}
PARQUET = {"format": "parquet", "path": "x.parquet", "columns": {"age": "BIGINT"}}
JDBC = {"format": "jdbc", "uri": "jdbc:derby:x"}
SOURCE = {"format": "jsonl", "path": "people.jsonl"}


def test_what_is_left_out_has_its_usual_value(world: World) -> None:
    found = load_pipeline(world.pipeline())

    assert (found.branch, found.base, found.mode, found.key, found.rejects, found.tests) == (
        "main",
        None,
        "append",
        None,
        None,
        (),
    )
    assert found.graph == str(world.path / "g")
    assert found.sources["people"].paths == (str(world.path / "people.jsonl"),)


@pytest.mark.parametrize(
    ("given", "place", "says", "hint"),
    [
        ({"brnch": "x"}, "brnch", "is not known", "did you mean `branch`?"),
        ({"graph": None}, "graph", "is missing", "graph"),
        ({"mode": "upsert"}, "mode", "is not a load mode: upsert", "merge"),
        ({"branch": 3}, "branch", "is not a text", "quotes"),
        ({"sources": None}, "sources", "is missing or empty", "at least one"),
        ({"sources": {"people": {"path": "x"}}}, "sources.people.format", "is missing", "format"),
        ({"sources": {"people": {"format": "jsonl"}}}, "sources.people.path", "is missing", "pattern"),
        ({"sources": {"people": SOURCE | {"paht": 1}}}, "sources.people.paht", "is not known", "did you mean `path`?"),
        ({"sources": {"people": SOURCE | {"path": 3}}}, "sources.people.path", "is not a text", "path"),
        ({"sources": {"people": SOURCE | {"table": "t"}}}, "sources.people.table", "is not for jsonl", "path"),
        ({"sources": {"people": POSTGRES}}, "sources.people.table", "is missing", "table"),
        ({"sources": {"people": JDBC}}, "sources.people.table", "is missing", "table"),
        ({"sources": {"people": JDBC | {"path": "x", "table": "t"}}}, "sources.people.path", "is not for jdbc", "uri"),
        ({"sources": {"people": JDBC | {"table": "t", "columns": {"a": "INT"}}}}, "sources.people.columns", "jdbc", "cast"),
        ({"sources": {"people": SOURCE | {"columns": {"age": "NUM("}}}}, "sources.people.columns.age", "no type", "BIGINT"),
        ({"sources": {"people": SOURCE | {"columns": {"nme": "TEXT"}}}}, "nodes[0]", "does not declare", "mean `nme`?"),
        ({"sources": {"people": PARQUET}}, "sources.people.columns", "is not for parquet", "cast"),
        ({"nodes": None}, "nodes", "is missing, and so is `edges`", "at least one"),
        ({"nodes": {"type": "Person"}}, "nodes", "is not a list", "list"),
        ({"nodes": [{"type": "Person", "from": "people"}]}, "nodes[0].columns", "missing or empty", "PROPERTY: EXPRESSION"),
        ({"nodes": [PEOPLE | {"from": "pepole"}]}, "nodes[0].from", "names no source", "did you mean `people`?"),
        ({"nodes": [PEOPLE | {"src": "x"}]}, "nodes[0].src", "is not known", "there are"),
        ({"nodes": [PEOPLE | {"columns": {"name": "a, b"}}]}, "nodes[0].columns.name", "not an expression", "one"),
        ({"nodes": [PEOPLE | {"columns": {"name": "a; drop table x"}}]}, "nodes[0].columns.name", "expression", "one"),
        ({"nodes": [PEOPLE | {"columns": {"name": "(select 1)"}}]}, "nodes[0].columns.name", "holds a query", "one"),
        ({"nodes": [PEOPLE | {"columns": {"name": "max(a)"}}]}, "nodes[0].columns.name", "holds an aggregate", "one"),
        ({"nodes": [PEOPLE | {"columns": {"name": "row_number() over ()"}}]}, "nodes[0].columns.name", "window", "one"),
        ({"nodes": [PEOPLE | {"columns": {"name": "*"}}]}, "nodes[0].columns.name", "holds a star", "one source row"),
        ({"nodes": [PEOPLE | {"columns": {"name": "$1"}}]}, "nodes[0].columns.name", "holds a parameter", "one source row"),
        ({"nodes": [PEOPLE | {"columns": {"name": ""}}]}, "nodes[0].columns.name", "is empty", "one expression"),
        ({"nodes": [PEOPLE | {"columns": {"name": "a || A"}}]}, "nodes[0]", "in several ways", "case matters"),
        ({"nodes": [PEOPLE | {"columns": {"name": "__at"}}]}, "nodes[0]", "reserved", "rename"),
        ({"nodes": [PEOPLE | {"where": "age >"}]}, "nodes[0].where", "is not an expression", "one expression"),
        ({"nodes": [PEOPLE | {"dedupe": {"by": ["nam"]}}]}, "nodes[0].dedupe.by", "no column of", "mean `name`?"),
        ({"nodes": [PEOPLE | {"dedupe": {"by": "name", "keep": "any"}}]}, "nodes[0].dedupe.keep", "neither", "first"),
        ({"nodes": [PEOPLE | {"dedupe": {}}]}, "nodes[0].dedupe.by", "missing", "list"),
        ({"nodes": [], "edges": [KNOWS | {"from": "people", "dst": None}]}, "edges[0].dst", "is missing", "dst"),
        ({"rejects": {"to": "rejects.txt"}}, "rejects.to", "neither .jsonl nor .parquet", "suffix"),
        ({"rejects": {"max": "half"}}, "rejects.max", "neither a number of rows nor a share: half", "0.5%"),
        ({"rejects": {"max": True}}, "rejects.max", "neither a number", "0.5%"),
        ({"tests": [{"name": "x"}]}, "tests[0].sql", "is missing", "sql"),
        ({"tests": [{"name": "x", "sql": "a"}, {"name": "x", "sql": "b"}]}, "tests[1].name", "is given twice", "own"),
        ({"key": "${OMNIGRAPH_NO_SUCH}"}, "key", "OMNIGRAPH_NO_SUCH", "set it"),
    ],
)  # fmt: skip
def test_a_mistake_is_named_with_its_place(world: World, given: dict[str, Any], place: str, says: str, hint: str) -> None:
    path = world.pipeline(**given)

    with pytest.raises(errors.Configuration) as raised:
        load_pipeline(path)

    assert raised.value.message.startswith(f"{path}: `{place}` ")
    assert says in raised.value.message
    assert hint in (raised.value.hint or "")


def test_a_key_given_twice_is_named_with_its_line(world: World) -> None:
    path = world.write("pipeline.yaml", "graph: a\nmode: merge\ngraph: b\n")

    with pytest.raises(errors.Configuration, match="`graph` is given twice"):
        load_pipeline(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(errors.NotFound, match="cannot be read"):
        load_pipeline(tmp_path / "nothing.yaml")


def test_variables_of_the_environment_are_filled_in(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUN_DAY", "2026-01-01")

    assert load_pipeline(world.pipeline(key="load-${RUN_DAY}")).key == "load-2026-01-01"


@pytest.mark.parametrize("engine", ["local", "spark"])
@pytest.mark.parametrize(
    ("given", "says", "hint"),
    [
        ({"nodes": [PEOPLE | {"columns": {"age": "age"}}]}, "nodes[0].columns` lacks `name`", "name: EXPRESSION"),
        ({"nodes": [PEOPLE | {"columns": {"id": "name"}}]}, "nodes[0].columns` lacks `name`", "name: EXPRESSION"),
        ({"nodes": [PEOPLE | {"type": "Persn"}]}, "is no node type of the graph: Persn", "did you mean `Person`?"),
        ({"nodes": [PEOPLE | {"columns": {"nmae": "name"}}]}, "columns.nmae` is no property", "mean `name`?"),
        ({"nodes": [], "edges": [KNOWS | {"from": "people", "type": "knows"}]}, "no edge type", "Knows"),
        ({"nodes": [PEOPLE | {"columns": {"name": "name", "age": "[1]"}}]}, "expects a whole number", None),
        ({"nodes": [PEOPLE | {"columns": {"name": "no_such_function(name)"}}]}, "no_such_function", None),
        ({"branch": "draft"}, "there is no branch `draft`", "base"),
        ({"branch": "draft", "base": "mian"}, "`base` names no branch: mian", "did you mean `main`?"),
        ({"sources": {"people": SOURCE | {"path": "*.nothing"}}}, "has no file", "beside the pipeline"),
        ({"sources": {"people": SOURCE | {"path": "."}}}, "is a directory", "*.jsonl"),
        ({"sources": {"people": SOURCE | {"options": {"header": True}}}}, "is no option of jsonl", "leave it out"),
    ],
)  # fmt: skip
def test_validation_finds_what_the_graph_and_the_sources_lack(
    world: World, given: dict[str, Any], says: str, hint: str | None, engine: og.PipelineEngineName
) -> None:
    world.lines("people.jsonl", [{"name": "Ann"}])

    with pytest.raises((errors.Configuration, errors.NotFound)) as raised:
        validate(world.pipeline(**given), engine=engine)

    assert says in raised.value.message
    assert hint is None or hint in (raised.value.hint or "")


@pytest.mark.parametrize(
    ("source", "says", "hint"),
    [
        ({"format": "josnl", "path": "people.jsonl"}, "only Spark reads", "did you mean `jsonl`?"),
        (SOURCE | {"path": "s3://bucket/x.jsonl"}, "is not on this machine", "spark"),
    ],
)
def test_what_only_spark_reads_is_refused_without_it_and_not_checked_with_it(
    world: World, source: dict[str, Any], says: str, hint: str
) -> None:
    path = world.pipeline(sources={"people": source, "more": SOURCE}, nodes=[PEOPLE, PEOPLE | {"from": "more"}])
    world.lines("people.jsonl", [])

    with pytest.raises(errors.Configuration, match=says) as raised:
        validate(path, engine="local")

    assert hint in (raised.value.hint or "")
    assert validate(path, engine="spark").unchecked == ("people",)


def test_a_default_or_a_vector_that_is_computed_need_no_column(tmp_path: Path) -> None:
    schema = """
    node Person { name: String @key
      size: I32 @default(3)
      note: String?
      vec: Vector(2) @embed(note) }
    edge Knows: Person -> Person { since: I32 }
    """
    og.init(tmp_path / "g", schema).close()
    world = World(tmp_path)
    world.lines("people.jsonl", [])
    nodes = [PEOPLE | {"columns": ["name"]}]
    edges = [KNOWS | {"from": "people", "columns": {}}]

    assert validate(world.pipeline(nodes=nodes), engine="local").unchecked == ()
    with pytest.raises(errors.Configuration, match="the column `vec` is missing"):  # tasks of Spark compute no vectors
        validate(world.pipeline(nodes=nodes), engine="spark")
    for engine in ("local", "spark"):
        with pytest.raises(errors.Configuration, match=r"edges\[0\].columns` lacks `since`"):
            validate(world.pipeline(nodes=nodes, edges=edges), engine=engine)


def test_a_column_that_a_header_lacks_is_found_without_reading_rows(world: World) -> None:
    world.write("people.csv", "name,agee\n")
    path = world.pipeline(sources={"people": {"format": "csv", "path": "people.csv"}})

    with pytest.raises(errors.Configuration, match="reads the column `age`") as raised:
        validate(path, engine="local")

    assert raised.value.hint == "did you mean `agee`?"


def test_validation_reads_no_rows_and_changes_nothing(world: World) -> None:
    world.write("people.jsonl", "this is no JSON\n")
    before = og.connect(world.path / "g").snapshot().commit_id

    assert validate(world.pipeline(), engine="local").key is not None
    assert og.connect(world.path / "g").snapshot().commit_id == before


def test_a_plan_shows_files_order_and_sql_of_the_engine(world: World) -> None:
    world.lines("b.jsonl", [])
    world.lines("a.jsonl", [])
    path = world.pipeline(
        sources={"people": {"format": "jsonl", "path": "*.jsonl", "columns": {"name": "TEXT", "age": "BIGINT"}}},
        edges=[KNOWS | {"from": "people", "src": "name", "dst": "name", "columns": {}}],
    )

    local, spark = (make_plan(path, engine=engine) for engine in ("local", "spark"))

    assert [each.target.table_key for each in local.targets] == ["node:Person", "edge:Knows"]
    assert [Path(file).name for file in local.sources["people"].files] == ["a.jsonl", "b.jsonl"]
    assert 'TRY_CAST("age" AS BIGINT)' in local.targets[0].sql
    assert "TRY_CAST(`age` AS BIGINT)" in spark.targets[0].sql
    assert local.key == spark.key
    assert local.to_dict()["targets"][1]["reads"] == ["name"]
    assert "1. node:Person from people" in local.to_text()


def test_an_engine_that_there_is_not_is_refused(world: World) -> None:
    world.lines("people.jsonl", [])

    with pytest.raises(errors.BadRequest, match="no engine `sprk`"):
        make_plan(world.pipeline(), engine="sprk")  # type: ignore[arg-type]


def test_the_engine_is_local_unless_something_asks_for_spark(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SPARK_REMOTE", "MASTER", "PYSPARK_GATEWAY_PORT"):
        monkeypatch.delenv(name, raising=False)
    world.lines("people.jsonl", [{"name": "Ann", "age": 1}])
    path = world.pipeline()
    assert (make_plan(path).engine, validate(path).engine, run_pipeline(path).engine) == ("local", "local", "local")
    assert make_plan(path, engine="spark").engine == "spark"
    monkeypatch.setenv("SPARK_REMOTE", "sc://host:1")
    assert make_plan(path).engine == "spark"
    monkeypatch.delenv("SPARK_REMOTE")
    for source in ({"format": "avro", "path": "people.jsonl"}, {"format": "jsonl", "path": "s3://bucket/people.jsonl"}):
        assert make_plan(world.pipeline(sources={"people": source})).engine == "spark"
