"""Net changes of the rows of a type between two versions of its table, found at a cost that follows their number."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_sql.history.equality import equal_values
from omnigraph_sql.storage.handles import SnapshotHandle, TableEntry
from omnigraph_sql.storage.tables import TableStorage
from omnigraph_sql.storage.version_difference import (
    Positions,
    RowDifference,
    gathered,
    portions,
    row_difference,
    rows_at,
)

ABSENT = -1
"""The position of a row that a version does not have."""
_NO_IDS = pa.array([], pa.string())
_NONE = np.empty(0, np.int64)


@dataclass(frozen=True, kw_only=True)
class RowChanges:
    """Rows of a type by id, with their positions in two versions of its table."""

    ids: pa.Array
    old: Positions
    """Positions in the earlier version; `ABSENT` for rows that were inserted."""
    new: Positions
    """Positions in the later version; `ABSENT` for rows that were deleted."""

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def inserted(self) -> npt.NDArray[np.bool_]:
        """A mask of the rows that only the later version has."""
        return np.asarray(self.old == ABSENT)

    @property
    def deleted(self) -> npt.NDArray[np.bool_]:
        """A mask of the rows that only the earlier version has."""
        return np.asarray(self.new == ABSENT)

    def take(self, rows: npt.NDArray[np.int64]) -> RowChanges:
        """Some of the rows, in the order of their indices."""
        return RowChanges(ids=self.ids.take(pa.array(rows)), old=self.old[rows], new=self.new[rows])


NO_CHANGES = RowChanges(ids=_NO_IDS, old=_NONE, new=_NONE)


@dataclass(frozen=True, kw_only=True)
class VersionChanges:
    """The changes from one version of the table of a type to another, on whatever branches they are."""

    before: SnapshotHandle | None
    """The earlier version; None if there was no table."""
    after: SnapshotHandle | None
    """The later version; None if there is no table any more."""
    changed: RowChanges
    """Rows that were inserted, updated or deleted."""
    moved: RowChanges
    """Rows that were written again with the values they had."""


@dataclass(frozen=True, kw_only=True)
class WrittenRows:
    """Rows that two versions of a table do not share, by id: those that changed, and those that were only written again."""

    before: SnapshotHandle | None
    """The earlier version; None if there was no table."""
    after: SnapshotHandle | None
    """The later version; None if there is no table any more."""
    rows: RowChanges


def written_rows(storage: TableStorage, old: TableEntry | None, new: TableEntry | None) -> WrittenRows:
    """Compare two versions of a table by their files. Of the rows that these do not share only the ids are read."""
    before = None if old is None else storage.open(old)
    after = None if new is None else storage.open(new)
    if old is not None and new is not None and is_same_version(old, new):
        return WrittenRows(before=before, after=after, rows=NO_CHANGES)
    difference = _difference(storage, before, after)
    rows = _matched(_ids(storage, before, difference.old), _ids(storage, after, difference.new), difference)
    return WrittenRows(before=before, after=after, rows=rows)


def version_changes(storage: TableStorage, old: TableEntry | None, new: TableEntry | None) -> VersionChanges:
    """Compare two versions of a table whose rows have ids. Rows that were rewritten with the same values did not change."""
    written = written_rows(storage, old, new)
    before, after, rows = written.before, written.after, written.rows
    common = np.flatnonzero(~rows.inserted & ~rows.deleted)
    if len(common) == 0 or before is None or after is None:
        return VersionChanges(before=before, after=after, changed=rows, moved=NO_CHANGES)
    same = _are_equal(storage, before, after, rows.old[common], rows.new[common])
    is_moved = np.zeros(len(rows), np.bool_)
    is_moved[common[same]] = True
    return VersionChanges(
        before=before,
        after=after,
        changed=rows.take(np.flatnonzero(~is_moved)),
        moved=rows.take(np.flatnonzero(is_moved)),
    )


def is_same_version(old: TableEntry, new: TableEntry) -> bool:
    """True if two entries show one version of a table."""
    return (old.path, old.branch, old.version) == (new.path, new.branch, new.version)


def _difference(storage: TableStorage, old: SnapshotHandle | None, new: SnapshotHandle | None) -> RowDifference:
    if old is not None and new is not None:
        return row_difference(storage, old, new)
    old_rows = _NONE if old is None else np.arange(storage.count(old))
    new_rows = _NONE if new is None else np.arange(storage.count(new))
    return RowDifference(old_rows, new_rows)


def _ids(storage: TableStorage, handle: SnapshotHandle | None, positions: Positions) -> pa.Array:
    if handle is None or len(positions) == 0:
        return _NO_IDS
    return pa.concat_arrays([batch.column(0) for batch in rows_at(storage, handle, ["id"], positions)])


def _matched(old_ids: pa.Array, new_ids: pa.Array, difference: RowDifference) -> RowChanges:
    """Rows of both versions, brought together by their ids."""
    places = pc.fill_null(pc.index_in(new_ids, value_set=old_ids), ABSENT).to_numpy(zero_copy_only=False).astype(np.int64)
    is_old = places != ABSENT
    old_of_new = np.full(len(new_ids), ABSENT, np.int64)
    old_of_new[is_old] = difference.old[places[is_old]]
    is_gone = np.ones(len(old_ids), np.bool_)
    is_gone[places[is_old]] = False
    gone = np.flatnonzero(is_gone)
    return RowChanges(
        ids=pa.concat_arrays([new_ids, old_ids.take(pa.array(gone))]),
        old=np.concatenate([old_of_new, difference.old[gone]]),
        new=np.concatenate([difference.new, np.full(len(gone), ABSENT, np.int64)]),
    )


def _are_equal(
    storage: TableStorage, before: SnapshotHandle, after: SnapshotHandle, old: Positions, new: Positions
) -> npt.NDArray[np.bool_]:
    """A mask of the pairs of rows that have the same values. They have the same ids.

    Short columns are compared first: of rows that differ in one of them, the long ones are not read.
    """
    columns = {field.name: field.type for field in (*storage.schema(before), *storage.schema(after)) if field.name != "id"}
    short = [name for name, kind in columns.items() if pa.types.is_primitive(kind)]
    equal = np.ones(len(old), np.bool_)
    for names in (short, [name for name in columns if name not in short]):
        if not names:
            continue
        rows = np.flatnonzero(equal)
        for part in portions(storage, after, names, len(rows)):
            chosen = rows[part]
            left, right = _values(storage, before, names, old[chosen]), _values(storage, after, names, new[chosen])
            for name in names:
                equal[chosen] &= equal_column(left, right, name)
    return equal


def value_columns(storage: TableStorage, handle: SnapshotHandle, positions: Positions) -> pa.Table:
    """All columns of the rows at positions, in their order."""
    return gathered(storage, handle, storage.schema(handle).names, positions)


def _values(storage: TableStorage, handle: SnapshotHandle, names: list[str], positions: Positions) -> pa.Table:
    """Columns of the rows at positions, in their order, as far as the table has them."""
    known = [name for name in storage.schema(handle).names if name in names]
    return gathered(storage, handle, known or ["id"], positions)


def equal_rows(left: pa.Table, right: pa.Table) -> npt.NDArray[np.bool_]:
    """A mask of the rows with the same values. A column that one of the tables lacks counts as null."""
    equal = np.ones(left.num_rows, np.bool_)
    for name in dict.fromkeys([*left.column_names, *right.column_names]):
        equal &= equal_column(left, right, name)
    return equal


def equal_column(left: pa.Table, right: pa.Table, name: str) -> npt.NDArray[np.bool_]:
    """A mask of the rows that have the same value in a column."""
    if name in left.column_names and name in right.column_names:
        return equal_values(left.column(name).combine_chunks(), right.column(name).combine_chunks())
    column = (left if name in left.column_names else right).column(name)
    return np.asarray(column.is_null().to_numpy(), np.bool_)
