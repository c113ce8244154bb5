"""The rows in which two versions of a table differ, found without reading the rows they share.

A write never changes a data file: it adds fragments, removes fragments, or marks rows of a fragment as deleted. So two
versions of one table, on whatever branches, share the rows of every fragment that has the same files in both and is not
deleted in either. What is left is read by position, and its cost follows the number of rows that were written, not the
size of the table.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from lance.bitmap import Bitmap

from omnigraph_sql.storage.handles import SnapshotHandle, reading
from omnigraph_sql.storage.relocation import base_name
from omnigraph_sql.storage.table_names import table_name
from omnigraph_sql.storage.tables import TableStorage

Positions = npt.NDArray[np.int64]
_NONE: Final = np.empty(0, np.int64)
_CHUNK_ROWS: Final = 1 << 16
_CHUNK_BYTES: Final = 32 << 20
_SCANNED_RUN: Final = 1 << 10
"""So many neighbouring rows are read as a piece of a scan; fewer are looked up one by one."""
_FRAGMENT: Final = np.uint64(32)
_OFFSET: Final = np.uint64(0xFFFFFFFF)


@dataclass(frozen=True)
class RowDifference:
    """The rows that two versions do not share, by their ascending positions in each."""

    old: Positions
    """Rows that only the old version has."""
    new: Positions
    """Rows that only the new version has; a row that was rewritten is among both."""


@dataclass(frozen=True)
class _Fragment:
    number: int
    files: tuple[str, ...]
    start: int
    """The position of its first live row."""
    rows: int
    """Live rows."""
    deletion: Any
    """Lance's name of the list of its deleted rows; None if there are none."""

    @property
    def deletion_key(self) -> tuple[int, int] | None:
        return None if self.deletion is None else (self.deletion.id, self.deletion.read_version)

    @property
    def positions(self) -> Positions:
        return np.arange(self.start, self.start + self.rows)


def row_difference(storage: TableStorage, old: SnapshotHandle, new: SnapshotHandle) -> RowDifference:
    """Compare the fragments of two versions of one table."""
    storage.calls["difference"] += 1
    before, after = _fragments(old), _fragments(new)
    gone: list[Positions] = []
    come: list[Positions] = []
    for files, fragment in before.items():
        other = after.get(files)
        if other is None:
            gone.append(fragment.positions)
        elif fragment.deletion_key != other.deletion_key:
            old_deleted = _deleted(storage, old, fragment)
            new_deleted = _deleted(storage, new, other)
            gone.append(_live_positions(fragment, old_deleted, np.setdiff1d(new_deleted, old_deleted, assume_unique=True)))
            come.append(_live_positions(other, new_deleted, np.setdiff1d(old_deleted, new_deleted, assume_unique=True)))
    come += [fragment.positions for files, fragment in after.items() if files not in before]
    return RowDifference(_sorted(gone), _sorted(come))


def _sorted(parts: list[Positions]) -> Positions:
    return np.sort(np.concatenate(parts)) if parts else _NONE


def _fragments(handle: SnapshotHandle) -> Mapping[tuple[str, ...], _Fragment]:
    """The fragments of a version by the names of their files, which are never used twice, in table order."""
    if "fragments_by_files" not in handle._made:
        fragments: dict[tuple[str, ...], _Fragment] = {}
        start = 0
        with reading(handle):
            for fragment in handle._dataset.get_fragments():
                metadata = fragment.metadata
                files = tuple(file.path for file in metadata.files)
                fragments[files] = _Fragment(metadata.id, files, start, metadata.num_rows, metadata.deletion_file)
                start += metadata.num_rows
        handle._made["fragments_by_files"] = fragments
    made: Mapping[tuple[str, ...], _Fragment] = handle._made["fragments_by_files"]
    return made


def _live_positions(fragment: _Fragment, deleted: Positions, offsets: Positions) -> Positions:
    """The positions of rows of a fragment, given by their offsets in its files."""
    return fragment.start + offsets - np.searchsorted(deleted, offsets)


def _deleted(storage: TableStorage, handle: SnapshotHandle, fragment: _Fragment) -> Positions:
    """The offsets of the deleted rows of a fragment, ascending."""
    if fragment.deletion is None:
        return _NONE
    storage.calls["deletions"] += 1
    name = f"{_place(handle, fragment.deletion.base_id)}/{fragment.deletion.path(fragment.number)}"
    with reading(handle):
        content = storage.objects.read_bytes(name)
        if fragment.deletion.file_type == "array":
            offsets = pa.ipc.open_file(io.BytesIO(content)).read_all().column(0).to_numpy()
            return np.unique(offsets.astype(np.int64))
        bitmap = Bitmap._from_bytes(content)
        return np.fromiter(bitmap, np.int64, len(bitmap))


