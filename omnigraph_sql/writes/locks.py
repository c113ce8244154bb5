"""Write queues and leases.

One exclusive lock per table and graph branch, shared by every handle of every process on the machine: a locked file under
`_locks/`. Locks keep writers from colliding; correctness does not depend on them, the publish decides.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

from omnigraph_sql.errors import Conflict
from omnigraph_sql.storage.objects import translate

DIRECTORY = "_locks"
LEASES_OFF = "OMNIGRAPH_LEASES"
_POLL_SECONDS = 0.005


class WriteQueueManager:
    """Locks of one graph root."""

    def __init__(self, root: Path, timeout_seconds: float = 60.0) -> None:
        self._directory = root / DIRECTORY
        self._timeout = timeout_seconds

    @contextmanager
    def hold(self, keys: Iterable[str], *, shared: Iterable[str] = ()) -> Iterator[None]:
        """Hold locks on all keys, taken in sorted order so that two writers never wait for each other in a circle."""
        if _are_off():
            yield
            return
        wanted = dict.fromkeys(keys, False) | dict.fromkeys(shared, True)
        with ExitStack() as stack:
            for key in sorted(wanted, key=lambda key: (not key.startswith("__"), key)):
                stack.enter_context(self._lock(key, shared=wanted[key]))
            yield

    @contextmanager
    def own(self, operation_id: str) -> Iterator[None]:
        """Hold the lease of a running operation; while it is held nobody else recovers its sidecar."""
        if _are_off():
            yield
            return
        with self._lock(f"op-{operation_id}", shared=False):
            yield
        with suppress(OSError):
            (self._directory / f"op-{operation_id}").unlink()

    @contextmanager
    def take_over(self, operation_id: str) -> Iterator[bool]:
        """Try to become the owner of an operation. False when its owner is alive; without leases nobody can tell."""
        if _are_off():
            yield True
            return
        try:
            with self._lock(f"op-{operation_id}", shared=False, wait=False):
                yield True
        except _Held:
            yield False
            return
        with suppress(OSError):
            (self._directory / f"op-{operation_id}").unlink()

    @contextmanager
    def _lock(self, key: str, *, shared: bool, wait: bool = True) -> Iterator[None]:
        path = self._directory / quote(key, safe="")
        try:
            self._directory.mkdir(exist_ok=True)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise translate(error, str(path)) from error
        try:
            self._acquire(descriptor, key, shared=shared, wait=wait)
            yield
        finally:
            os.close(descriptor)

    def _acquire(self, descriptor: int, key: str, *, shared: bool, wait: bool) -> None:
        mode = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        deadline = time.monotonic() + self._timeout
        while True:
            try:
                fcntl.flock(descriptor, mode | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if not wait:
                    raise _Held from None
                if time.monotonic() > deadline:
                    text = f"another writer has held `{key}` for {self._timeout:.0f} seconds"
                    raise Conflict(text, reason="lock held", hint="try again later") from None
                time.sleep(_POLL_SECONDS)


def _are_off() -> bool:
    """Whether writers run without leases, as if every one of them had been lost."""
    return os.environ.get(LEASES_OFF) == "off"


class _Held(Exception):
    """A lock is held by somebody else."""


def table_lock(table_key: str, branch: str) -> str:
    return f"{branch}\0{table_key}"
