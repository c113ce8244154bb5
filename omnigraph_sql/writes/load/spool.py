"""The spool of an operation: rows in memory up to a budget, and beyond it in a temporary file without a name.

Columns are kept apart in the file, so reading some of them costs only those. What does not fit into memory is looked at in
parts: rows whose key columns are equal always fall into the same part, so every part can be checked on its own.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

BUDGET: Final = 320 << 20
"""Bytes of rows that one operation keeps in memory (OMNIGRAPH_LOAD_MEMORY, in MiB)."""
PART_BYTES: Final = 160 << 20
_MOST_PARTS: Final = 1024
_BATCH_ROWS: Final = 65_536
_MOST_WORDS: Final = 32

Words: TypeAlias = npt.NDArray[np.uint64]


def budget() -> int:
    """The budget of this process."""
    megabytes = os.environ.get("OMNIGRAPH_LOAD_MEMORY", "")
    return int(megabytes) << 20 if megabytes.isdigit() else BUDGET


class Workspace:
    """The rows of one operation."""

    def __init__(self, limit: int | None = None) -> None:
        self._limit = budget() if limit is None else limit
        self._held = 0
        self._spools: list[Spool] = []
        self._file: Any = None
        self._end = 0

    def __enter__(self) -> Workspace:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Drop all rows."""
        for spool in self._spools:
            spool.drop()
        self._spools = []
        if self._file is not None:
            self._file.close()
            self._file = None

    @property
    def has_spilled(self) -> bool:
        """True if rows were ever more than the budget."""
        return self._file is not None

    def spool(self, schema: pa.Schema) -> Spool:
        """An empty collection of rows."""
        spool = Spool(self, schema)
        self._spools.append(spool)
        return spool

    def took(self, size: int) -> None:
        """Count bytes that a spool holds now; past the budget the largest spools move to the file."""
        self._held += size
        while self._held > self._limit:
            largest = max(self._spools, key=lambda spool: spool.held)
            if largest.held == 0:
                return
            largest.spill()

    def write(self, buffer: pa.Buffer) -> tuple[int, int]:
        """Append bytes to the file; where they are."""
        if self._file is None:
            # Without a name from the start: a process that is killed leaves nothing behind.
            self._file = tempfile.TemporaryFile(prefix="omnigraph-")  # noqa: SIM115
        view, start = memoryview(buffer), self._end
        while view:
            written = os.pwrite(self._file.fileno(), view, self._end)
            self._end += written
            view = view[written:]
        return start, self._end - start

    def read(self, place: tuple[int, int]) -> pa.Buffer:
        """Bytes of the file."""
        start, size = place
        data = os.pread(self._file.fileno(), size, start)
        while len(data) < size:
            data += os.pread(self._file.fileno(), size - len(data), start + len(data))
        return pa.py_buffer(data)


class Spool:
    """Batches of rows that can be read again and again, in the order they came."""

    def __init__(self, workspace: Workspace, schema: pa.Schema) -> None:
        self.schema = schema
        self.num_rows = 0
        self.nbytes = 0
        self.held = 0
        """Bytes in memory."""
        self._workspace = workspace
        self._fields = [pa.schema([field]) for field in schema]
        self._placed: list[list[tuple[int, int]]] = []
        self._batches: list[pa.RecordBatch] = []
        self.is_spilled = False
        """True if rows are in the file."""

    def append(self, batch: pa.RecordBatch) -> None:
        if batch.num_rows == 0:
            return
        size = batch.nbytes
        self.num_rows += batch.num_rows
        self.nbytes += size
        self._batches.append(batch)
        self.held += size
        self._workspace.took(size)
        if self.is_spilled and self.held > PART_BYTES // 32:
            self.spill()

    def spill(self) -> None:
        """Move what is in memory to the file."""
        self.is_spilled = True
        for batch in _joined(self._batches):
            columns = (pa.RecordBatch.from_arrays([batch.column(n)], schema=one) for n, one in enumerate(self._fields))
            self._placed.append([self._workspace.write(column.serialize()) for column in columns])
        self._batches = []
        freed, self.held = self.held, 0
        self._workspace.took(-freed)

    def drop(self) -> None:
        """Forget all rows."""
        freed, self.held = self.held, 0
        self._workspace.took(-freed)
        self._batches, self._placed, self.num_rows = [], [], 0

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """The rows, or some columns of them."""
        chosen = range(len(self.schema)) if columns is None else [self.schema.get_field_index(name) for name in columns]
        schema = pa.schema([self.schema.field(number) for number in chosen])
        for places in self._placed:
            arrays = [pa.ipc.read_record_batch(self._workspace.read(places[n]), self._fields[n]).column(0) for n in chosen]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)
        for batch in list(self._batches):
            yield batch if columns is None else pa.RecordBatch.from_arrays([batch.column(n) for n in chosen], schema=schema)

    def table(self, columns: Sequence[str] | None = None) -> pa.Table:
        """All rows at once: of a part, or of what is known to be small."""
        names = self.schema.names if columns is None else columns
        return pa.Table.from_batches(list(self.batches(columns)), schema=pa.schema([self.schema.field(n) for n in names]))


