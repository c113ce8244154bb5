"""Arrow datasets whose rows are made when DataFusion or DuckDB scans them.

DataFusion calls `scanner` for the columns while it plans, and `scanner` of each fragment for the rows when it runs; DuckDB
calls `scanner` for both. Both rely on the dataset to apply the filter, and do not apply it again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.dataset as pads

Batches: TypeAlias = Iterator[pa.RecordBatch]


class LazyDataset(pads.Dataset, ABC):  # type: ignore[misc]
    """A dataset with one fragment. Subclasses make its rows."""

    def __init__(self, schema: pa.Schema) -> None:
        self._columns = schema

    @property
    def schema(self) -> pa.Schema:
        return self._columns

    def scanner(self, columns: Sequence[str] | None = None, filter: Any = None, **_options: Any) -> LazyScan:
        scan = LazyScan(self, self._columns.names if columns is None else columns, filter)
        self.on_planned(scan)
        return scan

    def get_fragments(self, _filter: Any = None) -> list[LazyFragment]:
        return [LazyFragment(self)]

    def on_planned(self, scan: LazyScan) -> None:
        """Note that an engine plans a scan."""

    @abstractmethod
    def batches(self, scan: LazyScan) -> Batches:
        """Return the rows of a scan; without columns, batches that have only a length."""

    def reader(self, scan: LazyScan) -> pa.RecordBatchReader:
        """Return the rows of a scan as a stream."""
        return pa.RecordBatchReader.from_batches(scan.projected_schema, self.batches(scan))


@dataclass(frozen=True, eq=False)
class LazyFragment:
    """All rows of a dataset, for DataFusion."""

    dataset: LazyDataset

    def scanner(
        self,
        _schema: pa.Schema,
        *,
        columns: Sequence[str] | None = None,
        filter: Any = None,
        batch_size: int | None = None,
    ) -> LazyScan:
        return LazyScan(self.dataset, self.dataset.schema.names if columns is None else columns, filter, batch_size)


@dataclass(frozen=True, eq=False)
class LazyScan:
    """The columns and the rows that an engine asks for."""

    dataset: LazyDataset
    columns: Sequence[str]
    filter: Any
    batch_size: int | None = None
    """The rows per batch that the engine prefers; None if it does not say."""

    @property
    def projected_schema(self) -> pa.Schema:
        return pa.schema([self.dataset.schema.field(name) for name in self.columns])

    def to_batches(self) -> Batches:
        """Read the rows, for DataFusion."""
        return self.dataset.batches(self)

    def to_reader(self) -> pa.RecordBatchReader:
        """Read the rows, for DuckDB."""
        return self.dataset.reader(self)


def columnless_batch(rows: int) -> pa.RecordBatch:
    """Return a batch that has only a length."""
    return pa.record_batch([pa.nulls(rows)], names=["_"]).select([])