def _place(handle: SnapshotHandle, base: int | None) -> str:
    """The directory of the branch that a file of a version belongs to."""
    if base is None:
        return table_name(handle.path, handle.branch)
    return base_name(handle._dataset.base_paths()[base].path, handle.path)


# Rows by position ----------------------------------------------------------------------------------------------------


def rows_at(
    storage: TableStorage, handle: SnapshotHandle, columns: Sequence[str], positions: Positions
) -> Iterator[pa.RecordBatch]:
    """Columns of the rows at ascending positions, in batches. `_rowid` and `_rowaddr` are columns as well."""
    for run in _runs(positions, _chunk_rows(storage, handle, columns)):
        if len(run) >= _SCANNED_RUN and run[-1] - run[0] + 1 == len(run):
            yield from storage.scan(handle, columns, limit=len(run), first_row=int(run[0]))
        else:
            yield _taken(storage, handle, columns, run)


def gathered(storage: TableStorage, handle: SnapshotHandle, columns: Sequence[str], positions: Positions) -> pa.Table:
    """Columns of the rows at positions in any order, for rows known to be few."""
    order = np.argsort(positions)
    batches = list(rows_at(storage, handle, columns, positions[order]))
    if not batches:
        return storage.scan(handle, columns, limit=0).read_all()
    inverse = np.empty(len(positions), np.int64)
    inverse[order] = np.arange(len(positions))
    return pa.Table.from_batches(batches).combine_chunks().take(pa.array(inverse))


def portions(storage: TableStorage, handle: SnapshotHandle, columns: Sequence[str], count: int) -> Iterator[slice]:
    """Slices of so many rows, each of which fits into memory."""
    rows = _chunk_rows(storage, handle, columns)
    for start in range(0, count, rows):
        yield slice(start, min(start + rows, count))


def _taken(storage: TableStorage, handle: SnapshotHandle, columns: Sequence[str], positions: Positions) -> pa.RecordBatch:
    """Columns of the rows at ascending positions, each looked up."""
    storage.calls["take"] += 1
    storage.calls["rows"] += len(positions)
    schema = storage.schema(handle)
    with reading(handle):
        if any(isinstance(schema.field(name).type, pa.BaseExtensionType) for name in columns if name in schema.names):
            # Blobs: `take` would give where their bytes are.
            rows = f"_rowoffset IN ({', '.join(map(str, positions.tolist()))})"
            table = handle._dataset.to_table(list(columns), filter=rows, blob_handling="all_binary")
        else:
            table = handle._dataset.take(positions, list(columns))
    return table.combine_chunks().to_batches()[0]


def _chunk_rows(storage: TableStorage, handle: SnapshotHandle, columns: Sequence[str]) -> int:
    schema = storage.schema(handle)
    types = [schema.field(name).type for name in columns if name in schema.names]
    vectors = sum(4 * type_.list_size for type_ in types if pa.types.is_fixed_size_list(type_))
    blobs = sum(1 << 16 for type_ in types if isinstance(type_, pa.BaseExtensionType))
    return max(1, min(_CHUNK_ROWS, _CHUNK_BYTES // (64 * len(columns) + vectors + blobs)))


def _runs(positions: Positions, most: int) -> Iterator[Positions]:
    """Portions of positions: long runs of neighbours by themselves, the others together."""
    breaks = np.flatnonzero(np.diff(positions) != 1) + 1
    edges = np.concatenate([[0], breaks, [len(positions)]])
    long_runs = np.flatnonzero(np.diff(edges) >= _SCANNED_RUN)
    cuts = np.unique(np.concatenate([[0, len(positions)], edges[long_runs], edges[long_runs + 1]]))
    for start, end in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True):
        for place in range(start, end, most):
            yield positions[place : min(place + most, end)]


# Places of rows ------------------------------------------------------------------------------------------------------


def carried_addresses(start: SnapshotHandle, end: SnapshotHandle, addresses: npt.NDArray[np.uint64]) -> Any:
    """The addresses that rows of one version have in another one, where no write has moved them."""
    numbers = {fragment.number: files for files, fragment in _fragments(start).items()}
    after = _fragments(end)
    fragments = addresses >> _FRAGMENT
    out = addresses.copy()
    for number in np.unique(fragments).tolist():
        target = np.uint64(after[numbers[number]].number)
        chosen = fragments == number
        out[chosen] = (target << _FRAGMENT) | (addresses[chosen] & _OFFSET)
    return out
