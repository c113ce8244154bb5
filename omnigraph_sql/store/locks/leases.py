"""Locks of a root on an object store: lease objects under `_locks/`.

A lease is created if absent, renewed in the background while it is held, and deleted when it is released. Another
process takes over a lease that was not renewed for its period, by replacing exactly the object it has seen: of two takers
one wins.

Whether a lease has expired is never judged by comparing the clocks of two machines. Its age is the time since its last write
by the clock of the store, carried on by the finder's own steady clock. A holder that is certainly gone, because its process
was on this machine and has ended, need not expire.

A shared lock is a marker object of its own beside the exclusive lease. Its holder writes the marker and then looks for the
exclusive lease; the holder of the exclusive lease writes it and then looks for markers. Reads of the store see every
finished write, so at least one of the two sees the other, and steps back or waits.

Processes that find a lease taken queue: each creates a ticket, a lease of its own below `_locks/queues/`, whose name begins
with the time of the store. The first of them requests the lease, the others wait until no earlier ticket is left. A ticket
expires as a lease does, so a dead waiter delays the others for its period at most; a waiter that sees no progress for a
third of it requests the lease, too. A process checks the queue before it takes a free lease if it had to wait recently, and
once a second while it retakes the lease repeatedly; otherwise no process waits, and the check would waste a call.

A lease can be lost: a process that was stopped for longer than the period, or cut off from the store, finds that another one
has taken over. This only causes a conflict; exact commits and the publish keep the graph correct.
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

from omnigraph_sql import ulid
from omnigraph_sql.errors import OmnigraphError
from omnigraph_sql.storage.s3 import S3Objects, Tagged
from omnigraph_sql.store.json_fields import parse
from omnigraph_sql.store.locks.base import DIRECTORY, QUEUES, TIMEOUT_SECONDS, LockHeld, file_name
from omnigraph_sql.store.locks.lease_queue import Traffic, TrafficLog, lease_queue
from omnigraph_sql.store.owners import Owner, lease_seconds, this_process

SHARED_KEYS: Final = ("__schema__",)
"""Keys that several processes may hold at once; markers are looked for only under these."""
_CLOCK: Final = f"{DIRECTORY}/__clock__"
_CLOCK_SECONDS: Final = 600.0
_FIRST_PAUSE: Final = 0.02
_LONGEST_PAUSE: Final = 0.5
_LONGEST_PERIOD: Final = 3600.0
"""Seconds. A lease that claims to last longer is malformed and does not block."""
_TURN_PAUSE: Final = 0.15
"""The longest pause of the first waiter."""
_LOOK_SECONDS: Final = 1.0
"""The interval at which a waiter checks whether the one before it is alive."""
_GRAIN: Final = 1.0
"""Stores give times in whole seconds."""


@dataclass(kw_only=True)
class Lease:
    """A lease that this process holds."""

    name: str
    token: str
    period: float
    tag: str = ""
    turn: int = 0
    renewed: float = 0.0
    """The monotonic time at which its last successful write began."""
    due: float = 0.0
    """The monotonic time of its next renewal."""
    is_over: bool = False
    """True if it was released or lost."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def wrote(self, tag: str, began: float) -> None:
        self.tag, self.renewed, self.due = tag, began, began + self.period / 3

    def text(self) -> str:
        """The stored text, unique for each renewal, so that no two states have the same tag."""
        expires = time.time() + self.period
        entry = {"token": self.token, "turn": self.turn, "period_s": self.period, "expires_at": expires}
        return json.dumps({**entry, "owner": asdict(this_process())})


_FREE: Final = json.dumps({"token": ""})
_live: set[str] = set()
"""Tokens of the leases that this process holds."""


