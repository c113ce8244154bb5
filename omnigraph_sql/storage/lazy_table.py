"""A version of a table as an Arrow dataset that is opened when an engine reads it."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Protocol

import pyarrow as pa

from omnigraph_sql.lazy_dataset import Batches, LazyDataset, LazyScan, columnless_batch
from omnigraph_sql.storage.ffi_provider import batch_rows
from omnigraph_sql.storage.filters import filtered, is_deep
from omnigraph_sql.storage.handles import SnapshotHandle

_BATCH_ROWS = 1 << 14
"""The rows per batch of tables with long rows."""
_SHARES = 4


class Conditions(Protocol):
    """Evaluates the conditions that engines push down."""

    def columns(self, filter: Any) -> list[str]:
        """Return the columns that a condition uses."""

    def satisfying(self, batch: pa.RecordBatch, filter: Any) -> pa.RecordBatch:
        """Return the rows of a batch that satisfy a condition."""


class LazyTable(LazyDataset):
    """A table whose columns are known and whose rows are not read yet. Blobs are bytes.

    `conditions` is for the conditions that Lance does not take.
    """

    def __init__(
        self,
        columns: pa.Schema,
        opened: Callable[[], SnapshotHandle],
        conditions: Conditions,
    ) -> None:
        super().__init__(columns)
        self._opened = opened
        self._conditions = conditions

    def batches(self, scan: LazyScan) -> Batches:
        """Open the table and read it when the first batch is taken."""
        if scan.columns:
            yield from self.reader(scan)
        elif scan.filter is None:
            yield columnless_batch(self._opened()._dataset.count_rows())
        else:
            yield columnless_batch(sum(batch.num_rows for batch in self._satisfying(scan)))

    def reader(self, scan: LazyScan) -> pa.RecordBatchReader:
        """Open the table and return the stream of its rows."""
        schema = scan.projected_schema
        batches = self._satisfying(scan)
        if isinstance(batches, pa.RecordBatchReader) and batches.schema.equals(schema):
            return batches  # unchanged: its consumer reads it without Python
        fitting = (batch if batch.schema.equals(schema) else batch.cast(schema) for batch in batches)
        return pa.RecordBatchReader.from_batches(schema, fitting)

    def _satisfying(self, scan: LazyScan) -> Batches | pa.RecordBatchReader:
        columns = list(scan.columns) or self.schema.names[:1]
        # A constant condition, or one that is nested too deeply for Lance.
        if isinstance(scan.filter, pa.Scalar) or (scan.filter is not None and is_deep(scan.filter)):
            return self._filtered(columns, scan)
        try:
            return self._scanned(columns, scan.filter, scan.batch_size)
        except (ValueError, pa.ArrowNotImplementedError):
            # Lance supports no Arrow condition on unsigned numbers: all rows are read and filtered here.
            if scan.filter is None:
                raise
        return self._filtered(columns, scan)

    def _scanned(self, columns: list[str], filter: Any, batch_size: int | None) -> pa.RecordBatchReader:
        handle = self._opened()
        if "batch rows" not in handle._made:
            handle._made["batch rows"] = _suitable(handle._dataset)
        length = max(handle._made["batch rows"], batch_size or 0)
        scanner = filtered(handle._dataset, filter, columns=columns, batch_size=length, blob_handling="all_binary")
        reader: pa.RecordBatchReader = scanner.to_reader()
        return reader

    def _filtered(self, columns: list[str], scan: LazyScan) -> Batches:
        needed = list(dict.fromkeys([*columns, *self._conditions.columns(scan.filter)]))
        for batch in self._scanned(needed, None, scan.batch_size):
            yield self._conditions.satisfying(batch, scan.filter).select(columns)


def _suitable(dataset: Any) -> int:
    """Return the number of rows per batch: it suits the size of rows, and leaves batches for every thread."""
    share: int = dataset.count_rows() // (_SHARES * (os.cpu_count() or 1))
    return min(batch_rows(dataset) or _BATCH_ROWS, max(_BATCH_ROWS, share))
