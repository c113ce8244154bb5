"""Relational tables, views and schemas beside the graph."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import omnigraph_sql as og
from omnigraph_sql import errors
from omnigraph_sql.manifest.relations import relation, relations, schemas, table_key
from omnigraph_sql.manifest.snapshot import Snapshot
from omnigraph_sql.writes.relational import RelationalWriter
from tests.internals import store_of
from tests.stores import Place

SCHEMA = "node Port { code: String @key }"
TWICE = pa.table({"id": [1, 1]})
ORDERS = pa.table({"id": [1, 2, 3], "text": ["a", "b", None]})


@pytest.fixture
def graph(place: Place) -> og.Graph:
    return og.init(place / "graph", SCHEMA)


def rows(graph: og.Graph, schema: str, name: str, **at: Any) -> list[dict[str, Any]]:
    snapshot = graph.snapshot(**at)
    entry = snapshot.entry(table_key(schema, name))
    storage = store_of(graph).storage
    handle = storage.open(entry)
    found = storage.scan(handle).read_all().to_pylist()
    assert len(found) == entry.row_count
    return sorted(found, key=lambda row: [(value is not None, value) for value in row.values()])


def listed(snapshot: Snapshot) -> list[tuple[str, str, str]]:
    return [(each.schema, each.name, each.kind) for each in relations(snapshot)]


def test_tables_are_created_changed_and_dropped(graph: og.Graph) -> None:
    tables = graph.tables()
    assert tables.create_table("staging", "orders", ORDERS) is not None
    assert tables.append("staging", "orders", pa.table({"id": [4]})) is not None
    assert tables.delete("staging", "orders", "id = 2") is not None
    assert tables.upsert("staging", "orders", pa.table({"id": [3, 9], "text": ["c", "z"]}), ["id"]) is not None

    assert rows(graph, "staging", "orders") == [
        {"id": 1, "text": "a"},
        {"id": 3, "text": "c"},
        {"id": 4, "text": None},
        {"id": 9, "text": "z"},
    ]
    assert schemas(graph.snapshot()) == {"main": {}, "staging": {}}
    assert tables.drop("staging", "orders") is not None
    assert listed(graph.snapshot()) == []
    assert tables.drop("staging", "orders") is None
    assert len(graph.commits()) == 6


def test_what_changes_nothing_makes_no_commit(graph: og.Graph) -> None:
    tables = graph.tables()
    tables.create_table("main", "orders", ORDERS)
    tables.define_view("main", "v", "select 1", dialect="duckdb", columns=["x"])
    before = graph.commits()

    assert tables.append("main", "orders", ORDERS.slice(0, 0)) is None
    assert tables.delete("main", "orders", "id > 100") is None
    assert tables.create_schema("main") is None
    assert tables.define_view("main", "v", "select 1", dialect="duckdb", columns=["x"], replace=True) is None
    assert graph.commits() == before


def test_a_replaced_table_may_have_other_columns(graph: og.Graph) -> None:
    tables = graph.tables()
    tables.create_table("main", "orders", ORDERS)
    first = graph.snapshot().manifest_version
    tables.create_table("main", "orders", pa.table({"other": [True]}), replace=True)
    tables.create_table("main", "orders", pa.table({"n": pa.array([], pa.int8())}), replace=True)

    assert rows(graph, "main", "orders") == []
    assert rows(graph, "main", "orders", version=first)[0] == {"id": 1, "text": "a"}


def test_a_table_can_come_back_any_number_of_times(graph: og.Graph) -> None:
    tables = graph.tables()
    seen = []
    for n in range(4):
        tables.create_table("main", "orders", pa.table({"n": [n]}))
        tables.append("main", "orders", pa.table({"n": [n + 10]}))
        seen.append(graph.snapshot().manifest_version)
        tables.drop("main", "orders")

    for n, version in enumerate(seen):
        assert rows(graph, "main", "orders", version=version) == [{"n": n}, {"n": n + 10}]
    assert listed(graph.snapshot()) == []


def test_branches_see_their_own_tables(graph: og.Graph) -> None:
    graph.tables().create_table("main", "shared", ORDERS)
    graph.create_branch("dev")
    dev = graph.tables("dev")
    dev.append("main", "shared", pa.table({"id": [99]}))
    dev.create_table("main", "own", pa.table({"x": [1]}))
    graph.tables().create_table("main", "own", pa.table({"y": ["main"]}))
    graph.tables().drop("main", "shared")

    assert listed(graph.snapshot()) == [("main", "own", "table")]
    assert [row["id"] for row in rows(graph, "main", "shared", branch="dev")] == [1, 2, 3, 99]
    assert (rows(graph, "main", "own", branch="dev"), rows(graph, "main", "own")) == ([{"x": 1}], [{"y": "main"}])
    dev.drop("main", "own")
    dev.create_table("main", "own", pa.table({"x": [2]}))
    assert rows(graph, "main", "own", branch="dev") == [{"x": 2}]
    graph.delete_branch("dev")
    assert rows(graph, "main", "own") == [{"y": "main"}]
    graph.create_branch("dev")
    graph.tables("dev").append("main", "own", pa.table({"y": ["dev"]}))
    assert len(rows(graph, "main", "own", branch="dev")) == 2


def test_a_name_is_a_table_or_a_view_and_swaps_in_one_commit(graph: og.Graph) -> None:
    tables = graph.tables()
    tables.create_table("main", "orders", ORDERS)
    with pytest.raises(errors.Conflict, match=r"`main\.orders` exists already: it is a table"):
        tables.define_view("main", "orders", "select 1", dialect="duckdb", columns=["x"])
    before = len(graph.commits())
    tables.define_view("main", "orders", "select 1", dialect="duckdb", columns=["x"], comment="c", replace=True)

    found = relation(graph.snapshot(), "main", "orders")
    assert found is not None
    assert found.kind == "view"
    assert found.definition == {"sql": "select 1", "dialect": "duckdb", "columns": ["x"], "comment": "c"}
    with pytest.raises(errors.Conflict, match="it is a view"):
        tables.create_table("main", "orders", ORDERS)
    with pytest.raises(errors.BadRequest, match="is a view and takes no rows"):
        tables.append("main", "orders", ORDERS)
    tables.create_table("main", "orders", ORDERS, replace=True)
    assert listed(graph.snapshot()) == [("main", "orders", "table")]
    assert len(graph.commits()) == before + 2
    assert listed(graph.snapshot(version=graph.snapshot().manifest_version - 1)) == [("main", "orders", "view")]


def test_renames_are_one_commit(graph: og.Graph) -> None:
    tables = graph.tables()
    tables.create_table("raw", "orders", ORDERS)
    tables.define_view("raw", "v", "select 1", dialect="duckdb", columns=["x"])
    before = len(graph.commits())
    tables.rename("raw", "orders", "done", "clean")
    tables.rename("raw", "v", "w")

    assert listed(graph.snapshot()) == [("clean", "done", "table"), ("raw", "w", "view")]
    assert len(rows(graph, "clean", "done")) == 3
    assert len(graph.commits()) == before + 2
    with pytest.raises(errors.NotFound, match=r"no table `raw.orders`"):
        tables.rename("raw", "orders", "x")
    tables.create_table("raw", "orders", ORDERS)
    with pytest.raises(errors.Conflict, match="exists already"):
        tables.rename("raw", "orders", "w")


def test_schemas_exist_without_tables_and_drop_with_them(graph: og.Graph) -> None:
    tables = graph.tables()
    tables.create_schema("empty", comment="nothing yet")
    tables.create_table("full", "a", ORDERS)
    tables.define_view("full", "b", "select 1", dialect="duckdb", columns=["x"])

    assert schemas(graph.snapshot()) == {"empty": {"comment": "nothing yet"}, "full": {}, "main": {}}
    with pytest.raises(errors.Conflict, match="not empty"):
        tables.drop_schema("full")
    assert tables.drop_schema("full", cascade=True) is not None
    assert tables.drop_schema("full") is None
    assert (listed(graph.snapshot()), sorted(schemas(graph.snapshot()))) == ([], ["empty", "main"])
    with pytest.raises(errors.BadRequest, match="cannot be dropped"):
        tables.drop_schema("main")


@pytest.mark.parametrize("name", ["a.b", "a$b", "50%", "%2E", "naïve ☃", "SELECT", "main"])
def test_any_visible_name_will_do(graph: og.Graph, name: str) -> None:
    tables = graph.tables()
    tables.create_table(name, name, ORDERS)
    tables.append(name, name, ORDERS)

    assert listed(graph.snapshot()) == [(name, name, "table")]
    assert len(rows(graph, name, name)) == 6


@pytest.mark.parametrize(
    ("write", "kind", "text"),
    [
        (lambda t: t.append("main", "none", ORDERS), errors.NotFound, "no table `main.none`"),
        (lambda t: t.create_table("main", "orders", ORDERS), errors.Conflict, "exists already"),
        (lambda t: t.create_table("main", "", ORDERS), errors.BadRequest, "cannot be the name of a table"),
        (lambda t: t.append("main", "orders", pa.table({"x": [1]})), errors.BadRequest, "has no column `x`"),
        (lambda t: t.append("main", "orders", pa.table({"id": ["one"]})), errors.BadRequest, "`id` takes int64"),
        (lambda t: t.append("main", "orders", [1, 2]), errors.BadRequest, "a list is not a table"),
        (lambda t: t.delete("main", "orders", "no_such = 1"), errors.BadRequest, "cannot be evaluated"),
        (lambda t: t.delete("main", "orders", "id = "), errors.BadRequest, "cannot be evaluated"),
        (
            lambda t: t.upsert("main", "orders", TWICE, ["id"]),
            errors.ValidationFailed,
            "have the key `1`",
        ),
        (lambda t: t.upsert("main", "orders", ORDERS, ["x"]), errors.BadRequest, "no column `x` to be a key"),
        (lambda t: t.upsert("main", "orders", ORDERS, ["text"]), errors.ValidationFailed, "is null"),
    ],
)
def test_bad_input_changes_nothing(graph: og.Graph, write: Any, kind: type[Exception], text: str) -> None:
    tables = graph.tables()
    tables.create_table("main", "orders", ORDERS)
    before = graph.commits()

    with pytest.raises(kind, match=text):
        write(tables)

    assert (graph.commits(), rows(graph, "main", "orders")) == (before, ORDERS.to_pylist())
    tables.append("main", "orders", ORDERS)


def test_they_stay_out_of_what_is_the_graphs(graph: og.Graph) -> None:
    graph.tables().create_table("main", "orders", ORDERS)
    graph.load('{"type": "Port", "data": {"code": "A"}}', mode="append")

    assert len(list(graph.export())) == 1
    with og.connect(graph.uri) as again:
        assert rows(again, "main", "orders") == ORDERS.to_pylist()


@pytest.mark.parametrize("name", ["Port", "Lane", "node:Port", "edge:Lane"])
def test_no_table_or_view_takes_the_name_of_a_type(place: Place, name: str) -> None:
    graph = og.init(place / "types", f"{SCHEMA}\nedge Lane: Port -> Port")
    tables = graph.tables()
    tables.create_table("staging", name, ORDERS)
    before = graph.snapshot()

    attempts: list[Callable[[], Any]] = [
        lambda: tables.create_table("main", name, ORDERS),
        lambda: tables.create_table("main", name, ORDERS, replace=True),
        lambda: tables.define_view("main", name, "select 1 as a", dialect="duckdb", columns=["a"]),
        lambda: tables.rename("staging", name, name, "main"),
    ]
    for attempt in attempts:
        with pytest.raises(errors.Conflict, match="is the name of the"):
            attempt()

    assert graph.snapshot() == before
    with pytest.raises(errors.Conflict, match="is the name of the"):
        tables.create_table("main", "port", ORDERS)
    assert graph.sql('select count(*) as n from "Port"').to_pylist() == [{"n": 0}]
    assert graph.sql(f'select count(*) as n from "main:staging"."{name}"').to_pylist() == [{"n": 3}]


def test_a_table_that_has_the_name_of_a_type_already_can_be_read_and_dropped(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As earlier releases let it be made."""
    with monkeypatch.context() as patch:
        patch.setattr(RelationalWriter, "_require_free", lambda *_, **__: None)
        graph.tables().create_table("main", "Port", ORDERS)
    tables = graph.tables()

    for engine in ("datafusion", "duckdb"):
        found = graph.sql('select count(*) as n from "main:main"."Port"', engine=engine).to_pylist()
        assert found == [{"n": 3}]
    assert tables.append("main", "Port", pa.table({"id": [4]})) is not None
    assert tables.create_table("main", "Port", TWICE, replace=True) is not None
    assert tables.rename("main", "Port", "own") is not None
    assert rows(graph, "main", "own") == [{"id": 1}, {"id": 1}]
    with monkeypatch.context() as patch:
        patch.setattr(RelationalWriter, "_require_free", lambda *_, **__: None)
        graph.tables().create_table("main", "Port", ORDERS)
    assert tables.drop("main", "Port") is not None
    assert graph.sql("select count(*) as n from Port").to_pylist() == [{"n": 0}]
