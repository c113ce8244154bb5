"""Sources of records: files, texts and lines, cut into blocks of whole lines."""

from __future__ import annotations

import gzip
import io
import os
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from omnigraph_compiler.diagnostics import clip
from omnigraph_sql.arguments import raised
from omnigraph_sql.errors import BadRequest, OmnigraphError
from omnigraph_sql.storage.source_files import is_path
from omnigraph_sql.writes.readers.model import Fault, Faults, ReaderLimits
from omnigraph_sql.writes.value_codec import Excess

_BOM = b"\xef\xbb\xbf"
_GZIP = b"\x1f\x8b"
_ENCODED_AT_ONCE = 1 << 22
_RECORD_SUFFIXES = (".jsonl", ".ndjson", ".json", ".jsonl.gz", ".ndjson.gz", ".json.gz")
TABLE_SUFFIXES = (".csv", ".csv.gz", ".parquet", ".pq", ".arrow", ".feather", ".ipc")


@dataclass(frozen=True)
class Block:
    """Whole lines, the last of them ended by a newline as well."""

    data: bytes
    first_line: int


def source_name(source: Any) -> str | None:
    """The name of the source in reports: the path of a file, nothing for data in memory."""
    name = source if isinstance(source, Path) else getattr(source, "name", None)
    return str(name) if isinstance(name, Path | str) else None


def line_excess(size: int, limits: ReaderLimits) -> Fault:
    message = f"the line holds {size} bytes or more, and a line may have {limits.line_bytes}"
    return Fault(rule="limit", message=message, excess=Excess("load_line_bytes", limits.line_bytes, size))


def blocks(source: Any, batch_bytes: int, limits: ReaderLimits, faults: Faults) -> Iterator[Block]:
    """The source in blocks of about `batch_bytes`. A line too long to be one is reported and left out."""
    rest: list[bytes] = []  # the beginning of a line whose end has not come yet
    held = 0
    line = 1
    skipping = False
    for chunk in _without_bom(_chunks(source, batch_bytes)):
        end = chunk.rfind(b"\n") + 1
        if end:
            start = 0
            if skipping:
                start = chunk.find(b"\n") + 1
                line, skipping = line + 1, False
            data = b"".join([*rest, chunk[start:end]]) if rest or start or end < len(chunk) else chunk
            rest, held = [], 0
            if data:
                yield Block(data, line)
                line += data.count(b"\n")
        if not skipping and end < len(chunk):
            rest.append(chunk[end:] if end else chunk)
            held += len(rest[-1])
        if held > limits.line_bytes + 2:
            faults.report(line, line_excess(held, limits))
            rest, held, skipping = [], 0, True
    if held:
        yield Block(b"".join([*rest, b"\n"]), line)


def _without_bom(chunks: Iterator[bytes]) -> Iterator[bytes]:
    head = b""
    for chunk in chunks:
        head += chunk
        if len(head) >= len(_BOM):
            break
    if head := head.removeprefix(_BOM):
        yield head
    yield from chunks


def _chunks(source: Any, size: int) -> Iterator[bytes]:
    if isinstance(source, Path):
        with _opened(source) as file:
            yield from _from_file(file, size, str(source))
    elif isinstance(source, str):
        for start in range(0, len(source), _ENCODED_AT_ONCE):
            yield _encoded(source[start : start + _ENCODED_AT_ONCE])
    elif isinstance(source, bytes | bytearray | memoryview):
        view = memoryview(source).cast("B")
        for start in range(0, len(view), size):
            yield bytes(view[start : start + size])
    elif hasattr(source, "read") and not isinstance(source, io.TextIOBase):
        yield from _from_file(source, size, source_name(source) or "the file")
    elif isinstance(source, Iterable):
        yield from _from_lines(source, size)
    else:
        raise BadRequest(
            f"records cannot be read from a value of type {type(source).__name__}",
            hint="give a Path, a text, bytes, a file open for reading bytes, or an iterable of lines",
        )


def record_source(source: Any) -> Any:
    """The source of records; a text that can only be the path of a file is that file. Raises `BadRequest` for tables."""
    if isinstance(source, str) and is_path(source, (*_RECORD_SUFFIXES, *TABLE_SUFFIXES)):
        source = Path(source.strip())
    if isinstance(source, os.PathLike) and not isinstance(source, Path):
        source = Path(os.fspath(source))
    if isinstance(source, Path) and str(source).lower().endswith(TABLE_SUFFIXES):
        hint = f'name the type of its rows: load({{"TYPE": "{source}"}}, ...)'
        raise BadRequest(f"{source} is a table, whose rows do not tell their type", hint=hint)
    if isinstance(source, str) and is_path(source):
        text = f"line 1: this is no record of JSON: {clip(source.strip())}"
        raise BadRequest(text, hint="if it is the path of a file, give it as pathlib.Path")
    return source


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    try:
        file = path.open("rb")
    except OSError as error:
        raise BadRequest(f"cannot read {path}: {error.strerror or error}") from error
    with file:
        start = file.read(len(_GZIP))
        file.seek(0)
        if start != _GZIP:
            yield file
            return
        with gzip.GzipFile(fileobj=file) as unpacked:
            yield unpacked  # type: ignore[misc]


def _from_file(file: Any, size: int, name: str) -> Iterator[bytes]:
    while True:
        chunk = _filled(file, size, name)
        if not chunk:
            return
        yield chunk


def _filled(file: Any, size: int, name: str) -> bytes:
    """The next `size` bytes, fewer only at the end: a pipe gives small pieces."""
    pieces: list[bytes] = []
    missing = size
    while missing > 0:
        try:
            piece = file.read(missing)
        except EOFError as error:
            raise BadRequest(f"{name} is truncated: its gzip stream has no end", hint="copy it again") from error
        except (OSError, zlib.error) as error:
            raise BadRequest(f"cannot read {name}: {error}") from error
        if not piece:
            break
        if not isinstance(piece, bytes):
            raise BadRequest(f"{name} is not open for reading bytes", hint='open it with mode "rb"')
        pieces.append(piece)
        missing -= len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _from_lines(lines: Iterable[Any], size: int) -> Iterator[bytes]:
    """Collect lines, with or without line ends, into blocks."""
    gathered: list[bytes] = []
    held = 0
    for line in _lines(lines):
        if isinstance(line, str):
            data = _encoded(line)
        elif isinstance(line, bytes):
            data = line
        else:
            raise BadRequest(
                f"records are read from lines of text, found a value of type {type(line).__name__}",
                hint="write each record as JSON; tables of values are loaded by type: {type: table}",
            )
        gathered.append(data if data.endswith(b"\n") else data + b"\n")
        held += len(gathered[-1])
        if held >= size:
            yield b"".join(gathered)
            gathered, held = [], 0
    yield b"".join(gathered)


def _lines(lines: Iterable[Any]) -> Iterator[Any]:
    """Yield the items of a collection or generator of the caller; its exceptions become errors about unreadable input."""
    try:
        yield from lines
    except OmnigraphError:
        raise
    except Exception as error:
        text = f"the records cannot be read: {raised(error)}"
        raise BadRequest(text, hint="its own error is the cause of this one") from error


def _encoded(text: str) -> bytes:
    # A surrogate has no UTF-8 form. Its line is refused later, with its number, because these bytes are no UTF-8 either.
    return text.encode("utf-8", "surrogatepass")
