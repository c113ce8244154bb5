"""Read queries on Spark: the rows of the other engines, with their errors and limits.

Each process that runs any of these tests starts a Spark of its own: they are in one module so that few do.
"""

from __future__ import annotations

import datetime
import json
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

import omnigraph_sql as og
from omnigraph_sql import errors
from omnigraph_sql.embeddings import Role
from tests.golden.engines import OnDataFusion
from tests.golden.gqt import Block, read_blocks
from tests.golden.graphs import Graphs
from tests.golden.reads import KIND, run_read
from tests.stores import Place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GOLDEN = Path(__file__).parent.parent / "golden"
BLOCKS = [block for path in sorted(GOLDEN.glob("reads_*.gqt")) for block in read_blocks(path) if block.kind == KIND]
FILES = [list(blocks) for _, blocks in groupby(BLOCKS, lambda block: block.id.split(":")[0])]
SOME = [blocks[len(blocks) // 2] for blocks in FILES]
"""One block of each file: each file is about another part of the language."""
CROWD = 100
SCHEMA = """
node Person { key: String @key
  age: I32
  big: U64?
  small: U32?
  share: F32?
  born: Date?
  seen: DateTime?
  place: Vector(2)?
  tags: [String]?
  marks: [U64]?
  moments: [DateTime]?
  text: String? }
edge Knows: Person -> Person { since: Date? }
"""
ONE = 'query one() { match { $p: Person { key: "p7" } } return { $p.key, $p.age } }'
PAIRS = "query pairs() { match { $a: Person $a knows $b } return { $a.key, $b.age } order { $a.key, $b.age } }"
ENDLESS = (
    "query s() { match { $a: Person $a knows $b $b knows $c $c knows $d $d knows $e } return { $e.age } order { $e.age } }"
)


def person(number: int) -> dict[str, Any]:
    data: dict[str, Any] = {"key": f"p{number}", "age": number, "text": f"word{number % 7} tide" if number % 2 else None}
    if number % 3:
        data |= {"big": 2**64 - 1 - number, "small": 2**32 - 1 - number, "share": number / 7, "born": "1969-12-31"}
        data |= {"seen": "2024-02-29T12:30:00.123Z", "place": [number / 3, -1.5], "tags": [f"t{number}", "x"]}
        data |= {"marks": [2**64 - 1, number], "moments": ["1900-01-01T00:00:00.001Z"]}
    return data


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    """Everybody knows everybody: a few hops make more rows than anybody can wait for."""
    made = og.init(tmp_path_factory.mktemp("crowd") / "graph", SCHEMA)
    made.load([json.dumps({"type": "Person", "data": person(number)}) for number in range(CROWD)], mode="append")
    ends = [(f"p{a}", f"p{b}") for a in range(CROWD) for b in range(CROWD)]
    made.load({"Knows": pa.table({"src": [a for a, _ in ends], "dst": [b for _, b in ends]})}, mode="append")
    return made


def asked(graph: og.Graph, text: str, **more: Any) -> og.Result:
    return graph.query(text, engine="spark", **more)


def same(graph: og.Graph, text: str, **more: Any) -> pa.Table:
    """The rows, which are those of DataFusion to the last bit."""
    found, expected = asked(graph, text, **more).to_arrow(), graph.query(text, **more).to_arrow()
    assert found.schema == expected.schema
    assert found.equals(expected)
    return found


def settles(holds: Callable[[], bool], seconds: float = 20) -> bool:
    until = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


def is_idle(spark: SparkSession) -> bool:
    return not spark.sparkContext.statusTracker().getActiveJobsIds()


# The golden blocks ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def graphs(new_place: Callable[[str], Place]) -> Graphs:
    return Graphs(new_place("graphs"))


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("block", SOME, ids=lambda block: block.id)
def test_read(block: Block, graphs: Graphs) -> None:
    run_read(block, graphs, OnDataFusion("spark", engine="spark"))


@pytest.mark.slow
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.id)
def test_every_read(block: Block, graphs: Graphs) -> None:
    run_read(block, graphs, OnDataFusion("spark", engine="spark"))


# Values and names ----------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("spark")
def test_values_of_every_type_come_back_as_they_are(crowd: og.Graph) -> None:
    names = ["key", "age", "big", "small", "share", "born", "seen", "place", "tags", "marks", "moments", "text"]
    shown = ", ".join(f"$p.{name}" for name in names)

    found = same(crowd, f"query q() {{ match {{ $p: Person }} return {{ $p, {shown} }} order {{ $p.big desc }} }}")

    assert found.num_rows == CROWD
    assert found["p.big"][0].as_py() == 2**64 - 2


@pytest.mark.usefixtures("spark")
def test_parameters_of_every_type(crowd: og.Graph) -> None:
    params = {
        "a": 2**64 - 1,
        "b": 0.1,
        "c": "it's :p1 `x` \\ \n",
        "d": datetime.date(1582, 10, 4),
        "e": datetime.datetime(1, 1, 1, 0, 0, 0, 1000, datetime.UTC),
        "f": [1.5, 2.5],
        "g": [2**64 - 1, 0],
        "h": [],
        "i": None,
        "j": None,
        "k": None,
        "l": True,
    }
    kinds = [
        "U64",
        "F32",
        "String",
        "Date",
        "DateTime",
        "Vector(2)",
        "[U64]",
        "[String]",
        "String?",
        "[Date]?",
        "Vector(2)?",
        "Bool",
    ]
    declared = ", ".join(f"${name}: {kind}" for name, kind in zip(params, kinds, strict=True))
    shown = ", ".join(f"${name} as {name}" for name in params)

    found = same(
        crowd, f'query q({declared}) {{ match {{ $p: Person {{ key: "p1" }} }} return {{ {shown} }} }}', params=params
    )

    assert found["c"][0].as_py() == params["c"]


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    ("condition", "kind", "value", "count"),
    [
        ("$p.tags contains $x", "String?", None, 0),
        ("$p.tags contains $x", "String?", "t7", 1),
        ("$p.marks contains $x", "U64", 2**64 - 1, 66),
        ("$xs contains $p.big", "[U64]", [], 0),
        ("$xs contains $p.big", "[U64]", [2**64 - 2], 1),
        ("$p.big > $x", "F64", 1e30, 0),
        ("$p.share = $p.age", None, None, 0),
        ("$x = $y", "I32?", None, 0),
    ],
)
def test_conditions_on_values_that_spark_has_no_type_for(
    crowd: og.Graph, condition: str, kind: str | None, value: Any, count: int
) -> None:
    name = "xs" if "$xs" in condition else "x"
    declared = "" if kind is None else f"${name}: {kind}" + (", $y: I32?" if "$y" in condition else "")
    params = None if kind is None else {name: value}
    text = f"query q({declared}) {{ match {{ $p: Person {condition} }} return {{ count($p) as n }} }}"

    assert same(crowd, text, params=params)["n"].to_pylist() == [count]


