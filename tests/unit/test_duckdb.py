"""Queries on DuckDB keep to their limits, can be stopped, and take every name; the graph is usable afterwards."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import omnigraph_sql as og
from omnigraph_sql import errors

CROWD = 100
SCHEMA = """
node Person { key: String @key
  age: I32 }
edge Knows: Person -> Person
"""
ONE = 'query one() { match { $p: Person { key: "p7" } } return { $p.key, $p.age } }'
PAIRS = "query pairs() { match { $a: Person $a knows $b } return { $a.key, $b.age } }"
CHAINS = "query chains() { match { $a: Person $a knows $b $b knows $c $c knows $d } return { $d.age } }"
ENDLESS = "query endless() { match { $a: Person $b: Person $c: Person $d: Person } return { $d.age } }"
SORTED = "query s() { match { $a: Person $a knows $b $b knows $c $c knows $d } return { $d.age } order { $d.age } }"
NONE = "query none() { match { $p: Person $p.age > 1000 } return { $p.key, $p.age } }"


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    """Everybody knows everybody: a few hops make more rows than anybody can wait for."""
    made = og.init(tmp_path_factory.mktemp("crowd") / "graph", SCHEMA)
    keys = [f"p{number}" for number in range(CROWD)]
    made.load({"Person": pa.table({"key": keys, "age": pa.array(range(CROWD), pa.int32())})}, mode="append")
    ends = [(a, b) for a in keys for b in keys]
    made.load({"Knows": pa.table({"src": [a for a, _ in ends], "dst": [b for _, b in ends]})}, mode="append")
    made.query(PAIRS).cancel()  # what is read and compiled once does not count below
    return made


def asked(graph: og.Graph, text: str, **more: Any) -> og.Result:
    return graph.query(text, engine="duckdb", **more)


def usable(graph: og.Graph) -> None:
    assert asked(graph, ONE).to_pylist() == graph.query(ONE).to_pylist() == [{"p.key": "p7", "p.age": 7}]


# Reading -------------------------------------------------------------------------------------------------------------


def test_a_large_result_streams_and_is_not_kept(graph: og.Graph) -> None:
    result = asked(graph, PAIRS)

    assert "rows" not in repr(result)
    assert sum(batch.num_rows for batch in result) == CROWD * CROWD
    assert "rows" not in repr(result), "reading batches does not collect them"
    assert pa.table(result).num_rows == len(result) == CROWD * CROWD


def test_the_first_of_many_rows_come_at_once(graph: og.Graph) -> None:
    """A hundred million rows, of which a few are read."""
    started = time.monotonic()
    with asked(graph, CHAINS) as result:
        assert 0 < next(iter(result)).num_rows <= 65_536
    assert time.monotonic() - started < 5


def test_no_rows_have_columns_and_types(graph: og.Graph) -> None:
    result = asked(graph, NONE)

    assert (len(result), result.to_pylist()) == (0, [])
    assert pa.table(result).schema == result.schema == graph.query(NONE).schema


def test_two_results_are_read_side_by_side(graph: og.Graph) -> None:
    counts = [a.num_rows + b.num_rows for a, b in zip(asked(graph, PAIRS), asked(graph, PAIRS), strict=True)]

    assert sum(counts) == 2 * CROWD * CROWD


def test_threads_ask_at_the_same_time(graph: og.Graph) -> None:
    found: list[int] = []
    threads = [threading.Thread(target=lambda: found.append(len(asked(graph, PAIRS)))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert found == [CROWD * CROWD] * 8


def test_rows_that_are_put_aside_are_tables_of_one_run(graph: og.Graph) -> None:
    """Rows are put aside before the third negation and the fourth; the values of the query are bound there, too."""
    body = "not {{ $a knows ${0} ${0}.age > $most ${0} knows ${0}2 ${0}2 knows $b }}"
    negations = " ".join(body.format(name) for name in "wxyz")
    match = f"$a: Person $a knows $m $m.age < $few $m knows $b $a.age != $b.age {negations}"
    text = f"query q($most: I32, $few: I32) {{ match {{ {match} }} return {{ count($m.age) as n }} }}"
    for few in (3, 2):
        params = {"most": 1000, "few": few}
        found = asked(graph, text, params=params).to_pylist()
        assert found == graph.query(text, params=params).to_pylist() == [{"n": few * CROWD * (CROWD - 1)}]
    assert graph.explain(text, params={"most": 1000, "few": 2}, engine="duckdb", analyze=True).rows == 1


# Limits --------------------------------------------------------------------------------------------------------------


def test_a_query_that_shows_nothing_in_time_fails_at_once(graph: og.Graph) -> None:
    started = time.monotonic()
    with pytest.raises(errors.ResourceLimit, match=r"did not finish within 0\.5 seconds") as raised:
        asked(graph, SORTED, timeout=0.5)

    assert (raised.value.resource, raised.value.limit) == ("time", 500)
    assert time.monotonic() - started < 10
    usable(graph)


def test_a_query_that_goes_on_too_long_fails_where_it_is_read(graph: og.Graph) -> None:
    result = asked(graph, ENDLESS, timeout=1)
    with pytest.raises(errors.ResourceLimit):
        for _ in result:
            pass
    usable(graph)


def test_a_query_beyond_its_memory_fails(graph: og.Graph) -> None:
    with pytest.raises(errors.ResourceLimit, match="more than its limit of 2") as raised:
        asked(graph, SORTED, memory_limit=2 << 20)

    assert (raised.value.resource, raised.value.limit) == ("memory", 2 << 20)
    assert raised.value.actual >= 2 << 20
    usable(graph)


def test_a_sort_that_does_not_fit_is_done_on_disk(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "graph", SCHEMA)
    keys = [f"{number * 7919 % 500_009:030d}" for number in range(500_000)]
    graph.load({"Person": pa.table({"key": keys, "age": pa.array([0] * len(keys), pa.int32())})}, mode="append")
    text = "query q() { match { $p: Person } return { $p.key, $p.age } order { $p.age, $p.key } }"
    result = asked(graph, text, memory_limit=64 << 20)

    found = [key for batch in result for key in batch.column(0).to_pylist()]
    assert found == sorted(keys)


def test_vectors_of_many_rows_come_in_short_batches(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "graph", "node Doc { key: String @key  v: Vector(1024) }")
    keys = pa.array([f"d{number}" for number in range(4001)])
    numbers = pa.array(np.zeros(4001 * 1024, np.float32))
    graph.load({"Doc": pa.table({"key": keys, "v": pa.FixedSizeListArray.from_arrays(numbers, 1024)})}, mode="append")
    every = "query q() { match { $a: Doc } return { $a.v } }"

    lengths = [batch.num_rows for batch in asked(graph, every, memory_limit=48 << 20)]
    assert sum(lengths) == 4001
    assert max(lengths) * 4096 <= 6 << 20


def test_lists_that_do_not_fit_come_in_shorter_batches(graph: og.Graph) -> None:
    """The neighbours of 2048 nodes at a time are 1.6 MB."""
    text = "query q() { match { $a: Person $a knows $b $b knows $c } return { $c.age } }"
    assert sum(batch.num_rows for batch in asked(graph, text, memory_limit=1 << 20)) == CROWD**3


def test_vectors_that_are_null_must_fit(graph: og.Graph) -> None:
    text = "query q($v: Vector(1000000)?) { match { $p: Person $p.age >= %d } return { $p.key, $v } }"
    with pytest.raises(errors.ResourceLimit) as raised:
        asked(graph, text % 50, memory_limit=64 << 20)
    assert (raised.value.resource, raised.value.actual) == ("memory", 50 * 4_000_000)
    assert len(asked(graph, text % 90, memory_limit=64 << 20)) == 10


# Stopping ------------------------------------------------------------------------------------------------------------


def test_cancelling_stops_a_reader_in_another_thread(graph: og.Graph) -> None:
    result = asked(graph, CHAINS)
    threading.Timer(0.2, result.cancel).start()
    with pytest.raises(errors.BadRequest, match="the query was cancelled"):
        for _ in result:
            pass
    with pytest.raises(errors.BadRequest, match="the query was cancelled"):
        result.to_arrow()
    usable(graph)


def test_leaving_a_loop_stops_the_work(graph: og.Graph) -> None:
    for _ in asked(graph, CHAINS):
        break
    gc.collect()

    assert settles(lambda: busy() < 0.02)
    usable(graph)


@pytest.fixture
def interruptible() -> Iterator[None]:
    """A shell that runs the tests in the background makes them ignore interrupts."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_stops_a_query(graph: og.Graph) -> None:
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        asked(graph, SORTED, timeout=60)
    timer.join()

    assert settles(lambda: busy() < 0.02)
    usable(graph)


