"""Tables made of Arrow columns of every type: each is kept, as the same values on both engines, or refused by name."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraph_sql as og
from omnigraph_sql.choices import EngineName
from omnigraph_sql.errors import BadRequest

ENGINES: tuple[EngineName, ...] = ("datafusion", "duckdb")
PAIR = pa.month_day_nano_interval()
KEPT: dict[str, tuple[pa.Array, list[Any]]] = {
    "list_view": (pa.array([[1, 2], None, [3]], pa.list_view(pa.int32())), [[1, 2], None, [3]]),
    "large_list_view": (pa.array([[1], []], pa.large_list_view(pa.int32())), [[1], []]),
    "large_list": (pa.array([["a"]], pa.large_list(pa.string())), [["a"]]),
    "struct_of_views": (pa.array([{"a": [1]}], pa.struct([("a", pa.list_view(pa.int8()))])), [{"a": [1]}]),
    "dictionary": (pa.array(["a", None, "a"]).dictionary_encode(), ["a", None, "a"]),
    "run_ends": (pa.RunEndEncodedArray.from_arrays([2, 3], ["a", "b"]), ["a", "a", "b"]),
    "decimal256": (pa.array([Decimal("1.50")], pa.decimal256(20, 2)), [Decimal("1.50")]),
    "decimal32": (pa.array([Decimal("1.50")], pa.decimal32(5, 2)), [Decimal("1.50")]),
    "float16": (pa.array([1.5, None], pa.float16()), [1.5, None]),
    "time32": (pa.array([5], pa.time32("s")), [datetime.time(0, 0, 5)]),
    "null": (pa.nulls(2), [None, None]),
    "nulls": (pa.array([[None]], pa.list_(pa.null())), [[None]]),
    "map": (pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int32())), [[("a", 1)]]),
    "date64": (pa.array([datetime.date(2020, 1, 2)], pa.date64()), [datetime.date(2020, 1, 2)]),
    "large_string": (pa.array(["a"], pa.large_string()), ["a"]),
    "string_view": (pa.array(["a"], pa.string_view()), ["a"]),
    "large_binary": (pa.array([b"a"], pa.large_binary()), [b"a"]),
}
REFUSED = {
    "interval": pa.array([(1, 2, 3)], PAIR),
    "duration": pa.array([5], pa.duration("us")),
    "durations": pa.array([{"a": 5}], pa.struct([("a", pa.duration("s"))])),
    "decimal256": pa.array([Decimal("1.5")], pa.decimal256(50, 2)),
    "union": pa.UnionArray.from_dense(pa.array([0], pa.int8()), pa.array([0], pa.int32()), [pa.array([1])]),
}

NO_VIEWS = (
    "",
    "  ",
    "-- nothing",
    "garbage",
    "insert into t values (1)",
    "drop table t",
    "select 1; select 2",
    "explain select 1",
    "show branches",
    "with q as (select 1) delete from t",
    "select $a as a",
    "set x = 1",
)


@pytest.mark.parametrize("transaction", [False, True])
def test_types(tmp_path: Path, transaction: bool) -> None:
    with og.init(tmp_path / "graph", "node N { k: String @key }") as graph:
        for name, (column, values) in KEPT.items():
            data = pa.table({"c": column})
            if transaction:
                with graph.transaction() as tx:
                    tx.write("main", name, data)
            else:
                graph.tables().create_table("main", name, data)
            for engine in ENGINES:
                rows = graph.sql(f'select c from "{name}"', engine=engine).to_pylist()
                assert [row["c"] for row in rows] == values, (name, engine)


@pytest.mark.parametrize("name", REFUSED)
def test_refused_types(tmp_path: Path, name: str) -> None:
    data = pa.table({"c": REFUSED[name]})
    with og.init(tmp_path / "graph", "node N { k: String @key }") as graph:
        with pytest.raises(BadRequest, match=r"the column `c` is of type .*, which a table cannot keep"):
            graph.tables().create_table("main", "t", data)
        with graph.transaction() as tx, pytest.raises(BadRequest, match="the column `c`"):
            tx.write("main", "t", data)


@pytest.mark.parametrize("names", [["a.b"], ["a`b"], ["_rowid"], [""], ["a", "a"]])
def test_refused_names(tmp_path: Path, names: list[str]) -> None:
    data = pa.table([pa.array([1]) for _ in names], names=names)
    with (
        og.init(tmp_path / "graph", "node N { k: String @key }") as graph,
        pytest.raises(BadRequest, match="column"),
    ):
        graph.tables().create_table("main", "t", data)


@pytest.mark.parametrize("text", NO_VIEWS)
def test_a_view_is_one_query(tmp_path: Path, text: str) -> None:
    with og.init(tmp_path / "graph", "node N { k: String @key }") as graph:
        with pytest.raises(BadRequest, match=r"the view `v` (is no query|has parameters)"):
            graph.tables().define_view("main", "v", text, dialect="datafusion", columns=["a"])
        with graph.transaction() as tx, pytest.raises(BadRequest, match="the view `v`"):
            tx.tables.define_view("main", "v", text, dialect="duckdb", columns=["a"])
        with pytest.raises(BadRequest, match="there is no dialect `duck`"):
            graph.tables().define_view("main", "v", "select 1 as a", dialect="duck", columns=["a"])
        graph.tables().define_view("main", "v", "select 1 as a; ", dialect="duckdb", columns=["a"])
        assert [graph.sql("select a from v", engine=engine).to_pylist() for engine in ENGINES] == [[{"a": 1}]] * 2
