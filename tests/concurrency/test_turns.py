"""Writers take turns: in the order in which they came, past waiters that died or stopped, and nobody is turned away."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import omnigraph_sql as og
from omnigraph_sql.storage.object_stores import open_objects
from omnigraph_sql.storage.roots import resolve_root
from omnigraph_sql.store.locks import manager as locks_module
from omnigraph_sql.store.locks.manager import WriteQueueManager, open_locks, publish_lock
from tests.concurrency.turns import INSERT
from tests.crash.world import armed, assert_settled, edge, node, rows, seeded
from tests.stores import Place, repetitions

ROOT = Path(__file__).parents[2]
SCHEMA = "node T { k: String @key  n: I32? }\n" + "\n".join(
    f"node T{number} {{ k: String @key  n: I32? }}" for number in range(4)
)
KEY = "op-key"


class Child:
    """A process of `turns.py` and what it says."""

    def __init__(self, stack: ExitStack, *words: object) -> None:
        pipe = subprocess.PIPE
        command = [sys.executable, "-m", "tests.concurrency.turns", *map(str, words)]
        path = os.pathsep.join([str(ROOT), *sys.path])
        self.process = stack.enter_context(
            subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env={**os.environ, "PYTHONPATH": path})
        )
        stack.callback(self.process.kill)

    def hears(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def go(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def lines(self) -> list[str]:
        assert self.process.stdout is not None
        said = self.process.stdout.read().splitlines()
        assert self.process.wait() == 0
        return said


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as made:
        yield made


def locks(root: Place) -> WriteQueueManager:
    return open_locks(open_objects(resolve_root(root)))


def tickets(root: Place) -> int:
    return len([path for path in (root / "_locks").rglob("*") if path.is_file() and "queues" in path.parts])


def waiter(stack: ExitStack, root: Place, name: str) -> Child:
    """A process that waits behind all that wait already."""
    before = tickets(root)
    child = Child(stack, "hold", root, KEY, name)
    assert child.hears() == "waits"
    deadline = time.monotonic() + 60
    while tickets(root) == before:
        assert time.monotonic() < deadline, "it never came to wait"
        time.sleep(0.02)
    return child


@pytest.fixture
def root(place: Place) -> Place:
    og.init(place / "g", SCHEMA)
    return place / "g"


def test_processes_come_in_the_order_in_which_they_asked(stack: ExitStack, root: Place) -> None:
    with locks(root).hold([KEY]):
        waiting = [waiter(stack, root, str(number)) for number in range(4)]
    for number, child in enumerate(waiting):
        assert child.hears() == f"has {number}"
        child.go()
        assert child.hears() == "left"


def test_whoever_has_just_had_the_lock_lines_up_again(stack: ExitStack, root: Place) -> None:
    ours = locks(root)
    with ours.hold([KEY]):
        other = waiter(stack, root, "other")
    other.go()
    with ours.hold([KEY]):
        assert other.hears() == "has other"
        assert other.hears() == "left"


def test_threads_come_in_the_order_in_which_they_asked(root: Place) -> None:
    ours, came = locks(root), []

    def enter(number: int) -> None:
        with ours.hold([KEY]):
            came.append(number)

    with ours.hold([KEY]):
        threads = [threading.Thread(target=enter, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
            time.sleep(0.1)
    for thread in threads:
        thread.join(30)
    assert came == list(range(6))


@pytest.mark.hangs_after(120)
@pytest.mark.parametrize("victims", [[0], [1], [0, 1, 2]], ids=["the first", "one between", "all before"])
def test_a_waiter_that_is_killed_holds_up_nobody(stack: ExitStack, root: Place, victims: list[int]) -> None:
    with locks(root).hold([KEY]):
        waiting = [waiter(stack, root, str(number)) for number in range(4)]
        for victim in victims:
            waiting[victim].kill()
    for number, child in enumerate(waiting):
        if number not in victims:
            assert child.hears() == f"has {number}"
            child.go()
            assert child.hears() == "left"
    with locks(root).hold([KEY]):
        pass


def test_a_holder_that_is_killed_leaves_the_lock_to_the_first(stack: ExitStack, root: Place) -> None:
    holder = Child(stack, "hold", root, KEY, "holder")
    assert holder.hears() == "waits"
    assert holder.hears() == "has holder"
    waiting = [waiter(stack, root, str(number)) for number in range(2)]
    holder.kill()
    for number, child in enumerate(waiting):
        assert child.hears() == f"has {number}"
        child.go()


@pytest.mark.hangs_after(120)
@pytest.mark.local
def test_a_waiter_that_was_stopped_is_passed_and_comes_later(stack: ExitStack, root: Place) -> None:
    with locks(root).hold([KEY]):
        stopped, other = waiter(stack, root, "stopped"), waiter(stack, root, "other")
        stopped.process.send_signal(signal.SIGSTOP)
    assert other.hears() == "has other"
    stopped.process.send_signal(signal.SIGCONT)
    other.go()
    assert stopped.hears() == "has stopped"
    stopped.go()


# Writers --------------------------------------------------------------------------------------------------------------


def written(stack: ExitStack, root: Place, tables: list[str], seconds: float) -> list[list[float]]:
    """How long each write of each process took; one process per entry of `tables`."""
    children = [Child(stack, "write", root, table, number, seconds) for number, table in enumerate(tables)]
    for child in children:
        assert child.hears() == "ready"
    for child in children:
        child.go()
    return [[float(line.split(" ")[2]) for line in child.lines()] for child in children]


def test_updates_of_different_rows_all_succeed_and_everybody_gets_its_share(stack: ExitStack, root: Place) -> None:
    graph = og.connect(root)
    graph.load([node("T", k=str(number)) for number in range(4)], mode="append")
    before = len(graph.commits())

    done = written(stack, root, ["T"] * 4, 6)

    counts = [len(each) for each in done]
    assert min(counts) > 0
    assert max(counts) <= 2 * min(counts) + 2, f"a writer was kept waiting: {counts}"
    assert {row["id"]: row["n"] for row in rows(graph)["T"]} == {str(at): count for at, count in enumerate(counts)}
    assert len(graph.commits()) == before + sum(counts)
    assert_settled(graph)


def test_writers_of_different_tables_never_lose_to_each_other(stack: ExitStack, root: Place) -> None:
    done = written(stack, root, ["T0", "T1", "T2", "T3"], 6)

    counts = [len(each) for each in done]
    graph = og.connect(root)
    found = rows(graph)
    assert [len(found[f"T{number}"]) for number in range(4)] == counts
    assert max(counts) <= 4 * min(counts) + 2, f"a writer was kept waiting: {counts}"
    assert_settled(graph)


def test_many_threads_of_one_process_update_their_rows(root: Place) -> None:
    graph = og.connect(root)
    graph.load([node("T", k=str(number)) for number in range(4)], mode="append")
    count, failures = repetitions(8), []

    def work(number: int) -> None:
        try:
            for turn in range(count):
                graph.mutate(
                    "query q($k: String, $n: I32) { update T set { n: $n } where k = $k }",
                    params={"k": str(number), "n": turn},
                )
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert failures == []
    assert {row["n"] for row in rows(graph)["T"]} == {count - 1}
    assert_settled(graph)


def test_a_write_does_not_lose_for_ever_to_writers_of_what_it_is_checked_against(root: Place) -> None:
    """Edges are checked against nodes whose table others write without a pause."""
    graph = seeded(root.parent / "social")
    busy, over, failures = og.connect(graph.uri), threading.Event(), []

    def update() -> None:
        try:
            while not over.is_set():
                busy.mutate('query q() { update Person set { age: 41 } where name = "bob" }')
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=update)
    thread.start()
    try:
        for number in range(repetitions(15)):
            graph.load([edge("Knows", "ann", "bob", id=f"e{number}")], mode="append")
    finally:
        over.set()
        thread.join(60)
    assert failures == []
    assert len(rows(graph)["Knows"]) == repetitions(15) + 1
    assert_settled(graph)


@pytest.mark.local
def test_a_publish_passes_a_stuck_holder_of_the_queue(root: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = og.connect(root)
    monkeypatch.setattr(locks_module, "_TURN_SECONDS", 0.3)
    with locks(root).hold([publish_lock("main")]), armed("publish.force_contention=times(1)"):
        graph.mutate(INSERT.replace("TABLE", "T"), params={"k": "a", "n": 1})

    assert [row["id"] for row in rows(graph)["T"]] == ["a"]
    assert_settled(graph)
