"""The engine answers generated read queries on generated graphs as the oracle does."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from hypothesis import assume

import omnigraph_sql as og
from omnigraph_compiler import Query, compile_query, ir
from tests.golden.engines import traversal_mode
from tests.property.agreement import Rows, check_agreement
from tests.property.graph_strategies import ReadCase, read_cases
from tests.property.laws import law
from tests.property.layout import Layout
from tests.property.model import schema_tokens
from tests.property.oracle import disagreement


@contextmanager
def stored(case: ReadCase) -> Iterator[og.Graph]:
    """The graph of a case."""
    folder = Path(tempfile.mkdtemp())
    try:
        with og.init(folder / "graph", Layout().write(schema_tokens(case.schema))) as graph:
            if case.graph.records:
                graph.load("\n".join(case.graph.records), mode="append")
            yield graph
    finally:
        shutil.rmtree(folder)


def on_datafusion(case: ReadCase) -> tuple[list[str], Rows]:
    with stored(case) as graph:
        query = compile_query(graph.catalog, case.text)
        found = graph.query(case.text, params=case.params).to_json()
        check_other_ways(graph, case, query, found)
        return [f"{column.name}: {column.type}" for column in query.columns], found


def on_duckdb(case: ReadCase) -> tuple[list[str], Rows]:
    with stored(case) as graph:
        found = graph.query(case.text, params=case.params, engine="duckdb")
        assert found.to_arrow().schema == found.schema
        columns = compile_query(graph.catalog, case.text).columns
        return [f"{column.name}: {column.type}" for column in columns], found.to_json()


def check_other_ways(graph: og.Graph, case: ReadCase, query: Query, found: Rows) -> None:
    """Through the adjacency and by asking the tables: the same rows."""
    assert isinstance(query.plan, ir.ReadPlan)
    if "now (" in case.text:
        return  # it is later by then
    in_order = query.plan.order is not None
    for mode in ("csr", "indexed"):
        with traversal_mode(mode):
            other = graph.query(case.text, params=case.params).to_json()
        difference = disagreement(found, other, in_order=in_order)
        assert difference is None, f"{mode}: {difference}"


def check(case: ReadCase, engine: Callable[[ReadCase], tuple[list[str], Rows]]) -> None:
    query = compile_query(case.catalog, case.text)
    assume(all((column.type.dimension or 0) < 10_000 for column in query.columns))  # a column of them fits nowhere
    check_agreement(case, engine)


@law(read_cases(), quick=60, long=1_000)
def test_datafusion_answers_what_the_oracle_answers(case: ReadCase) -> None:
    check(case, on_datafusion)


@law(read_cases(), quick=50, long=500)
def test_duckdb_answers_what_the_oracle_answers(case: ReadCase) -> None:
    check(case, on_duckdb)
