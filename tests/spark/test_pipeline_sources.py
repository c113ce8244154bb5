"""Sources of pipelines on Spark: every file that is named is read, and what cannot be read is named."""

from __future__ import annotations

import bz2
import datetime
import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from omnigraph_sql import PipelineEngineName, errors
from omnigraph_sql.pipeline import run_pipeline
from tests.pipeline.world import PEOPLE, SCHEMA, World
from tests.sql.postgres import Server, postgres_server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("spark")
ENGINES: tuple[PipelineEngineName, ...] = ("local", "spark")


@pytest.fixture
def world(tmp_path: Path) -> World:
    import omnigraph_sql as og

    og.init(tmp_path / "g", SCHEMA).close()
    return World(tmp_path)


def read(
    world: World, engine: PipelineEngineName = "spark", columns: dict[str, str] | None = None, **source: Any
) -> dict[str, int | None]:
    """The people of a source, and no others."""
    node = PEOPLE if columns is None else PEOPLE | {"columns": columns}
    path = world.pipeline(sources={"people": source}, nodes=[node], mode="overwrite")
    run_pipeline(path, engine=engine, key=f"by {engine} {json.dumps([source, columns])}")
    return world.people()


def table(world: World, file: str, /, **columns: Any) -> None:
    (world.path / file).parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), world.path / file)


def test_no_file_is_passed_over_because_of_its_name(world: World) -> None:
    names = ["a.jsonl", "_b.jsonl", "c._COPYING_", ".d.jsonl", "_e=1.jsonl", "_metadata", "g#{1}[2]?.jsonl", "_h/i.jsonl"]
    for number, name in enumerate(names):
        world.lines(f"in/{name}", [{"name": name, "age": number}])
    everything = {name: number for number, name in enumerate(names)}
    paths = ["in/a.jsonl", "in/[_c.]*", "in/g*", "in/.d.jsonl", "in/_h/*"]

    for engine in ENGINES:
        assert read(world, engine, format="jsonl", path=paths) == everything


def test_a_parquet_file_is_read_whatever_its_name(world: World) -> None:
    table(world, "in/_a.parquet", name=["Ann"], age=pa.array([30], pa.uint8()))
    table(world, "in/b.parquet", name=["Bob"], age=pa.array([7], pa.uint8()))

    for engine in ENGINES:
        assert read(world, engine, format="parquet", path="in/*") == {"Ann": 30, "Bob": 7}


def test_packed_files(world: World) -> None:
    world.write("in/a.jsonl.gz", gzip.compress(b'{"name": "Ann", "age": 1}\nno json\n'))
    world.write("in/b.jsonl.bz2", bz2.compress(b'{"name": "Bob", "age": 2}\n'))
    world.pipeline(sources={"people": {"format": "jsonl", "path": "in/*"}}, rejects={"to": "rejects.jsonl", "max": 1})

    run_pipeline(world.path / "pipeline.yaml", engine="spark")

    assert world.people() == {"Ann": 1, "Bob": 2}
    assert [(each["source"], each["rule"]) for each in world.rejects()] == [("in/a.jsonl.gz", "json")]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("name", "content"), [("a.jsonl.gz", b"plain"), ("b.jsonl.gz", gzip.compress(b'{"name": "Ann"}\n' * 5000)[:-20])]
)
def test_a_broken_file_is_named(world: World, engine: PipelineEngineName, name: str, content: bytes) -> None:
    world.write(name, content)

    with pytest.raises(errors.BadRequest, match=rf"`nodes\[0\]`: .*{name} cannot be read"):
        read(world, engine, format="jsonl", path=name)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("expression", ["cast(age as integer)", "year(strptime(age, '%Y-%m-%d'))"])
def test_an_expression_that_fails_on_a_row_names_the_target(
    world: World, engine: PipelineEngineName, expression: str
) -> None:
    world.lines("people.jsonl", [{"name": "Ann", "age": "x"}])

    with pytest.raises(errors.BadRequest, match=r"pipeline.yaml: `nodes\[0\]`: the mapping fails: .*x") as raised:
        read(world, engine, {"name": "name", "age": expression}, format="jsonl", path="people.jsonl")

    assert "SQLSTATE" not in raised.value.message
    assert "TRY_CAST" in (raised.value.hint or "")
    assert world.leftovers() == [] or all(each.endswith("aborted") for each in world.leftovers())


@pytest.mark.parametrize(
    ("source", "says", "hint"),
    [
        ({"format": "nosuch", "path": "people.jsonl"}, "Failed to find the data source: nosuch", "format nosuch"),
        ({"format": "jdbc", "uri": "jdbc:nosuch:x", "table": "t"}, "No suitable driver", "spark.jars"),
        ({"format": "orc", "path": "nothing.orc"}, "PATH_NOT_FOUND", "path"),
        ({"format": "jsonl", "path": "file:///tmp/_nothing.jsonl"}, "Spark ignores", "another name"),
    ],
)
def test_a_source_that_spark_cannot_open_is_named(world: World, source: dict[str, Any], says: str, hint: str) -> None:
    with pytest.raises(errors.Configuration, match=says) as raised:
        read(world, **source)

    assert "people" in raised.value.what
    assert hint in (raised.value.hint or "")


def test_a_column_that_spark_does_not_find_names_the_target(world: World, spark: SparkSession) -> None:
    spark.createDataFrame([("o",)], "nme string").write.orc(str(world.path / "people.orc"))

    with pytest.raises(errors.Configuration, match=r"sources.people.*name"):
        read(world, format="orc", path="people.orc")


