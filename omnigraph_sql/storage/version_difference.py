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
from lance.fragment import RowIdSequence

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
_LOOKUP_COST: Final = 4096
"""Looking up a row takes as long as scanning so many bytes."""
_FRAGMENT: Final = np.uint64(32)
_OFFSET: Final = np.uint64(0xFFFFFFFF)
_PLACES: Final = ("_rowid", "_rowaddr")
"""Columns that say where a row is."""


@dataclass(frozen=True)
class RowDifference:
    """The rows that two versions do not share, by their ascending positions in each."""

    old: Positions
    """Rows that only the old version has."""
    new: Positions
    """Rows that only the new version has; a row that was rewritten is among both."""


@dataclass(frozen=True, kw_only=True)
class FragmentPlace:
    """A fragment of a version, and the positions of its rows in it."""

    number: int
    files: tuple[str, ...]
    start: int
    """The position of its first live row."""
    rows: int
    """Live rows."""
    physical_rows: int
    """Rows of its files, deleted ones included."""
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
    before, after = fragment_places(old), fragment_places(new)
    gone: list[Positions] = []
    come: list[Positions] = []
    for files, fragment in before.items():
        other = after.get(files)
        if other is None:
            gone.append(fragment.positions)
        elif fragment.deletion_key != other.deletion_key:
            old_deleted = deleted_offsets(storage, old, fragment)
            new_deleted = deleted_offsets(storage, new, other)
            gone.append(live_positions(fragment, old_deleted, np.setdiff1d(new_deleted, old_deleted, assume_unique=True)))
            come.append(live_positions(other, new_deleted, np.setdiff1d(old_deleted, new_deleted, assume_unique=True)))
    come += [fragment.positions for files, fragment in after.items() if files not in before]
    return RowDifference(_sorted(gone), _sorted(come))


def _sorted(parts: list[Positions]) -> Positions:
    return np.sort(np.concatenate(parts)) if parts else _NONE


def fragment_places(handle: SnapshotHandle) -> Mapping[tuple[str, ...], FragmentPlace]:
    """The fragments of a version by the names of their files, which are never used twice, in table order."""
    if "fragments_by_files" not in handle._made:
        fragments: dict[tuple[str, ...], FragmentPlace] = {}
        start = 0
        with reading(handle):
            for fragment in handle._dataset.get_fragments():
                metadata = fragment.metadata
                files = tuple(file.path for file in metadata.files)
                fragments[files] = FragmentPlace(
                    number=metadata.id,
                    files=files,
                    start=start,
                    rows=metadata.num_rows,
                    physical_rows=metadata.physical_rows,
                    deletion=metadata.deletion_file,
                )
                start += metadata.num_rows
        handle._made["fragments_by_files"] = fragments
    made: Mapping[tuple[str, ...], FragmentPlace] = handle._made["fragments_by_files"]
    return made


def live_positions(fragment: FragmentPlace, deleted: Positions, offsets: Positions) -> Positions:
    """The positions of rows of a fragment, given by their offsets in its files."""
    return fragment.start + offsets - np.searchsorted(deleted, offsets)


def deleted_offsets(storage: TableStorage, handle: SnapshotHandle, fragment: FragmentPlace) -> Positions:
    """The offsets of the deleted rows of a fragment, ascending."""
    if fragment.deletion is None:
        return _NONE
    key = (fragment.files, fragment.deletion_key)
    return storage.deletions.get(key, lambda: _read_deletions(storage, handle, fragment))


def _read_deletions(storage: TableStorage, handle: SnapshotHandle, fragment: FragmentPlace) -> Positions:
    storage.calls["deletions"] += 1
    name = f"{_place(handle, fragment.deletion.base_id)}/{fragment.deletion.path(fragment.number)}"
    with reading(handle):
        content = storage.objects.read_bytes(name)
        if fragment.deletion.file_type == "array":
            offsets = pa.ipc.open_file(io.BytesIO(content)).read_all().column(0).to_numpy()
            return np.unique(offsets.astype(np.int64))
        bitmap_type: Any = Bitmap
        bitmap = bitmap_type._from_bytes(content)
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
            yield from _taken(storage, handle, columns, run)


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


def _taken(
    storage: TableStorage, handle: SnapshotHandle, columns: Sequence[str], positions: Positions
) -> Iterator[pa.RecordBatch]:
    """Columns of the rows at ascending positions, each looked up in its fragment."""
    storage.calls["take"] += 1
    storage.calls["rows"] += len(positions)
    places = list(fragment_places(handle).values())
    fragments = np.searchsorted(np.array([place.start for place in places]), positions, side="right") - 1
    for number in np.unique(fragments).tolist():
        place = places[number]
        yield _of_fragment(storage, handle, columns, place, positions[fragments == number] - place.start)


