"""Temporary files, and removal of those that dead processes left.

A writer holds a lock on its file from before the first byte until the file has its final name. The operating system releases
it when the process dies, so a file whose lock is free has no writer. Neither clocks nor ages are involved.
"""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final

_PREFIX: Final = ".tmp-"


def is_temporary(name: str) -> bool:
    return name.startswith(_PREFIX)


@contextmanager
def new_file(directory: Path) -> Iterator[tuple[BinaryIO, str]]:
    """A file to be written, and its temporary name. The body gives it its final name; if it fails, the file is removed."""
    directory.mkdir(parents=True, exist_ok=True)
    descriptor, name = _locked(directory)
    with os.fdopen(descriptor, "wb") as stream:
        try:
            yield stream, name
        except BaseException:
            with suppress(OSError):
                os.unlink(name)
            raise


def _locked(directory: Path) -> tuple[int, str]:
    while True:
        name = str(directory / f"{_PREFIX}{secrets.token_hex(8)}")
        # The permissions follow the umask, as those of tables do.
        descriptor = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if os.fstat(descriptor).st_nlink > 0:
                return descriptor, name
        except BaseException:
            os.close(descriptor)
            with suppress(OSError):
                os.unlink(name)
            raise
        os.close(descriptor)  # between the two calls, another process removed it as a dead writer's


def discard(directory: Path) -> None:
    """Remove the files in a directory whose writers are dead. Files that cannot be removed are skipped."""
    with suppress(OSError):
        for path in [Path(entry.path) for entry in os.scandir(directory) if is_temporary(entry.name)]:
            with suppress(OSError):
                _discard(path)


def _discard(path: Path) -> None:
    descriptor = os.open(path, os.O_RDWR)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink()
    finally:
        os.close(descriptor)