@pytest.mark.usefixtures("spark")
def test_names_that_differ_only_in_case(tmp_path: Path) -> None:
    schema = (
        "node Port { code: String @key  coDe: I32  count: I32 }\nnode PORT { code: String @key }\nedge Lane: Port -> Port"
    )
    graph = og.init(tmp_path / "graph", schema)
    port = {"type": "Port", "data": {"code": "a", "coDe": 1, "count": 2}}
    graph.load([json.dumps(each) for each in (port, {"edge": "Lane", "from": "a", "to": "a"})], mode="append")
    shown = "$ab.code as xy, $aB.coDe as xY, $aB.code, $ab.count"
    text = f"query q() {{ match {{ $ab: Port $ab lane $aB }} return {{ {shown} }} order {{ xy, xY }} }}"

    assert same(graph, text).to_pylist() == [{"xy": "a", "xY": 1, "aB.code": "a", "ab.count": 2}]


# What other parts of a query need ------------------------------------------------------------------------------------


@pytest.mark.usefixtures("spark")
def test_tables_that_a_query_starts_from(crowd: og.Graph, spark: SparkSession) -> None:
    texts = [f"not {{ $a $w{n}:knows $x{n} $x{n}.age = {n} $b knows $x{n} $b.age = {n} }}" for n in range(3)]
    match = f'$a: Person {{ key: "p1" }} $b: Person {" ".join(texts)}'

    assert asked(crowd, f"query q() {{ match {{ {match} }} return {{ count($b) as n }} }}").to_pylist() == [{"n": CROWD - 3}]
    assert spark.sparkContext._jsc.sc().getPersistentRDDs().isEmpty()


class OneByOne:
    """An embedder of the caller's own, which cannot be sent anywhere."""

    provider, model = "here", "one"

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.asked: list[str] = []

    def embed(self, texts: Sequence[str], *, dimension: int, role: Role = "document") -> npt.NDArray[np.float32]:
        assert (dimension, role) == (2, "query")
        self.asked += texts
        return np.array([[0.6, 0.8] for _ in texts], np.float32)