def test_a_broken_file_of_a_format_of_spark_is_named(world: World, spark: SparkSession) -> None:
    spark.createDataFrame([("o", 5)], "name string, age int").coalesce(1).write.orc(str(world.path / "people.orc"))
    (file,) = (world.path / "people.orc").glob("*.orc")
    file.write_bytes(b"x" * 100)

    with pytest.raises((errors.BadRequest, errors.Configuration), match="cannot be read") as raised:
        read(world, format="orc", path="people.orc")

    assert file.name in raised.value.message


DAY = datetime.datetime(2024, 1, 1, 10, 0, 0, 123456)


def test_columns_of_parquet_files_that_nothing_reads_do_not_matter(world: World) -> None:
    odd = {"at": pa.array([DAY], pa.timestamp("ns")), "clock": pa.array([datetime.time(1, 2)]), "x": ["a"], "X": ["b"]}
    table(world, "people.parquet", name=["Ann"], age=pa.array([30], pa.uint64()), **odd)

    assert read(world, format="parquet", path="people.parquet") == {"Ann": 30}


def test_parquet_types_that_spark_does_not_have(world: World) -> None:
    columns = {"name": "who.name", "age": "minute(at) + hour(who.at)", "email": '"X"', "tags": "tags"}
    who = pa.array([{"name": "Ann", "at": DAY}], pa.struct([("name", pa.string()), ("at", pa.timestamp("ns"))]))
    tags = pa.array([["a"]])
    table(world, "people.parquet", who=who, at=pa.array([DAY], pa.timestamp("ns")), x=["a"], X=["b"], tags=tags)

    found = {}
    for engine in ENGINES:
        read(world, engine, columns, format="parquet", path="people.parquet")
        with world.graph as graph:
            found[engine] = graph.sql('select name, age, email, tags from "Person"').to_pylist()

    assert found["spark"] == found["local"] == [{"name": "Ann", "age": 10, "email": "b", "tags": ["a"]}]


def test_times_as_spark_writes_them(world: World) -> None:
    late = pa.array([datetime.datetime(9999, 12, 31, 10)], pa.timestamp("us"))
    rows = pa.table({"name": ["Ann"], "at": late})
    pq.write_table(rows, world.path / "people.parquet", use_deprecated_int96_timestamps=True)
    columns = {"name": "name", "age": "year(at) - 9990 + hour(at)"}

    for engine in ENGINES:
        assert read(world, engine, columns, format="parquet", path="people.parquet") == {"Ann": 19}


def test_a_parquet_column_that_spark_cannot_read_is_named(world: World) -> None:
    table(world, "people.parquet", name=["Ann"], clock=pa.array([datetime.time(1, 2)]))
    columns = {"name": "name", "age": "hour(clock)"}

    assert read(world, "local", columns, format="parquet", path="people.parquet") == {"Ann": 1}
    with pytest.raises(errors.Configuration, match=r"`clock` of .*people.parquet holds times of day") as raised:
        read(world, "spark", columns, format="parquet", path="people.parquet")
    assert "engine local" in (raised.value.hint or "")


def test_a_table_of_a_database_by_jdbc(world: World, spark: SparkSession) -> None:
    """Derby comes with Spark."""
    assert spark.sparkContext._jvm is not None
    spark.sparkContext._jvm.java.lang.System.setProperty("derby.stream.error.file", str(world.path / "derby.log"))
    uri = f"jdbc:derby:{world.path / 'derby'};create=true"
    rows = spark.createDataFrame([("Ann", 30), ("Bob", None)], "name string, age int")
    rows.write.jdbc(uri, "PEOPLE", mode="overwrite", properties={"driver": "org.apache.derby.jdbc.EmbeddedDriver"})
    options = {"driver": "org.apache.derby.jdbc.EmbeddedDriver", "fetchsize": 100}
    columns = {"name": '"name"', "age": '"age"'}

    source: dict[str, Any] = {"format": "jdbc", "uri": uri, "table": "PEOPLE", "options": options}
    assert read(world, columns=columns, **source) == {"Ann": 30, "Bob": None}
    with pytest.raises(errors.OmnigraphError, match=r"sources.people.*NOTHING") as raised:
        read(world, columns=columns, **source | {"table": "NOTHING"})
    assert isinstance(raised.value, errors.Configuration)
    query = """select "name", 1 / ("age" - 30) as "age" from PEOPLE"""
    failing: dict[str, Any] = {"format": "jdbc", "uri": uri, "options": options | {"query": query}}
    with pytest.raises(errors.SourceFailed, match=r"`nodes\[0\]`: the source `people` cannot be read: .*divide by zero"):
        read(world, columns=columns, **failing)


@pytest.fixture(scope="module")
def postgres() -> Iterator[Server]:
    with postgres_server() as server:
        yield server


def test_a_table_of_postgres(world: World, postgres: Server) -> None:
    postgres.run(
        "create table people (name text, age int, at timestamptz, size numeric(10, 2), tags text[])",
        "insert into people select 'p' || n, n % 100, now(), n, array['a'] from generate_series(1, 20000) n",
    )
    columns = {"name": "name", "age": "age", "tags": "tags", "email": "cast(size as text)"}

    source: dict[str, Any] = {"format": "postgres", "uri": postgres.uri, "table": "people"}
    local, spark = (read(world, engine, columns, **source) for engine in ENGINES)

    assert len(spark) == 20000
    assert spark == local
