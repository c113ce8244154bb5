"""Ids: made from keys by whole columns exactly as one by one, and fresh ones that only grow."""

from __future__ import annotations

import datetime
import json
import os
import subprocess
import sys
import threading
import time
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from omnigraph_compiler import compile_schema, entity_id
from omnigraph_sql import ulid
from omnigraph_sql.writes.readers import read_records, read_tables

VALUES: dict[str, st.SearchStrategy[Any]] = {
    "String": st.text(max_size=10),
    "Bool": st.booleans(),
    "I32": st.integers(-(2**31), 2**31 - 1),
    "I64": st.integers(-(2**63), 2**63 - 1),
    "U32": st.integers(0, 2**32 - 1),
    "U64": st.integers(0, 2**64 - 1),
    "F32": st.one_of(st.floats(width=32, allow_nan=False, allow_infinity=False), st.integers(-(2**26), 2**26)),
    "F64": st.one_of(
        st.floats(allow_nan=False, allow_infinity=False),
        st.integers(-(2**55), 2**55),
        st.integers(-40, 40).map(lambda n: 2.0**n),
    ),
    "Date": st.one_of(st.dates().map(str), st.integers(-10_000, 10_000)),
    "DateTime": st.one_of(st.datetimes().map(lambda at: f"{at.isoformat()}Z"), st.integers(-(10**13), 10**13)),
}
NAMES = ["zulu", "alpha", "mike"]


@settings(max_examples=150)
@given(st.data())
def test_ids_from_columns_equal_ids_one_by_one(data: st.DataObject) -> None:
    scalars = data.draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=3))
    members = dict(zip(NAMES, scalars, strict=False))
    declared = "  ".join(f"{name}: {scalar}" for name, scalar in members.items())
    catalog = compile_schema(f"node Thing {{ {declared}  @key({', '.join(members)}) }}")
    row = st.fixed_dictionaries({name: VALUES[scalar] for name, scalar in members.items()})
    rows = data.draw(st.lists(row, min_size=1, max_size=5))
    copies = 100 if data.draw(st.booleans()) else 1
    lines = [json.dumps({"type": "Thing", "data": row}) for row in rows for _ in range(copies)]

    (batch,) = read_records(lines, catalog)

    expected = [entity_id(catalog.nodes["Thing"], row) for row in rows for _ in range(copies)]
    assert batch.rows["id"].to_pylist() == expected


@settings(max_examples=150)
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1), st.booleans())
@example([2.0**-44, 9007199254740993.0, 2.0**53, 1e21, 1e-7, -0.0, 5e-324], False)
@example([2.0**24, 2.0**24 + 2, 33554433.0, 1e10, 2.0**-126, 1.1754944e-38, 9.999999e-41], True)
def test_floating_keys_are_spelled_alike(numbers: list[float], narrow: bool) -> None:
    catalog = compile_schema(f"node Thing {{ x: {'F32' if narrow else 'F64'} @key }}")
    fitting = [number for number in numbers if not narrow or abs(number) < 3e38]

    (batch,) = read_tables({"Thing": pa.table({"x": pa.array(fitting, pa.float64())})}, catalog)

    assert batch.rows["id"].to_pylist() == [entity_id(catalog.nodes["Thing"], {"x": number}) for number in fitting]


def test_a_ulid_says_when_it_was_made() -> None:
    before = time.time_ns() // 1_000_000
    made = ulid.new()
    after = time.time_ns() // 1_000_000
    milliseconds = 0
    for digit in made[:10]:
        milliseconds = milliseconds * 32 + ulid.ALPHABET.index(digit)

    # Counting on may carry an id ahead of the clock, but not by much.
    assert before <= milliseconds <= after + 1000
    assert datetime.datetime.fromtimestamp(milliseconds / 1000, datetime.UTC).year >= 2024


@pytest.mark.parametrize("count", [0, 1, 2, 100_000])
def test_ulids_grow(count: int) -> None:
    ids = [ulid.new(), *ulid.new_many(count).to_pylist(), ulid.new(), *ulid.new_many(count).to_pylist(), ulid.new()]

    assert ids == sorted(ids)
    assert len(set(ids)) == len(ids) == 2 * count + 3
    assert all(len(each) == 26 and set(each) <= set(ulid.ALPHABET) for each in ids)


def test_threads_never_make_the_same_ulid() -> None:
    made: list[list[str]] = []
    threads = [
        threading.Thread(target=lambda: made.append([ulid.new() for _ in range(2000)] + ulid.new_many(2000).to_pylist()))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len({each for part in made for each in part}) == 8 * 4000


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_makes_ids_of_its_own() -> None:
    script = """
import os, sys
from omnigraph_sql import ulid
ulid.new_many(5)
before = ulid.new()
child = os.fork()
made = [ulid.new() for _ in range(1000)]
assert all(each > before for each in made)
sys.stdout.write("\\n".join(made) + "\\n")
sys.stdout.flush()
if child:
    os.waitpid(child, 0)
"""
    result = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True, check=True, timeout=60
    )

    assert len(set(result.stdout.split())) == 2000
