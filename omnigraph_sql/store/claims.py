"""The claim of an initialisation: who is creating a graph, and what to remove should they die over it.

A claim is an object that only one process can create. The claim of a dead process is not replaced, which two could do at
once: the process that takes it over creates the object that continues it, named after the dead attempt. The last of such a
chain counts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from omnigraph_sql import ulid
from omnigraph_sql.errors import InitializationClaimed, OmnigraphError
from omnigraph_sql.storage.objects import ObjectStore
from omnigraph_sql.storage.roots import Root
from omnigraph_sql.store.json_fields import Fields, listed, parse, ulid_text
from omnigraph_sql.store.owners import Owner, this_process

CLAIM: Final = "__init_claim.json"
_WRITTEN: Final = re.compile(r"_schema\.pg|_schema\.ir\.json|__schema_state\.json|__manifest|(?:nodes|edges)/[0-9a-f]{16}")
_running: set[str] = set()
"""Attempts of this process that are under way."""


@dataclass(frozen=True)
class Claim:
    """One attempt: the process that makes it, and what it may leave behind."""

    attempt: str
    owner: Owner
    writes: tuple[str, ...] = ()

    def is_alive(self, root: Root) -> bool:
        """True if the attempt may still be under way. A process that cannot be seen from here counts as alive."""
        if self.owner == this_process():
            return self.attempt in _running
        if not root.is_shared and self.owner.is_of_earlier_boot:
            return False
        return not self.owner.is_gone


@dataclass(frozen=True)
class ClaimHeld:
    """A claim that this process holds, and those of dead processes that it continues, oldest first."""

    objects: ObjectStore
    name: str
    claim: Claim
    inherited: tuple[Claim, ...]

    @property
    def left_behind(self) -> tuple[str, ...]:
        """The objects that earlier attempts may have written."""
        return tuple(dict.fromkeys(name for claim in self.inherited for name in claim.writes))

    def announce(self, writes: Sequence[str]) -> None:
        """Say what is about to be written, before the first of it is."""
        claim = replace(self.claim, writes=(*self.left_behind, *writes))
        self.objects.write_text(self.name, json.dumps(asdict(claim)))

    def release(self) -> None:
        """Give the claim up. The first link is removed first: the others are found through it."""
        for name in [CLAIM, *(_next(claim) for claim in self.inherited)]:
            self.objects.delete(name)


@contextmanager
def claimed(objects: ObjectStore) -> Iterator[ClaimHeld]:
    """Hold the claim on a root; `InitializationClaimed` when a process that may be alive has it. The caller releases it."""
    own = Claim(ulid.new(), this_process())
    _running.add(own.attempt)
    try:
        yield _take(objects, own)
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
        with suppress(OmnigraphError):  # an object of another content in the place of a claim blocks no one
            objects.delete(name)


def _take(objects: ObjectStore, own: Claim) -> ClaimHeld:
    text = json.dumps(asdict(own))
    if objects.write_text_if_absent(CLAIM, text):
        return ClaimHeld(objects, CLAIM, own, ())
    try:
        inherited = _chain(objects)
    except (OmnigraphError, ValueError):
        raise _refusal(objects, "somebody whose entry cannot be read") from None
    last = inherited[-1]
    if last.is_alive(objects.root):
        raise _refusal(objects, f"process {last.owner.pid} on {last.owner.host}")
    if not objects.write_text_if_absent(_next(last), text):
        raise _refusal(objects, "another process that took it over")
    return ClaimHeld(objects, _next(last), own, tuple(inherited))


def _refusal(objects: ObjectStore, by: str) -> InitializationClaimed:
    text = f"the initialisation of {objects.root} is claimed by {by}"
    hint = f"wait for it; if none is running, delete {objects.uri(CLAIM)}"
    return InitializationClaimed(text, uri=str(objects.root), hint=hint)


def _chain(objects: ObjectStore) -> list[Claim]:
    """The claim and its continuations; ValueError when one cannot be read."""
    chain = [_read(objects.read_text(CLAIM))]
    while objects.exists(_next(chain[-1])):
        claim = _read(objects.read_text(_next(chain[-1])))
        if any(claim.attempt == earlier.attempt for earlier in chain):
            raise ValueError("not a claim: it continues itself")
        chain.append(claim)
    return chain


def _read(text: str) -> Claim:
    entry = Fields(parse(text), "the claim")
    owner = entry.read("owner", Owner.read)
    if owner is None:
        raise ValueError("not a claim: its owner is not complete")
    return Claim(entry.read("attempt", ulid_text), owner, entry.read("writes", listed(_written)))


def _written(value: Any) -> str:
    """An object that an initialisation writes and that a takeover of its claim removes."""
    if not isinstance(value, str) or not _WRITTEN.fullmatch(value):
        raise ValueError("is nothing that an initialisation writes")
    return value


def _next(claim: Claim) -> str:
    return f"__init_claim.{claim.attempt}.json"
