"""Results stream, queries keep to their limits and can be stopped, and the graph is usable afterwards, on each engine."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest

import omnigraph_sql as og
from omnigraph_sql import errors
from omnigraph_sql.choices import EngineName
from tests.unit.engines.crowd import (
    ALL,
    CHAINS,
    CROWD,
    ENDLESS,
    NONE,
    ONE,
    PAIRS,
    SCHEMA,
    SORTED,
    SORTED_LONG_CHAINS,
    comes_to_rest,
    native_threads,
    open_files,
    settles,
    usable,
)

SHOWS_NOTHING: Final[dict[EngineName, str]] = {"datafusion": SORTED, "duckdb": SORTED_LONG_CHAINS}
"""Sorts for a long time. DataFusion finishes the batch that it is at, which takes longer with more hops."""
TOO_LITTLE: Final[dict[EngineName, int]] = {"datafusion": 32 << 20, "duckdb": 2 << 20}
"""A memory limit that `SORTED` does not fit into."""
SHORT_BATCHES: Final[dict[EngineName, tuple[int, int]]] = {"datafusion": (8 << 20, 4 << 20), "duckdb": (48 << 20, 6 << 20)}
"""A memory limit, and what a batch of vectors takes at most with it."""
FILES_THAT_COME_AND_GO: Final[dict[EngineName, int]] = {"datafusion": 0, "duckdb": 2}
READER = """
import threading, time
def read():
    try:
        result.to_arrow()
    except og.errors.BadRequest:
        pass
