"""Timeouts longer than what a machine can wait for: they are limits like any other, whichever way they are given."""

from __future__ import annotations

import pytest

import omnigraph_sql as og
from omnigraph_sql.choices import EngineName
from omnigraph_sql.maintenance.retention import staging_grace
from omnigraph_sql.runtime.limits import run_limits

SCHEMA = "node Person { name: String @key }"
READ = "query read() { match { $p: Person } return { $p.name } }"
LONG = [3e6, 1e10, 2**70, 1e308]


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    made = og.init(tmp_path_factory.mktemp("limits") / "g", SCHEMA)
    made.load(['{"type": "Person", "data": {"name": "A"}}'], mode="append")
    return made


@pytest.mark.parametrize("engine", ["datafusion", "duckdb"])
@pytest.mark.parametrize("timeout", LONG)
def test_a_long_timeout_stops_nothing(graph: og.Graph, engine: EngineName, timeout: float) -> None:
    assert graph.sql('select name from "Person"', timeout=timeout, engine=engine).to_pylist() == [{"name": "A"}]
    assert graph.query(READ, timeout=timeout, engine=engine).to_pylist() == [{"p.name": "A"}]


@pytest.mark.parametrize("timeout", LONG)
def test_a_long_timeout_of_an_isolated_statement_stops_nothing(graph: og.Graph, timeout: float) -> None:
    assert graph.sql("select 1 as x", timeout=timeout, isolated=True).to_pylist() == [{"x": 1}]


def test_a_long_timeout_of_the_environment_stops_nothing(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMNIGRAPH_QUERY_TIMEOUT_MS", "9" * 18)
    assert graph.sql("select 1 as x").to_pylist() == [{"x": 1}]


@pytest.mark.parametrize("given", ["9" * 400, "9" * 6000, "²", "0"])
def test_a_timeout_of_the_environment_that_is_no_number_is_left_out(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMNIGRAPH_QUERY_TIMEOUT_MS", given)
    with pytest.warns(RuntimeWarning, match="OMNIGRAPH_QUERY_TIMEOUT_MS"):
        assert run_limits().timeout is None


def test_a_grace_longer_than_dates_can_be_is_a_century(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMNIGRAPH_STAGING_GRACE", "999999999999w")
    assert staging_grace().days == 36_500
