"""Locks of a root on an object store: lease objects under `_locks/`.

A lease is created if absent, renewed in the background while it is held, and deleted when it is released. Whoever finds a
lease that was not renewed for its period takes it over, by replacing exactly the object it has seen: of two takers one wins.

Whether a lease has expired is never judged by comparing the clocks of two machines. Its age is the time since its last write
by the clock of the store, carried on by the finder's own steady clock. A holder that is certainly gone, because its process
was on this machine and has ended, need not expire.

A shared lock is a marker object of its own beside the exclusive lease. Its holder writes the marker and then looks for the
exclusive lease; the holder of the exclusive lease writes that and then looks for markers. Reads of the store see every
finished write, so at least one of the two sees the other, and steps back or waits.

A lease can be lost: a process that was stopped for longer than the period, or cut off from the store, finds that another one
has taken over. That costs it a conflict and nothing else; exact commits and the publish keep the graph correct.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from typing import Any, Final
from weakref import WeakValueDictionary

from omnigraph_sql import ulid
from omnigraph_sql.errors import OmnigraphError
from omnigraph_sql.storage.s3 import S3Objects, Tagged
from omnigraph_sql.writes.held import DIRECTORY, TIMEOUT_SECONDS, Held, file_name
from omnigraph_sql.writes.owners import Owner, lease_seconds, this_process

SHARED_KEYS: Final = ("__schema__",)
"""Keys that are ever held by several at once; for the others nobody looks for markers."""
_CLOCK: Final = f"{DIRECTORY}/__clock__"
_CLOCK_SECONDS: Final = 600.0
_FIRST_PAUSE: Final = 0.02
_LONGEST_PAUSE: Final = 0.5
_GRAIN: Final = 1.0
"""Stores tell times in whole seconds."""


@dataclass
class Lease:
    """A lease that this process holds."""

    name: str
    token: str
    period: float
    tag: str = ""
    turn: int = 0
    renewed: float = 0.0
    """By the steady clock, when the last successful write of it began."""
    due: float = 0.0
    """By the same clock, when it is to be written again."""
    is_over: bool = False
    """Whether it was released or lost."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def wrote(self, tag: str, began: float) -> None:
        self.tag, self.renewed, self.due = tag, began, began + self.period / 3

    def text(self) -> str:
        """What is stored. Every turn has another text, so that no two states have one tag."""
        expires = time.time() + self.period
        entry = {"token": self.token, "turn": self.turn, "period_s": self.period, "expires_at": expires}
        return json.dumps({**entry, "owner": asdict(this_process())})


_FREE: Final = json.dumps({"token": ""})
_live: set[str] = set()
"""Tokens of the leases that this process holds."""


class _Gate:
    """Threads of one process queue here, instead of asking the store about each other."""

    def __init__(self) -> None:
        self.lock = threading.Lock()


_gates: WeakValueDictionary[str, _Gate] = WeakValueDictionary()
_gates_lock = threading.Lock()


def _gate(name: str) -> _Gate:
    with _gates_lock:
        return _gates.setdefault(name, _Gate())