def test_many_queries_leave_nothing_behind(graph: og.Graph) -> None:
    def one_of_each() -> None:
        asked(graph, ONE).to_arrow()
        asked(graph, PAIRS).cancel()
        next(iter(asked(graph, PAIRS)))
        with pytest.raises(errors.OmnigraphError):
            asked(graph, SORTED, timeout=0.001)

    for _ in range(5):
        one_of_each()
    threads, files = native_threads(), open_files()
    for _ in range(20):
        one_of_each()
    gc.collect()

    assert settles(lambda: open_files() <= files + 2 and native_threads() <= threads + 4)


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


@pytest.mark.parametrize(
    "ending",
    [
        "",
        "rows = iter(result); next(rows)",
        READER,
    ],
)
def test_a_process_ends_in_peace_whatever_is_left(graph: og.Graph, ending: str) -> None:
    lines = [
        "import omnigraph_sql as og",
        f"graph = og.connect({graph.uri!r}, read_only=True)",
        f"result = graph.query({CHAINS!r}, engine='duckdb')",
        ending,
    ]
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=False, timeout=60)

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_thread_that_python_did_not_start_is_in_nobodys_way_at_the_end(graph: og.Graph) -> None:
    lines = [
        "import _thread, time",
        "import omnigraph_sql as og",
        f"graph = og.connect({graph.uri!r}, read_only=True)",
        f"result = graph.query({CHAINS!r}, engine='duckdb')",
        "def read():",
        "    rows = iter(result); next(rows); time.sleep(60)",
        "_thread.start_new_thread(read, ())",
        "time.sleep(0.5)",
    ]
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=False, timeout=60)

    assert done.returncode == 0
    assert "Traceback" not in done.stderr


