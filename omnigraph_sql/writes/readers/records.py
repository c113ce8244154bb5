"""Reading load records: lines of JSON, one record each."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_compiler import Catalog
from omnigraph_sql.history.bundles import BundleHeader, is_header, read_header, require_complete
from omnigraph_sql.writes.readers.block_parser import BlockParser, Lines
from omnigraph_sql.writes.readers.layout import Layout, LayoutPart, Layouts, to_batch
from omnigraph_sql.writes.readers.line_parser import FaultyRecord, RecordRows, is_skipped, read_line
from omnigraph_sql.writes.readers.model import Counted, Faults, OnReject, ReaderLimits, TableBatch
from omnigraph_sql.writes.readers.sources import Block, blocks, record_source, source_name

# The beginning of most records. The exact parser gets all others.
_OPENING = re.compile(rb'[ \t]*\{[ \t]*"(type|edge)"[ \t]*:[ \t]*"([A-Za-z0-9_]+)"')
_MOST_OPENINGS = 256
_WORTH_IT = 64
_LARGEST_BLOCK = 1 << 30  # offsets into a block have 32 bits
DEFAULT_LIMITS = ReaderLimits()


def read_records(
    source: Any,
    catalog: Catalog,
    *,
    on_reject: OnReject | None = None,
    batch_bytes: int = 32 << 20,
    limits: ReaderLimits = DEFAULT_LIMITS,
    computes: bool = False,
    on_header: Callable[[BundleHeader], None] | None = None,
) -> Iterator[TableBatch]:
    """The records of a source as batches of table rows.

    The source is a `Path` (plain or gzip), a text, bytes, a file open for reading bytes, or an iterable of lines. It is read
    in blocks of about `batch_bytes`; each block gives at most one batch per type, with the rows in the order of their lines,
    or several where the vectors of one would take more: those that are null take room in a batch, and none in a line.

    The first faulty record raises `BadRequest` (no record of the required shape), `ValidationFailed` (a value its property
    cannot hold) or `ResourceLimit`. With `on_reject` faulty records are reported and left out instead. With `computes`,
    vectors that are computed later may be left out.

    `on_header` gets the header of a bundle before any record is read; without it, the header is a faulty record. A bundle
    without faulty records must have as many as its header says.
    """
    source = record_source(source)
    faults = Faults(source_name(source), Counted("line"), on_reject)
    reader = RecordReader(catalog, faults, limits, computes=computes, batch_bytes=batch_bytes)
    header: BundleHeader | None = None
    rows: Counter[str] = Counter()
    for block in blocks(source, min(max(batch_bytes, 1), _LARGEST_BLOCK), limits, faults):
        records = block
        if on_header is not None and block.first_line == 1 and is_header(block.data):
            header, records = _split(block)
            on_header(header)
        for batch in reader.read(records):
            rows[batch.table_key] += batch.rows.num_rows
            yield replace(batch, source=faults.source)
    if header is not None and on_reject is None:
        require_complete(header, rows)


def _split(block: Block) -> tuple[BundleHeader, Block]:
    """The header of a bundle, and its first block with an empty line in the place of the header."""
    end = block.data.index(b"\n")
    return read_header(block.data[:end]), Block(block.data[end:], block.first_line)


class RecordReader:
    """Turns blocks of lines into batches.

    The lines of each type go the fast way when there are at least `worth_it` of them, the rest and whatever is in doubt
    afterwards the exact way.
    """

    def __init__(
        self,
        catalog: Catalog,
        faults: Faults,
        limits: ReaderLimits,
        *,
        worth_it: int = _WORTH_IT,
        computes: bool = False,
        batch_bytes: int = 32 << 20,
    ) -> None:
        self._layouts = Layouts(catalog, computes=computes)
        self._faults = faults
        self._limits = limits
        self._worth_it = worth_it
        self._batch_bytes = batch_bytes
        self._widest = self._layouts.widest(limits.vector_bytes)
        self._openings: dict[bytes, Layout] = {}
        self._fast: dict[str, BlockParser] = {}

    def read(self, block: Block) -> Iterator[TableBatch]:
        yield from self._read(_lines(block))

    def _read(self, lines: Lines) -> Iterator[TableBatch]:
        groups, exact = self._grouped(lines)
        if len(lines) > 1 and self._vector_bytes(groups, exact) > self._batch_bytes:
            for half in lines.halves():
                yield from self._read(half)
            return
        parts: dict[str, tuple[Layout, list[LayoutPart]]] = {}
        for layout, group in groups:
            outcome = self._reader(layout).read(group)
            exact += outcome.doubtful
            if outcome.parts:
                parts.setdefault(layout.key, (layout, []))[1].extend(outcome.parts)
        for rows in self._read_exactly(exact):
            parts.setdefault(rows.layout.key, (rows.layout, []))[1].append(rows.to_part())
        for layout, layout_parts in parts.values():
            yield to_batch(layout, layout_parts)

    def _vector_bytes(self, groups: list[tuple[Layout, Lines]], exact: list[Lines]) -> int:
        """An upper bound of the bytes of the lines' vectors; the types of lines for the exact parser are unknown."""
        size = sum(len(group) * layout.vector_bytes for layout, group in groups)
        return size + sum(map(len, exact)) * self._widest

    def _reader(self, layout: Layout) -> BlockParser:
        if layout.key not in self._fast:
            self._fast[layout.key] = BlockParser(layout, self._limits)
        return self._fast[layout.key]

    def _grouped(self, lines: Lines) -> tuple[list[tuple[Layout, Lines]], list[Lines]]:
        """Group the lines whose beginnings name their type by type; the others are returned separately."""
        masks: dict[str, tuple[Layout, npt.NDArray[np.bool_]]] = {}
        rest = np.ones(len(lines), dtype=np.bool_)
        rest &= np.asarray(pc.binary_length(lines.texts)) <= self._limits.structural_characters
        plain = rest.copy()
        for opening, layout in self._openings.items():
            if not rest.any():
                break
            _claim(lines, opening, layout, rest, masks)
        # Beginnings not met before: each is looked up once, then all lines that share it are claimed together.
        position = 0
        while len(self._openings) < _MOST_OPENINGS and (position := _next_true(rest, position)) >= 0:
            text = lines.texts[position].as_py()
            match = _OPENING.match(text)
            owner = self._named(match) if match else None
            if match and owner is not None:
                self._openings[match[0]] = owner
                _claim(lines, match[0], owner, rest, masks)
            else:
                position += 1
        groups, exact = [], [lines.take(np.flatnonzero(rest | ~plain))]
        for layout, mask in masks.values():
            group = lines if mask.all() else lines.take(np.flatnonzero(mask))
            if len(group) >= self._worth_it and layout.vector_bytes <= self._limits.vector_bytes:
                groups.append((layout, group))
            else:
                exact.append(group)
        return groups, exact

    def _named(self, opening: re.Match[bytes]) -> Layout | None:
        name = opening[2].decode()
        return self._layouts.node(name) if opening[1] == b"type" else self._layouts.edge(name)

    def _read_exactly(self, lines: list[Lines]) -> list[RecordRows]:
        """The records of the lines, gathered by type. Faults are reported in the order of the lines."""
        rows: dict[str, RecordRows] = {}
        pairs = [
            (number, text)
            for chunk in lines
            for number, text in zip(chunk.numbers.tolist(), chunk.texts.to_pylist(), strict=True)
        ]
        pairs.sort(key=lambda pair: pair[0])
        for number, text in pairs:
            if is_skipped(text):
                continue
            try:
                record = read_line(text, self._layouts, self._limits)
            except FaultyRecord as faulty:
                self._faults.report(number, faulty.fault)
                continue
            key = record.layout.key
            if key not in rows:
                rows[key] = RecordRows(record.layout)
            rows[key].add(number, record)
        return list(rows.values())


def _lines(block: Block) -> Lines:
    data = np.frombuffer(block.data, dtype=np.uint8)
    ends = np.flatnonzero(data == ord("\n")) + 1
    offsets = np.concatenate([[0], ends]).astype(np.int32)
    texts = pa.Array.from_buffers(pa.binary(), len(ends), [None, pa.py_buffer(offsets), pa.py_buffer(block.data)])
    return Lines(texts, np.arange(block.first_line, block.first_line + len(ends)))


def _claim(
    lines: Lines,
    opening: bytes,
    layout: Layout,
    rest: npt.NDArray[np.bool_],
    masks: dict[str, tuple[Layout, npt.NDArray[np.bool_]]],
) -> None:
    """Assign the unassigned lines with this beginning to a type."""
    mask = np.asarray(pc.starts_with(lines.texts, opening)) & rest
    if mask.any():
        rest &= ~mask
        if layout.key in masks:
            masks[layout.key][1][:] |= mask
        else:
            masks[layout.key] = (layout, mask)


def _next_true(mask: npt.NDArray[np.bool_], start: int) -> int:
    """The first position from `start` on that is set, or -1."""
    if start >= len(mask):
        return -1
    place = int(np.argmax(mask[start:])) + start
    return place if mask[place] else -1
