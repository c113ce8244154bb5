"""Write queues and leases.

One exclusive lock per table and graph branch, shared by every handle of every process: a locked file under `_locks/` of a
local root (`file_locks.py`), a lease object there on an object store (`leases.py`). Locks keep writers from colliding;
correctness does not depend on them, the publish decides.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from typing import Final, Protocol

from omnigraph_sql.errors import Conflict
from omnigraph_sql.storage.local import LocalObjects
from omnigraph_sql.storage.objects import ObjectStore
from omnigraph_sql.storage.roots import LocalRoot
from omnigraph_sql.storage.s3 import S3Objects
from omnigraph_sql.store.locks.base import LockHeld
from omnigraph_sql.store.locks.file_locks import FileLocks
from omnigraph_sql.store.locks.leases import Leases

LEASES_OFF = "OMNIGRAPH_LEASES"
_TURN_SECONDS: Final = 10.0
"""The time after which waiting publishers pass a stuck holder."""


class LockProvider(Protocol):
    """The locks of one graph root, by name."""

    def lock(self, key: str, *, shared: bool, patience: float | None = None) -> AbstractContextManager[None]:
        """Hold a lock, in the order of arrival; `LockHeld` when one holder keeps it for more than `patience` seconds.

        With a patience of 0 there is no waiting in the queue; None means as long as writes may take.
        """

    def is_crowded(self, key: str) -> bool:
        """True if others are known to wait for a lock. No remote store is asked."""

    def forget(self, key: str) -> None:
        """Remove the files of a lock that is not needed any more."""


class WriteQueueManager:
    """The write queues and leases of one graph root."""

    def __init__(self, keeper: LockProvider) -> None:
        self._keeper = keeper

    @contextmanager
    def hold(self, keys: Iterable[str], *, shared: Iterable[str] = ()) -> Iterator[None]:
        """Hold locks on all keys, taken in sorted order so that writers cannot deadlock."""
        if _are_off():
            yield
            return
        wanted = dict.fromkeys(keys, False) | dict.fromkeys(shared, True)
        with ExitStack() as stack:
            for key in sorted(wanted, key=lambda key: (not key.startswith("__"), key)):
                self._enter(stack, key, shared=wanted[key])
            yield

    def is_crowded(self, keys: Iterable[str]) -> bool:
        """True if one of these locks is known to be held or waited for. No remote store is asked."""
        return not _are_off() and any(self._keeper.is_crowded(key) for key in keys)

    @contextmanager
    def turn(self, key: str) -> Iterator[None]:
        """Wait for a turn at work that is correct without it, too: no caller fails, and a stuck holder is overtaken."""
        with ExitStack() as stack:
            if not _are_off():
                with suppress(LockHeld):
                    stack.enter_context(self._keeper.lock(key, shared=False, patience=_TURN_SECONDS))
            yield

    def _enter(self, stack: ExitStack, key: str, *, shared: bool) -> None:
        try:
            stack.enter_context(self._keeper.lock(key, shared=shared))
        except LockHeld as held:
            name = key.replace("\0", " ")
            text = f"another writer has held `{name}` for {held.seconds:.0f} seconds"
            raise Conflict(text, reason="lock held", hint="try again later") from None

    @contextmanager
    def own(self, operation_id: str) -> Iterator[None]:
        """Hold the lease of a running operation; while it is held no other process recovers its sidecar."""
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
        """Try to become the owner of an operation; return False if its owner is alive, which only leases tell."""
        if _are_off():
            yield True
            return
        key = f"op-{operation_id}"
        with ExitStack() as stack:
            try:
                stack.enter_context(self._keeper.lock(key, shared=False, patience=0))
            except LockHeld:
                yield False
                return
            yield True
        self._keeper.forget(key)


def _are_off() -> bool:
    """True if writers run without leases, as if all leases had been lost."""
    return os.environ.get(LEASES_OFF) == "off"


def open_locks(objects: ObjectStore) -> WriteQueueManager:
    """Return the locks for a store."""
    if isinstance(objects, S3Objects):
        return WriteQueueManager(Leases(objects))
    assert isinstance(objects, LocalObjects)
    assert isinstance(objects.root, LocalRoot)
    return WriteQueueManager(FileLocks(objects.root.path))


def publish_lock(branch: str) -> str:
    """The lock on which writers queue after losing a publish. No table has this name."""
    return f"{branch}\0__publish__"


def table_lock(table_key: str, branch: str) -> str:
    return f"{branch}\0{table_key}"
