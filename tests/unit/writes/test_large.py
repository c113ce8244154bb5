"""Loads larger than memory: what is put aside comes back, and large upserts keep the identity of rows."""

import json
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import omnigraph_sql as og
from omnigraph_sql.writes.load.spool import Workspace, parts_of
from tests.parts import in_parts
from tests.stores import Place

SCHEMA = """
node Port { code: String @key  depth: F64?  place: Vector(3)?  tags: [String]?  photo: Blob? }
edge Lane: Port -> Port { nm: I32? }
"""


@given(values=st.lists(st.text(max_size=40)), count=st.integers(1, 50))
def test_equal_texts_fall_into_equal_parts(values: list[str], count: int) -> None:
    doubled = pa.array([*values, *values], pa.string())

    found = parts_of([doubled], count)

    assert (found[: len(values)] == found[len(values) :]).all()
    assert ((found >= 0) & (found < count)).all()
    for start in range(len(values)):
        one = pa.array(values, pa.string()).slice(start, 1)
        assert parts_of([one], count)[0] == found[start], "the part of a text depends on its neighbours"


@given(values=st.lists(st.floats(allow_nan=False)), count=st.integers(1, 50))
def test_both_zeros_are_one_value(values: list[float], count: int) -> None:
    negated = pa.array([-value if value == 0 else value for value in values], pa.float64())

    assert (parts_of([pa.array(values, pa.float64())], count) == parts_of([negated], count)).all()


def test_ids_with_a_common_beginning_spread() -> None:
    ids = pa.array([f"https://harbour.example/ports/{n:09}/berths" for n in range(20_000)])

    sizes = np.bincount(parts_of([ids], 16), minlength=16)

    assert sizes.max() < 3 * sizes.min()


@pytest.mark.parametrize("limit", [0, 4_000, 1 << 40])
def test_rows_come_back_in_their_order_whatever_the_budget(limit: int) -> None:
    schema = pa.schema([("n", pa.int64()), ("text", pa.string()), ("list", pa.list_(pa.float32(), 2))])
    batches = [
        pa.record_batch([range(n, n + 50), [str(i) for i in range(50)], [[n, i] for i in range(50)]], schema=schema)
        for n in range(0, 1000, 50)
    ]
    with Workspace(limit) as workspace:
        spool = workspace.spool(schema)
        for batch in batches:
            spool.append(batch)

        assert spool.table() == pa.Table.from_batches(batches).combine_chunks()
        assert spool.table(["n"]).column("n").to_pylist() == list(range(1000))
        assert workspace.has_spilled == (limit < 1 << 40)
        assert spool.held <= max(limit, 0) or limit == 1 << 40


def ports(count: int, depth: float, start: int = 0) -> str:
    found = []
    for n in range(start, start + count):
        data = {"code": f"p{n}", "depth": depth, "place": [n, 0, 1], "tags": [str(n)], "photo": "base64:aGk="}
        found.append(json.dumps({"type": "Port", "data": data}))
    return "\n".join(found)


def test_a_large_upsert_equals_a_small_one(place: Place) -> None:
    small, large = og.init(place / "small", SCHEMA), og.init(place / "large", SCHEMA)
    for graph in (small, large):
        graph.load(ports(300, 1.0), mode="append")
        graph.load(ports(100, 1.0, start=300), mode="append")
    small.load(ports(250, 2.0, start=200), mode="merge")
    with in_parts():
        result = large.load(ports(250, 2.0, start=200), mode="merge")

    assert result.nodes == {"Port": 250}
    assert sorted(large.export()) == sorted(small.export())
    assert large.snapshot().entry("node:Port").row_count == 450
    entry = large.snapshot().entry("node:Port")
    dataset = lance.dataset(str(place / "large" / entry.path), version=entry.version)
    dataset.validate()  # type: ignore[no-untyped-call]
    columns = ["code", "_row_created_at_version", "_row_last_updated_at_version", "_rowid"]
    rows = {row["code"]: row for row in dataset.to_table(columns=columns).to_pylist()}
    first, second, third = entry.version - 2, entry.version - 1, entry.version
    assert (rows["p0"]["_row_created_at_version"], rows["p0"]["_row_last_updated_at_version"]) == (first, first)
    assert (rows["p250"]["_row_created_at_version"], rows["p250"]["_row_last_updated_at_version"]) == (first, third)
    assert (rows["p350"]["_row_created_at_version"], rows["p350"]["_row_last_updated_at_version"]) == (second, third)
    assert (rows["p449"]["_row_created_at_version"], rows["p449"]["_row_last_updated_at_version"]) == (third, third)
    assert len({row["_rowid"] for row in rows.values()}) == 450
    before = lance.dataset(str(place / "large" / entry.path), version=second)
    known = {row["code"]: row["_rowid"] for row in before.to_table(columns=["code", "_rowid"]).to_pylist()}
    assert all(rows[code]["_rowid"] == row_id for code, row_id in known.items())


def test_a_large_upsert_of_every_row_and_on_a_branch(place: Place) -> None:
    graph = og.init(place / "graph", SCHEMA)
    graph.load(ports(300, 1.0), mode="append")
    graph.create_branch("side")
    with in_parts():
        graph.load(ports(300, 2.0), mode="merge", branch="side")

    assert all('"depth":2.0' in line for line in graph.export("side"))
    assert all('"depth":1.0' in line for line in graph.export("main"))
    with in_parts():
        staged = graph.stage(ports(300, 3.0), mode="merge", branch="side")
        graph.publish(staged)
    assert all('"depth":3.0' in line for line in graph.export("side"))
    graph.mutate("query q() { delete Port where depth = 3.0 }", branch="side")
    assert list(graph.export("side")) == []


def test_a_workspace_leaves_no_file(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import tempfile

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    graph = og.init(place / "graph", SCHEMA)
    with in_parts():
        graph.load(ports(10, 1.0), mode="append")

    assert list(tmp_path.iterdir()) == []
