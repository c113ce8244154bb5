"""Files of derived arrays, by key. They are memory-mapped, and verified before use.

They are no part of a publish. Deleting all of them changes speed only, so a file with any fault is as good as none, and
one that cannot be written is not missed.

A file begins with a mark, the length of its header and the digest of its header. The header is JSON: the key, the facts,
where each array lies, and a checksum of every piece of what follows it. The arrays follow, each aligned. A file is written
under another name and put in place whole, and never changed afterwards.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import stat
import struct
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from omnigraph_sql.storage import temp_files
from omnigraph_sql.storage.table_names import fnv1a64_hex
from omnigraph_udfs.threads import in_threads, shares

DIRECTORY: Final = "_derived"
SUFFIX: Final = ".arrays"
_EARLIER_SUFFIX: Final = ".arrow"
"""The suffix of files of earlier releases, which have no checksums and are not read."""
_MARK: Final = b"OGARRAY2"
_START: Final = struct.Struct("<8sQ16s")
_ALIGNED: Final = 64
_PIECE: Final = 1 << 22
"""The bytes per checksum of 32 bits."""
_PIECES_PER_THREAD: Final = 4
_TYPES: Final = {name: np.dtype(name) for name in ("<i4", "<i8", "<u4", "<u8", "|u1", "<f4")}
_FAULTS: Final = (OSError, ValueError, KeyError, TypeError, IndexError, OverflowError, RecursionError, struct.error)
"""The errors of reading a damaged file."""

Arrays = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class DerivedFile:
    """An opened file: its key, its metadata, and its memory-mapped arrays."""

    key: str
    facts: dict[str, Any]
    arrays: Arrays
    mapped: bool = True


@dataclass(frozen=True)
class Description:
    """The header of a file. Its arrays are not validated."""

    key: str
    facts: dict[str, Any]


class DerivedFiles:
    """Files of one graph, by kind and key. Those of a graph on an object store are in a local cache directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.calls: Counter[str] = Counter()

    def read(self, kind: str, key: str) -> DerivedFile | None:
        """Return the file of a key; None if it is missing, faulty, or has another key."""
        self.calls["map"] += 1
        try:
            with _opened(self._directory / kind / _name(key)) as descriptor:
                content = mmap.mmap(descriptor, 0, prot=mmap.PROT_READ)
            return _verified(content, key)
        except _FAULTS:
            return None

    def listing(self, kind: str) -> list[Description]:
        """All files of a kind, the newest first, by their headers alone."""
        self.calls["list"] += 1
        paths = []
        with suppress(OSError):
            paths = [path for path in (self._directory / kind).iterdir() if path.suffix == SUFFIX]
        return [file for file in map(_described, sorted(paths, key=_changed_at, reverse=True)) if file is not None]

    def write(self, kind: str, key: str, facts: Mapping[str, Any], arrays: Arrays) -> bool:
        """Write the file of a key atomically; return False if the directory cannot be written."""
        self.calls["write"] += 1
        path = self._directory / kind / _name(key)
        temp_files.discard(path.parent)
        try:
            with temp_files.new_file(path.parent) as (stream, temporary):
                _write(stream, key, facts, arrays)
                stream.flush()
                os.fsync(stream.fileno())
                os.replace(temporary, path)
        except OSError:
            return False
        return True

    def unneeded(self, is_needed: Callable[[str, str], bool]) -> list[tuple[Path, int]]:
        """Unneeded files with their sizes: `is_needed` decides by kind and key; files without a key are unneeded."""
        self.calls["list"] += 1
        files = []
        for path in sorted(self._directory.glob("*/*")):
            if path.suffix not in (SUFFIX, _EARLIER_SUFFIX):
                continue
            file = _described(path)
            if file is None or path.name != _name(file.key) or not is_needed(path.parent.name, file.key):
                with suppress(OSError):  # another process removes it
                    status = path.lstat()
                    if not stat.S_ISDIR(status.st_mode):
                        files.append((path, status.st_size))
        return files

    def discard(self, files: Iterable[Path]) -> None:
        """Remove files, if they exist. A process that has mapped one can go on reading it."""
        self.calls["forget"] += 1
        for path in files:
            path.unlink(missing_ok=True)

    def forget(self, kind: str, key: str) -> None:
        """Remove a file, if it exists. A process that has mapped it can go on reading it."""
        self.calls["forget"] += 1
        with suppress(OSError):
            (self._directory / kind / _name(key)).unlink()