def _of_fragment(
    storage: TableStorage, handle: SnapshotHandle, columns: Sequence[str], place: FragmentPlace, rows: Positions
) -> pa.RecordBatch:
    """Columns of some live rows of a fragment."""
    stored = [name for name in columns if name not in _PLACES]
    schema = storage.schema(handle)
    arrays: dict[str, pa.Array] = {}
    with reading(handle):
        fragment = handle._dataset.get_fragment(place.number)
        if any(isinstance(schema.field(name).type, pa.BaseExtensionType) for name in stored):
            # Blobs: `take` would give where their bytes are.
            addresses = _addresses(storage, handle, place, rows).tolist()
            condition = f"_rowaddr IN ({', '.join(map(str, addresses))})"
            table = handle._dataset.scanner(
                columns=stored, fragments=[fragment], filter=condition, blob_handling="all_binary"
            ).to_table()
        else:
            table = _read(fragment, stored, rows, _row_bytes(schema, stored)) if stored else None
    if table is not None:
        arrays = {name: _whole(table.column(name)) for name in stored}
    if "_rowaddr" in columns:
        arrays["_rowaddr"] = pa.array(_addresses(storage, handle, place, rows))
    if "_rowid" in columns:
        arrays["_rowid"] = row_ids_of(handle, place).take(pa.array(_offsets(storage, handle, place, rows)))
    fields = [pa.field(name, arrays[name].type, schema.field(name).nullable if name in stored else True) for name in columns]
    return pa.RecordBatch.from_arrays([arrays[name] for name in columns], schema=pa.schema(fields))


def _read(fragment: Any, columns: list[str], rows: Positions, row_bytes: int) -> pa.Table:
    """Columns of some live rows of a fragment: looked up, or picked from all of them where that is quicker."""
    if len(rows) * _LOOKUP_COST < fragment.count_rows() * row_bytes:
        return fragment.take(rows.tolist(), columns=columns)
    picked: list[pa.RecordBatch] = []
    start = 0
    reader = fragment.scanner(columns=columns).to_reader()
    for batch in reader:
        first, last = np.searchsorted(rows, [start, start + batch.num_rows])
        if last > first:
            picked.append(batch.take(pa.array(rows[first:last] - start)))
        start += batch.num_rows
    return pa.Table.from_batches(picked, schema=reader.schema)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    array = column.combine_chunks()
    return array if not isinstance(array, pa.ChunkedArray) else pa.concat_arrays(array.chunks)


def _offsets(storage: TableStorage, handle: SnapshotHandle, place: FragmentPlace, rows: Positions) -> Positions:
    """The offsets in the files of a fragment of some of its live rows."""
    deleted = deleted_offsets(storage, handle, place)
    return rows + np.searchsorted(deleted - np.arange(len(deleted)), rows, side="right")


def _addresses(
    storage: TableStorage, handle: SnapshotHandle, place: FragmentPlace, rows: Positions
) -> npt.NDArray[np.uint64]:
    offsets = _offsets(storage, handle, place, rows).astype(np.uint64)
    return (np.uint64(place.number) << _FRAGMENT) | offsets


def row_ids_of(handle: SnapshotHandle, place: FragmentPlace) -> pa.Array:
    """The row ids of all rows in the files of a fragment."""
    metadata = handle._dataset.get_fragment(place.number).metadata.row_id_meta
    return RowIdSequence.from_inline_metadata(metadata).to_pyarrow()


def _chunk_rows(storage: TableStorage, handle: SnapshotHandle, columns: Sequence[str]) -> int:
    return max(1, min(_CHUNK_ROWS, _CHUNK_BYTES // _row_bytes(storage.schema(handle), columns)))


def _row_bytes(schema: pa.Schema, columns: Sequence[str]) -> int:
    """The bytes of columns of a row, roughly."""
    types = [schema.field(name).type for name in columns if name in schema.names]
    vectors: int = sum(4 * type_.list_size for type_ in types if pa.types.is_fixed_size_list(type_))
    blobs = sum(1 << 16 for type_ in types if isinstance(type_, pa.BaseExtensionType))
    return 16 * len(columns) + vectors + blobs


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
    numbers = {fragment.number: files for files, fragment in fragment_places(start).items()}
    after = fragment_places(end)
    fragments = addresses >> _FRAGMENT
    out = addresses.copy()
    for number in np.unique(fragments).tolist():
        target = np.uint64(after[numbers[number]].number)
        chosen = fragments == number
        out[chosen] = (target << _FRAGMENT) | (addresses[chosen] & _OFFSET)
    return out


def carried_positions(storage: TableStorage, start: SnapshotHandle, end: SnapshotHandle, positions: Positions) -> Positions:
    """The positions that rows of one version have in another one, for rows that both versions share."""
    before = list(fragment_places(start).values())
    after = fragment_places(end)
    fragments = np.searchsorted(np.array([place.start for place in before]), positions, side="right") - 1
    out = np.empty(len(positions), np.int64)
    for number in np.unique(fragments).tolist():
        place, chosen = before[number], fragments == number
        other = after[place.files]
        offsets = _offsets(storage, start, place, positions[chosen] - place.start)
        out[chosen] = live_positions(other, deleted_offsets(storage, end, other), offsets)
    return out
