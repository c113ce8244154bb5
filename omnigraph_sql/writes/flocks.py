"""Locks of a local root: files under `_locks/`, which the operating system lets go of when a process dies."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from omnigraph_sql.storage.faults import translate
from omnigraph_sql.writes.held import DIRECTORY, TIMEOUT_SECONDS, Held, file_name

_POLL_SECONDS = 0.005


class FileLocks:
    """Locks of one local root, shared by all processes of the machine."""

    def __init__(self, root: Path) -> None:
        self._directory = root / DIRECTORY

    @contextmanager
    def lock(self, key: str, *, shared: bool, wait: bool) -> Iterator[None]:
        path = self._directory / file_name(key)
        try:
            self._directory.mkdir(exist_ok=True)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise translate(error, str(path)) from error
        try:
            _acquire(descriptor, shared=shared, wait=wait)
            yield
        finally:
            os.close(descriptor)

    def forget(self, key: str) -> None:
        with suppress(OSError):
            (self._directory / file_name(key)).unlink()


def _acquire(descriptor: int, *, shared: bool, wait: bool) -> None:
    mode = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, mode | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if not wait:
                raise Held from None
            if time.monotonic() > deadline:
                raise Held(TIMEOUT_SECONDS) from None
            time.sleep(_POLL_SECONDS)
