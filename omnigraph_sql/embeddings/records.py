"""Embedding of the records of a file, line by line, without a graph."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import IO, Any, Literal, NoReturn

import numpy as np
import pyarrow as pa

from omnigraph_compiler import NodeType, Property
from omnigraph_compiler.diagnostics import clip
from omnigraph_sql.embeddings.client import Embedder
from omnigraph_sql.embeddings.fill import computed_properties, embed_for
from omnigraph_sql.embeddings.json_splice import with_members
from omnigraph_sql.embeddings.selection import Choice
from omnigraph_sql.embeddings.vectors import Vectors
from omnigraph_sql.errors import BadRequest, EmbeddingFailed, ResourceLimit, ValidationFailed
from omnigraph_sql.json_members import DuplicateMember, refuse_constant, unique_members
from omnigraph_sql.table_keys import TableKey

Mode = Literal["fill_missing", "reembed_all", "clean"]
LINE_BYTES = 32 << 20
_BUFFER_TEXTS = 256
_BUFFER_BYTES = 8 << 20
_BOM = b"\xef\xbb\xbf"
_BLANK = b" \t\r\n"


@dataclass
class EmbeddingCounts:
    """The numbers of processed records and vectors."""

    records: int = 0
    chosen: int = 0
    embedded: int = 0
    """Vectors computed."""
    removed: int = 0
    """Vectors removed."""
    without_text: int = 0
    """Vectors of chosen records that have no text to compute them from."""


@dataclass
class _Line:
    """A line, and the changes to its vectors."""

    number: int
    data: bytes
    type: NodeType | None = None
    texts: dict[str, str] = field(default_factory=dict)
    """The texts of the vectors to compute, by property."""
    removed: tuple[str, ...] = ()


class RecordRewriter:
    """Computes or removes the vectors of the chosen records; every other line is copied unchanged.

    Lines are buffered only until there are enough texts for a few requests, so files may be of any size.
    """

    def __init__(self, choice: Choice, mode: Mode, embedder: Callable[[], Embedder]) -> None:
        self._choice = choice
        self._mode = mode
        self._embedder = embedder
        self.tally = EmbeddingCounts()

    def rewrite(self, lines: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the rewritten lines, with their line ends. Errors name the line."""
        buffer: list[_Line] = []
        texts: set[str] = set()
        size = 0
        for number, data in enumerate(lines, start=1):
            line = self._analyse(number, data)
            buffer.append(line)
            size += len(data)
            texts.update(line.texts.values())
            if not texts or len(texts) >= _BUFFER_TEXTS or size >= _BUFFER_BYTES:
                yield from self._rewritten(buffer)
                buffer, texts, size = [], set(), 0
        yield from self._rewritten(buffer)

    def _analyse(self, number: int, data: bytes) -> _Line:
        line = _Line(number, data)
        content = data.removeprefix(_BOM) if number == 1 else data
        if content.startswith(b"//") or not content.strip(_BLANK):
            return line
        record = _decoded(number, content)
        self.tally.records += 1
        name = record.get("type") if isinstance(record, dict) else None
        if not isinstance(name, str) or name not in self._choice.types:
            return line
        properties = record.get("data", {})
        if not isinstance(properties, dict):
            raise BadRequest(f"line {number}: `data` must be an object")
        line.type = self._choice.type_of(name, properties)
        if line.type is not None:
            self.tally.chosen += 1
            self._plan(line, line.type, properties)
        return line

    def _plan(self, line: _Line, type_: NodeType, data: dict[str, Any]) -> None:
        properties = computed_properties(type_)
        if self._mode == "clean":
            line.removed = tuple(prop.name for prop in properties if data.get(prop.name) is not None)
            return
        for prop in properties:
            if self._mode == "fill_missing" and data.get(prop.name) is not None:
                continue
            text = _source_text(line.number, type_, prop, data)
            if text:
                line.texts[prop.name] = text
            else:
                self.tally.without_text += 1

    def _rewritten(self, lines: list[_Line]) -> Iterator[bytes]:
        vectors = self._vectors(lines)
        for line in lines:
            changes: dict[str, str | None] = dict.fromkeys(line.removed)
            for name, text in line.texts.items():
                assert line.type is not None
                changes[name] = vectors[line.type.name, name, text]
            self.tally.embedded += len(line.texts)
            self.tally.removed += len(line.removed)
            yield _with_changes(line.data, changes) if changes else line.data

    def _vectors(self, lines: list[_Line]) -> dict[tuple[str, str, str], str]:
        """Compute the vectors to write, as JSON, by type, property and text."""
        wanted: dict[tuple[str, str], dict[str, None]] = {}
        types: dict[str, NodeType] = {}
        for line in lines:
            for name, text in line.texts.items():
                assert line.type is not None
                types[line.type.name] = line.type
                wanted.setdefault((line.type.name, name), {})[text] = None
        computed: dict[tuple[str, str, str], str] = {}
        for (type_name, name), texts in wanted.items():
            try:
                vectors = embed_for(type_name, types[type_name].properties[name], [*texts], self._embedder(), "document")
            except EmbeddingFailed as error:
                numbers = [line.number for line in lines if line.type is types[type_name] and name in line.texts]
                raise _located(error, numbers[0], numbers[-1]) from None
            computed |= {(type_name, name, text): vector for text, vector in zip(texts, _json(vectors), strict=True)}
        return computed


