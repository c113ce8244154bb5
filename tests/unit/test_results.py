"""Results stream, queries keep to their limits and can be stopped, and the graph is usable afterwards."""

from __future__ import annotations

import gc
import os
import resource
import signal
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
ALL = "query all() { match { $p: Person } return { $p.key } }"
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


def usable(graph: og.Graph) -> None:
    assert graph.query(ONE).to_pylist() == [{"p.key": "p7", "p.age": 7}]


# Reading -------------------------------------------------------------------------------------------------------------


def test_a_small_result_is_complete_and_can_be_read_in_every_way(graph: og.Graph) -> None:
    result = graph.query(ONE)

    assert (len(result), result.columns, bool(result)) == (1, ["p.key", "p.age"], True)
    assert [batch.num_rows for batch in result] == [batch.num_rows for batch in result] == [1]
    assert result.to_arrow().schema == result.schema
    assert pa.table(result).to_pylist() == result.to_pylist() == result.to_json() == [{"p.key": "p7", "p.age": 7}]
    assert result.to_pandas().shape == result.to_polars().shape == (1, 2)
    assert repr(result) == "<Result of `one` on main: p.key, p.age, 1 rows>"


def test_a_large_result_streams_and_is_not_kept(graph: og.Graph) -> None:
    result = graph.query(PAIRS)

    assert "rows" not in repr(result)
    assert sum(batch.num_rows for batch in result) == CROWD * CROWD
    assert "rows" not in repr(result), "reading batches does not collect them"
    assert sum(batch.num_rows for batch in result) == CROWD * CROWD, "the query runs again on its snapshot"
    assert pa.table(result).num_rows == len(result) == CROWD * CROWD
    assert f"{CROWD * CROWD} rows" in repr(result)


def test_what_is_read_later_is_of_the_same_snapshot(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "graph", SCHEMA)
    keys = [f"p{number}" for number in range(20_000)]
    graph.load({"Person": pa.table({"key": keys, "age": pa.array([0] * len(keys), pa.int32())})}, mode="append")
    result = graph.query(ALL)
    graph.mutate('query q() { insert Person { key: "late", age: 1 } }')

    assert sum(batch.num_rows for batch in result) == len(keys)
    assert sum(batch.num_rows for batch in result) == len(keys), "also when the query runs again"
    assert len(graph.query(ALL)) == len(keys) + 1


def test_no_rows_have_columns_and_types(graph: og.Graph) -> None:
    result = graph.query(NONE)

    assert (len(result), result.to_pylist(), bool(result)) == (0, [], False)
    assert pa.table(result).schema == pa.schema(
        [pa.field("p.key", pa.string(), nullable=False), pa.field("p.age", pa.int32(), nullable=False)]
    )
    assert result.to_polars().columns == ["p.key", "p.age"]


def test_two_results_are_read_side_by_side(graph: og.Graph) -> None:
    counts = [a.num_rows + b.num_rows for a, b in zip(graph.query(PAIRS), graph.query(PAIRS), strict=True)]

    assert sum(counts) == 2 * CROWD * CROWD


# Time ----------------------------------------------------------------------------------------------------------------


def test_a_query_that_shows_nothing_in_time_fails_at_once(graph: og.Graph) -> None:
    started = time.monotonic()
    with pytest.raises(errors.ResourceLimit, match=r"did not finish within 0\.5 seconds") as raised:
        graph.query(SORTED, timeout=0.5)

    assert (raised.value.resource, raised.value.limit) == ("time", 500)
    assert raised.value.actual >= 500
    assert time.monotonic() - started < 30
    usable(graph)


def test_a_query_that_goes_on_too_long_fails_where_it_is_read(graph: og.Graph) -> None:
    result = graph.query(ENDLESS, timeout=2)
    with pytest.raises(errors.ResourceLimit):
        for _ in result:
            pass
    usable(graph)


def test_time_between_batches_does_not_count(graph: og.Graph) -> None:
    result = iter(graph.query(CHAINS, timeout=5))
    next(result)
    waited = time.monotonic()
    threading.Event().wait(0.2)
    assert next(result).num_rows
    assert time.monotonic() - waited >= 0.2
    result.close()  # type: ignore[attr-defined]


