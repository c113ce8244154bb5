"""Changes between two versions of a table: of all its rows, or of a single one."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_sql.history.row_changes import ABSENT, NO_CHANGES, RowChanges, equal_rows, value_columns, version_changes
from omnigraph_sql.manifest.snapshot import Entry
from omnigraph_sql.storage.filters import member_filter
from omnigraph_sql.storage.handles import SnapshotHandle
from omnigraph_sql.storage.id_lookup import positions_of_ids
from omnigraph_sql.storage.tables import TableStorage
from omnigraph_sql.storage.version_difference import Positions, carried_positions, row_difference, rows_at


class TableDifferences(Protocol):
    """Compares versions of a table."""

    def between(self, before: Entry | None, after: Entry | None) -> RowChanges:
        """Return the rows that were changed. A version that is not there has no rows."""


class TypeDifferences(TableDifferences):
    """Compares all rows of a type."""

    def __init__(self, storage: TableStorage) -> None:
        self._storage = storage

    def between(self, before: Entry | None, after: Entry | None) -> RowChanges:
        return version_changes(self._storage, before, after).changed


class EntityDifferences(TableDifferences):
    """Compares one row of a type. Versions are compared from the latest one back, so that the place of the row is known.

    Only the ids of rows that a write removed or replaced are read, and never those of the rows that came.
    """

    def __init__(self, storage: TableStorage, entity_id: str) -> None:
        self._storage = storage
        self._id = pa.array([entity_id], pa.string())
        self._positions: dict[Entry, int] = {}

    def between(self, before: Entry | None, after: Entry | None) -> RowChanges:
        new = self._position(after)
        if before is None:
            old, is_changed = ABSENT, new != ABSENT
        elif after is None:
            old = self._position(before)
            is_changed = old != ABSENT
        else:
            old, is_changed = self._compared(before, after, new)
            self._positions[before] = old
        if not is_changed:
            return NO_CHANGES
        return RowChanges(ids=self._id, old=np.array([old], np.int64), new=np.array([new], np.int64))

    def _position(self, entry: Entry | None) -> int:
        """The position of the row in a version."""
        if entry is None:
            return ABSENT
        if entry not in self._positions:
            handle = self._storage.open(entry)
            positions = positions_of_ids(self._storage, handle, self._id)
            if positions is None:
                rows = self._storage.scan(handle, ["_rowoffset"], member_filter("id", self._id), limit=1)
                positions = rows.read_all().column(0).to_numpy()
            self._positions[entry] = int(positions[0]) if len(positions) else ABSENT
        return self._positions[entry]

    def _compared(self, before: Entry, after: Entry, new: int) -> tuple[int, bool]:
        """The position of the row in the earlier version, and whether the row was changed since."""
        storage = self._storage
        earlier, later = storage.open(before), storage.open(after)
        difference = row_difference(storage, earlier, later)
        old = self._among(earlier, difference.old)
        is_written = new != ABSENT and _has(difference.new, new)
        if old != ABSENT:
            return old, not (is_written and self._is_equal(earlier, old, later, new))
        if new == ABSENT or is_written:
            return ABSENT, is_written
        return int(carried_positions(storage, later, earlier, np.array([new], np.int64))[0]), False

    def _among(self, handle: SnapshotHandle, positions: Positions) -> int:
        """The position of the row among some of a version."""
        start = 0
        for batch in rows_at(self._storage, handle, ["id"], positions) if len(positions) else ():
            place = pc.index(batch.column(0), self._id[0]).as_py()
            if place >= 0:
                return int(positions[start + place])
            start += batch.num_rows
        return ABSENT

    def _is_equal(self, earlier: SnapshotHandle, old: int, later: SnapshotHandle, new: int) -> bool:
        sides = ((earlier, old), (later, new))
        left, right = (value_columns(self._storage, handle, np.array([row], np.int64)) for handle, row in sides)
        return bool(equal_rows(left, right)[0])


def _has(positions: Positions, position: int) -> bool:
    place = np.searchsorted(positions, position)
    return bool(place < len(positions) and positions[place] == position)
