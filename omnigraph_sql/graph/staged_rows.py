"""Rows that a statement is about to write, as a table that the engine reads."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from omnigraph_sql.foreign.predicate_evaluation import ENGINE_FILTERS
from omnigraph_sql.lazy_dataset import Batches, LazyDataset, LazyScan, columnless_batch
from omnigraph_sql.sql.resolver import plain_type
from omnigraph_sql.writes.checks.findings import AT
from omnigraph_sql.writes.checks.pending_graph import TableRows

ROW_NUMBER: Final = "\x1frow"
"""The column with the number of a row, counted from 0."""


class StagedRows(LazyDataset):
    """Spooled rows with their numbers."""

    def __init__(self, rows: TableRows) -> None:
        self._plain = plain_type(rows.schema)
        super().__init__(pa.schema([*self._plain, pa.field(ROW_NUMBER, pa.int64())]))
        self._rows = rows

    def batches(self, scan: LazyScan) -> Batches:
        """Read the rows, and leave out those that the condition of the engine excludes."""
        if not scan.columns and scan.filter is None:
            yield columnless_batch(self._rows.num_rows)
            return
        conditions = () if scan.filter is None else ENGINE_FILTERS.columns(scan.filter)
        names = list(dict.fromkeys([*scan.columns, *conditions]))
        schema = pa.schema([self.schema.field(name) for name in names])
        for batch in self._rows.batches([AT if name == ROW_NUMBER else name for name in names]):
            rows = pa.RecordBatch.from_arrays(batch.columns, schema=schema)
            chosen = rows if scan.filter is None else ENGINE_FILTERS.satisfying(rows, scan.filter)
            yield chosen.select(list(scan.columns)) if scan.columns else columnless_batch(chosen.num_rows)
