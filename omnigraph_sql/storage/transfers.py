"""Transfer of files from one root to another, as bytes: between directories, buckets, and one and the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Event
from typing import Any, Final

from omnigraph_sql.errors import Storage
from omnigraph_sql.storage.copied_files import CopiedFile
from omnigraph_sql.storage.error_translation import RESTORE
from omnigraph_sql.storage.objects import ObjectStore

_WORKERS: Final = 8
_CHUNK: Final = 8 << 20
"""Bytes that are read at a time; a file of at most so many takes one request."""


@dataclass(frozen=True)
class TransferStats:
    """The files of a transfer."""

    files: int
    """The number of files."""
    size: int
    """Their bytes."""
    reused: int
    """How many of them were there already."""


def transfer(
    source: ObjectStore, target: ObjectStore, files: Iterable[CopiedFile], present: Mapping[str, int]
) -> TransferStats:
    """Write files to another root. Those that are `present` there, by name and size, are not written again.

    The first failure stops the transfer; each file is there as a whole or not at all.
    """
    wanted = {file.name: file for file in files}
    pending = [file for file in wanted.values() if not (file.is_unique and present.get(file.name) == file.size)]
    is_stopped = Event()

    def write(file: CopiedFile) -> None:
        if is_stopped.is_set():
            return
        try:
            _write(source, target, file)
        except BaseException:
            is_stopped.set()
            raise

    with ThreadPoolExecutor(_WORKERS, thread_name_prefix="omnigraph-copy") as pool:
        try:
            for _ in pool.map(write, pending):
                pass
        except BaseException:
            is_stopped.set()  # also for an interrupt, which comes to this thread alone
            raise
    size = sum(file.size for file in wanted.values())
    return TransferStats(len(wanted), size, len(wanted) - len(pending))


def _write(source: ObjectStore, target: ObjectStore, file: CopiedFile) -> None:
    if file.content is not None:
        target.write_bytes(file.name, file.content)
        return
    if file.size <= _CHUNK or file.rewrite is not None:
        data = source.read_bytes(file.source)
        _require_size(source, file, len(data))
        target.write_bytes(file.name, data if file.rewrite is None else _rewritten(source, file, data))
        return
    with source.open(file.source) as stream:
        target.write_chunks(file.name, _chunks(source, file, stream))


def _rewritten(source: ObjectStore, file: CopiedFile, data: bytes) -> bytes:
    assert file.rewrite is not None
    try:
        return file.rewrite(data)
    except (ValueError, IndexError) as error:
        text = f"{source.uri(file.source)} is damaged: {error}"
        raise Storage(text, storage_class="permanent", hint=RESTORE) from error


def _chunks(source: ObjectStore, file: CopiedFile, stream: Any) -> Iterator[bytes]:
    size = 0
    while chunk := stream.read(_CHUNK):
        size += len(chunk)
        yield chunk
    _require_size(source, file, size)


def _require_size(source: ObjectStore, file: CopiedFile, size: int) -> None:
    """Raise unless a file was read as a whole."""
    if size != file.size:
        text = f"{source.uri(file.source)} has {size} bytes, and {file.size} when the copy began"
        raise Storage(text, storage_class="permanent", hint="files of a graph never change: look at what writes to them")