class Leases:
    """Leases of one graph root."""

    def __init__(self, objects: S3Objects) -> None:
        self._objects = objects
        self._period = lease_seconds()
        self._timeout = max(TIMEOUT_SECONDS, 2 * self._period)
        self._clock = StoreClock(objects)
        self._renewals = Renewals(objects)

    @contextmanager
    def lock(self, key: str, *, shared: bool, wait: bool) -> Iterator[None]:
        name = f"{DIRECTORY}/{file_name(key)}"
        deadline = time.monotonic() + (self._timeout if wait else 0.0)
        with ExitStack() as stack:
            if shared:
                lease = self._take_shared(name, deadline)
            else:
                if wait:
                    stack.enter_context(self._queued(name, deadline))
                lease = self._take(name, deadline)
            stack.callback(self._release, lease)
            self._renewals.add(lease)
            if key in SHARED_KEYS and not shared:
                self._await_markers(name, deadline)
            yield

    def forget(self, key: str) -> None:
        """Nothing is left of a released lease."""

    @contextmanager
    def _queued(self, name: str, deadline: float) -> Iterator[None]:
        gate = _gate(self._objects.uri(name))
        if not gate.lock.acquire(timeout=max(deadline - time.monotonic(), 0)):
            raise Held(self._timeout)
        try:
            yield
        finally:
            gate.lock.release()

    def _take(self, name: str, deadline: float) -> Lease:
        lease = self._new(name)
        try:
            for _ in self._pauses(deadline):
                if self._try(lease):
                    return lease
        except BaseException:
            _live.discard(lease.token)
            raise
        raise AssertionError("unreachable")

    def _try(self, lease: Lease) -> bool:
        """Take a lease that is free, released or expired."""
        began, text = time.monotonic(), lease.text()
        tag = self._objects.create_tagged(lease.name, text)
        if tag is None:
            found = self._objects.read_tagged(lease.name)
            if found is None:
                return False
            if found.text == text:
                tag = found.tag  # created, but the answer was lost and the request repeated
            elif self._is_dead(found):
                tag = self._objects.replace_tagged(lease.name, text, found.tag)
        if tag is None:
            return False
        lease.wrote(tag, began)
        return True

    def _take_shared(self, name: str, deadline: float) -> Lease:
        for _ in self._pauses(deadline):
            lease = self._new(f"{name}.shared/{ulid.new()}")
            try:
                self._try(lease)
                exclusive = self._objects.read_tagged(name)
                if exclusive is None or self._is_dead(exclusive):
                    return lease
            except BaseException:
                self._release(lease)
                raise
            self._release(lease)
        raise AssertionError("unreachable")

    def _await_markers(self, name: str, deadline: float) -> None:
        for marker in self._objects.names_below(f"{name}.shared"):
            for _ in self._pauses(deadline):
                found = self._objects.read_tagged(marker)
                if found is None:
                    break
                if self._is_dead(found):
                    self._objects.discard(marker)
                    break

    def _pauses(self, deadline: float) -> Iterator[None]:
        """Turns of waiting, ever longer; `Held` after the deadline."""
        pause = _FIRST_PAUSE
        while True:
            yield
            if time.monotonic() >= deadline:
                raise Held(self._timeout)
            time.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(pause * 1.5, _LONGEST_PAUSE)

    def _new(self, name: str) -> Lease:
        lease = Lease(name, ulid.new(), self._period)
        _live.add(lease.token)
        return lease

    def _is_dead(self, found: Tagged) -> bool:
        token, owner, period = _read(found.text)
        if token == "" or (owner is not None and owner.is_gone):
            return True
        if owner == this_process() and token not in _live:
            return True
        return self._clock.age(found) > (self._period if period is None else period)

    def _release(self, lease: Lease) -> None:
        """Let go. A failure is no matter: the lease expires."""
        self._renewals.remove(lease)
        _live.discard(lease.token)
        with lease.lock, suppress(OmnigraphError):
            if lease.is_over:
                return
            lease.is_over = True
            if time.monotonic() - lease.renewed < lease.period / 2:
                self._objects.discard(lease.name)
            else:
                # Somebody may be about to take it over; a plain deletion could hit their lease.
                self._objects.replace_tagged(lease.name, _FREE, lease.tag)


def _read(text: str) -> tuple[str | None, Owner | None, float | None]:
    """Token, owner and period of a lease, as far as they can be read."""
    try:
        entry: Any = json.loads(text)
    except ValueError:
        return None, None, None
    if not isinstance(entry, dict):
        return None, None, None
    period = entry.get("period_s")
    return entry.get("token"), Owner.read(entry.get("owner")), period if isinstance(period, int | float) else None


class StoreClock:
    """The time of the store, learned from the date of an object written for the purpose."""

    def __init__(self, objects: S3Objects) -> None:
        self._objects = objects
        self._offset = 0.0
        self._learned: float | None = None
        self._lock = threading.Lock()

    def age(self, found: Tagged) -> float:
        """For how long at least an object has been as it is."""
        with self._lock:
            if self._learned is None or time.monotonic() - self._learned > _CLOCK_SECONDS:
                self._learn()
            return self._offset + time.monotonic() - found.modified.timestamp() - _GRAIN

    def _learn(self) -> None:
        self._objects.put(_CLOCK, ulid.new())
        written = self._objects.read_tagged(_CLOCK)
        self._learned = time.monotonic()
        if written is not None:
            self._offset = written.modified.timestamp() - self._learned


class Renewals:
    """A thread that renews leases for as long as any is held."""

    def __init__(self, objects: S3Objects) -> None:
        self._objects = objects
        self._held: dict[str, Lease] = {}
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def add(self, lease: Lease) -> None:
        with self._changed:
            self._held[lease.token] = lease
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="omnigraph-leases", daemon=True)
                self._thread.start()
            self._changed.notify()

    def remove(self, lease: Lease) -> None:
        with self._changed:
            self._held.pop(lease.token, None)
            self._changed.notify()

    def _run(self) -> None:
        while (due := self._next()) is not None:
            for lease in due:
                lease.due = time.monotonic() + lease.period / 10
                with suppress(OmnigraphError):  # tried again soon; without success the lease expires
                    self._renew(lease)

    def _next(self) -> list[Lease] | None:
        """Wait until leases are due; None when none is held any more."""
        with self._changed:
            while self._held:
                now = time.monotonic()
                due = [lease for lease in self._held.values() if lease.due <= now]
                if due:
                    return due
                self._changed.wait(min(lease.due for lease in self._held.values()) - now)
            self._thread = None
            return None

    def _renew(self, lease: Lease) -> None:
        with lease.lock:
            if lease.is_over:
                return
            began = time.monotonic()
            lease.turn += 1
            tag = self._objects.replace_tagged(lease.name, lease.text(), lease.tag)
            if tag is None:
                found = self._objects.read_tagged(lease.name)
                tag = found.tag if found is not None and _read(found.text)[0] == lease.token else None
            if tag is not None:
                lease.wrote(tag, began)
                return
            lease.is_over = True
        self.remove(lease)