def read_lines(file: IO[bytes], name: str) -> Iterator[bytes]:
    """Yield the lines of a file, with their ends. Raises for lines longer than a load accepts."""
    number = 0
    while line := _next_line(file, name):
        number += 1
        size = len(line.rstrip(b"\r\n"))
        if size > LINE_BYTES:
            text = f"line {number}: the line holds {size} bytes or more, and a line may have {LINE_BYTES}"
            raise ResourceLimit(text, resource="embed_line_bytes", limit=LINE_BYTES, actual=size)
        yield line


def _next_line(file: IO[bytes], name: str) -> bytes:
    try:
        return file.readline(LINE_BYTES + 2)
    except EOFError as error:
        raise BadRequest(f"{name} is truncated: its gzip stream has no end", hint="copy it again") from error
    except (OSError, zlib.error) as error:
        raise BadRequest(f"cannot read {name}: {error}") from error


def _source_text(number: int, type_: NodeType, prop: Property, data: dict[str, Any]) -> str | None:
    assert prop.embed is not None
    text = data.get(prop.embed.source)
    if text is not None and not isinstance(text, str):
        place = f"`{type_.name}.{prop.embed.source}`"
        message = f"line {number}: {place} expects a string, found {clip(json.dumps(text))}"
        raise ValidationFailed(message, table_key=TableKey.of_node(type_.name), rule="type")
    try:
        (text or "").encode()
    except UnicodeEncodeError:
        _invalid(number, "a string holds half of a surrogate pair, which is no character")
    return text


def _located(error: EmbeddingFailed, first: int, last: int) -> EmbeddingFailed:
    place = f"line {first}" if first == last else f"lines {first} to {last}"
    error.message = f"{place}: {error.message}"
    error.args = (error.message,)
    return error


def _with_changes(data: bytes, changes: dict[str, str | None]) -> bytes:
    content = data.removeprefix(_BOM)
    return data[: len(data) - len(content)] + with_members(content.decode(), "data", changes).encode()


def _json(vectors: Vectors) -> Iterator[str]:
    """Yield vectors as JSON, each number with the fewest digits that restore its value."""
    for vector in vectors:
        texts = pa.array(vector).cast(pa.string()).to_pylist()
        # Readers parse them as float64, which in rare cases rounds to an adjacent float32.
        exact = np.array(texts, dtype=np.float64).astype(np.float32) == vector
        for at in np.flatnonzero(~exact):
            texts[at] = repr(float(vector[at]))
        yield f"[{','.join(texts)}]"


# JSON, parsed as strictly as by a load ------------------------------------------------------------------------------


def _decoded(number: int, data: bytes) -> Any:
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        _invalid(number, f"byte {error.start + 1} of the line is not UTF-8 (0x{data[error.start]:02x})")
    try:
        return _decoder.decode(text)
    except DuplicateMember as duplicate:
        raise BadRequest(f"line {number}: duplicate JSON member `{clip(str(duplicate))}`") from None
    except json.JSONDecodeError as error:
        _invalid(number, f"{error.msg} at column {error.pos + 1}")
    except ValueError as error:
        _invalid(number, str(error))
    except RecursionError:
        _invalid(number, "nested too deeply")


def _invalid(number: int, text: str) -> NoReturn:
    raise BadRequest(f"line {number}: invalid JSON: {text}")


def _integer(digits: str) -> int | float:
    # Python refuses to read integers of thousands of digits.
    return int(digits) if len(digits) < 1000 else float(digits)


_decoder = json.JSONDecoder(object_pairs_hook=unique_members, parse_constant=refuse_constant, parse_int=_integer)