class Leases:
    """Leases of one graph root."""

    def __init__(self, objects: S3Objects) -> None:
        self._objects = objects
        self._period = lease_seconds()
        self._timeout = max(TIMEOUT_SECONDS, 2 * self._period)
        self._clock = StoreClock(objects)
        self._renewals = Renewals(objects)
        self._traffic = TrafficLog()

    @contextmanager
    def lock(self, key: str, *, shared: bool, patience: float | None = None) -> Iterator[None]:
        name = f"{DIRECTORY}/{file_name(key)}"
        timeout = self._timeout if patience is None else patience
        deadline = time.monotonic() + timeout
        with ExitStack() as stack:
            if shared:
                lease = self._take_shared(name, deadline)
            elif patience == 0:
                lease = self._take_now(name)
            else:
                stack.enter_context(lease_queue(self._objects.uri(name)).turn(timeout))
                lease = self._take(key, name, timeout)
                stack.callback(self._note_release, name)
            stack.callback(self._release, lease)
            self._renewals.add(lease)
            if key in SHARED_KEYS and not shared:
                self._await_markers(name, deadline)
            yield

    def is_crowded(self, key: str) -> bool:
        name = f"{DIRECTORY}/{file_name(key)}"
        return lease_queue(self._objects.uri(name)).is_taken or self._traffic.at(name).is_crowded

    def forget(self, key: str) -> None:
        """Do nothing: releasing a lease removes its object."""

    def _note_release(self, name: str) -> None:
        self._traffic.at(name).released = time.monotonic()

    def _take_now(self, name: str) -> Lease:
        with self._new(name) as lease:
            if not self._try(lease):
                raise LockHeld
        return lease

    def _take(self, key: str, name: str, timeout: float) -> Lease:
        """Take a lease that is free and has no queue, or wait in the queue."""
        queue = f"{DIRECTORY}/{QUEUES}/{file_name(key)}"
        traffic = self._traffic.at(name)
        with self._new(name) as lease:
            if not (traffic.wants_look and self._is_awaited(queue, traffic)) and self._try(lease):
                return lease
            traffic.waited = time.monotonic()
            with self._ticket(queue) as ticket:
                self._await_turn(lease, queue, ticket, timeout)
            traffic.waited = time.monotonic()
        return lease

    def _is_awaited(self, queue: str, traffic: Traffic) -> bool:
        traffic.looked = time.monotonic()
        return bool(self._objects.names_below(queue))

    @contextmanager
    def _ticket(self, queue: str) -> Iterator[str]:
        """A place in a queue: a lease of the waiter itself, named after the time of its creation."""
        name = f"{queue}/{int(self._clock.now() * 1000):016d}-{ulid.new()}"
        with self._new(name) as ticket:
            self._try(ticket)
        self._renewals.add(ticket)
        try:
            yield name
        finally:
            self._release(ticket)

    def _await_turn(self, lease: Lease, queue: str, ticket: str, timeout: float) -> None:
        """Take a lease in the order of the queue; raise `LockHeld` if one holder keeps it for too long."""
        holder, deadline = self._holder(lease.name), time.monotonic() + timeout
        place = _Place()
        while True:
            if not place.is_first and place.observe(_nearest(self._objects.names_below(queue), ticket)):
                self._discard_dead(place.ahead)
            if (place.is_first or place.seconds > self._period / 3) and self._try(lease):
                return
            if time.monotonic() >= deadline:
                current = self._holder(lease.name)
                if current == holder:
                    raise LockHeld(timeout)
                holder, deadline = current, time.monotonic() + timeout
            time.sleep(place.next_pause())

    def _discard_dead(self, name: str) -> None:
        tagged = self._objects.read_tagged(name)
        if tagged is not None and self._is_dead(tagged):
            self._objects.discard(name)

    def _holder(self, name: str) -> str | None:
        tagged = self._objects.read_tagged(name)
        return None if tagged is None else _read(tagged.text)[0]

    def _try(self, lease: Lease) -> bool:
        """Take a lease that is free, released or expired."""
        began, text = time.monotonic(), lease.text()
        tag = self._objects.create_tagged(lease.name, text)
        if tag is None:
            tagged = self._objects.read_tagged(lease.name)
            if tagged is None:
                return False
            if self._is_dead(tagged):
                tag = self._objects.replace_tagged(lease.name, text, tagged.tag)
        if tag is None:
            return False
        lease.wrote(tag, began)
        return True

    def _take_shared(self, name: str, deadline: float) -> Lease:
        for _ in self._pauses(deadline):
            lease = self._lease(f"{name}.shared/{ulid.new()}")
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
                tagged = self._objects.read_tagged(marker)
                if tagged is None:
                    break
                if self._is_dead(tagged):
                    self._objects.discard(marker)
                    break

    def _pauses(self, deadline: float) -> Iterator[None]:
        """Sleep for growing intervals; raise `LockHeld` after the deadline."""
        pause = _FIRST_PAUSE
        while True:
            yield
            if time.monotonic() >= deadline:
                raise LockHeld(self._timeout)
            time.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(pause * 1.5, _LONGEST_PAUSE)

    def _lease(self, name: str) -> Lease:
        lease = Lease(name=name, token=ulid.new(), period=self._period)
        _live.add(lease.token)
        return lease

    @contextmanager
    def _new(self, name: str) -> Iterator[Lease]:
        """Register a lease that the block takes; remove it if the block fails."""
        lease = self._lease(name)
        try:
            yield lease
        except BaseException:
            _live.discard(lease.token)
            raise

    def _is_dead(self, tagged: Tagged) -> bool:
        token, owner, period = _read(tagged.text)
        if token == "" or (owner is not None and owner.is_gone):
            return True
        if owner == this_process() and token not in _live:
            return True
        return self._clock.age(tagged) > (self._period if period is None else period)

    def _release(self, lease: Lease) -> None:
        """Release the lease. A failure does no harm: the lease expires."""
        self._renewals.remove(lease)
        _live.discard(lease.token)
        with lease.lock, suppress(OmnigraphError):
            if lease.is_over:
                return
            lease.is_over = True
            if time.monotonic() - lease.renewed < lease.period / 2:
                self._objects.discard(lease.name)
            else:
                # Another process may be about to take it over; a plain deletion could hit its lease.
                self._objects.replace_tagged(lease.name, _FREE, lease.tag)


