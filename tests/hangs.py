"""The marker `hangs_after(seconds)`: a test that is still running by then fails.

It stands on tests of what must stop, must not wait or must not start. If that is broken, such a test runs for minutes or
for ever. The seconds are many times what the test takes on a busy machine, because speed is never asserted.

An alarm raises in the main thread, so that this test fails and the next one runs. Native code that never returns does not
see the alarm: after twice the time, the stacks of all threads go to standard error and the process ends. pytest-xdist then
reports the test as failed and starts another worker.
"""

from __future__ import annotations

import faulthandler
import os
import signal
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import NoReturn

import pytest

_STDERR = pytest.StashKey[int]()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "hangs_after(seconds): fails if it is still running by then; no statement on speed")
    config.stash[_STDERR] = os.dup(2)  # before pytest captures what is written to it


def pytest_unconfigure(config: pytest.Config) -> None:
    os.close(config.stash[_STDERR])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    marker = item.get_closest_marker("hangs_after")
    if marker is None:
        return (yield)
    (seconds,) = marker.args
    with _alarm(seconds), _watchdog(2 * seconds, item.config.stash[_STDERR]):
        return (yield)


@contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    is_late = False

    def fail(*_: object) -> NoReturn:
        nonlocal is_late
        is_late = True
        pytest.fail(f"still running after {seconds} seconds")

    before = signal.signal(signal.SIGALRM, fail)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert not is_late, "the alarm was swallowed"


@contextmanager
def _watchdog(seconds: float, stderr: int) -> Iterator[None]:
    faulthandler.dump_traceback_later(seconds, exit=True, file=stderr)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
