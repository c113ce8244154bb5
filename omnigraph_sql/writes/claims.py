"""The claim of an initialisation: who is creating a graph, and what to remove should they die over it.

A claim is an object that only one process can create. The claim of a dead process is not replaced, which two could do at
once: whoever takes it over creates the one object that continues it, named after the attempt that died. The last of such a
chain counts.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

from omnigraph_sql import ulid
from omnigraph_sql.errors import InitializationClaimed, OmnigraphError
from omnigraph_sql.storage.objects import ObjectStore

CLAIM: Final = "__init_claim.json"
_running: set[str] = set()
"""Attempts of this process that are under way."""


@dataclass(frozen=True)
class Claim:
    """One attempt: the process that makes it, and what it may leave behind."""

    attempt: str
    host: str
    namespace: str
    pid: int
    process_start: str
    writes: tuple[str, ...] = ()

    @property
    def is_alive(self) -> bool:
        """Whether the attempt may still be under way. A process that cannot be seen from here counts as alive."""
        if (self.host, self.namespace) != _here():
            return True
        if self.pid == os.getpid() and self.process_start == _started(self.pid):
            return self.attempt in _running
        return self.process_start == _started(self.pid)


@dataclass(frozen=True)
class Held:
    """A claim that this process holds, and those of dead processes that it continues, oldest first."""

    objects: ObjectStore
    name: str
    claim: Claim
    inherited: tuple[Claim, ...]

    @property
    def left_behind(self) -> tuple[str, ...]:
        """What earlier attempts may have written."""
        return tuple(dict.fromkeys(name for claim in self.inherited for name in claim.writes))

    def announce(self, writes: Sequence[str]) -> None:
        """Say what is about to be written, before the first of it is."""
        claim = replace(self.claim, writes=(*self.left_behind, *writes))
        self.objects.write_text(self.name, json.dumps(asdict(claim)))

    def release(self) -> None:
        """Give the claim up. The first link goes first: without it nobody follows the others."""
        for name in [CLAIM, *(_next(claim) for claim in self.inherited)]:
            self.objects.delete(name)


@contextmanager
def claimed(objects: ObjectStore, root: Path) -> Iterator[Held]:
    """Hold the claim on a root; `InitializationClaimed` when a process that may be alive has it. The caller releases it."""
    own = Claim(ulid.new(), *_here(), os.getpid(), _started(os.getpid()))
    _running.add(own.attempt)
    try:
        yield _take(objects, root, own)
    finally:
        _running.discard(own.attempt)


def forget(objects: ObjectStore) -> None:
    """Remove what an interrupted initialisation left of its claims, once the graph is there."""
    if not objects.exists(CLAIM):
        return
    try:
        inherited = _chain(objects)
    except (OmnigraphError, ValueError):
        inherited = []
    for name in [CLAIM, *(_next(claim) for claim in inherited)]:
        objects.delete(name)


def _take(objects: ObjectStore, root: Path, own: Claim) -> Held:
    text = json.dumps(asdict(own))
    if objects.write_text_if_absent(CLAIM, text):
        return Held(objects, CLAIM, own, ())
    try:
        inherited = _chain(objects)
    except (OmnigraphError, ValueError):
        raise _refusal(objects, root, "somebody whose entry cannot be read") from None
    last = inherited[-1]
    if last.is_alive:
        raise _refusal(objects, root, f"process {last.pid} on {last.host}")
    if not objects.write_text_if_absent(_next(last), text):
        raise _refusal(objects, root, "another process that took it over")
    return Held(objects, _next(last), own, tuple(inherited))


def _refusal(objects: ObjectStore, root: Path, by: str) -> InitializationClaimed:
    text = f"the initialisation of {root} is claimed by {by}"
    return InitializationClaimed(text, uri=str(root), hint=f"wait for it; if none is running, delete {objects.path(CLAIM)}")


def _chain(objects: ObjectStore) -> list[Claim]:
    """The claim and its continuations; ValueError when one cannot be read."""
    found = [_read(objects.read_text(CLAIM))]
    while objects.exists(_next(found[-1])):
        found.append(_read(objects.read_text(_next(found[-1]))))
    return found


def _read(text: str) -> Claim:
    entry = json.loads(text)
    try:
        return Claim(**{**entry, "writes": tuple(entry["writes"])})
    except (TypeError, KeyError) as error:
        raise ValueError(f"not a claim: {error}") from error


def _next(claim: Claim) -> str:
    return f"__init_claim.{claim.attempt}.json"


def _here() -> tuple[str, str]:
    """The machine and, where process ids are counted per container, the container."""
    try:
        namespace = os.readlink("/proc/self/ns/pid")
    except OSError:
        namespace = ""
    return socket.gethostname(), namespace


def _started(pid: int) -> str:
    """When a process began, so that one which got the id of another is told apart; empty when there is none."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
        state, ticks = fields[0], fields[19]
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("utf-8").strip()
    except (OSError, IndexError):
        return _started_by_ps(pid)
    return "" if state in "ZX" else f"{boot}:{ticks}"


def _started_by_ps(pid: int) -> str:
    """Where there is no `/proc`."""
    if Path("/proc/self/stat").exists():
        return ""
    found = subprocess.run(["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return found.stdout.strip()
