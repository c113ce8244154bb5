"""Replacing the content of a file at once: a reader sees the old content or the new, never a piece of either."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO

from omnigraph_sql.errors import BadRequest


def replace_content(path: str, data: bytes) -> None:
    """Give a file new content; mode and owner stay, and a symbolic link keeps pointing at its target."""
    target = os.path.realpath(path)
    # A rename needs the right to change the directory only; what its owner protected stays as it is.
    if not os.access(target, os.W_OK):
        raise BadRequest(f"the file `{path}` cannot be written: it is read-only")
    try:
        _replace(target, data)
    except OSError as error:
        raise BadRequest(f"the file `{path}` cannot be written: {error.strerror}") from error


@contextmanager
def replacement(path: str) -> Iterator[IO[bytes]]:
    """A stream that becomes the content of a new or existing file when the block ends without an error."""
    target = os.path.realpath(path)
    try:
        if os.path.exists(target) and not os.path.isfile(target):
            with open(target, "wb") as device:  # a pipe or a device cannot be replaced, only written to
                yield device
            return
        if os.path.exists(target) and not os.access(target, os.W_OK):
            raise BadRequest(f"the file `{path}` cannot be written: it is read-only")
        directory, name = os.path.split(target)
        temporary = os.path.join(directory, f".{name[:100]}.{os.getpid()}.tmp")
        try:
            with open(temporary, "wb") as file:
                yield file
                file.flush()
                if os.path.exists(target):
                    _copy_owner_and_mode(target, file.fileno())
                os.fsync(file.fileno())
            os.replace(temporary, target)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise
    except OSError as error:
        raise BadRequest(f"the file `{path}` cannot be written: {error.strerror}") from error


def _replace(target: str, data: bytes) -> None:
    directory, name = os.path.split(target)
    # In the same directory, since a rename is atomic within one file system only.
    descriptor, temporary = tempfile.mkstemp(prefix=f".{name[:100]}.", suffix=".tmp", dir=directory)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            _copy_owner_and_mode(target, file.fileno())
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def _copy_owner_and_mode(source: str, descriptor: int) -> None:
    wanted, found = os.stat(source), os.fstat(descriptor)
    if (wanted.st_uid, wanted.st_gid) != (found.st_uid, found.st_gid):
        with suppress(PermissionError):
            os.fchown(descriptor, wanted.st_uid, wanted.st_gid)
    os.fchmod(descriptor, wanted.st_mode & 0o7777)
