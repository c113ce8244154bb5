"""What only DuckDB does with results: names that its functions take, counts, temporary tables, and how it explains."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraph_sql as og
from omnigraph_sql import errors
from tests.unit.engines.crowd import CROWD, LONG_CHAINS, ONE, PAIRS, SCHEMA, SORTED, make, usable


def asked(graph: og.Graph, text: str, **more: Any) -> og.Result:
    return graph.query(text, engine="duckdb", **more)


@pytest.mark.hangs_after(60)
def test_the_first_of_many_rows_come_at_once(crowd: og.Graph) -> None:
    """Ten thousand million rows, of which a few are read."""
    with asked(crowd, LONG_CHAINS) as result:
        assert 0 < next(iter(result)).num_rows <= 65_536


def test_rows_that_are_put_aside_are_tables_of_one_run(crowd: og.Graph) -> None:
    """Rows are put aside before the third negation and the fourth; the values of the query are bound there, too."""
    body = "not {{ $a knows ${0} ${0}.age > $most ${0} knows ${0}2 ${0}2 knows $b }}"
    negations = " ".join(body.format(name) for name in "wxyz")
    match = f"$a: Person $a knows $m $m.age < $few $m knows $b $a.age != $b.age {negations}"
    text = f"query q($most: I32, $few: I32) {{ match {{ {match} }} return {{ count($m.age) as n }} }}"
    for few in (3, 2):
        params = {"most": 1000, "few": few}
        found = asked(crowd, text, params=params).to_pylist()
        assert found == crowd.query(text, params=params).to_pylist() == [{"n": few * CROWD * (CROWD - 1)}]
    assert crowd.explain(text, params={"most": 1000, "few": 2}, engine="duckdb", analyze=True).rows == 1


def test_lists_that_do_not_fit_come_in_shorter_batches(crowd: og.Graph) -> None:
    """The neighbours of 2048 nodes at a time are 1.6 MB."""
    text = "query q() { match { $a: Person $a knows $b $b knows $c } return { $c.age } }"
    assert sum(batch.num_rows for batch in asked(crowd, text, memory_limit=1 << 20)) == CROWD**3


def same_on_both(graph: og.Graph, text: str) -> list[dict[str, Any]]:
    found, other = asked(graph, text), graph.query(text)
    rows: list[dict[str, Any]] = found.to_pylist()
    assert found.schema == other.schema
    assert rows == other.to_pylist()
    return rows


def test_names_may_differ_in_case_only(tmp_path: Path) -> None:
    graph = og.init(
        tmp_path / "graph", "node Port { code: String @key  name: String  nAME: String } edge Lane: Port -> Port"
    )
    ports = [{"code": code, "name": f"small {code}", "nAME": f"LARGE {code}"} for code in "xyz"]
    graph.load(
        {"Port": pa.Table.from_pylist(ports), "Lane": pa.table({"src": ["x", "y"], "dst": ["y", "z"]})}, mode="append"
    )

    found = same_on_both(
        graph,
        "query q() { match { $xyz: Port $xyz lane $xYz $xYz lane $xYZ $xYZ.name != $xYz.nAME } "
        "return { $xyz.name as n, $xYz.name as nN, $xYZ.nAME as nn, $xYZ.code as nNN } order { $xYz.nAME } }",
    )
    assert found == [{"n": "small x", "nN": "small y", "nn": "LARGE z", "nNN": "z"}]
    assert same_on_both(
        graph,
        "query q() { match { $xy: Port $xY: Port $xy.code < $xY.code } "
        "return { $xy.code, count($xY) as cc, max($xY.name) as cC } order { $xy.code } }",
    )


@pytest.mark.parametrize(
    ("kind", "prop"),
    [("Bit", "count"), ("Bool", "and"), ("Array", "has"), ("Array", "agg"), ("Starts", "with"), ("List", "sort")],
)
def test_types_and_properties_that_add_up_to_a_function_of_the_engine(tmp_path: Path, kind: str, prop: str) -> None:
    graph = og.init(tmp_path / "graph", f"node {kind} {{ k: String @key  {prop}: I64?  tags: [String]? }}")
    rows = [{"k": key, prop: number, "tags": ["t", key]} for number, key in enumerate("abc")]
    graph.load({kind: pa.Table.from_pylist(rows)}, mode="append")

    found = same_on_both(
        graph,
        f'query q() {{ match {{ $x: {kind} $x.{prop} >= 1 $x.tags contains "c" }} return {{ $x.{prop} as n, $x.k }} }}',
    )
    assert found == [{"n": 2, "x.k": "c"}]
    grouped = f"query q() {{ match {{ $x: {kind} }} return {{ $x.{prop} as n, count($x) as c }} order {{ n }} }}"
    assert [row["n"] for row in same_on_both(graph, grouped)] == [0, 1, 2]


def test_counts_beyond_64_bits_are_refused(tmp_path: Path) -> None:
    graph = make(tmp_path / "graph", 200)
    hops = " ".join(f"$v{number} knows $v{number + 1}" for number in range(9))
    with pytest.raises(errors.ResourceLimit, match="64 bits") as raised:
        asked(graph, f"query q() {{ match {{ $v0: Person {hops} }} return {{ count($v0) as n }} }}")
    assert raised.value.resource == "matches"


@pytest.mark.parametrize(
    ("name", "said"),
    [("duckbd", "did you mean `duckdb`"), ("x", "datafusion, duckdb and spark")],
)
def test_an_engine_that_is_not_there(crowd: og.Graph, name: Any, said: str) -> None:
    for ask in (crowd.query, crowd.explain):
        with pytest.raises(errors.BadRequest, match=said):
            ask(ONE, engine=name)


def test_without_the_package_the_remedy_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    graph = og.init(tmp_path / "graph", SCHEMA)
    with pytest.raises(errors.Configuration, match=r"pip install 'omnigraph-sql\[duckdb\]'") as raised:
        asked(graph, ONE)

    assert raised.value.what == "duckdb"
    assert graph.query(ONE).to_pylist() == []


def test_how_a_query_would_run_and_ran(crowd: og.Graph) -> None:
    expected = crowd.explain(PAIRS, engine="duckdb")
    ran = crowd.explain(PAIRS, engine="duckdb", analyze=True)

    assert expected.rows is None
    assert ran.rows == CROWD * CROWD
    assert "UNNEST(og_" in expected.sql
    assert all(name in expected.sql for name in expected.names)
    assert "unnest" in expected.render()
    assert "Unnest" in expected.render_all()
    assert expected.logical == ""
    assert ran.seconds is not None
    assert any(step.seconds is not None for step in ran.steps.inputs)
    usable(crowd)


def test_an_explanation_keeps_to_its_limits(crowd: og.Graph) -> None:
    with pytest.raises(errors.ResourceLimit) as raised:
        crowd.explain(SORTED, engine="duckdb", analyze=True, timeout=0.3)
    assert raised.value.resource == "time"
    usable(crowd)
