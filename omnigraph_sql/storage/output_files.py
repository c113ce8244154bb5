"""Files that the product writes for its user: the path is checked before the work, the content is put in place after it.

A plain file is replaced as a whole by a rename. Devices and pipes are opened and written into, never replaced, and a
symbolic link keeps pointing at its target. The files of a graph are no targets.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, Any, Final

from omnigraph_sql.arguments import shown
from omnigraph_sql.errors import BadRequest
from omnigraph_sql.storage.identity import MANIFEST

_ADDRESS: Final = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://")
_SHOWN: Final = 300
_GRAPH_FILES: Final = ("__schema_state.json", "_schema.ir.json", MANIFEST)
"""A directory that holds one of these is that of a graph."""


@dataclass(frozen=True)
class Destination:
    """A checked place for a file."""

    path: str
    """As the caller wrote it, in a form that can be printed."""
    target: str
    """The file that is replaced or written into, with symbolic links resolved."""
    is_stream: bool
    """True if it is a device, a pipe, or a file that this process has open."""
    descriptor: int | None = None
    """The number of what this process has open, as of /dev/stdout."""


class _Unfit(Exception):
    """Why a path cannot be written, and what to do."""

    def __init__(self, reason: str, hint: str | None = None) -> None:
        super().__init__(reason)
        self.hint = hint


def check_destination(path: object, label: str, *, inputs: Iterable[Any] = (), makes_parents: bool = False) -> Destination:
    """The destination of a file. Raises `BadRequest` if it cannot be written there; creates nothing.

    `label` begins the message and contains `{path}`: "the file `{path}` cannot be written". None of the `inputs`, files that
    the same operation reads, may be the target. With `makes_parents`, directories that are missing are no obstacle.
    """
    shown = printable(path)
    try:
        text = _path_text(path)
        try:
            return _located(
                text, shown, [source for source in inputs if isinstance(source, str | os.PathLike)], makes_parents
            )
        except OSError as error:
            raise _Unfit(error.strerror or str(error)) from None
    except _Unfit as unfit:
        where = label.replace("{path}", shown if len(shown) <= _SHOWN else f"{shown[: _SHOWN - 1]}…")
        raise BadRequest(f"{where}: {unfit}", hint=unfit.hint or "name another file") from None


def printable(path: object) -> str:
    """A path for messages and reports; what has no form in UTF-8 is escaped."""
    text = os.fspath(path) if isinstance(path, str | os.PathLike) else path
    path_text = text if isinstance(text, str) else shown(text)
    return path_text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\0")


def _path_text(path: object) -> str:
    text = os.fspath(path) if isinstance(path, str | os.PathLike) else path
    if not isinstance(text, str):
        raise _Unfit(f"a path is a text or a pathlib.Path, not a value of the type {type(text).__name__}")
    if not text:
        raise _Unfit("the path is empty")
    if "\0" in text:
        raise _Unfit("the path holds a NUL character")
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        raise _Unfit("this is no file name: half of a surrogate pair is no character") from None
    address = _ADDRESS.match(text)
    if address is not None and address["scheme"].lower() == "file":
        raise _Unfit("this is an address, not a path", "write the path alone, without file://")
    if address is not None:
        raise _Unfit("files are written on this machine, not to an object store", "name a local file, and copy it there")
    return text


def _located(text: str, shown: str, inputs: list[Any], makes_parents: bool) -> Destination:
    try:
        mode = os.stat(text).st_mode
    except FileNotFoundError:
        mode = None
    target = os.path.realpath(text)
    if text.endswith(os.sep) if mode is None else stat.S_ISDIR(mode):
        raise _Unfit("it is a directory", "name a file in it")
    if mode is not None and stat.S_ISSOCK(mode):
        raise _Unfit("it is a socket")
    if mode is not None and stat.S_ISBLK(mode):
        raise _Unfit("it is a disk")
    descriptor = _descriptor(text)
    if mode is not None and (not stat.S_ISREG(mode) or descriptor is not None):
        return Destination(shown, text, True, descriptor)
    root = _graph_around(target)
    if root is not None:
        raise _Unfit(f"it is inside the graph {printable(root)}, whose files are its own", "name a file outside of it")
    for source in inputs:
        if mode is not None and os.path.exists(source) and os.path.samefile(source, target):
            raise _Unfit("it is what is read", "name another file")
    _check_rights(target, mode, makes_parents)
    return Destination(shown, target, False)


def _check_rights(target: str, mode: int | None, makes_parents: bool) -> None:
    parent = os.path.dirname(target)
    while makes_parents and not os.path.lexists(parent):
        parent = os.path.dirname(parent)
    if not os.path.exists(parent):
        raise _Unfit("No such file or directory", f"there is no directory {printable(parent)}: create it, or name another")
    if not os.path.isdir(parent):
        raise _Unfit(f"Not a directory: {printable(parent)}")
    if mode is not None and not os.access(target, os.W_OK):
        raise _Unfit("it is read-only")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise _Unfit(f"Permission denied: files cannot be created in {printable(parent)}")


def _descriptor(text: str) -> int | None:
    """The number of the open file of this process that a path leads to, as /dev/stdout does."""
    place = os.path.abspath(text)
    while os.path.islink(place):
        parent, name = os.path.realpath(os.path.dirname(place)), os.path.basename(place)
        if parent == f"/proc/{os.getpid()}/fd" and name.isdigit():
            return int(name)
        if parent.startswith("/proc/"):  # /proc/self/exe is the program that runs: it must not be replaced
            raise _Unfit("it is a link of the system to what a process uses")
        place = os.path.join(parent, os.readlink(place))
    return None


def _graph_around(target: str) -> str | None:
    """The directory of a graph that a path is below of."""
    place = os.path.dirname(target)
    while True:
        if any(os.path.lexists(os.path.join(place, name)) for name in _GRAPH_FILES):
            return place
        above = os.path.dirname(place)
        if above == place:
            return None
        place = above


class OutputFile:
    """Content on its way to a destination. `put` brings it there; `discard` ends it, and forgets what was not put."""

    def __init__(self, destination: Destination) -> None:
        """Raises `OSError`. A pipe is opened here, which waits for a reader, as in a shell."""
        self.destination = destination
        self.stream: IO[bytes] | None = None
        """The device or pipe. Content may be written to it directly where nothing has to be taken back."""
        self.temporary: str | None = None
        """The file beside a plain target in which the content is collected."""
        self.file: IO[bytes]
        """The buffer that collects the content."""
        if destination.is_stream:
            self.stream = os.fdopen(_opened(destination), "wb")
            self.file = tempfile.TemporaryFile(prefix="omnigraph-")  # noqa: SIM115 (lives as long as this object)
            return
        name = f".omnigraph-{secrets.token_hex(8)}.tmp"
        self.temporary = os.path.join(os.path.dirname(destination.target), name)
        descriptor = os.open(self.temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
        self.file = os.fdopen(descriptor, "w+b")

    def put(self) -> None:
        """Bring what was collected to the destination. Raises `OSError`."""
        self.file.flush()
        if self.stream is not None:
            self.file.seek(0)
            shutil.copyfileobj(self.file, self.stream)
            self.stream.flush()
        else:
            assert self.temporary is not None
            _copy_owner_and_mode(self.destination.target, self.file.fileno())
            os.fsync(self.file.fileno())
            os.replace(self.temporary, self.destination.target)

    def discard(self) -> None:
        """Close the files."""
        for opened in (self.file, self.stream):
            if opened is not None:
                with suppress(OSError):
                    opened.close()
        if self.temporary is not None:
            with suppress(OSError):
                os.unlink(self.temporary)


def _opened(destination: Destination) -> int:
    if destination.descriptor is None:
        return os.open(destination.target, os.O_WRONLY | os.O_APPEND | os.O_NOCTTY)
    if fcntl.fcntl(destination.descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
        raise OSError(errno.EBADF, "it is open for reading only")
    # A duplicate has the same place in the file: what the process writes afterwards follows.
    return os.dup(destination.descriptor)


def _copy_owner_and_mode(source: str, descriptor: int) -> None:
    """Copy owner and mode of the replaced file."""
    try:
        wanted = os.stat(source)
    except FileNotFoundError:
        return
    if not stat.S_ISREG(wanted.st_mode):
        return
    status = os.fstat(descriptor)
    if (wanted.st_uid, wanted.st_gid) != (status.st_uid, status.st_gid):
        with suppress(PermissionError):
            os.fchown(descriptor, wanted.st_uid, wanted.st_gid)
    os.fchmod(descriptor, wanted.st_mode & 0o7777)
