"""The columns of one version of a table, read when they are first needed, in the order of the table."""

from __future__ import annotations

import threading
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_sql.manifest.snapshot import Entry
from omnigraph_sql.storage.tables import TableStorage
from omnigraph_udfs.ids import IdIndex

TableVersion = tuple[str, str | None, int, str]


def version_of(entry: Entry) -> TableVersion:
    """What tells one physical version of a table from every other; branches that share it share what is kept."""
    return entry.path, entry.branch, entry.version, entry.transaction_uuid


class TableData:
    """One version of a table. Safe to use from several threads."""

    def __init__(self, storage: TableStorage, entry: Entry) -> None:
        self.entry = entry
        self.size = entry.row_count
        self._storage = storage
        self._columns: dict[str, pa.Array] = {}
        self._comparable: dict[str, pa.Array] = {}
        self._lock = threading.RLock()

    @property
    def nbytes(self) -> int:
        """What the columns in memory take."""
        return sum(column.nbytes for column in (*self._columns.values(), *self._comparable.values()))

    def load(self, names: list[str]) -> None:
        """Read columns in one pass, as far as they are not there yet."""
        with self._lock:
            missing = [name for name in dict.fromkeys(names) if name not in self._columns]
            if not missing:
                return
            handle = self._storage.open_at(
                self.entry.path, self.entry.branch, self.entry.version, self.entry.transaction_uuid
            )
            table = self._storage.scan(handle, missing, batch_rows=1 << 16).read_all()
            for name in missing:
                self._columns[name] = _one(table.column(name))

    def column(self, name: str) -> pa.Array:
        """A column, as it is stored."""
        self.load([name])
        return self._columns[name]

    def comparable(self, name: str) -> pa.Array:
        """A column of floats, or of lists of them, with one zero only."""
        with self._lock:
            if name not in self._comparable:
                self._comparable[name] = _one_zero(self.column(name))
            return self._comparable[name]

    @cached_property
    def ids(self) -> IdIndex:
        """From id to position."""
        return IdIndex.build(self.column("id"))

    @cached_property
    def rank(self) -> npt.NDArray[np.int64]:
        """The place of each position in the order of ids."""
        order = pc.sort_indices(self.column("id")).to_numpy()
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        return rank


def _one(column: pa.ChunkedArray) -> pa.Array:
    if column.num_chunks == 1:
        return column.chunk(0)
    if pa.types.is_string(column.type) and column.nbytes >= 1 << 31:
        column = column.cast(pa.large_string())
    found = column.combine_chunks()
    return found if not isinstance(found, pa.ChunkedArray) else pa.concat_arrays(found.chunks)


def _one_zero(column: pa.Array) -> pa.Array:
    if pa.types.is_floating(column.type):
        return pc.add(column, pa.scalar(0.0, column.type))
    if pa.types.is_list(column.type):
        values = pc.add(column.values, pa.scalar(0.0, column.type.value_type))
        mask = column.is_null() if column.null_count else None
        return pa.ListArray.from_arrays(column.offsets, values, type=column.type, mask=mask)
    return column
