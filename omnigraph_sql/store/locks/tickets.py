"""The queue of a file lock: one ticket file per waiter, locked by its waiter for as long as it waits.

A waiter watches the nearest ticket ahead of its own and waits until it is gone. The operating system releases the
tickets of a dead process, so the next waiter removes them and moves up. Tickets only keep order; the lock itself decides.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from omnigraph_sql.storage.error_translation import translate

_RETRY_SECONDS = 0.001


def try_lock(descriptor: int, mode: int) -> bool:
    """Take a file lock if it is free."""
    try:
        fcntl.flock(descriptor, mode | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


class TicketQueue:
    """The waiters of one lock."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    @property
    def is_empty(self) -> bool:
        """True if the queue is empty. Tickets of dead processes count until the next waiter finds them."""
        try:
            with os.scandir(self._directory) as entries:
                return next(entries, None) is None
        except OSError:
            return True

    @contextmanager
    def join(self) -> Iterator[Ticket]:
        """Take a place at the end of the queue, until the end of the block."""
        came = time.monotonic_ns()
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            path, descriptor = self._make(came)
        except OSError as error:
            raise translate(error, str(self._directory)) from error
        ticket = Ticket(path)
        try:
            yield ticket
        finally:
            with suppress(OSError):
                path.unlink()
            os.close(descriptor)
            ticket.close()

    def _make(self, came: int) -> tuple[Path, int]:
        """Create and lock a file. Others may remove it before it is locked; then it is created again."""
        while True:
            path = self._directory / f"{came:020d}-{os.getpid()}-{secrets.token_hex(4)}"
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
            if try_lock(descriptor, fcntl.LOCK_EX):
                with suppress(FileNotFoundError):
                    if os.path.samestat(os.fstat(descriptor), os.stat(path)):
                        return path, descriptor
            os.close(descriptor)
            with suppress(FileNotFoundError):
                path.unlink()
            time.sleep(_RETRY_SECONDS)

    def remove(self) -> None:
        """Remove the directory, if the queue is empty."""
        with suppress(OSError):
            self._directory.rmdir()


class Ticket:
    """The place of one waiter."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._ahead: tuple[Path, int] | None = None
        """The nearest ticket before this one, open."""
        self._is_first = False

    def is_first(self) -> bool:
        """True if all earlier waiters have had their turn, given up or died."""
        while not self._is_first:
            if self._ahead is None:
                self._look_ahead()
                continue
            path, descriptor = self._ahead
            if not try_lock(descriptor, fcntl.LOCK_SH):
                return False
            self.close()
            with suppress(OSError):
                path.unlink()
        return True

    def _look_ahead(self) -> None:
        names = [name for name in os.listdir(self._path.parent) if name < self._path.name]
        if not names:
            self._is_first = True
            return
        path = self._path.with_name(max(names))
        with suppress(FileNotFoundError):  # its waiter has just left
            self._ahead = path, os.open(path, os.O_RDWR)

    def close(self) -> None:
        """Stop looking at the ticket ahead."""
        if self._ahead is not None:
            os.close(self._ahead[1])
            self._ahead = None
