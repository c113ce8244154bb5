"""Statements in processes of their own: what they answer, how they end, and what is left of them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import numpy as np
import pyarrow as pa
import pytest

import omnigraph_sql as og
from omnigraph_sql.choices import EngineName
from omnigraph_sql.errors import BadRequest, NotFound, ResourceLimit, VersionReclaimed
from omnigraph_sql.graph import Graph

ENGINES: tuple[EngineName, ...] = ("datafusion", "duckdb")
ENDLESS = 'select count(*) as n from "P" a, "P" b, "P" c where a.k || b.k < c.k'
SERVER = "omnigraph_sql.statement_server"


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("isolated") / "graph"
    with og.init(path, "node P { k: String @key  n: I64? }") as graph:
        graph.load({"P": pa.table({"k": [f"p{each:05}" for each in range(20_000)], "n": range(20_000)})}, mode="append")
    return str(path)


@pytest.fixture(scope="module")
def graph(uri: str) -> Iterator[Graph]:
    with og.connect(uri) as graph:
        yield graph


def children(parent: int) -> list[int]:
    """The processes of ours that a process started."""
    found = []
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            try:
                fields = (place / "stat").read_text().rpartition(")")[2].split()
                command = (place / "cmdline").read_text(errors="replace")
            except OSError:
                continue
            if int(fields[1]) == parent and SERVER in command and fields[0] != "Z":
                found.append(int(place.name))
    return found


def begun(lines: tuple[str, ...], **environment: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", "\n".join(lines)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **environment}
    )


def gone(process: int) -> bool:
    until = time.monotonic() + 10
    while time.monotonic() < until:
        try:
            if Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize("engine", ENGINES)
def test_it_gives_what_the_same_process_gives(graph: Graph, engine: EngineName) -> None:
    for text, params in (
        ("select k, n from P where n < $n order by k", {"n": 10}),
        ("select $l as l, $t as t", {"l": [1, 2], "t": "é"}),
        ("select * from P order by k", {}),
        ("select k from P where false", {}),
    ):
        here, there = (graph.sql(text, params, engine=engine, isolated=each) for each in (False, True))
        assert there.schema == here.schema
        assert there.to_arrow() == here.to_arrow()
        assert there.graph_commit_id == here.graph_commit_id


@pytest.mark.parametrize("engine", ENGINES)
def test_errors_are_those_of_the_same_process(graph: Graph, engine: EngineName) -> None:
    for text in ("selct 1", "select nope from P", "select * from Q", "delete from P", "select * from gq('query q() {')"):
        raised = []
        for isolated in (False, True):
            with pytest.raises(og.errors.OmnigraphError) as caught:
                graph.sql(text, engine=engine, isolated=isolated)
            raised.append((type(caught.value), caught.value.message, caught.value.hint))
        assert raised[0] == raised[1]


def test_a_process_is_used_again(uri: str) -> None:
    with og.connect(uri, read_only=True) as graph:
        graph.sql("select 1 as one", isolated=True)
        first = children(os.getpid())
        graph.sql("select 2 as two", isolated=True)
        with pytest.raises(BadRequest):
            graph.sql("select nope from P", isolated=True)
        assert graph.sql("select 3 as three", isolated=True).to_pylist() == [{"three": 3}]
        assert children(os.getpid()) == first
    assert all(map(gone, set(first) - set(children(os.getpid()))))


def test_it_reads_the_state_that_was_asked_for(tmp_path: Path) -> None:
    with og.init(tmp_path / "graph", "node P { k: String @key }") as graph:
        for key in "ab":
            graph.load([json.dumps({"type": "P", "data": {"k": key}})], mode="append")
        graph.create_branch("side")
        graph.load([json.dumps({"type": "P", "data": {"k": "c"}})], mode="append", branch="side")
        count = "select count(*) as n from P"
        assert graph.sql(count, isolated=True).to_pylist() == [{"n": 2}]
        assert graph.sql(count, branch="side", isolated=True).to_pylist() == [{"n": 3}]
        assert graph.sql(count, version=2, isolated=True).to_pylist() == [{"n": 1}]
        commit = graph.snapshot(branch="side").commit_id
        assert graph.sql(count, snapshot=commit, isolated=True).to_pylist() == [{"n": 3}]
        kept = graph.sql("select k from P order by k", isolated=True)
        graph.load([json.dumps({"type": "P", "data": {"k": "d"}})], mode="append")
        assert [row["k"] for row in kept.to_pylist()] == ["a", "b"]
        assert graph.sql(count, isolated=True).to_pylist() == [{"n": 3}]
        with pytest.raises(NotFound):
            graph.sql(count, branch="none", isolated=True)


@pytest.mark.parametrize("engine", ENGINES)
def test_foreign_tables_go_along(tmp_path: Path, engine: EngineName) -> None:
    (tmp_path / "calls.csv").write_text("who,ships\nann,3\n")
    with og.init(tmp_path / "graph", "node P { k: String @key }") as graph:
        graph.register("calls", tmp_path / "calls.csv")
        graph.register("notes", pa.table({"who": ["ann"], "note": ["x"]}))
        text = "select c.who, ships, note from calls c join notes n on c.who = n.who"
        assert graph.sql(text, engine=engine, isolated=True).to_pylist() == [{"who": "ann", "ships": 3, "note": "x"}]
        graph.unregister("notes")
        with pytest.raises(NotFound):
            graph.sql(text, engine=engine, isolated=True)


@pytest.mark.hangs_after(60)
@pytest.mark.parametrize("engine", ENGINES)
def test_a_statement_that_takes_too_long_is_ended(graph: Graph, engine: EngineName) -> None:
    with pytest.raises(ResourceLimit) as caught:
        graph.sql(ENDLESS, engine=engine, timeout=0.5, isolated=True)
    assert caught.value.resource == "time"
    assert graph.sql("select 1 as one", engine=engine, isolated=True).to_pylist() == [{"one": 1}]


@pytest.mark.parametrize(
    ("ending", "resource"),
    [
        (signal.SIGKILL, "memory"),
        pytest.param(signal.SIGSEGV, "stack", marks=pytest.mark.slow),
        pytest.param(signal.SIGTERM, "process", marks=pytest.mark.slow),
    ],
)
def test_a_process_that_dies_is_a_typed_error(graph: Graph, ending: signal.Signals, resource: str) -> None:
    def end() -> None:
        time.sleep(0.5)
        for child in children(os.getpid()):
            os.kill(child, ending)

    killer = threading.Thread(target=end)
    graph.sql("select 1 as one", isolated=True)
    killer.start()
    with pytest.raises(ResourceLimit) as caught:
        graph.sql(ENDLESS, isolated=True)
    killer.join()
    assert caught.value.resource == resource, caught.value
    assert graph.sql("select 1 as one", isolated=True).to_pylist() == [{"one": 1}]


def test_memory_that_no_engine_counts_ends_only_the_process(graph: Graph) -> None:
    text = "select arrow_cast(null, 'FixedSizeList(2000000000 x Int64)') as x"
    with pytest.raises(ResourceLimit) as caught:
        graph.sql(text, memory_limit=64 << 20, timeout=30, isolated=True)
    assert caught.value.resource == "memory"
    assert caught.value.limit == 64 << 20
    assert graph.sql("select 1 as one", isolated=True).to_pylist() == [{"one": 1}]


def test_a_cancelled_statement_ends_its_process(graph: Graph) -> None:
    result = graph.sql('select a.n + b.n as n from "P" a, "P" b', isolated=True)
    reader = iter(result)
    next(reader)
    busy = children(os.getpid())
    result.cancel()
    with pytest.raises(BadRequest, match="cancelled"):
        for _ in reader:
            pass
    reader.close()  # type: ignore[attr-defined]
    assert any(map(gone, busy))


@pytest.mark.parametrize("engine", ["datafusion", pytest.param("duckdb", marks=pytest.mark.slow)])
def test_ctrl_c_is_a_keyboard_interrupt_and_leaves_nothing(uri: str, engine: EngineName) -> None:
    lines = (
        "import omnigraph_sql as og, sys",
        f"graph = og.connect({uri!r}, read_only=True)",
        f"graph.sql('select 1 as one', engine={engine!r}, isolated=True)",
        "print('ready', flush=True)",
        "try:",
        f"    graph.sql({ENDLESS!r}, engine={engine!r}, isolated=True)",
        "except KeyboardInterrupt:",
        f"    print(graph.sql('select 1 as one', engine={engine!r}, isolated=True).to_pylist(), flush=True)",
    )
    running = begun(lines)
    assert running.stdout is not None
    assert running.stdout.readline() == "ready\n"
    time.sleep(0.5)
    started = children(running.pid)
    running.send_signal(signal.SIGINT)
    out, errors = running.communicate(timeout=60)
    assert (running.returncode, out, errors) == (0, "[{'one': 1}]\n", "")
    assert started
    assert all(map(gone, started))


@pytest.mark.parametrize(
    "ending",
    [
        "import os; os.kill(os.getpid(), 9)",
        *(pytest.param(each, marks=pytest.mark.slow) for each in ("pass", "raise SystemExit(0)")),
    ],
)
def test_nothing_is_left_however_the_asking_process_ends(uri: str, ending: str, tmp_path: Path) -> None:
    lines = (
        "import omnigraph_sql as og, time",
        f"graph = og.connect({uri!r}, read_only=True)",
        "graph.sql('select 1 as one', isolated=True)",
        'rows = iter(graph.sql(\'select a.n + b.n as n from "P" a, "P" b\', isolated=True))',
        "next(rows)",
        "print('ready', flush=True)",
        "time.sleep(1)",
        ending,
    )
    running = begun(lines, TMPDIR=str(tmp_path))
    assert running.stdout is not None
    assert running.stdout.readline() == "ready\n"
    started = children(running.pid)
    running.communicate(timeout=60)
    assert started
    assert all(map(gone, started))
    until = time.monotonic() + 10
    while list(tmp_path.iterdir()) and time.monotonic() < until:
        time.sleep(0.1)
    assert list(tmp_path.iterdir()) == []


class Word(str):
    """A class that the process of a statement cannot import: tests are no part of what is installed."""

    __slots__ = ()


class Unpicklable:
    def __reduce__(self) -> NoReturn:
        raise RuntimeError("no")


class Unreadable:
    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return int, ("x",)


@pytest.mark.parametrize("engine", ENGINES)
def test_parameters_are_bound_as_in_the_same_process(graph: Graph, engine: EngineName) -> None:
    Word.__module__ = "__main__"
    for value in (
        Word("x"),
        memoryview(b"x"),
        {"a": [Word("y")]},
        np.float32(0.5),
        pa.scalar(1, pa.int8()),
    ):
        here, there = (
            graph.sql("select $p as p", {"p": value}, engine=engine, isolated=each).to_arrow() for each in (False, True)
        )
        assert there.schema == here.schema
        assert there == here
    for wrong in (Unpicklable(), Unreadable(), Word, threading.Lock(), iter(())):
        raised = []
        for isolated in (False, True):
            with pytest.raises(BadRequest, match="`p` cannot be bound") as caught:
                graph.sql("select $p as p", {"p": wrong}, engine=engine, isolated=isolated)
            raised.append((caught.value.message, caught.value.hint))
        assert raised[0] == raised[1]


@pytest.mark.parametrize("engine", ENGINES)
def test_parameters_of_functions_go_along(graph: Graph, engine: EngineName) -> None:
    text = "select * from gq('query q($key: String) { match { $p: P { k: $key } } return { $p.k } }', $given)"
    for given in ({"key": "p00007"}, json.dumps({"key": "p00007"})):
        for isolated in (False, True):
            found = graph.sql(text, {"given": given}, engine=engine, isolated=isolated)
            assert [list(row.values()) for row in found.to_pylist()] == [["p00007"]]


@pytest.mark.slow
def test_many_at_once_are_bounded(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omnigraph_sql.isolation.pool.MOST_PROCESSES", 1)
    open_result = graph.sql('select a.n + b.n as n from "P" a, "P" b', isolated=True)
    with pytest.raises(ResourceLimit) as caught:
        graph.sql("select 1 as one", isolated=True)
    assert caught.value.resource == "processes"
    open_result.cancel()
    assert graph.sql("select 1 as one", isolated=True).to_pylist() == [{"one": 1}]


def test_versions_that_are_gone_are_told_alike(tmp_path: Path) -> None:
    with og.init(tmp_path / "graph", "node P { k: String @key }") as graph:
        for key in "abcdef":
            graph.load([json.dumps({"type": "P", "data": {"k": key}})], mode="append")
        with pytest.warns(UserWarning, match="keep"):
            graph.cleanup(keep=1)
        for engine in ENGINES:
            for isolated in (False, True):
                with pytest.raises(VersionReclaimed):
                    graph.sql("select count(*) as n from P", version=3, engine=engine, isolated=isolated).to_arrow()