def busy() -> float:
    """Processor time of this process per second, measured for a moment."""
    before, started = time.process_time(), time.monotonic()
    time.sleep(0.1)
    return (time.process_time() - before) / (time.monotonic() - started)


def settles(is_so: Callable[[], bool]) -> bool:
    until = time.monotonic() + 20
    while time.monotonic() < until:
        if is_so():
            return True
        time.sleep(0.05)
    return False


def native_threads() -> int:
    return len(os.listdir("/proc/self/task")) if Path("/proc/self/task").exists() else threading.active_count()


def open_files() -> int:
    return len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0


# Names ---------------------------------------------------------------------------------------------------------------


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


# Errors and choice ---------------------------------------------------------------------------------------------------


def test_counts_beyond_64_bits_are_refused(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "graph", SCHEMA)
    keys = [f"p{number}" for number in range(200)]
    graph.load({"Person": pa.table({"key": keys, "age": pa.array([0] * 200, pa.int32())})}, mode="append")
    ends = [(a, b) for a in keys for b in keys]
    graph.load({"Knows": pa.table({"src": [a for a, _ in ends], "dst": [b for _, b in ends]})}, mode="append")
    hops = " ".join(f"$v{number} knows $v{number + 1}" for number in range(9))
    with pytest.raises(errors.ResourceLimit, match="64 bits") as raised:
        asked(graph, f"query q() {{ match {{ $v0: Person {hops} }} return {{ count($v0) as n }} }}")
    assert raised.value.resource == "matches"


def test_an_error_inside_a_function_keeps_its_type(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "graph", "node N { k: String @key  v: Vector(2)  w: Vector(2)? }")
    graph.load({"N": pa.table({"k": ["a"], "v": pa.array([[0.0, 0.0]], pa.list_(pa.float32(), 2))})}, mode="append")
    score = "rrf(nearest($n.v, $n.v), nearest($n.v, $n.v), $k) as s"
    text = f"query q($k: I64) {{ match {{ $n: N }} return {{ $n.k, {score} }} order {{ s desc }} limit 1 }}"
    for engine in ("datafusion", "duckdb"):
        with pytest.raises(errors.BadRequest, match="k of rrf is 0"):
            graph.query(text, params={"k": 0}, engine=engine)


@pytest.mark.parametrize(
    ("name", "said"),
    [("duckbd", "did you mean `duckdb`"), ("x", "datafusion, duckdb and spark")],
)
def test_an_engine_that_is_not_there(graph: og.Graph, name: str, said: str) -> None:
    for ask in (graph.query, graph.explain):
        with pytest.raises(errors.BadRequest, match=said):
            ask(ONE, engine=name)


def test_without_the_package_the_remedy_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    graph = og.init(tmp_path / "graph", SCHEMA)
    with pytest.raises(errors.Configuration, match=r"pip install 'omnigraph-sql\[duckdb\]'") as raised:
        asked(graph, ONE)

    assert raised.value.what == "duckdb"
    assert graph.query(ONE).to_pylist() == []


# Explaining ----------------------------------------------------------------------------------------------------------


def test_how_a_query_would_run_and_ran(graph: og.Graph) -> None:
    expected = graph.explain(PAIRS, engine="duckdb")
    ran = graph.explain(PAIRS, engine="duckdb", analyze=True)

    assert expected.rows is None
    assert ran.rows == CROWD * CROWD
    assert "UNNEST(og_" in expected.sql
    assert all(name in expected.sql for name in expected.names)
    assert "unnest" in expected.render()
    assert "Unnest" in expected.render_all()
    assert expected.logical == ""
    assert ran.seconds is not None
    assert any(step.seconds is not None for step in ran.steps.inputs)
    usable(graph)


def test_an_explanation_keeps_to_its_limits(graph: og.Graph) -> None:
    with pytest.raises(errors.ResourceLimit) as raised:
        graph.explain(SORTED, engine="duckdb", analyze=True, timeout=0.3)
    assert raised.value.resource == "time"
    usable(graph)
