"""A write that takes changed, new and removed rows in pieces and becomes one commit."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from lance.dataset import Transaction
from lance.fragment import RowIdSequence, write_fragments

from omnigraph_sql.storage.handles import SnapshotHandle, StagedHandle, reading
from omnigraph_sql.storage.row_updates import row_update
from omnigraph_sql.storage.table_parts import fragments_of

Rows: TypeAlias = pa.Table | pa.RecordBatchReader
FRAGMENT_ROWS: Final = 1 << 17
"""The rows of a fragment. Lance looks through the fragment of a row that is replaced when the write is committed."""


class RowStage:
    """A write in the making that takes rows in pieces. Changed rows keep their identity."""

    def __init__(self, handle: SnapshotHandle, finish: Callable[[Transaction, str, int], StagedHandle]) -> None:
        self._handle = handle
        self._dataset = handle._dataset
        self._finish = finish
        self._new: list[Any] = []
        self._rows = 0
        self._gone: dict[int, list[npt.NDArray[np.int64]]] = defaultdict(list)
        """The offsets of rows that go, by fragment."""

    def add(self, rows: Rows) -> None:
        """New rows."""
        if isinstance(rows, pa.Table) and rows.num_rows == 0:
            return
        with reading(self._handle):
            fragments = [
                fragment
                for fragment in write_fragments(rows, self._dataset, mode="append", max_rows_per_file=FRAGMENT_ROWS)
                if fragment.num_rows
            ]
        self._new += fragments
        self._rows += sum(fragment.num_rows for fragment in fragments)

    def change(self, rows: pa.Table, row_ids: pa.Array, addresses: pa.Array) -> None:
        """Rows that replace those with these row ids, which are at these addresses."""
        if rows.num_rows == 0:
            return
        with reading(self._handle):
            fragments = write_fragments(rows, self._dataset, mode="append", max_rows_per_file=FRAGMENT_ROWS)
        self._change(fragments, row_ids, addresses)

    def add_parts(self, entries: Iterable[Any]) -> None:
        """New rows that others wrote on this lineage."""
        fragments = fragments_of(entries)
        self._new += fragments
        self._rows += sum(fragment.num_rows for fragment in fragments)

    def change_parts(self, entries: Iterable[Any], row_ids: pa.Array, addresses: pa.Array) -> None:
        """As `change`, with rows that others wrote on this lineage."""
        self._change(fragments_of(entries), row_ids, addresses)

    def _change(self, fragments: list[Any], row_ids: pa.Array, addresses: pa.Array) -> None:
        start = 0
        for fragment in fragments:
            ids = row_ids.slice(start, fragment.num_rows).to_pylist()
            fragment.row_id_meta = RowIdSequence(ids).to_inline_metadata()
            start += fragment.num_rows
        self._new += fragments
        self._rows += start
        self.remove(addresses)

    def remove(self, addresses: pa.Array) -> None:
        """Take away the rows at these addresses."""
        places = addresses.to_numpy(zero_copy_only=False).astype(np.uint64)
        numbers, offsets = places >> np.uint64(32), (places & np.uint64(0xFFFFFFFF)).astype(np.int64)
        for number in np.unique(numbers).tolist():
            self._gone[number].append(offsets[numbers == number])

    def finish(self, operation_id: str) -> StagedHandle:
        """The whole as one staged write."""
        updated, emptied = [], []
        for fragment in self._dataset.get_fragments():
            gone = self._gone.get(fragment.fragment_id)
            if gone is None:
                continue
            with reading(self._handle):
                after = fragment.delete_rows(np.unique(np.concatenate(gone)).tolist())
            if after is None:
                emptied.append(fragment.fragment_id)
            else:
                updated.append(after)
        operation = row_update(emptied, updated, self._new)
        transaction = Transaction(self._dataset.version, operation, uuid=str(uuid.uuid4()))
        return self._finish(transaction, operation_id, self._rows)
