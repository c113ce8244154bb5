"""A system in a process of its own: its memory is its own, and it can be ended when it takes too much."""

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
"""Bytes that a system may hold; all of them are open at once."""
_GLANCE = 0.1
_START = 600.0
_COLD = 3
"""The first answer after opening may take so many times the limit: data is read and code compiled."""
_SPAWN = multiprocessing.get_context("spawn")


class GaveUp(Exception):
    """A system did not answer; the text says why, for the report."""


@dataclass(frozen=True)
class Place:
    """Which data, where it is, and how many seconds an answer may take."""

    size: Size
    directory: Path
    seconds: float


@dataclass(frozen=True)
class Reply:
    milliseconds: float
    answer: Answer


class Worker:
    """Starts when first asked. After it gave up it is ended, and starts anew when asked again."""

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
        """Start the process; the milliseconds that opening the database took, without imports."""
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
        """The most memory it has held, in bytes."""
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
            found = self._pipe.recv()
        except EOFError:
            self._give_up("ended itself")
        if isinstance(found, Exception):
            raise GaveUp(str(found).splitlines()[0])
        return found

    def _give_up(self, reason: str) -> NoReturn:
        self.end()
        raise GaveUp(reason)


def _resident(pid: int) -> int:
    """What a process holds now; nothing where the system does not tell."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text("ascii").splitlines()
    except FileNotFoundError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS:")), 0)


def _leave_with_parent() -> None:
    """A process in the middle of a long query would outlive a run that was ended."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _serve(pipe: Connection, system: str, size: Size, directory: Path) -> None:
    """In the process of the system: open the database, then answer until the other side is gone."""
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    importlib.import_module(SYSTEMS[system].module)
    start = time.perf_counter()
    peer = SYSTEMS[system].open(size, directory)
    pipe.send((time.perf_counter() - start) * 1000)
    while True:
        asked = pipe.recv()
        if asked is None:
            pipe.send(peak_bytes())
            continue
        try:
            start = time.perf_counter()
            answer = peer.run(*asked)
            pipe.send(Reply((time.perf_counter() - start) * 1000, normalised(answer)))
        except Exception as error:  # what a system cannot do is part of the report
            pipe.send(GaveUp(f"{type(error).__name__}: {error}"))
