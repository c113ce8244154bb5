"""Locks of a local root: files under `_locks/`, which the operating system unlocks when a process dies.

A lock that is free and has no waiters is taken at once. Otherwise the waiters, threads and processes alike, take it in the
order of their arrival (`tickets.py`). A waiter that does not take its turn, because its process was stopped, is passed over
after a second.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from omnigraph_sql.storage.error_translation import translate
from omnigraph_sql.store.locks.base import DIRECTORY, QUEUES, TIMEOUT_SECONDS, LockHeld, file_name
from omnigraph_sql.store.locks.tickets import TicketQueue, try_lock

_FIRST_PAUSE: Final = 0.001
_PAUSE: Final = 0.005
"""The seconds between two attempts of waiters that are not first."""
_PROBE_SECONDS: Final = 0.05
_IDLE_SECONDS: Final = 1.0
"""The seconds for which a free lock is reserved for the first waiter."""
_SIGNATURE: Final = 32


class FileLocks:
    """Locks of one local root, shared by all processes of the machine."""

    def __init__(self, root: Path) -> None:
        self._directory = root / DIRECTORY

    @contextmanager
    def lock(self, key: str, *, shared: bool, patience: float | None = None) -> Iterator[None]:
        path = self._directory / file_name(key)
        try:
            self._directory.mkdir(exist_ok=True)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise translate(error, str(path)) from error
        mode = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        try:
            if patience == 0:
                if not try_lock(descriptor, mode):
                    raise LockHeld
            elif not (self._queue(key).is_empty and try_lock(descriptor, mode)):
                _Wait(descriptor, mode, TIMEOUT_SECONDS if patience is None else patience).wait(self._queue(key))
            _sign(descriptor)
            yield
        finally:
            os.close(descriptor)

    def is_crowded(self, key: str) -> bool:
        if not self._queue(key).is_empty:
            return True
        try:
            descriptor = os.open(self._directory / file_name(key), os.O_RDWR)
        except OSError:
            return False
        try:
            return not try_lock(descriptor, fcntl.LOCK_SH)
        finally:
            os.close(descriptor)

    def forget(self, key: str) -> None:
        with suppress(OSError):
            (self._directory / file_name(key)).unlink()
        self._queue(key).remove()

    def _queue(self, key: str) -> TicketQueue:
        return TicketQueue(self._directory / QUEUES / file_name(key))


class _Wait:
    """One wait for a lock. It ends with `LockHeld` when one holder keeps the lock for longer than `patience`."""

    def __init__(self, descriptor: int, mode: int, patience: float) -> None:
        self._descriptor = descriptor
        self._mode = mode
        self._patience = patience
        self._holder = _signature(descriptor)
        self._since = time.monotonic()
        self._probed = self._since
        self._free_since: float | None = None

    def wait(self, queue: TicketQueue) -> None:
        with queue.join() as ticket:
            while True:
                is_first = ticket.is_first()
                if try_lock(self._descriptor, self._mode) if is_first else self._is_idle():
                    return
                self._check_progress()
                time.sleep(_FIRST_PAUSE if is_first else _PAUSE)

    def _check_progress(self) -> None:
        """Extend the wait each time the lock changes hands."""
        now = time.monotonic()
        if now - self._since <= self._patience:
            return
        holder = _signature(self._descriptor)
        if holder == self._holder:
            raise LockHeld(self._patience)
        self._holder, self._since = holder, now

    def _is_idle(self) -> bool:
        """Take the lock if it is free and the first waiter has not taken it for a while."""
        now = time.monotonic()
        if now - self._probed < _PROBE_SECONDS:
            return False
        self._probed = now
        if not try_lock(self._descriptor, self._mode):
            self._free_since = None
            return False
        if self._free_since is not None and now - self._free_since >= _IDLE_SECONDS:
            return True
        self._free_since = now if self._free_since is None else self._free_since
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        return False


def _sign(descriptor: int) -> None:
    """Leave a mark by which waiters see that the lock has changed hands."""
    with suppress(OSError):
        os.pwrite(descriptor, f"{os.getpid()} {time.monotonic_ns()}".ljust(_SIGNATURE).encode(), 0)


def _signature(descriptor: int) -> bytes:
    try:
        return os.pread(descriptor, _SIGNATURE, 0)
    except OSError:
        return b""
