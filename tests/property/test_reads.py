"""The engine answers generated read queries on generated graphs as the oracle does."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from hypothesis import assume

import omnigraph_sql as og
from omnigraph_compiler import compile_query
from tests.property.agreement import Rows, check_agreement
from tests.property.graph_strategies import ReadCase, read_cases
from tests.property.laws import law
from tests.property.layout import Layout
from tests.property.model import schema_tokens


def on_datafusion(case: ReadCase) -> tuple[list[str], Rows]:
    folder = Path(tempfile.mkdtemp())
    try:
        with og.init(folder / "graph", Layout().write(schema_tokens(case.schema))) as graph:
            if case.graph.records:
                graph.load("\n".join(case.graph.records), mode="append")
            found = graph.query(case.text, params=case.params)
            columns = compile_query(graph.catalog, case.text).columns
            return [f"{column.name}: {column.type}" for column in columns], found.to_json()
    finally:
        shutil.rmtree(folder)


@law(read_cases(), quick=60, long=1_000)
def test_datafusion_answers_what_the_oracle_answers(case: ReadCase) -> None:
    query = compile_query(case.catalog, case.text)
    assume(all((column.type.dimension or 0) < 10_000 for column in query.columns))  # a column of them fits nowhere
    check_agreement(case, on_datafusion)
