"""Conflicts and histories as relations, on both engines and in sessions."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from datafusion import SessionContext

import omnigraph_sql as og
from omnigraph_sql.choices import EngineName
from omnigraph_sql.errors import BadRequest, MergeConflicts, NotFound, OmnigraphError
from tests.internals import store_of

SCHEMA = """
node Person {
  name: String @key
  age: I32?
  size: F64?
  seen: DateTime?
  born: Date?
  tags: [String]?
  vec: Vector(2)?
  photo: Blob?
  rank: U64?
}
node City { name: String @key  size: String?  fooBar: I32?  foobar: String? }
edge Knows: Person -> Person { since: I32? }
"""
ENGINES: tuple[EngineName, ...] = ("datafusion", "duckdb")
ANN = {
    "age": 1,
    "size": 1.5,
    "seen": "2024-01-02T03:04:05.678Z",
    "born": "1990-02-01",
    "tags": ["a", "b"],
    "vec": [1, 2],
    "photo": "base64:aGk=",
    "rank": 2**63,
}


def node(type_name: str, name: str, **values: Any) -> str:
    return json.dumps({"type": type_name, "data": {"name": name, **values}})


def setting(type_name: str, name: str, **values: Any) -> str:
    listed = ", ".join(f"{key}: {json.dumps(value)}" for key, value in values.items())
    return f'query q() {{ update {type_name} set {{ {listed} }} where name = "{name}" }}'


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[og.Graph]:
    """A branch that is not in conflict with main yet."""
    with og.init(tmp_path / "graph", SCHEMA, actor="ada") as graph:
        people = [node("Person", "Ann", **ANN), node("Person", "Bob")]
        cities = [node("City", "Oslo", size="big"), node("City", "Rome", fooBar=1, foobar="x")]
        graph.load([*people, *cities], mode="append")
        graph.create_branch("draft")
        yield graph


def diverge(graph: og.Graph, type_name: str, name: str, ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    graph.mutate(setting(type_name, name, **ours))
    graph.mutate(setting(type_name, name, **theirs), branch="draft")


def conflicts(graph: og.Graph, engine: EngineName, source: str = "draft", target: str = "main") -> list[dict[str, Any]]:
    both = {"source": source, "target": target}
    rows: list[dict[str, Any]] = graph.sql(
        "select * from merge_conflicts($source, $target)", both, engine=engine
    ).to_pylist()
    return rows


# Conflicts -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ENGINES)
def test_a_conflict_has_the_rows_of_all_sides(graph: og.Graph, engine: EngineName) -> None:
    diverge(graph, "Person", "Ann", {"age": 2}, {"age": 3, "rank": 4})
    graph.mutate('query q() { delete Person where name = "Bob" }')
    graph.mutate(setting("Person", "Bob", age=9), branch="draft")

    ann, bob = conflicts(graph, engine)
    assert (ann["kind"], ann["type"], ann["id"], ann["properties"]) == ("DivergentUpdate", "Person", "Ann", ["age", "rank"])
    assert ann["base"] == {
        "id": "Ann",
        "name": "Ann",
        "age": 1,
        "size": 1.5,
        "seen": datetime.datetime(2024, 1, 2, 3, 4, 5, 678000, datetime.UTC),
        "born": datetime.date(1990, 2, 1),
        "tags": ["a", "b"],
        "vec": [1.0, 2.0],
        "photo": b"hi",
        "rank": 2**63,
    }
    assert ann["ours"] == ann["base"] | {"age": 2}
    assert ann["theirs"] == ann["base"] | {"age": 3, "rank": 4}
    assert "was changed on both sides" in ann["message"]
    assert (bob["kind"], bob["ours"], bob["theirs"]["age"], bob["properties"]) == ("DeleteVsUpdate", None, 9, [])
    assert graph.merge("draft", dry_run=True).conflicts_table().to_pylist() == [ann, bob]


@pytest.mark.parametrize("engine", ENGINES)
def test_members_of_the_sides_can_be_selected_and_compared(graph: og.Graph, engine: EngineName) -> None:
    diverge(graph, "Person", "Ann", {"age": 2}, {"age": 3})

    text = """
    select id, ours['age'] - base['age'] as mine, theirs['age'] as theirs from merge_conflicts('draft')
    where ours['age'] < $most
    """
    assert graph.sql(text, {"most": 5}, engine=engine).to_pylist() == [{"id": "Ann", "mine": 1, "theirs": 3}]
    counted = "select type, count(*) as n from merge_conflicts('draft') group by type"
    assert graph.sql(counted, engine=engine).to_pylist() == [{"type": "Person", "n": 1}]


@pytest.mark.parametrize("engine", ENGINES)
def test_sides_have_the_columns_of_the_types_in_conflict(graph: og.Graph, engine: EngineName) -> None:
    diverge(graph, "Person", "Ann", {"size": 2.5}, {"size": 3.5})
    diverge(graph, "City", "Oslo", {"size": "huge"}, {"size": "tiny"})

    oslo, ann = conflicts(graph, engine)
    # One size is a text and the other a number: both are JSON.
    assert (oslo["ours"]["size"], ann["ours"]["size"], ann["base"]["age"], oslo["base"]["age"]) == ('"huge"', "2.5", 1, None)
    assert {"src", "dst"}.isdisjoint(ann["base"])


@pytest.mark.parametrize("engine", ENGINES)
def test_without_conflicts_the_sides_have_the_columns_of_all_types(graph: og.Graph, engine: EngineName) -> None:
    text = "select base['src'] as src, ours['age'] as age, theirs['since'] as since from merge_conflicts('draft')"
    empty = graph.sql(text, engine=engine).to_arrow()
    assert (empty.num_rows, empty.schema.types[1:]) == (0, [pa.int32(), pa.int32()])

    row = graph.merge("draft", dry_run=True).conflicts_table().schema.field("base").type
    assert [field.name for field in row][:4] == ["id", "src", "dst", "name"]


@pytest.mark.parametrize("engine", ENGINES)
def test_conflicts_of_the_merged_graph_and_of_relations_are_rows_too(graph: og.Graph, engine: EngineName) -> None:
    graph.tables().define_view("main", "grown", "select 1 as x", dialect="ansi", columns=["x"])
    graph.tables("draft").define_view("main", "grown", "select 2 as x", dialect="ansi", columns=["x"])
    assert [(row["kind"], row["type"], row["id"], row["base"]) for row in conflicts(graph, engine)] == [
        ("DivergentTable", "main.grown", None, None)
    ]
    with pytest.raises(MergeConflicts, match="grown was changed on both sides"):
        graph.merge("draft")
    graph.tables().drop("main", "grown")
    graph.tables("draft").drop("main", "grown")

    graph.mutate('query q() { delete Person where name = "Bob" }')
    graph.load(
        ['{"edge": "Knows", "from": "Ann", "to": "Bob", "data": {"id": "k", "since": 3}}'], mode="append", branch="draft"
    )
    (orphan,) = conflicts(graph, engine)
    assert (orphan["kind"], orphan["type"], orphan["id"]) == ("OrphanEdge", "Knows", "k")
    assert orphan["theirs"] == {"id": "k", "src": "Ann", "dst": "Bob", "since": 3}


def test_duckdb_tells_members_apart_that_differ_only_in_case(graph: og.Graph) -> None:
    diverge(graph, "City", "Rome", {"fooBar": 2}, {"fooBar": 3})

    (rome,) = conflicts(graph, "duckdb")
    assert (rome["ours"]["fooBar"], rome["ours"]["foobar_1"]) == (2, "x")
    assert conflicts(graph, "datafusion")[0]["ours"]["foobar"] == "x"
    history = "select foobar_1 from history_of('City') where foobar_1 = 'x' and valid_to is null"
    assert graph.sql(history, engine="duckdb").to_pylist() == [{"foobar_1": "x"}]
    assert graph.sql("select count(*) as n from history_of('City')", engine="duckdb").to_pylist() == [{"n": 3}]


def test_a_statement_sees_the_conflicts_of_the_states_that_it_reads(graph: og.Graph) -> None:
    diverge(graph, "Person", "Ann", {"age": 2}, {"age": 3})
    result = graph.sql("select ours['age'] as a, p.age as b from merge_conflicts('draft') c join Person p on p.id = c.id")

    assert result.to_pylist() == [{"a": 2, "b": 2}]
    assert graph.merge("draft", resolve="theirs").outcome == "merged"
    assert conflicts(graph, "datafusion") == []


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("text", "kind", "hint"),
    [
        ("select * from merge_conflicts()", BadRequest, "write merge_conflicts(source [, target])"),
        ("select * from merge_conflicts(3)", BadRequest, "write merge_conflicts(source [, target])"),
        ("select * from merge_conflicts('draft', 'main', 'x')", BadRequest, "write merge_conflicts(source [, target])"),
        ("select * from merge_conflicts('nowhere')", NotFound, "there are draft, main"),
        ("select * from merge_conflicts('main')", BadRequest, "name another branch"),
        ("select * from merge_conflicts($x)", BadRequest, "$name"),
        ("select * from history_of()", BadRequest, "write history_of(type [, ref])"),
        ("select * from history_of('Persn')", NotFound, "did you mean `Person`?"),
        ("select * from history_of('edge:Person')", NotFound, "there are `Knows`"),
        ("select * from history_of('Person', 'main@999')", NotFound, "list the commits"),
        ("select * from entity_history('Person')", BadRequest, "write entity_history(type, id [, ref])"),
        ("select * from entity_history('Person', 3)", BadRequest, "write entity_history(type, id [, ref])"),
        ("select nam from history_of('Person')", BadRequest, ""),
    ],
)
def test_wrong_arguments_are_errors_with_hints(
    graph: og.Graph, engine: EngineName, text: str, kind: type[OmnigraphError], hint: str
) -> None:
    with pytest.raises(kind) as caught:
        graph.sql(text, engine=engine).to_pylist()
    assert hint in (caught.value.hint or "")


# Histories -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ENGINES)
def test_histories_are_relations(graph: og.Graph, engine: EngineName) -> None:
    graph.mutate(setting("Person", "Ann", age=2), actor="bea")
    graph.mutate(setting("Person", "Ann", age=3), branch="draft", actor="cem")

    text = "select actor, age, valid_to is null as current from history_of('Person') where id = $id order by valid_from"
    assert graph.sql(text, {"id": "Ann"}, engine=engine).to_pylist() == [
        {"actor": "ada", "age": 1, "current": False},
        {"actor": "bea", "age": 2, "current": True},
    ]
    text = "select age, photo, vec, seen from entity_history($type, $id, $ref) where actor = 'cem'"
    arguments = {"type": "Person", "id": "Ann", "ref": "draft"}
    (row,) = graph.sql(text, arguments, engine=engine).to_pylist()
    assert (row["age"], row["photo"], row["vec"]) == (3, b"hi", [1.0, 2.0])
    assert row["seen"] == datetime.datetime(2024, 1, 2, 3, 4, 5, 678000, datetime.UTC)
    assert graph.sql("select count(*) as n from history_of('Knows')", engine=engine).to_pylist() == [{"n": 0}]

    joined = """
    select h.operation, c.message from history_of('Person') h
    join commits() c on c.graph_commit_id = h.commit where h.id = 'Bob'
    """
    assert graph.sql(joined, engine=engine).to_pylist() == [{"operation": "insert", "message": None}]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_state_can_be_read_from_its_history(graph: og.Graph, engine: EngineName) -> None:
    graph.mutate(setting("Person", "Ann", age=2))
    graph.mutate('query q() { delete Person where name = "Bob" }')
    commits = graph.commits()

    for commit in commits:
        at = datetime.datetime.fromtimestamp(commit.created_at / 1e6, datetime.UTC)
        text = """
        select id, age from history_of('Person')
        where valid_from <= $at and (valid_to is null or valid_to > $at) order by id
        """
        shown = graph.sql("select id, age from Person order by id", snapshot=commit.graph_commit_id).to_pylist()
        assert graph.sql(text, {"at": at}, engine=engine).to_pylist() == shown


@pytest.mark.parametrize("engine", ENGINES)
def test_only_what_a_statement_asks_for_is_read(graph: og.Graph, engine: EngineName) -> None:
    graph.load([node("Person", f"p{number}", vec=[1, 2]) for number in range(500)], mode="append")
    graph.mutate(setting("Person", "p7", age=2))
    storage = store_of(graph).storage

    def rows(text: str) -> int:
        before = storage.calls["rows"]
        assert len(graph.sql(text, engine=engine).to_arrow())
        return storage.calls["rows"] - before

    every = rows("select * from history_of('Person')")
    assert rows("select id, commit from history_of('Person')") < every
    assert rows("select * from history_of('Person') where id = 'p7' and operation = 'update'") < 10


def test_views_may_read_histories(graph: og.Graph) -> None:
    graph.tables().define_view(
        "main", "edits", "select id, actor from history_of('Person')", dialect="datafusion", columns=["id", "actor"]
    )
    assert graph.sql("select * from edits where id = 'Bob'").to_pylist() == [{"id": "Bob", "actor": "ada"}]


def test_statements_in_a_process_of_their_own_have_the_functions(graph: og.Graph) -> None:
    diverge(graph, "Person", "Ann", {"age": 2}, {"age": 3})
    rows = graph.sql(
        "select c.id, h.age from merge_conflicts('draft') c, history_of('Person') h where h.id = c.id", isolated=True
    )
    assert sorted(row["age"] for row in rows.to_pylist()) == [1, 2]


# Sessions ------------------------------------------------------------------------------------------------------------


def test_connections_of_duckdb_have_the_functions(graph: og.Graph) -> None:
    diverge(graph, "Person", "Ann", {"age": 2}, {"age": 3})
    with graph.duckdb() as connection:
        text = "select ours.age, theirs.age, theirs.photo, ours.foobar_1, properties from merge_conflicts('draft', $target)"
        assert connection.execute(text, {"target": "main"}).fetchall() == [(2, 3, b"hi", None, ["age"])]
        assert connection.execute("from merge_conflicts('main', 'draft')").fetchall()[0][0] == "DivergentUpdate"
        text = "select age, vec, tags, photo from history_of($type) where id = 'Ann' order by valid_from"
        rows = connection.execute(text, {"type": "Person"}).fetchall()
        assert rows == [(1, (1.0, 2.0), ["a", "b"], b"hi"), (2, (1.0, 2.0), ["a", "b"], b"hi")]
        text = "select age, seen from entity_history('Person', $id, ref := 'draft')"
        assert [age for age, _ in connection.execute(text, {"id": "Ann"}).fetchall()] == [1, 3]
        assert connection.execute("select fooBar, foobar_1 from history_of('City') where id = 'Rome'").fetchall() == [
            (1, "x")
        ]
        assert connection.execute("from entity_history('Person', 'it''s \"x\"')").fetchall() == []
        for text, message in (
            ("from history_of('Persn')", "did you mean `Person`"),
            ("from merge_conflicts('nowhere')", "there is no branch `nowhere`"),
            ("from entity_history('Person', NULL)", "entity_history needs `id`"),
        ):
            with pytest.raises(duckdb.Error, match=message):
                connection.execute(text)
        assert connection.execute("select count(*) from history_of('Person')").fetchall() == [(3,)]


def test_sessions_that_a_graph_is_attached_to_have_the_functions(graph: og.Graph) -> None:
    diverge(graph, "Person", "Ann", {"age": 2}, {"age": 3})
    theirs = SessionContext()
    graph.attach(theirs, alias="social")
    assert theirs.sql("select id, age from social_entity_history('Person', 'Ann')").to_pydict() == {
        "id": ["Ann", "Ann"],
        "age": [1, 2],
    }
    assert theirs.sql("select id from merge_conflicts('draft', 'main')").to_pydict() == {"id": ["Ann"]}

    with duckdb.connect() as connection:
        graph.attach(connection, alias="social")
        assert connection.execute("select count(*) from social_history_of('Person')").fetchall() == [(3,)]
        graph.mutate(setting("Person", "Ann", age=5))
        assert connection.execute("select count(*) from history_of('Person')").fetchall() == [(3,)], "as it was attached"
        graph.attach(connection, alias="social")
        assert connection.execute("select count(*) from history_of('Person')").fetchall() == [(4,)]
