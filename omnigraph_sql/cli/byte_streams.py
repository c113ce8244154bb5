"""Byte streams of commands, gzipped or plain."""

from __future__ import annotations

import gzip
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import IO, Any, BinaryIO, cast

from omnigraph_sql.cli.source_files import opened
from omnigraph_sql.errors import BadRequest

STANDARD_INPUT = "-"
_GZIP = b"\x1f\x8b"


def standard_input() -> BinaryIO:
    """The bytes on standard input."""
    if sys.stdin is None:
        raise BadRequest("standard input is closed")
    return sys.stdin.buffer


@contextmanager
def byte_source(path: str) -> Iterator[IO[bytes]]:
    """The bytes of a file, or of standard input for `-`, decompressed if they are gzipped."""
    if path == STANDARD_INPUT:
        yield unpacked(standard_input())
        return
    with opened(path) as file:
        yield unpacked(file)


def unpacked(file: Any) -> IO[bytes]:
    """The content of a buffered file, decompressed if it is gzipped."""
    # Peek: a pipe cannot seek back.
    is_packed = file.peek(len(_GZIP))[: len(_GZIP)] == _GZIP
    return cast("IO[bytes]", gzip.GzipFile(fileobj=file) if is_packed else file)


def packed(file: IO[bytes], path: str) -> AbstractContextManager[IO[bytes]]:
    """A stream into a file, gzipped if its name says so."""
    if not path.endswith(".gz"):
        return nullcontext(file)
    # Without a time and a name in it, the same content gives the same bytes.
    return cast("AbstractContextManager[IO[bytes]]", gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0))
