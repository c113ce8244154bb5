"""Every record of every `.slt` file, on every engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import omnigraph_sql as og
from omnigraph_sql.choices import EngineName
from omnigraph_sql.errors import OmnigraphError
from tests.sql.graphs import make
from tests.sql.slt import Record, read_records, shown

HERE = Path(__file__).parent
RECORDS = [record for path in sorted(HERE.glob("*.slt")) for record in read_records(path)]


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Iterator[og.Graph]:
    with make(tmp_path_factory.mktemp("slt")) as made:
        yield made


@pytest.mark.parametrize("engine", ["datafusion", "duckdb"])
@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.id)
def test_record(graph: og.Graph, record: Record, engine: EngineName) -> None:
    if engine in record.skipped:
        pytest.skip(record.skipped[engine])
    branch, _, version = record.at.partition("@")
    target = {"branch": branch, "version": int(version) if version else None}
    if record.kind == "error":
        with pytest.raises(OmnigraphError) as failure:
            graph.sql(record.statement, record.params, engine=engine, **target).to_arrow()  # type: ignore[arg-type]
        assert failure.value.kind == record.error, failure.value
        for text in record.expected:
            assert text in str(failure.value)
        assert graph.sql("select 1 as x", engine=engine).to_pylist() == [{"x": 1}], "the session stays usable"
        return
    rows = shown(graph.sql(record.statement, record.params, engine=engine, **target).to_pylist())  # type: ignore[arg-type]
    assert sorted(rows) == sorted(record.expected) if record.kind == "unordered" else rows == record.expected
