"""A version of a table that is opened when somebody reads it, as engines read data sets of Arrow."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.dataset as pads

from omnigraph_sql.storage.filters import filtered
from omnigraph_sql.storage.handles import SnapshotHandle
from omnigraph_sql.storage.providers import batch_rows

_BATCH_ROWS = 1 << 14
"""Of tables whose rows may be long."""
_SHARES = 4


class Conditions(Protocol):
    """What the conditions mean that engines hand over."""

    def columns(self, filter: Any) -> list[str]:
        """The columns that a condition is about."""

    def satisfying(self, batch: pa.RecordBatch, filter: Any) -> pa.RecordBatch:
        """The rows of a batch that satisfy it."""


class LazyTable(pads.Dataset):  # type: ignore[misc]
    """A table whose columns are known and whose rows are not read yet. Blobs are bytes.

    `conditions` is for the conditions that Lance does not take.
    """

    def __init__(
        self,
        columns: pa.Schema,
        opened: Callable[[], SnapshotHandle],
        conditions: Conditions,
    ) -> None:
        self._columns = columns
        self._opened = opened
        self._conditions = conditions

    @property
    def schema(self) -> pa.Schema:
        return self._columns

    def scanner(self, columns: list[str] | None = None, filter: Any = None, **_: Any) -> Any:
        """What DuckDB reads; DataFusion only asks it for its columns, which takes no reading."""
        return _Scan(self, self._names(columns), filter, 0)

    def get_fragments(self, _: Any = None) -> list[_Fragment]:
        """What DataFusion reads, all of it at once."""
        return [_Fragment(self)]

    def _names(self, columns: list[str] | None) -> list[str]:
        return self._columns.names if columns is None else list(columns)


@dataclass(frozen=True)
class _Fragment:
    table: LazyTable

    def scanner(self, _: Any, *, columns: list[str] | None = None, filter: Any = None, batch_size: int) -> _Scan:
        return _Scan(self.table, self.table._names(columns), filter, batch_size)


@dataclass(frozen=True)
class _Scan:
    table: LazyTable
    columns: list[str]
    filter: Any
    least: int
    """Rows that a batch should have, or more."""

    @property
    def projected_schema(self) -> pa.Schema:
        return pa.schema([self.table.schema.field(name) for name in self.columns])

    def to_reader(self) -> pa.RecordBatchReader:
        """The rows, with the columns that were asked for."""
        schema = self.projected_schema
        batches = self._batches()
        if isinstance(batches, pa.RecordBatchReader) and batches.schema.equals(schema):
            return batches  # as it is: whoever reads it need not wait for Python
        fitting = (batch if batch.schema.equals(schema) else batch.cast(schema) for batch in batches)
        return pa.RecordBatchReader.from_batches(schema, fitting)

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """As `to_reader`; without columns, batches that only have a length."""
        if self.columns:
            yield from self.to_reader()
        elif self.filter is None:
            yield _rows(self._dataset.count_rows())
        else:
            yield _rows(sum(batch.num_rows for batch in self._batches()))

    @property
    def _dataset(self) -> Any:
        return self.table._opened()._dataset

    def _batches(self) -> Iterator[pa.RecordBatch] | pa.RecordBatchReader:
        columns = self.columns or self.table.schema.names[:1]
        if isinstance(self.filter, pa.Scalar):  # a condition that every row satisfies, or none
            return self._filtered(columns)
        try:
            return self._scanned(columns, self.filter)
        except (ValueError, pa.ArrowNotImplementedError):
            # Lance takes no condition on unsigned numbers from Arrow: all rows are read, and looked at here.
            if self.filter is None:
                raise
        return self._filtered(columns)

    def _scanned(self, columns: list[str], filter: Any) -> pa.RecordBatchReader:
        handle = self.table._opened()
        if "batch rows" not in handle._made:
            handle._made["batch rows"] = _suitable(handle._dataset)
        length = max(handle._made["batch rows"], self.least)
        scanner = filtered(handle._dataset, filter, columns=columns, batch_size=length, blob_handling="all_binary")
        reader: pa.RecordBatchReader = scanner.to_reader()
        return reader

    def _filtered(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        conditions = self.table._conditions
        needed = list(dict.fromkeys([*columns, *conditions.columns(self.filter)]))
        for batch in self._scanned(needed, None):
            yield conditions.satisfying(batch, self.filter).select(columns)


def _suitable(dataset: Any) -> int:
    """How many rows a batch should have: as many as suit their length, but every thread should get some batches."""
    each: int = dataset.count_rows() // (_SHARES * (os.cpu_count() or 1))
    return min(batch_rows(dataset) or _BATCH_ROWS, max(_BATCH_ROWS, each))


def _rows(count: int) -> pa.RecordBatch:
    """So many rows without columns: what counting them takes."""
    return pa.record_batch([pa.nulls(count)], names=["_"]).select([])
