"""Processes that work on a graph and can be killed: forks of one that has loaded everything.

Starting an interpreter takes longer than most of what the workers do. The template runs nothing of Lance itself, which is
what makes forking it safe; `python workers.py` is that template.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
TIMEOUT = 300.0


@dataclass
class Worker:
    """One process. What it says is in a file, so that nothing it said before its death is lost."""

    team: Team
    pid: int
    path: Path

    def said(self) -> list[str]:
        """Whole lines only: a process may die while it writes one."""
        text = self.path.read_text("utf-8") if self.path.exists() else ""
        return text.split("\n")[:-1]

    def await_line(self, line: str, times: int = 1) -> None:
        deadline = time.monotonic() + TIMEOUT
        while self.said().count(line) < times:
            assert time.monotonic() < deadline, f"a worker never said {line!r} {times} times, only {self.said()}"
            time.sleep(0.002)

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        self.team.wait(self.pid)

    def join(self) -> None:
        """Wait for the end of a worker that must succeed."""
        status = self.team.wait(self.pid)
        complaint = self.path.with_suffix(".errors").read_text("utf-8")
        assert status == 0, f"a worker ended with {status}: {complaint}"


class Team:
    """The template, and the workers that were forked from it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self._count = 0
        self._template = subprocess.Popen(
            [sys.executable, __file__],
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def start(self, job: str, **arguments: Any) -> Worker:
        """Begin a job of `tests/concurrency/jobs.py`."""
        self._count += 1
        path = self.directory / f"worker-{self._count}.txt"
        pid = int(self._ask({"job": job, "path": str(path), "arguments": arguments}))
        return Worker(self, pid, path)

    def wait(self, pid: int) -> int:
        return int(self._ask({"wait": pid}))

    def close(self) -> None:
        self._template.communicate()

    def _ask(self, question: dict[str, Any]) -> str:
        assert self._template.stdin is not None
        assert self._template.stdout is not None
        self._template.stdin.write(json.dumps(question) + "\n")
        self._template.stdin.flush()
        return self._template.stdout.readline()


@contextmanager
def team(directory: Path) -> Iterator[Team]:
    made = Team(directory)
    try:
        yield made
    finally:
        made.close()


# In the template and its forks -----------------------------------------------------------------------------------


def _work(job: str, path: Path, arguments: dict[str, Any]) -> None:
    """Never returns."""
    from tests.concurrency.jobs import JOBS

    os.dup2(os.open(path.with_suffix(".errors"), os.O_WRONLY | os.O_CREAT, 0o644), 2)
    output = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        JOBS[job](lambda line: os.write(output, f"{line}\n".encode()), **arguments)
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def main() -> None:
    from tests.concurrency import jobs

    assert jobs.JOBS
    warnings.simplefilter("ignore")  # Lance warns of every fork
    running: set[int] = set()
    for line in sys.stdin:
        question = json.loads(line)
        if "wait" in question:
            running.discard(question["wait"])
            _, status = os.waitpid(question["wait"], 0)
            print(os.waitstatus_to_exitcode(status), flush=True)
            continue
        pid = os.fork()
        if pid == 0:
            _work(question["job"], Path(question["path"]), question["arguments"])
        running.add(pid)
        print(pid, flush=True)
    for pid in running:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


if __name__ == "__main__":
    main()