def test_limits_from_the_environment(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMNIGRAPH_QUERY_TIMEOUT_MS", "300")
    with pytest.raises(errors.ResourceLimit) as raised:
        graph.query(SORTED)
    assert raised.value.limit == 300
    monkeypatch.setenv("OMNIGRAPH_QUERY_TIMEOUT_MS", "never")
    with pytest.warns(RuntimeWarning, match="OMNIGRAPH_QUERY_TIMEOUT_MS is `never`"):
        usable(graph)


@pytest.mark.parametrize("limits", [{"timeout": 0}, {"timeout": float("nan")}, {"memory_limit": 0}, {"memory_limit": 1000}])
def test_a_limit_must_leave_something(graph: og.Graph, limits: dict[str, Any]) -> None:
    with pytest.raises(errors.BadRequest, match=r"the (timeout|memory limit) is"):
        graph.query(ONE, **limits)


# Memory --------------------------------------------------------------------------------------------------------------


def test_a_query_beyond_its_memory_fails(graph: og.Graph) -> None:
    with pytest.raises(errors.ResourceLimit, match="more than its limit of 32") as raised:
        graph.query(SORTED, memory_limit=32 << 20)

    assert (raised.value.resource, raised.value.limit) == ("memory", 32 << 20)
    assert raised.value.actual > 32 << 20
    usable(graph)


def test_a_sort_that_does_not_fit_is_done_on_disk(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "graph", SCHEMA)
    keys = [f"{number * 7919 % 500_009:030d}" for number in range(500_000)]
    graph.load({"Person": pa.table({"key": keys, "age": pa.array([0] * len(keys), pa.int32())})}, mode="append")
    text = "query q() { match { $p: Person } return { $p.key, $p.age } order { $p.age, $p.key } }"
    result = graph.query(text, memory_limit=64 << 20)

    found = [key for batch in result for key in batch.column(0).to_pylist()]
    assert found == sorted(keys)


@pytest.fixture(scope="module")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    """One node with an edge to each of 4000 others; each has a vector of 4 KiB."""
    graph = og.init(
        tmp_path_factory.mktemp("vectors") / "graph", "node Doc { key: String @key  v: Vector(1024) } edge Cites: Doc -> Doc"
    )
    keys = pa.array([f"d{number}" for number in range(4001)])
    numbers = pa.array(np.zeros(4001 * 1024, np.float32))
    docs = pa.table({"key": keys, "v": pa.FixedSizeListArray.from_arrays(numbers, 1024)})
    graph.load({"Doc": docs, "Cites": pa.table({"src": ["d0"] * 4000, "dst": keys.slice(1)})}, mode="append")
    return graph


def test_vectors_of_many_rows_come_in_short_batches(vectors: og.Graph) -> None:
    every = "query q() { match { $a: Doc } return { $a.v } }"
    back = "query q() { match { $a: Doc $b cites $a } return { $a.key, $b.v } }"
    for text, rows in ((every, 4001), (back, 4000)):
        lengths = [batch.num_rows for batch in vectors.query(text, memory_limit=8 << 20)]
        assert sum(lengths) == rows
        assert max(lengths) * 4096 <= 4 << 20


def test_vectors_that_one_row_leads_to_must_fit(vectors: og.Graph) -> None:
    text = 'query q() { match { $a: Doc { key: "d0" } $a cites $b } return { $b.v } }'
    with pytest.raises(errors.ResourceLimit) as raised:
        vectors.query(text, memory_limit=8 << 20)
    assert (raised.value.resource, raised.value.limit) == ("memory", 8 << 20)
    assert raised.value.actual >= 4000 * 4096
    assert sum(batch.num_rows for batch in vectors.query(text, memory_limit=64 << 20)) == 4000


def test_vectors_that_are_null_must_fit(graph: og.Graph) -> None:
    """They take room for their numbers; where there are no rows there is none to take."""
    text = "query q($v: Vector(1000000)?) { match { $p: Person $p.age >= %d } return { $p.key, $v } }"
    with pytest.raises(errors.ResourceLimit) as raised:
        graph.query(text % 50, memory_limit=64 << 20)
    assert (raised.value.resource, raised.value.actual) == ("memory", 50 * 4_000_000)
    assert len(graph.query(text % 90, memory_limit=64 << 20)) == 10
    assert len(graph.query(text % 1000, memory_limit=64 << 20)) == 0


def test_a_table_without_rows_takes_no_room_for_vectors(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "graph", "node Wide { key: String @key  v: Vector(536870912)? }")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert graph.query("query q() { match { $w: Wide } return { $w.v } }").to_pylist() == []
    assert graph.query("query q() { match { $w: Wide } return { count($w.v) as n } }").to_pylist() == [{"n": 0}]
    assert list(graph.export()) == []
    assert graph.mutate('query q() { delete Wide where key = "x" }').affected_nodes == 0
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1 << 20  # KiB


def test_common_neighbours_must_fit(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "graph", f"{SCHEMA} edge Wed: Person -> Person")
    count = 300_000
    keys = pa.array([f"p{number}" for number in range(count)])
    people = pa.table({"key": keys, "age": pa.array(range(count), pa.int32())})
    friends = keys.to_pylist()[2:]
    knows = pa.table({"src": friends * 2, "dst": ["p0"] * len(friends) + ["p1"] * len(friends)})
    graph.load({"Person": people, "Knows": knows, "Wed": pa.table({"src": ["p0"], "dst": ["p1"]})}, mode="append")
    text = 'query q() { match { $a: Person { key: "p0" } $a wed $b $c knows $a $c knows $b } return { $c.age } }'
    with pytest.raises(errors.ResourceLimit) as raised:
        graph.query(text, memory_limit=1 << 20)
    assert raised.value.resource == "memory"
    assert sum(batch.num_rows for batch in graph.query(text, memory_limit=64 << 20)) == len(friends)


def test_rows_that_are_put_aside_count_once_each_time(graph: og.Graph) -> None:
    """A million rows of 24 bytes, put aside before the third negation and the fourth."""
    body = "not {{ $a knows ${0} ${0}.age > 1000 ${0} knows ${0}2 ${0}2 knows $b }}"
    negations = " ".join(body.format(name) for name in "wxyz")
    text = f"query q() {{ match {{ $a: Person $a knows $m $m knows $b {negations} }} return {{ count($m.age) as n }} }}"
    assert graph.query(text, memory_limit=256 << 20).to_pylist() == [{"n": CROWD**3}]
    with pytest.raises(errors.ResourceLimit) as raised:
        graph.query(text, memory_limit=32 << 20)
    assert raised.value.resource == "memory"


@pytest.mark.slow
def test_a_hub_does_not_fill_the_memory(tmp_path: Path) -> None:
    """Two million spokes, each two hops from every other: one of them sees all; all of them together see too much."""
    graph = og.init(tmp_path / "graph", SCHEMA)
    spokes = 2_000_000
    keys = pa.array([f"p{number}" for number in range(spokes + 1)])
    ages = pa.array(range(spokes + 1), pa.int32())
    graph.load({"Person": pa.table({"key": keys, "age": ages})}, mode="append")
    hub = pa.array(["p0"] * spokes)
    graph.load({"Knows": pa.table({"src": keys.slice(1), "dst": hub})}, mode="append")
    one = 'query q() { match { $a: Person { key: "p1" } $a knows $hub $b knows $hub } return { $b.age } }'
    every = "query q() { match { $a: Person $a knows $hub $b knows $hub } return { $a.age, $b.age } order { $b.age } }"

    assert sum(batch.num_rows for batch in graph.query(one, memory_limit=256 << 20)) == spokes
    with pytest.raises(errors.ResourceLimit) as raised:
        graph.query(one, memory_limit=8 << 20)
    assert raised.value.resource == "memory"
    with pytest.raises(errors.ResourceLimit):
        graph.query(every, memory_limit=256 << 20, timeout=30)


# Stopping ------------------------------------------------------------------------------------------------------------


def test_leaving_a_loop_stops_the_work(graph: og.Graph) -> None:
    for _ in graph.query(CHAINS):
        break
    gc.collect()

    assert settles(lambda: busy() < 0.02)
    usable(graph)


def test_cancelling_stops_a_reader_in_another_thread(graph: og.Graph) -> None:
    result = graph.query(CHAINS)
    threading.Timer(0.2, result.cancel).start()
    with pytest.raises(errors.BadRequest, match="the query was cancelled"):
        for _ in result:
            pass
    with pytest.raises(errors.BadRequest, match="the query was cancelled"):
        result.to_arrow()
    usable(graph)


def test_a_result_is_a_context_that_stops_its_query(graph: og.Graph) -> None:
    with graph.query(CHAINS) as result:
        assert next(iter(result)).num_rows
    with pytest.raises(errors.BadRequest, match="cancelled"):
        len(result)

    with graph.query(ONE) as small:
        pass
    assert len(small) == 1, "rows that are there stay"


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
        graph.query(SORTED, memory_limit=1 << 30, timeout=60)
    timer.join()

    assert settles(lambda: busy() < 0.02)
    usable(graph)


def test_many_queries_leave_nothing_behind(graph: og.Graph) -> None:
    def one_of_each() -> None:
        graph.query(ONE).to_arrow()
        graph.query(PAIRS).cancel()
        next(iter(graph.query(PAIRS)))
        with pytest.raises(errors.OmnigraphError):
            graph.query(SORTED, timeout=0.001)

    for _ in range(5):
        one_of_each()
    threads, files = native_threads(), open_files()
    for _ in range(50):
        one_of_each()
    gc.collect()

    assert settles(lambda: open_files() <= files and native_threads() <= threads + 4)


def busy() -> float:
    """Processor seconds that this process uses while it waits a little."""
    before = time.process_time()
    threading.Event().wait(0.1)
    return time.process_time() - before


def settles(is_so: Callable[[], bool]) -> bool:
    until = time.monotonic() + 20
    while time.monotonic() < until:
        if is_so():
            return True
        time.sleep(0.02)
    return False


def native_threads() -> int:
    return len(os.listdir("/proc/self/task")) if os.path.exists("/proc/self/task") else threading.active_count()


def open_files() -> int:
    return len(os.listdir("/proc/self/fd")) if os.path.exists("/proc/self/fd") else 0


# Failing functions ---------------------------------------------------------------------------------------------------


def test_an_error_inside_a_function_keeps_its_type(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "graph", "node Doc { slug: String @key\n  title: String }")
    graph.load('{"type": "Doc", "data": {"slug": "a", "title": "one"}}', mode="append")
    text = 'query q($edits: I32) { match { $d: Doc fuzzy($d.title, "on", $edits) } return { $d.slug } }'

    with pytest.raises(errors.BadRequest, match="the distance -1 is negative"):
        graph.query(text, params={"edits": -1})
    assert len(graph.query(text, params={"edits": 1})) == 1