@pytest.mark.usefixtures("spark")
def test_a_text_becomes_a_vector_once_and_here(crowd: og.Graph) -> None:
    embedder = OneByOne()
    graph = og.connect(crowd.uri, embedder=embedder)
    text = """query q($x: String) { match { $a: Person { key: "p3" } $a knows $p $p.age < 50 }
      return { $p.key, rrf(nearest($p.place, $x), bm25($p.text, $x)) as s } order { s desc } limit 5 }"""

    found = asked(graph, text, params={"x": "tide"}).to_arrow()

    assert embedder.asked == ["tide"]
    assert found.equals(graph.query(text, params={"x": "tide"}).to_arrow())


@pytest.mark.usefixtures("spark")
def test_branches_and_commits_are_what_workers_read(crowd: og.Graph) -> None:
    count = 'query q() { match { $p: Person $p.age >= 98 $p.text != "" } return { $p.key } order { $p.key } }'
    before = crowd.commits()[0].graph_commit_id
    if "other" not in crowd.branches():
        crowd.create_branch("other")
        crowd.mutate('query q() { delete Person where key = "p99" }', branch="other")

    assert same(crowd, count, branch="other").num_rows == 0
    assert same(crowd, count).num_rows == 1
    assert same(crowd, count, snapshot=before).num_rows == 1


# Limits and failures -------------------------------------------------------------------------------------------------


def test_a_query_that_takes_too_long_is_stopped(crowd: og.Graph, spark: SparkSession) -> None:
    asked(crowd, ONE)
    with pytest.raises(errors.ResourceLimit) as raised:
        asked(crowd, ENDLESS, timeout=2)

    assert (raised.value.resource, raised.value.limit) == ("time", 2000)
    assert settles(lambda: is_idle(spark))
    assert asked(crowd, ONE).to_pylist() == [{"p.key": "p7", "p.age": 7}]