class _Place:
    """The place of a waiter in its queue."""

    def __init__(self) -> None:
        self.ahead = ""
        """The nearest ticket ahead of this one."""
        self.is_first = False
        self._moved = self._looked = time.monotonic()
        self._pause = _FIRST_PAUSE

    @property
    def seconds(self) -> float:
        """The time since it last moved up."""
        return time.monotonic() - self._moved

    def observe(self, ahead: str | None) -> bool:
        """Note the ticket ahead; return True if it is time to check whether its owner is alive."""
        now = time.monotonic()
        if ahead is None:
            self.is_first, self._pause = True, _FIRST_PAUSE
        elif ahead != self.ahead:
            self.ahead, self._moved, self._looked, self._pause = ahead, now, now, _FIRST_PAUSE
        elif now - self._looked > _LOOK_SECONDS:
            self._looked = now
            return True
        return False

    def next_pause(self) -> float:
        """The growing delay until the next check."""
        pause = self._pause * random.uniform(0.5, 1.0)
        self._pause = min(self._pause * 1.5, _TURN_PAUSE if self.is_first else _LONGEST_PAUSE)
        return pause


def _nearest(tickets: list[str], own: str) -> str | None:
    return max((name for name in tickets if name < own), default=None)


def _read(text: str) -> tuple[str | None, Owner | None, float | None]:
    """Token, owner and period of a lease, as far as they can be read."""
    try:
        entry: Any = parse(text)
    except ValueError:
        return None, None, None
    if not isinstance(entry, dict):
        return None, None, None
    period, token = entry.get("period_s"), entry.get("token")
    if not isinstance(period, int | float) or not 0 < period <= _LONGEST_PERIOD:
        period = None
    return token if isinstance(token, str) else None, Owner.read(entry.get("owner")), period


class StoreClock:
    """The time of the store, learned from the date of an object written for the purpose."""

    def __init__(self, objects: S3Objects) -> None:
        self._objects = objects
        self._offset = 0.0
        self._learned: float | None = None
        self._lock = threading.Lock()

    def now(self) -> float:
        """The time of the store, to about a second."""
        with self._lock:
            if self._learned is None or time.monotonic() - self._learned > _CLOCK_SECONDS:
                self._learn()
            return self._offset + time.monotonic()

    def age(self, tagged: Tagged) -> float:
        """Return the minimum time since an object was last changed."""
        return self.now() - tagged.modified.timestamp() - _GRAIN

    def _learn(self) -> None:
        self._objects.put(_CLOCK, ulid.new())
        written = self._objects.read_tagged(_CLOCK)
        self._learned = time.monotonic()
        if written is not None:
            self._offset = written.modified.timestamp() - self._learned


class Renewals:
    """A thread that renews leases while any is held."""

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
                tagged = self._objects.read_tagged(lease.name)
                tag = tagged.tag if tagged is not None and _read(tagged.text)[0] == lease.token else None
            if tag is not None:
                lease.wrote(tag, began)
                return
            lease.is_over = True
        self.remove(lease)
