"""Interleavings that the test decides, not the clock: threads held at failpoints, and real processes stopped there."""

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from omnigraph_sql import failpoints
from tests.crash.world import spawn

LEASES = "OMNIGRAPH_LEASES"
_PATIENCE = 120.0


class Writer:
    """An operation in a thread of its own."""

    def __init__(self, operation: Callable[[], Any]) -> None:
        self._operation = operation
        self._result: Any = None
        self.failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._result = self._operation()
        except BaseException as error:
            self.failure = error

    def join(self) -> Any:
        """What the operation returned; raises what it raised."""
        self._thread.join(_PATIENCE)
        assert not self._thread.is_alive(), "the writer is stuck"
        if self.failure is not None:
            raise self.failure
        return self._result

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()


@contextmanager
def paused(point: str, operation: Callable[[], Any]) -> Iterator[tuple[Writer, failpoints.Pause]]:
    """A writer that is held at a failpoint (`name` or `name@n`) from the start of the block on."""
    name, _, nth = point.partition("@")
    with failpoints.pause(name, int(nth or 1)) as pause:
        writer = Writer(operation)
        while not pause.reached.wait(0.05):
            if not writer.is_running:
                writer.join()
                raise AssertionError(f"the writer never came to {point}")
        yield writer, pause
    # The block has let it go; nobody may outlive its test.
    writer._thread.join(_PATIENCE)


def resumed(writer: Writer, pause: failpoints.Pause) -> Any:
    """Let a held writer go and wait for what becomes of it."""
    pause.resume.set()
    return writer.join()


@contextmanager
def stopped(root: Path, operation: str, *points: str, opening: bool = False) -> Iterator[subprocess.Popen[str]]:
    """A process without leases, stopped (SIGSTOP) at the first of some failpoints; while opening the graph if so said."""
    rule = ",".join(f"{name}=stop@{nth or 1}" for name, _, nth in (point.partition("@") for point in points))
    settings = {LEASES: "off"} | ({failpoints.VARIABLE: rule} if opening else {})
    process = spawn(root, operation, "" if opening else rule, **settings)
    try:
        wait_stopped(process)
        yield process
    finally:
        process.kill()
        process.communicate()


def wait_stopped(process: subprocess.Popen[str]) -> None:
    """Wait until a process has stopped; it is an error if it ends instead."""
    found = os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
    assert found is not None
    assert found.si_code == os.CLD_STOPPED, process.communicate()[1]


def continued_to_the_next(process: subprocess.Popen[str]) -> None:
    """Let a stopped process go on to the next point where it stops."""
    os.waitid(os.P_PID, process.pid, os.WSTOPPED)  # takes note of the stop that was waited for
    process.send_signal(signal.SIGCONT)
    wait_stopped(process)


def continued(process: subprocess.Popen[str]) -> str:
    """Let a stopped process go on to its end; what it printed."""
    process.send_signal(signal.SIGCONT)
    printed, complaints = process.communicate(timeout=_PATIENCE)
    assert process.returncode == 0, complaints
    return printed


def killed(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()
