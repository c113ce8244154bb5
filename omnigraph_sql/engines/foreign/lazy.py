"""A table that is read when an engine asks for its rows, in the form of a dataset, which DataFusion and DuckDB accept.

DataFusion asks `scanner` for the columns while it plans, and each fragment for the rows when it runs; DuckDB asks `scanner`
for both. Both leave it to the dataset to apply the filter, and believe that it did.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.dataset as pads

Batches = Iterator[pa.RecordBatch]


class Source(Protocol):
    """Where the rows come from."""

    @property
    def schema(self) -> pa.Schema:
        """All columns."""

    def planned(self, columns: Sequence[str], expression: Any) -> None:
        """An engine makes a plan in which these columns are read."""

    def batches(self, columns: Sequence[str], expression: Any) -> Batches:
        """The rows that satisfy a filter, with these columns; with none of them, batches that have a length only."""


class LazyDataset(pads.Dataset):  # type: ignore[misc]
    """A dataset with one fragment, whose rows are asked for when they are needed."""

    def __init__(self, source: Source) -> None:
        self._source = source

    @property
    def schema(self) -> pa.Schema:
        return self._source.schema

    def scanner(self, columns: Sequence[str] | None = None, filter: Any = None, **_options: Any) -> _Scan:
        wanted = self._wanted(columns)
        self._source.planned(wanted, filter)
        return self._scan(wanted, filter)

    def get_fragments(self, filter: Any = None) -> list[_Fragment]:  # noqa: ARG002 (the signature is the engine's)
        return [_Fragment(self)]

    def scan_rows(self, columns: Sequence[str] | None, filter: Any) -> _Scan:
        """A scan of a plan that runs."""
        return self._scan(self._wanted(columns), filter)

    def _wanted(self, columns: Sequence[str] | None) -> Sequence[str]:
        return self._source.schema.names if columns is None else columns

    def _scan(self, columns: Sequence[str], filter: Any) -> _Scan:
        schema = pa.schema([self._source.schema.field(name) for name in columns])
        return _Scan(schema, lambda: self._source.batches(columns, filter))


class _Fragment:
    def __init__(self, dataset: LazyDataset) -> None:
        self._dataset = dataset

    def scanner(
        self,
        schema: pa.Schema | None = None,  # noqa: ARG002 (the signature is the engine's)
        *,
        columns: Sequence[str] | None = None,
        filter: Any = None,
        **_options: Any,
    ) -> _Scan:
        return self._dataset.scan_rows(columns, filter)


class _Scan:
    def __init__(self, schema: pa.Schema, make: Callable[[], Batches]) -> None:
        self.projected_schema = schema
        self._make = make

    def to_batches(self) -> Batches:
        """The rows."""
        return self._make()

    def to_reader(self) -> pa.RecordBatchReader:
        """The rows, as DuckDB takes them."""
        return pa.RecordBatchReader.from_batches(self.projected_schema, self._make())


def lengths(count: int) -> pa.RecordBatch:
    """A batch without columns."""
    return pa.record_batch([pa.nulls(count)], names=["_"]).select([])
