"""Write queues and leases.

One exclusive lock per table and graph branch, shared by every handle of every process: a locked file under `_locks/` of a
local root (`writes/flocks.py`), a lease object there on an object store (`writes/leases.py`). Locks keep writers from
colliding; correctness does not depend on them, the publish decides.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Protocol

from omnigraph_sql.errors import Conflict
from omnigraph_sql.storage.local import LocalObjects
from omnigraph_sql.storage.objects import ObjectStore
from omnigraph_sql.storage.roots import LocalRoot
from omnigraph_sql.storage.s3 import S3Objects
from omnigraph_sql.writes.flocks import FileLocks
from omnigraph_sql.writes.held import Held
from omnigraph_sql.writes.leases import Leases

LEASES_OFF = "OMNIGRAPH_LEASES"


class Keeper(Protocol):
    """Locks of one graph root by their names."""

    def lock(self, key: str, *, shared: bool, wait: bool) -> AbstractContextManager[None]:
        """Hold a lock; `Held` when somebody else has it and, with `wait`, keeps it for too long."""

    def forget(self, key: str) -> None:
        """Remove what is left of a lock that nobody will want again."""


class WriteQueueManager:
    """Locks of one graph root."""

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper

    @contextmanager
    def hold(self, keys: Iterable[str], *, shared: Iterable[str] = ()) -> Iterator[None]:
        """Hold locks on all keys, taken in sorted order so that two writers never wait for each other in a circle."""
        if _are_off():
            yield
            return
        wanted = dict.fromkeys(keys, False) | dict.fromkeys(shared, True)
        with ExitStack() as stack:
            for key in sorted(wanted, key=lambda key: (not key.startswith("__"), key)):
                self._enter(stack, key, shared=wanted[key])
            yield

    def _enter(self, stack: ExitStack, key: str, *, shared: bool) -> None:
        try:
            stack.enter_context(self._keeper.lock(key, shared=shared, wait=True))
        except Held as held:
            name = key.replace("\0", " ")
            text = f"another writer has held `{name}` for {held.seconds:.0f} seconds"
            raise Conflict(text, reason="lock held", hint="try again later") from None

    @contextmanager
    def own(self, operation_id: str) -> Iterator[None]:
        """Hold the lease of a running operation; while it is held nobody else recovers its sidecar."""
        if _are_off():
            yield
            return
        key = f"op-{operation_id}"
        with ExitStack() as stack:
            self._enter(stack, key, shared=False)
            yield
        self._keeper.forget(key)

    @contextmanager
    def take_over(self, operation_id: str) -> Iterator[bool]:
        """Try to become the owner of an operation. False when its owner is alive; without leases nobody can tell."""
        if _are_off():
            yield True
            return
        key = f"op-{operation_id}"
        with ExitStack() as stack:
            try:
                stack.enter_context(self._keeper.lock(key, shared=False, wait=False))
            except Held:
                yield False
                return
            yield True
        self._keeper.forget(key)


def _are_off() -> bool:
    """Whether writers run without leases, as if every one of them had been lost."""
    return os.environ.get(LEASES_OFF) == "off"


def open_locks(objects: ObjectStore) -> WriteQueueManager:
    """The locks that go with a store."""
    if isinstance(objects, S3Objects):
        return WriteQueueManager(Leases(objects))
    assert isinstance(objects, LocalObjects)
    assert isinstance(objects.root, LocalRoot)
    return WriteQueueManager(FileLocks(objects.root.path))


def table_lock(table_key: str, branch: str) -> str:
    return f"{branch}\0{table_key}"
