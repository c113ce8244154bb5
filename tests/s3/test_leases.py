"""Leases on an object store: one holder, kept while it lives, taken over when it is dead or has expired."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import pytest

from omnigraph_sql.errors import Conflict
from omnigraph_sql.storage.object_stores import open_objects
from omnigraph_sql.storage.roots import resolve_root
from omnigraph_sql.store.locks import leases
from omnigraph_sql.store.locks.manager import LEASES_OFF, WriteQueueManager, open_locks
from omnigraph_sql.store.owners import LEASE_VARIABLE, lease_seconds
from tests.stores import S3Place

HOLDER = """
import os, sys
from omnigraph_sql.storage.object_stores import open_objects
from omnigraph_sql.storage.roots import resolve_root
from omnigraph_sql.store.locks.manager import open_locks
with open_locks(open_objects(resolve_root(sys.argv[1]))).own("1"):
    print("held", flush=True)
    if sys.argv[2] == "die":
        os._exit(1)
    sys.stdin.readline()
print("released", flush=True)
"""


def manager(root: S3Place) -> WriteQueueManager:
    return open_locks(open_objects(resolve_root(root)))


def lease(root: S3Place, name: str = "op-1") -> S3Place:
    return root / "_locks" / name


def foreign(root: S3Place, period: float) -> None:
    """The lease of a process on another machine, as if just renewed."""
    owner = {"host": "elsewhere", "machine": "m", "pid": 1, "process_start": "1"}
    lease(root).write_text(json.dumps({"token": "t", "turn": 1, "period_s": period, "expires_at": 0.0, "owner": owner}))


def taken(locks: WriteQueueManager) -> bool:
    with locks.take_over("1") as ours:
        return ours


def until(condition: Callable[[], bool], seconds: float = 15) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


def held_by_a_process(root: S3Place, then: str) -> "subprocess.Popen[str]":
    pipe = subprocess.PIPE
    process = subprocess.Popen([sys.executable, "-c", HOLDER, str(root), then], stdin=pipe, stdout=pipe, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_one_holder_at_a_time_and_nothing_left(root: S3Place) -> None:
    first, second = manager(root), manager(root)
    inside: list[int] = []

    def enter() -> None:
        with second.hold(["a", "b"]):
            inside.append(len(list((root / "_locks").iterdir())))

    with first.hold(["b", "c"]):
        waiting = threading.Thread(target=enter)
        waiting.start()
        time.sleep(0.3)
        assert inside == []
    waiting.join(30)

    assert inside == [2]
    assert not (root / "_locks").exists()


def test_a_lease_names_its_owner(root: S3Place) -> None:
    with manager(root).own("1"):
        entry = json.loads(lease(root).read_text())

    assert entry["owner"]["pid"] == os.getpid()
    assert entry["expires_at"] > time.time()


def test_a_held_lease_is_renewed_and_not_taken(root: S3Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LEASE_VARIABLE, "1500")
    holder, other = manager(root), manager(root)
    with holder.own("1"):
        first = lease(root).read_bytes()
        end = time.monotonic() + 3.6
        while time.monotonic() < end:
            assert not taken(other)
            time.sleep(0.1)
        assert lease(root).read_bytes() != first
    assert taken(other)


def test_an_expired_lease_of_another_machine_is_taken_once(root: S3Place) -> None:
    foreign(root, 0.5)
    locks = [manager(root) for _ in range(4)]
    assert not any(map(taken, locks))
    winners: list[bool] = []
    everybody = threading.Barrier(4)

    def compete(one: WriteQueueManager) -> None:
        deadline = time.monotonic() + 15
        while time.monotonic() < deadline and not winners:
            with one.take_over("1") as ours:
                if ours:
                    winners.append(ours)
                    time.sleep(0.5)
                    break
        everybody.wait(30)

    threads = [threading.Thread(target=compete, args=[one]) for one in locks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert winners == [True]
    assert not lease(root).exists()


def test_the_clock_of_this_machine_does_not_matter(root: S3Place, monkeypatch: pytest.MonkeyPatch) -> None:
    foreign(root, 30)
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 86_400)

    assert not taken(manager(root))


def test_the_lease_of_a_process_that_died_here_is_free_at_once(root: S3Place) -> None:
    held_by_a_process(root, "die").communicate()
    assert lease(root).exists()

    assert taken(manager(root))


def test_a_holder_that_slept_too_long_loses_its_lease_and_leaves_the_new_one_alone(
    root: S3Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(LEASE_VARIABLE, "500")
    sleeper = held_by_a_process(root, "wait")
    sleeper.send_signal(signal.SIGSTOP)
    locks = manager(root)
    with_us = threading.Event()
    done = threading.Event()

    def take() -> None:
        with locks.own("1"):
            with_us.set()
            done.wait(30)

    thread = threading.Thread(target=take)
    thread.start()
    assert with_us.wait(30)
    sleeper.send_signal(signal.SIGCONT)
    assert sleeper.communicate("\n", timeout=60)[0] == "released\n"

    assert json.loads(lease(root).read_text())["owner"]["pid"] == os.getpid()
    done.set()
    thread.join()


def test_shared_holders_keep_an_exclusive_one_out(root: S3Place) -> None:
    first, second, third = manager(root), manager(root), manager(root)
    order: list[str] = []

    def apply() -> None:
        with third.hold(["__schema__"]):
            order.append("exclusive")

    def write() -> None:
        with second.hold([], shared=["__schema__"]):
            order.append("shared")

    with first.hold([], shared=["__schema__"]), second.hold([], shared=["__schema__"]):
        applying = threading.Thread(target=apply)
        applying.start()
        until(lambda: lease(root, "__schema__").is_file())
        writing = threading.Thread(target=write)
        writing.start()
        time.sleep(0.3)
        assert order == []
    applying.join(30)
    writing.join(30)

    assert order == ["exclusive", "shared"]
    assert [each.name for each in (root / "_locks").iterdir()] == ["__clock__"]


def test_waiting_ends(root: S3Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "TIMEOUT_SECONDS", 0.2)
    monkeypatch.setenv(LEASE_VARIABLE, "100")
    waiter = manager(root)
    monkeypatch.delenv(LEASE_VARIABLE)
    with manager(root).hold(["t"]), pytest.raises(Conflict, match="another writer has held `t`"), waiter.hold(["t"]):
        pass


def test_leases_can_be_switched_off(root: S3Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LEASES_OFF, "off")
    with manager(root).hold(["t"]), manager(root).hold(["t"]):
        assert not (root / "_locks").exists()


@pytest.mark.parametrize("given", ["0", "-5", "soon", ""])
def test_a_period_that_is_none_is_the_default_with_a_warning(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LEASE_VARIABLE, given)
    with pytest.warns(RuntimeWarning, match=LEASE_VARIABLE):
        assert lease_seconds() == 30
