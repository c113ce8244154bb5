"""A system in its own process, which isolates its memory and can be killed beyond a limit."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NoReturn, Self

from bench.load_child import peak_bytes
from bench.peers import SYSTEMS, Answer, normalised
from bench.social import Size
from bench.workloads import Workload

MEMORY = 4_000_000_000
"""The memory limit of a system in bytes; all systems are open at once."""
_GLANCE = 0.1
_START = 600.0
_COLD = 3
"""The factor on the time limit for the first answer after opening, which reads data and compiles code."""
_SPAWN = multiprocessing.get_context("spawn")


class GaveUp(Exception):
    """A system did not answer; the text is the reason for the report."""


@dataclass(frozen=True)
class Place:
    """The data, its directory, and the time limit of an answer in seconds."""

    size: Size
    directory: Path
    seconds: float


@dataclass(frozen=True)
class Reply:
    milliseconds: float
    answer: Answer


class Worker:
    """A process that starts with the first request. After it gave up it is killed, and restarts with the next request."""

    def __init__(self, system: str, place: Place) -> None:
        self.system = system
        self._seconds = self._patience = place.seconds
        self._arguments = (system, place.size, place.directory)
        self._process: Any = None
        self._pipe: Connection | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def open(self) -> float:
        """Start the process, and return the milliseconds for opening the database, without imports."""
        self.end()
        self._pipe, other = _SPAWN.Pipe()
        self._process = _SPAWN.Process(target=_serve, args=(other, *self._arguments), daemon=True)
        self._process.start()
        other.close()
        try:
            opened: float = self._wait(_START)
        except GaveUp as why:
            raise RuntimeError(f"{self.system} did not open its data: {why}") from why
        self._patience = self._seconds * _COLD
        return opened

    def run(self, workload: Workload, parameters: Mapping[str, Any]) -> Reply:
        if self._pipe is None:
            self.open()
        assert self._pipe is not None
        self._pipe.send((workload, dict(parameters)))
        reply: Reply = self._wait(self._patience)
        self._patience = self._seconds
        return reply

    def peak(self) -> int:
        """Return its peak memory in bytes."""
        assert self._pipe is not None
        self._pipe.send(None)
        peak: int = self._wait(self._seconds)
        return peak

    def end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._process = self._pipe = None

    def _wait(self, seconds: float) -> Any:
        assert self._pipe is not None
        until = time.monotonic() + seconds
        while not self._pipe.poll(_GLANCE):
            if time.monotonic() > until:
                self._give_up(f"> {seconds:.0f} s")
            if _resident(self._process.pid) > MEMORY:
                self._give_up(f"> {MEMORY / 1e9:.0f} GB")
        try:
            reply = self._pipe.recv()
        except EOFError:
            self._give_up("ended itself")
        if isinstance(reply, Exception):
            raise GaveUp(str(reply).splitlines()[0])
        return reply

    def _give_up(self, reason: str) -> NoReturn:
        self.end()
        raise GaveUp(reason)


def _resident(pid: int) -> int:
    """Return the resident memory of a process; 0 if the system does not report it."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text("ascii").splitlines()
    except FileNotFoundError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS:")), 0)


def _leave_with_parent() -> None:
    """End this process with its parent, also in the middle of a long query."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _serve(pipe: Connection, system: str, size: Size, directory: Path) -> None:
    """In the process of the system: open the database, then answer requests until the parent is gone."""
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    importlib.import_module(SYSTEMS[system].module)
    start = time.perf_counter()
    peer = SYSTEMS[system].open(size, directory)
    pipe.send((time.perf_counter() - start) * 1000)
    while True:
        request = pipe.recv()
        if request is None:
            pipe.send(peak_bytes())
            continue
        try:
            start = time.perf_counter()
            answer = peer.run(*request)
            pipe.send(Reply((time.perf_counter() - start) * 1000, normalised(answer)))
        except Exception as error:  # what a system cannot do is part of the report
            pipe.send(GaveUp(f"{type(error).__name__}: {error}"))