def _joined(batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    if len(batches) > 1 and sum(batch.num_rows for batch in batches) <= _BATCH_ROWS:
        yield pa.concat_batches(batches)
    else:
        yield from batches


# Parts -----------------------------------------------------------------------------------------------------------


def part_count(size: int) -> int:
    """Into how many parts rows of this size in bytes are divided."""
    return max(1, min(-(-size // PART_BYTES), _MOST_PARTS))


def divide(batches: Iterable[pa.RecordBatch], by: Sequence[str], count: int, spools: Sequence[Spool]) -> None:
    """Give each row to the spool of its part."""
    for batch in batches:
        part = parts_of([batch.column(name) for name in by], count)
        order = np.argsort(part, kind="stable")
        ends = np.cumsum(np.bincount(part, minlength=count)).tolist()
        for spool, start, end in zip(spools, [0, *ends], ends, strict=False):
            if end > start:
                spool.append(batch.take(pa.array(order[start:end])))


def parts_of(columns: Sequence[pa.Array], count: int) -> npt.NDArray[np.int64]:
    """The part of each row. Equal values give equal parts; a bad spread costs memory, never a wrong answer."""
    return (_stirred(_mixed(columns)) % np.uint64(count)).astype(np.int64)


def are_distinct(rows: pa.Table) -> bool:
    """True if rows without nulls are certainly distinct. A few times in a lifetime they are, and this says no."""
    if rows.num_rows < 2:
        return True
    words = np.concatenate([_mixed(batch.columns) for batch in rows.to_batches()])
    words.sort()
    return not bool((words[1:] == words[:-1]).any())


def _mixed(columns: Sequence[pa.Array]) -> Words:
    """A number for each row; equal rows have equal numbers."""
    mixed = np.zeros(len(columns[0]), dtype=np.uint64)
    for column in columns:
        mixed = _stirred(mixed * np.uint64(0x9E3779B97F4A7C15) ^ _words(column))
    return mixed


def _stirred(words: Words) -> Words:
    words = (words ^ (words >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
    return words ^ (words >> np.uint64(29))


def _words(column: pa.Array) -> Words:
    """A number for each value; of texts longer than a few hundred bytes it depends on the beginning and the end."""
    if pa.types.is_string(column.type):
        return _text_words(column)
    if pa.types.is_boolean(column.type):
        return np.asarray(column.cast(pa.uint8())).astype(np.uint64)
    if pa.types.is_floating(column.type):
        column = column.cast(pa.float64())
        return (np.asarray(column) + 0.0).view(np.uint64)  # both zeros are one value
    width = column.type.bit_width // 8
    data = np.frombuffer(column.buffers()[1], dtype=f"<u{width}")[column.offset : column.offset + len(column)]
    return data.astype(np.uint64)


def _text_words(column: pa.Array) -> Words:
    if len(column) == 0:
        return np.empty(0, dtype=np.uint64)
    offsets = np.frombuffer(column.buffers()[1], dtype=np.int32)[column.offset : column.offset + len(column) + 1]
    first, size = int(offsets[0]), int(offsets[-1] - offsets[0])
    data = np.zeros(size + 8, dtype=np.uint8)
    if size:
        data[:size] = np.frombuffer(column.buffers()[2], dtype=np.uint8)[first : first + size]
    eights: Words = np.ndarray((size + 1,), "<u8", data.data, 0, (1,))
    starts, lengths = (offsets[:-1] - first).astype(np.int64), np.diff(offsets).astype(np.int64)
    bits = np.minimum(lengths, 8).astype(np.uint64) * np.uint64(8)
    mask = np.where(lengths >= 8, np.uint64(0xFFFFFFFFFFFFFFFF), (np.uint64(1) << (bits % np.uint64(64))) - np.uint64(1))
    mixed = lengths.astype(np.uint64)
    last = np.maximum(lengths - 8, 0)
    for number in range(1 + min(int(lengths.max()) // 8, _MOST_WORDS)):
        place = starts + (np.minimum(last, number * 8) if number < _MOST_WORDS else last)
        more = _stirred(mixed * np.uint64(0x9E3779B97F4A7C15) ^ (eights[place] & mask))
        # A text that ended before must not depend on how long the others are.
        mixed = np.where(lengths >= number * 8, more, mixed)
    return mixed
