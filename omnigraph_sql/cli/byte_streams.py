"""Byte streams of commands, gzipped or plain."""

from __future__ import annotations

import gzip
import sys
from contextlib import AbstractContextManager, nullcontext
from typing import IO, Any, BinaryIO, cast

from omnigraph_sql.errors import BadRequest

_GZIP = b"\x1f\x8b"


def standard_input() -> BinaryIO:
    """The bytes on standard input."""
    if sys.stdin is None:
        raise BadRequest("standard input is closed")
    return sys.stdin.buffer


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
