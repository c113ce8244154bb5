"""Rows of every kind of source become the same nodes and edges, and what cannot is rejected with its file and line."""

from __future__ import annotations

import datetime
import gzip
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from omnigraph_sql import errors
from tests.pipeline.world import KNOWS, PEOPLE, World
from tests.sql.postgres import Server, postgres_server

TWO = {"Ann": 30, "Bob": None}


@pytest.fixture(scope="module")
def postgres() -> Iterator[Server]:
    with postgres_server() as server:
        yield server


def read(world: World, **source: Any) -> dict[str, int | None]:
    """The people of a source."""
    world.pipeline(sources={"people": source})
    world.run()
    return world.people()


def test_lines_of_json(world: World) -> None:
    world.write("people.jsonl", '{"name": "Ann", "age": 30}\n\n  \n{"age": null, "name": "Bob", "else": [1]}\n')

    assert read(world, format="jsonl", path="people.jsonl") == TWO


def test_gzipped_lines_of_json(world: World) -> None:
    world.write("people.jsonl.gz", gzip.compress(b'{"name": "Ann", "age": "30"}\r\n{"name": "Bob"}'))

    assert read(world, format="jsonl", path="people.jsonl.gz") == TWO


def test_csv(world: World) -> None:
    world.write("people.csv", "age,name\n30,Ann\n,Bob\n")

    assert read(world, format="csv", path="people.csv") == TWO


def test_csv_with_options(world: World) -> None:
    world.write("people.txt", "Ann;30\n'B''ob';-\n".encode("utf-16"))
    options = {"delimiter": ";", "quote": "'", "names": ["name", "age"], "encoding": "utf-16", "null": ["-"]}

    assert read(world, format="csv", path="people.txt", options=options) == {"Ann": 30, "B'ob": None}


def test_parquet(world: World) -> None:
    pq.write_table(
        pa.table({"name": ["Ann", "Bob"], "age": pa.array([30, None], pa.int64())}), world.path / "people.parquet"
    )

    assert read(world, format="parquet", path="people.parquet") == TWO


def test_texts_of_a_parquet_file_are_no_numbers(world: World) -> None:
    pq.write_table(pa.table({"name": ["Ann"], "age": ["30"]}), world.path / "people.parquet")
    world.pipeline(sources={"people": {"format": "parquet", "path": "people.parquet"}})

    with pytest.raises(errors.Configuration, match=r"`nodes\[0\]`: .*expects a whole number"):
        world.run()


def test_structures_of_a_parquet_file(world: World) -> None:
    rows = [{"who": {"name": "Ann"}, "tags": ["a", "b"], "day": datetime.date(2020, 1, 1)}]
    pq.write_table(pa.Table.from_pylist(rows), world.path / "people.parquet")
    world.pipeline(
        sources={"people": {"format": "parquet", "path": "people.parquet"}},
        nodes=[
            {"type": "Person", "from": "people", "columns": {"name": "who.name", "tags": "tags", "age": "year(day) - 1990"}}
        ],
    )
    world.run()

    with world.graph as graph:
        assert graph.sql('select name, age, tags from "Person"').to_pylist() == [
            {"name": "Ann", "age": 30, "tags": ["a", "b"]}
        ]


def test_a_table_of_postgres(world: World, postgres: Server) -> None:
    postgres.run("create table people (name text, age int)", "insert into people values ('Ann', 30), ('Bob', null)")

    assert read(world, format="postgres", uri=postgres.uri, table="people") == TWO


def test_rejects_of_a_database_do_not_tell_its_password(world: World, postgres: Server) -> None:
    postgres.run("create table bad (name text, age int)", "insert into bad values ('Ann', 300)")
    world.pipeline(
        sources={"people": {"format": "postgres", "uri": postgres.uri, "table": "bad"}},
        rejects={"to": "rejects.jsonl", "max": "100%"},
    )
    world.run()

    (reject,) = world.rejects()
    assert reject["rule"] == "range"
    assert "public.bad" in reject["source"]
    assert "Gr8" not in str(reject)


def test_several_files_are_read_in_the_order_of_their_names(world: World) -> None:
    for name, age in (("b", 2), ("a", 1), ("c/d", 3)):
        world.lines(f"in/{name}.jsonl", [{"name": "Ann", "age": age}])
    world.pipeline(
        sources={"people": {"format": "jsonl", "path": ["in/**/*.jsonl"]}},
        rejects={"to": "out/rejects.jsonl", "max": 2},
    )
    world.run()

    assert world.people() == {"Ann": 1}
    assert [(each["source"], each["line"], each["rule"]) for each in world.rejects("out/rejects.jsonl")] == [
        ("in/b.jsonl", 1, "unique"),
        ("in/c/d.jsonl", 1, "unique"),
    ]


def test_what_is_no_record_is_rejected_once_though_several_targets_read_it(world: World) -> None:
    world.write("people.jsonl", b'{"name": "Ann"}\nnot json\n\n[1]\n{"name": "\xff"}\n{"name": "Bob"}\n')
    world.pipeline(
        nodes=[
            PEOPLE | {"columns": {"name": "name"}},
            {"type": "Place", "from": "people", "columns": {"code": "upper(name)"}},
        ],
        rejects={"to": "rejects.jsonl", "max": 3},
    )
    report = world.run()

    assert [(each["line"], each["rule"], each["table_key"]) for each in world.rejects()] == [
        (2, "json", None),
        (4, "json", None),
        (5, "json", None),
    ]
    assert (report.sources[0].rows, report.sources[0].malformed) == (5, 3)
    assert {each.table_key: each.published for each in report.tables} == {"node:Person": 2, "node:Place": 2}