def test_an_interrupt_stops_a_query(crowd: og.Graph, spark: SparkSession) -> None:
    asked(crowd, ONE)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(2, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            asked(crowd, ENDLESS, timeout=60)
    finally:
        timer.join()
        signal.signal(signal.SIGINT, before)

    assert settles(lambda: is_idle(spark))
    assert asked(crowd, ONE).to_pylist() == [{"p.key": "p7", "p.age": 7}]


@pytest.mark.usefixtures("spark")
def test_what_a_function_refuses_in_a_worker_has_its_type(tmp_path: Path) -> None:
    """A node with more neighbours than may be held at a time."""
    graph = og.init(tmp_path / "graph", "node N { k: String @key }\nedge E: N -> N")
    many = 140_000
    graph.load({"N": pa.table({"k": [f"n{number}" for number in range(many)]})}, mode="append")
    graph.load({"E": pa.table({"src": ["n0"] * many, "dst": [f"n{number}" for number in range(many)]})}, mode="append")
    text = 'query q() { match { $a: N { k: "n0" } $a e{1,2} $b } return { $b.k } order { $b.k desc } limit 1 }'

    with pytest.raises(errors.ResourceLimit, match="of memory, more than its limit of 1") as raised:
        asked(graph, text, memory_limit=1 << 20)

    assert (raised.value.resource, raised.value.limit) == ("memory", 1 << 20)
    assert raised.value.actual >= many * 8
    assert asked(graph, text).to_pylist() == [{"b.k": "n99999"}]
    assert_many_rows_are_divided(graph)


def assert_many_rows_are_divided(graph: og.Graph) -> None:
    first = "query q() { match { $n: N } return { $n.k as key, $n } order { key desc } limit 7 }"
    assert same(graph, first).num_rows == 7
    assert "Exchange rangepartitioning" not in graph.explain(first, engine="spark").physical
    every = "query q() { match { $n: N } return { $n.k } order { $n.k desc } }"
    assert same(graph, every).num_rows > 2**15
    assert "AdaptiveSparkPlan" in graph.explain(every, engine="spark").physical


@pytest.mark.usefixtures("spark")
def test_a_batch_that_leads_to_too_much_is_taken_in_shorter_ones(crowd: og.Graph) -> None:
    """100 x 100 neighbours at once are more than a thirty-second of the memory."""
    assert same(crowd, PAIRS, memory_limit=1 << 20).num_rows == CROWD * CROWD


@pytest.mark.usefixtures("spark")
def test_what_is_refused_before_anything_runs(crowd: og.Graph) -> None:
    score = "rrf(nearest($n.place, $n.place), nearest($n.place, $n.place), $k) as s"
    text = f"query q($k: I64) {{ match {{ $n: Person }} return {{ $n.key, {score} }} order {{ s desc }} limit 1 }}"
    with pytest.raises(errors.BadRequest, match="k of rrf is 0"):
        asked(crowd, text, params={"k": 0})


_DAEMON = re.compile(rb"-m\0[\w.]*spark\.daemon\0")


def workers() -> list[int]:
    """The Python workers of the Spark that this process started: forked by a process of the same name."""
    found: dict[int, tuple[int, bool]] = {}
    for each in Path("/proc").iterdir():
        if each.name.isdigit():
            with suppress(OSError):
                parent = int((each / "stat").read_text().rpartition(")")[2].split()[1])
                found[int(each.name)] = parent, _DAEMON.search((each / "cmdline").read_bytes()) is not None

    def is_ours(process: int) -> bool:
        return process == os.getpid() or (process in found and is_ours(found[process][0]))

    return [
        one for one, (parent, is_worker) in found.items() if is_worker and found.get(parent, (0, False))[1] and is_ours(one)
    ]


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="there is no list of processes")
def test_workers_that_are_lost(crowd: og.Graph, spark: SparkSession) -> None:
    asked(crowd, ONE)
    is_over = threading.Event()

    def kill() -> None:
        while not is_over.wait(0.5):
            for worker in workers():
                with suppress(ProcessLookupError):
                    os.kill(worker, signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        with pytest.raises(errors.Storage, match="Spark lost a worker") as raised:
            asked(crowd, ENDLESS, timeout=120)
    finally:
        is_over.set()
        killer.join()

    assert raised.value.storage_class == "transient"
    assert settles(lambda: is_idle(spark))
    assert asked(crowd, ONE).to_pylist() == [{"p.key": "p7", "p.age": 7}]


# Sessions ------------------------------------------------------------------------------------------------------------


def test_the_session_of_the_caller_stays_as_it_is(crowd: og.Graph, spark: SparkSession) -> None:
    zone = "America/New_York"
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        same(crowd, 'query q() { match { $p: Person { key: "p7" } } return { $p.seen, $p.born } }')
        assert spark.conf.get("spark.sql.session.timeZone") == zone
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert spark.catalog.listTables() == []
    assert spark.sql("SHOW USER FUNCTIONS LIKE 'og_*'").collect() == []


@pytest.mark.usefixtures("spark")
def test_queries_of_several_threads_do_not_meet(crowd: og.Graph) -> None:
    found: dict[int, Any] = {}

    def ask(number: int) -> None:
        text = f"query q() {{ match {{ $p: Person $p.age = {number} }} return {{ $p.key }} }}"
        found[number] = asked(crowd, text).to_pylist()

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {number: [{"p.key": f"p{number}"}] for number in range(4)}


def test_without_the_package_the_remedy_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    graph = og.init(tmp_path / "graph", SCHEMA)
    with pytest.raises(errors.Configuration, match=r"pip install 'omnigraph-sql\[spark\]'") as raised:
        asked(graph, ONE)

    assert raised.value.what == "pyspark"


def test_statements_of_sql_run_elsewhere(crowd: og.Graph) -> None:
    with pytest.raises(errors.BadRequest, match="do not run on spark"):
        crowd.sql("select 1", engine="spark")


# Explaining ----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("spark")
def test_explain_shows_what_spark_makes_of_it(crowd: og.Graph) -> None:
    text = (
        "query q($n: I32) { match { $a: Person $a knows{1,2} $b $b.age < $n } return { $b.key } order { $b.key } limit 3 }"
    )

    found = crowd.explain(text, params={"n": 5}, engine="spark")

    assert found.rows is None
    assert "EXPLODE(og_knows" in found.sql
    assert "ArrowEvalPython" in found.physical
    assert "take ordered and project" in found.render()
    assert "#" not in found.render()
    assert any(name.startswith("og_knows") for name in found.names)


@pytest.mark.usefixtures("spark")
def test_analyze_runs_it(crowd: og.Graph) -> None:
    found = crowd.explain(PAIRS, engine="spark", analyze=True)

    assert found.rows == CROWD * CROWD
    assert found.seconds is not None
    assert set(found.seconds) == {"preparing", "running"}
