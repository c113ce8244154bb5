"""Every `.slt` file of scripts that write, on both engines: rows, counts and errors, in the order of the file."""

from __future__ import annotations

from pathlib import Path

import pytest

import omnigraph_sql as og
from omnigraph_sql.choices import EngineName
from omnigraph_sql.errors import OmnigraphError
from tests.sql.slt import Record, read_records, shown

HERE = Path(__file__).parent
SCHEMA = """
node Person { name: String @key  age: I32?  email: String? @unique  born: Date?  score: F64 @default(1.5)
              seen: DateTime?  tags: [String]?  kind: enum(guest, member)?
              @range(age, 0..150) }
node City { name: String @key  people: U64? }
node Note { text: String  stars: I32? }
edge Knows: Person -> Person { since: I32? }
edge LivesIn: Person -> City @card(0..1)
"""


@pytest.mark.parametrize("engine", ["datafusion", "duckdb"])
@pytest.mark.parametrize("path", sorted(HERE.glob("*.slt")), ids=lambda path: path.stem)
def test_file(tmp_path: Path, path: Path, engine: EngineName) -> None:
    graph, number = og.init(tmp_path / "0", SCHEMA), 0
    for record in read_records(path):
        if engine in record.skipped:
            continue
        if record.kind == "graph":
            graph.close()
            number += 1
            graph = og.init(tmp_path / str(number), SCHEMA)
            continue
        try:
            _check(graph, record, engine)
        except Exception as error:
            error.add_note(f"{path.name}:{record.line}: {record.statement}")
            raise
    graph.close()


def _check(graph: og.Graph, record: Record, engine: EngineName) -> None:
    if record.kind == "execute ok":
        done = graph.execute(record.statement, record.params, branch=record.at, engine=engine)
        if record.error:
            assert done.rows_affected == int(record.error)
        if record.expected:
            assert done.result is not None
            assert shown(done.result.to_pylist()) == record.expected
    elif record.kind == "execute error":
        before = {name: graph.snapshot(branch=name).commit_id for name in graph.branches()}
        with pytest.raises(OmnigraphError) as failure:
            graph.execute(record.statement, record.params, branch=record.at, engine=engine)
        assert failure.value.kind == record.error, failure.value
        for text in record.expected:
            assert text in str(failure.value)
        assert {name: graph.snapshot(branch=name).commit_id for name in graph.branches()} == before, "nothing is published"
    elif record.kind == "error":
        with pytest.raises(OmnigraphError) as failure:
            graph.sql(record.statement, record.params, branch=record.at, engine=engine).to_arrow()
        assert failure.value.kind == record.error, failure.value
        for text in record.expected:
            assert text in str(failure.value)
    else:
        rows = shown(graph.sql(record.statement, record.params, branch=record.at, engine=engine).to_pylist())
        assert (sorted(rows) == sorted(record.expected)) if record.kind == "unordered" else (rows == record.expected)