def test_rows_of_the_wrong_width_are_rejected(world: World) -> None:
    world.write("people.csv", 'name,age\nAnn,30\nBob\n"Ce\nm",1,2\nDan,4\n')
    world.pipeline(sources={"people": {"format": "csv", "path": "people.csv"}}, rejects={"to": "rejects.jsonl", "max": 2})
    world.run()

    assert world.people() == {"Ann": 30, "Dan": 4}
    assert [(each["line"], each["rule"]) for each in world.rejects()] == [(2, "record"), (3, "record")]


def test_a_value_that_is_not_of_the_declared_type_is_rejected(world: World) -> None:
    world.lines("people.jsonl", [{"name": "Ann", "born": "1990-01-01"}, {"name": "Bob", "born": "soon"}, {"name": "Cem"}])
    world.pipeline(
        sources={"people": {"format": "jsonl", "path": "people.jsonl", "columns": {"name": "TEXT", "born": "DATE"}}},
        nodes=[{"type": "Person", "from": "people", "columns": {"name": "name", "age": "2020 - year(born)"}}],
        rejects={"to": "rejects.jsonl", "max": 1},
    )
    world.run()

    assert world.people() == {"Ann": 30, "Cem": None}
    (reject,) = world.rejects()
    assert (reject["line"], reject["rule"], reject["property"], reject["value"]) == (2, "type", "born", '"soon"')


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("BIGINT", " 7 ", 7),
        ("BIGINT", "+7", 7),
        ("INT", "-007", -7),
        *(("BIGINT", text, None) for text in ("3.5", "3.0", "1e2", "", "\uff19", "0x10", "1_000", "7\n", "9" * 19, "true")),
        ("TINYINT", "300", None),
        ("DOUBLE", "1e2", 100),
        ("DOUBLE", " .5e1 ", 5),
        *(("DOUBLE", text, None) for text in ("1_000", "1.0d", "0x10", "")),
    ],
)
def test_a_declared_number_is_written_as_one(world: World, kind: str, text: str, value: int | None) -> None:
    world.lines("people.jsonl", [{"name": "Ann", "age": text}])
    world.pipeline(
        sources={"people": {"format": "jsonl", "path": "people.jsonl", "columns": {"name": "TEXT", "age": kind}}},
        nodes=[{"type": "Person", "from": "people", "columns": {"name": "name", "email": "cast(cast(age as int) as text)"}}],
        rejects={"to": "rejects.jsonl", "max": 1},
    )
    world.run()

    with world.graph as graph:
        found = [row["email"] for row in graph.sql('select email from "Person"').to_pylist()]
    assert found == ([] if value is None else [str(value)])
    assert [each["rule"] for each in world.rejects()] == (["type"] if value is None else [])


def test_texts_become_values_as_in_csv_loads(world: World) -> None:
    world.write("people.csv", 'name,age,tags,email\nAnn,030,"[""a"", ""b""]",""\nBob,3.0,,\n')
    columns = {name: name for name in ("name", "age", "tags", "email")}
    world.pipeline(
        sources={"people": {"format": "csv", "path": "people.csv"}},
        nodes=[{"type": "Person", "from": "people", "columns": columns}],
    )
    world.run()

    with world.graph as graph:
        assert graph.sql('select name, age, tags, email from "Person" order by name').to_pylist() == [
            {"name": "Ann", "age": 30, "tags": ["a", "b"], "email": ""},
            {"name": "Bob", "age": 3, "tags": None, "email": None},
        ]


def test_an_empty_file_gives_no_rows(world: World) -> None:
    world.write("people.jsonl", "")

    assert read(world, format="jsonl", path="people.jsonl") == {}


def test_a_file_that_is_something_else_is_named(world: World) -> None:
    world.write("people.parquet", "name,age\n")
    world.pipeline(sources={"people": {"format": "parquet", "path": "people.parquet"}})

    with pytest.raises(errors.Configuration, match=r"people\.parquet cannot be read"):
        world.run()


@pytest.mark.parametrize("before", [0, 150_000])
def test_an_expression_that_fails_on_a_row_names_the_target(world: World, before: int) -> None:
    world.lines("people.jsonl", [*({"name": str(n), "age": 1} for n in range(before)), {"name": "Ann", "age": "x"}])
    world.pipeline(nodes=[PEOPLE | {"columns": {"name": "name", "age": "cast(age as integer)"}}])

    with pytest.raises(errors.BadRequest, match=r"nodes\[0\].*Could not convert") as raised:
        world.run()

    assert "TRY_CAST" in (raised.value.hint or "")


def test_edges_take_ids_of_any_type(world: World) -> None:
    world.lines("people.jsonl", [{"name": "1"}, {"name": "2"}])
    pq.write_table(pa.table({"a": [1], "b": [2]}), world.path / "knows.parquet")
    world.pipeline(
        sources={
            "people": {"format": "jsonl", "path": "people.jsonl"},
            "knows": {"format": "parquet", "path": "knows.parquet"},
        },
        edges=[KNOWS | {"columns": {}}],
    )
    world.run()

    with world.graph as graph:
        assert graph.sql('select src, dst from "Knows"').to_pylist() == [{"src": "1", "dst": "2"}]


def test_more_rows_than_one_batch(world: World) -> None:
    count = 200_000
    world.write("people.jsonl", "".join(f'{{"name": "p{n}", "age": {n % 100}}}\n' for n in range(count)))
    world.pipeline()
    report = world.run()

    assert report.tables[0].published == count
    with world.graph as graph:
        names = graph.sql('select name from "Person"').to_arrow().column(0).to_pylist()
    assert sorted(names) == sorted(f"p{n}" for n in range(count))