threading.Thread(target=read, daemon=True).start()
time.sleep(0.2)
"""

# Reading --------------------------------------------------------------------------------------------------------------


def test_a_small_result_is_complete_and_can_be_read_in_every_way(crowd: og.Graph, engine: EngineName) -> None:
    result = crowd.query(ONE, engine=engine)

    assert (len(result), result.columns, bool(result)) == (1, ["p.key", "p.age"], True)
    assert [batch.num_rows for batch in result] == [batch.num_rows for batch in result] == [1]
    assert result.to_arrow().schema == result.schema
    assert pa.table(result).to_pylist() == result.to_pylist() == result.to_json() == [{"p.key": "p7", "p.age": 7}]
    assert result.to_pandas().shape == result.to_polars().shape == (1, 2)
    assert repr(result) == "<Result of `one` on main: p.key, p.age, 1 rows>"


def test_a_large_result_streams_and_is_not_kept(crowd: og.Graph, engine: EngineName) -> None:
    result = crowd.query(PAIRS, engine=engine)

    assert "rows" not in repr(result)
    assert sum(batch.num_rows for batch in result) == CROWD * CROWD
    assert "rows" not in repr(result), "reading batches does not collect them"
    assert sum(batch.num_rows for batch in result) == CROWD * CROWD, "the query runs again on its snapshot"
    assert pa.table(result).num_rows == len(result) == CROWD * CROWD
    assert f"{CROWD * CROWD} rows" in repr(result)


def test_what_is_read_later_is_of_the_same_snapshot(tmp_path: Path, engine: EngineName) -> None:
    graph = og.init(tmp_path / "graph", SCHEMA)
    keys = [f"p{number}" for number in range(20_000)]
    graph.load({"Person": pa.table({"key": keys, "age": pa.array([0] * len(keys), pa.int32())})}, mode="append")
    result = graph.query(ALL, engine=engine)
    graph.mutate('query q() { insert Person { key: "late", age: 1 } }')

    assert sum(batch.num_rows for batch in result) == len(keys)
    assert sum(batch.num_rows for batch in result) == len(keys), "also when the query runs again"
    assert len(graph.query(ALL, engine=engine)) == len(keys) + 1


def test_no_rows_have_columns_and_types(crowd: og.Graph, engine: EngineName) -> None:
    result = crowd.query(NONE, engine=engine)

    assert (len(result), result.to_pylist(), bool(result)) == (0, [], False)
    assert pa.table(result).schema == pa.schema(
        [pa.field("p.key", pa.string(), nullable=False), pa.field("p.age", pa.int32(), nullable=False)]
    )
    assert result.schema == pa.table(result).schema
    assert result.to_polars().columns == ["p.key", "p.age"]


def test_two_results_are_read_side_by_side(crowd: og.Graph, engine: EngineName) -> None:
    one, other = crowd.query(PAIRS, engine=engine), crowd.query(PAIRS, engine=engine)
    counts = [a.num_rows + b.num_rows for a, b in zip(one, other, strict=True)]

    assert sum(counts) == 2 * CROWD * CROWD


def test_threads_ask_at_the_same_time(crowd: og.Graph, engine: EngineName) -> None:
    found: list[int] = []
    threads = [threading.Thread(target=lambda: found.append(len(crowd.query(PAIRS, engine=engine)))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert found == [CROWD * CROWD] * 8


# Time -----------------------------------------------------------------------------------------------------------------


@pytest.mark.hangs_after(60)
def test_a_query_that_shows_nothing_in_time_fails_at_once(crowd: og.Graph, engine: EngineName) -> None:
    with pytest.raises(errors.ResourceLimit, match=r"did not finish within 0\.5 seconds") as raised:
        crowd.query(SHOWS_NOTHING[engine], timeout=0.5, engine=engine)

    assert (raised.value.resource, raised.value.limit) == ("time", 500)
    assert raised.value.actual >= 500
    usable(crowd)


def test_a_query_that_goes_on_too_long_fails_where_it_is_read(crowd: og.Graph, engine: EngineName) -> None:
    result = crowd.query(ENDLESS, timeout=2, engine=engine)
    with pytest.raises(errors.ResourceLimit):
        for _ in result:
            pass
    usable(crowd)


def test_time_between_batches_does_not_count(crowd: og.Graph, engine: EngineName) -> None:
    result = iter(crowd.query(CHAINS, timeout=5, engine=engine))
    next(result)
    waited = time.monotonic()
    threading.Event().wait(0.2)
    assert next(result).num_rows
    assert time.monotonic() - waited >= 0.2
    result.close()  # type: ignore[attr-defined]


def test_limits_from_the_environment(crowd: og.Graph, engine: EngineName, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMNIGRAPH_QUERY_TIMEOUT_MS", "300")
    with pytest.raises(errors.ResourceLimit) as raised:
        crowd.query(SORTED, engine=engine)
    assert raised.value.limit == 300
    monkeypatch.setenv("OMNIGRAPH_QUERY_TIMEOUT_MS", "never")
    with pytest.warns(RuntimeWarning, match="OMNIGRAPH_QUERY_TIMEOUT_MS is `never`"):
        usable(crowd)


@pytest.mark.parametrize("limits", [{"timeout": 0}, {"timeout": float("nan")}, {"memory_limit": 0}, {"memory_limit": 1000}])
def test_a_limit_must_leave_something(crowd: og.Graph, engine: EngineName, limits: dict[str, Any]) -> None:
    with pytest.raises(errors.BadRequest, match=r"the (timeout|memory limit) is"):
        crowd.query(ONE, **limits, engine=engine)


# Memory ---------------------------------------------------------------------------------------------------------------


def test_a_query_beyond_its_memory_fails(crowd: og.Graph, engine: EngineName) -> None:
    limit = TOO_LITTLE[engine]
    with pytest.raises(errors.ResourceLimit, match=f"more than its limit of {limit >> 20}") as raised:
        crowd.query(SORTED, memory_limit=limit, engine=engine)

    assert (raised.value.resource, raised.value.limit) == ("memory", limit)
    assert raised.value.actual > limit
    usable(crowd)


def test_a_sort_that_does_not_fit_is_done_on_disk(tmp_path: Path, engine: EngineName) -> None:
    graph = og.init(tmp_path / "graph", SCHEMA)
    keys = [f"{number * 7919 % 500_009:030d}" for number in range(500_000)]
    graph.load({"Person": pa.table({"key": keys, "age": pa.array([0] * len(keys), pa.int32())})}, mode="append")
    text = "query q() { match { $p: Person } return { $p.key, $p.age } order { $p.age, $p.key } }"
    result = graph.query(text, memory_limit=64 << 20, engine=engine)

    found = [key for batch in result for key in batch.column(0).to_pylist()]
    assert found == sorted(keys)


def test_vectors_of_many_rows_come_in_short_batches(vectors: og.Graph, engine: EngineName) -> None:
    limit, largest = SHORT_BATCHES[engine]
    every = "query q() { match { $a: Doc } return { $a.v } }"
    back = "query q() { match { $a: Doc $b cites $a } return { $a.key, $b.v } }"
    for text, rows in ((every, 4001), (back, 4000)):
        lengths = [batch.num_rows for batch in vectors.query(text, memory_limit=limit, engine=engine)]
        assert sum(lengths) == rows
        assert max(lengths) * 4096 <= largest


def test_vectors_that_are_null_must_fit(crowd: og.Graph, engine: EngineName) -> None:
    """They take room for their numbers; where there are no rows there is none to take."""
    text = "query q($v: Vector(1000000)?) { match { $p: Person $p.age >= %d } return { $p.key, $v } }"
    with pytest.raises(errors.ResourceLimit) as raised:
        crowd.query(text % 50, memory_limit=64 << 20, engine=engine)
    assert (raised.value.resource, raised.value.actual) == ("memory", 50 * 4_000_000)
    assert len(crowd.query(text % 90, memory_limit=64 << 20, engine=engine)) == 10
    assert len(crowd.query(text % 1000, memory_limit=64 << 20, engine=engine)) == 0


# Stopping -------------------------------------------------------------------------------------------------------------


def test_leaving_a_loop_stops_the_work(crowd: og.Graph, engine: EngineName) -> None:
    for _ in crowd.query(CHAINS, engine=engine):
        break
    gc.collect()

    assert comes_to_rest()
    usable(crowd)


def test_cancelling_stops_a_reader_in_another_thread(crowd: og.Graph, engine: EngineName) -> None:
    result = crowd.query(CHAINS, engine=engine)
    threading.Timer(0.2, result.cancel).start()
    with pytest.raises(errors.BadRequest, match="the query was cancelled"):
        for _ in result:
            pass
    with pytest.raises(errors.BadRequest, match="the query was cancelled"):
        result.to_arrow()
    usable(crowd)


def test_a_result_is_a_context_that_stops_its_query(crowd: og.Graph, engine: EngineName) -> None:
    with crowd.query(CHAINS, engine=engine) as result:
        assert next(iter(result)).num_rows
    with pytest.raises(errors.BadRequest, match="cancelled"):
        len(result)

    with crowd.query(ONE, engine=engine) as small:
        pass
    assert len(small) == 1, "rows that are there stay"


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_stops_a_query(crowd: og.Graph, engine: EngineName) -> None:
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        crowd.query(SORTED, memory_limit=1 << 30, timeout=60, engine=engine)
    timer.join()

    assert comes_to_rest()
    usable(crowd)


def test_many_queries_leave_nothing_behind(crowd: og.Graph, engine: EngineName) -> None:
    def one_of_each() -> None:
        crowd.query(ONE, engine=engine).to_arrow()
        crowd.query(PAIRS, engine=engine).cancel()
        next(iter(crowd.query(PAIRS, engine=engine)))
        with pytest.raises(errors.OmnigraphError):
            crowd.query(SORTED, timeout=0.001, engine=engine)

    for _ in range(5):
        one_of_each()
    threads, files = native_threads(), open_files()
    for _ in range(50):
        one_of_each()
    gc.collect()

    assert settles(lambda: open_files() <= files + FILES_THAT_COME_AND_GO[engine] and native_threads() <= threads + 4)


@pytest.mark.parametrize(
    "ending",
    [
        "",
        "rows = iter(result); next(rows)",
        READER,
    ],
)
def test_a_process_ends_in_peace_whatever_is_left(crowd: og.Graph, engine: EngineName, ending: str) -> None:
    lines = [
        "import omnigraph_sql as og",
        f"graph = og.connect({crowd.uri!r}, read_only=True)",
        f"result = graph.query({CHAINS!r}, engine={engine!r})",
        ending,
    ]
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=False, timeout=60)

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_thread_that_python_did_not_start_is_in_nobodys_way_at_the_end(crowd: og.Graph, engine: EngineName) -> None:
    lines = [
        "import _thread, time",
        "import omnigraph_sql as og",
        f"graph = og.connect({crowd.uri!r}, read_only=True)",
        f"result = graph.query({CHAINS!r}, engine={engine!r})",
        "def read():",
        "    rows = iter(result); next(rows); time.sleep(60)",
        "_thread.start_new_thread(read, ())",
        "time.sleep(0.5)",
    ]
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=False, timeout=60)

    assert done.returncode == 0
    assert "Traceback" not in done.stderr


# Failing functions ----------------------------------------------------------------------------------------------------


def test_an_error_inside_a_function_keeps_its_type(tmp_path: Path, engine: EngineName) -> None:
    graph = og.init(tmp_path / "graph", "node Doc { slug: String @key\n  title: String }")
    graph.load('{"type": "Doc", "data": {"slug": "a", "title": "one"}}', mode="append")
    text = 'query q($edits: I32) { match { $d: Doc fuzzy($d.title, "on", $edits) } return { $d.slug } }'

    with pytest.raises(errors.BadRequest, match="the distance -1 is negative"):
        graph.query(text, params={"edits": -1}, engine=engine)
    assert len(graph.query(text, params={"edits": 1}, engine=engine)) == 1


def test_an_error_inside_a_function_of_a_ranking_keeps_its_type(tmp_path: Path, engine: EngineName) -> None:
    graph = og.init(tmp_path / "graph", "node N { k: String @key  v: Vector(2)  w: Vector(2)? }")
    graph.load({"N": pa.table({"k": ["a"], "v": pa.array([[0.0, 0.0]], pa.list_(pa.float32(), 2))})}, mode="append")
    score = "rrf(nearest($n.v, $n.v), nearest($n.v, $n.v), $k) as s"
    text = f"query q($k: I64) {{ match {{ $n: N }} return {{ $n.k, {score} }} order {{ s desc }} limit 1 }}"
    with pytest.raises(errors.BadRequest, match="k of rrf is 0"):
        graph.query(text, params={"k": 0}, engine=engine)