def derived_directory(root: str | os.PathLike[str]) -> Path:
    """The directory of a graph's derived files: inside the graph, or a local cache for one on an object store."""
    text = os.fspath(root)
    if "://" not in text:
        return Path(text) / DIRECTORY
    directory = os.environ.get("OMNIGRAPH_CACHE_DIR")
    base = (
        Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "omnigraph" if not directory else Path(directory)
    )
    return base / fnv1a64_hex(text.rstrip("/"))


def _name(key: str) -> str:
    return fnv1a64_hex(key) + SUFFIX


def _changed_at(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


# Writing


def _write(stream: Any, key: str, facts: Mapping[str, Any], arrays: Arrays) -> None:
    places, parts, size = [], [], 0
    for name, values in arrays.items():
        content = np.ascontiguousarray(values, values.dtype.newbyteorder("<"))
        if content.dtype.str not in _TYPES:
            raise TypeError(f"the array {name} holds {content.dtype}, which is not kept in files")
        padding = -content.nbytes % _ALIGNED
        places.append([name, content.dtype.str, size, len(content)])
        parts += [content.data.cast("B") if content.nbytes else memoryview(b""), memoryview(bytes(padding))]
        size += content.nbytes + padding
    header = {"key": key, "facts": facts, "arrays": places, "size": size, "checksums": _checksums_of(parts)}
    text = json.dumps(header).encode()
    start = _MARK, len(text), _digest(text)
    stream.write(_START.pack(*start) + text)
    stream.write(bytes(-(_START.size + len(text)) % _ALIGNED))
    for part in parts:
        stream.write(part)


def _checksums_of(parts: Iterable[memoryview]) -> list[int]:
    """Compute the checksums of all pieces of the concatenated parts."""
    checksums, last, room = [], 0, _PIECE
    for part in parts:
        at = 0
        while at < len(part):
            some = part[at : at + room]
            last, room, at = zlib.crc32(some, last), room - len(some), at + len(some)
            if room == 0:
                checksums.append(last)
                last, room = 0, _PIECE
    return checksums if room == _PIECE else [*checksums, last]


def _digest(text: bytes) -> bytes:
    return hashlib.blake2b(text, digest_size=16).digest()


# Reading


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    """Open a regular file; opening a pipe would block."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError(f"{path} is no plain file")
        yield descriptor
    finally:
        os.close(descriptor)


def _described(path: Path) -> Description | None:
    try:
        with _opened(path) as descriptor, closing(mmap.mmap(descriptor, 0, prot=mmap.PROT_READ)) as content:
            header, _ = _header(content)
        return Description(header["key"], header["facts"])
    except _FAULTS:
        return None


def _header(content: mmap.mmap) -> tuple[dict[str, Any], int]:
    """Return the header of a file, and the offset of the arrays. Faults raise one of `_FAULTS`."""
    mark, length, digest = _START.unpack_from(content)
    if mark != _MARK or length > len(content) - _START.size:
        raise ValueError("the file has no header")
    text = content[_START.size : _START.size + length]
    if _digest(text) != digest:
        raise ValueError("the header was changed")
    header = json.loads(text)
    if not isinstance(header["key"], str) or not isinstance(header["facts"], dict):
        raise TypeError("the header lacks its key or its facts")
    end = _START.size + length
    return header, end + -end % _ALIGNED


def _verified(content: mmap.mmap, key: str) -> DerivedFile | None:
    """Return the arrays of a mapped file, after verifying the checksums."""
    header, start = _header(content)
    size = header["size"]
    if header["key"] != key or start + size != len(content):
        return None
    if _checksums(memoryview(content)[start:]) != header["checksums"]:
        return None
    arrays = {}
    for name, kind, first, count in header["arrays"]:
        dtype = _TYPES[kind]
        if not 0 <= first <= first + count * dtype.itemsize <= size or count < 0:
            raise ValueError(f"the array {name} is not in the file")
        # An empty array at the end of the file has no bytes in it.
        arrays[name] = np.frombuffer(content, dtype, count, start + first) if count else _none(dtype)
    return DerivedFile(key, header["facts"], arrays)


def _none(dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    values = np.empty(0, dtype)
    values.flags.writeable = False
    return values


def _checksums(content: memoryview) -> list[int]:
    """Compute the checksums on all cores. This reads the file into memory for the first time."""
    starts = range(0, len(content), _PIECE)

    def check(share: tuple[int, int]) -> list[int]:
        return [zlib.crc32(content[first : first + _PIECE]) for first in starts[share[0] : share[1]]]

    return [sum_ for share in in_threads(check, shares(len(starts), _PIECES_PER_THREAD)) for sum_ in share]
