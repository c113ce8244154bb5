"""Readers of database tables, which return batches like those of `omnigraph_sql.ingest.files`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from omnigraph_sql.foreign.postgres import DEFAULT_SCHEMA, open_postgres
from omnigraph_sql.foreign.sql_source import RemoteDatabaseTable
from omnigraph_sql.foreign.table_names import parse_table
from omnigraph_sql.ingest.files import RecordCounts, placed_schema


@dataclass(frozen=True)
class DatabaseTable:
    """A table of a Postgres database, with the columns that it had when it was opened."""

    remote: RemoteDatabaseTable

    @property
    def shown(self) -> str:
        """Its address without passwords."""
        return self.remote.shown

    @property
    def schema(self) -> pa.Schema:
        return self.remote.schema

    def raw_batches(self, columns: Sequence[str], first: int, step: int, tally: RecordCounts) -> pa.RecordBatchReader:
        """Read all rows, numbered from `first * step + 1` in the order of their arrival."""
        schema = placed_schema([self.schema.field(name) for name in columns])

        def batches() -> Iterator[pa.RecordBatch]:
            number = first * step + 1
            for batch in self.remote.rows(columns):
                count = batch.num_rows
                system = [pa.array(np.arange(number, number + count)), *(pa.nulls(count, pa.string()) for _ in range(3))]
                yield pa.RecordBatch.from_arrays([*system, *(batch.column(name) for name in columns)], schema=schema)
                number += count
                tally.rows += count

        return pa.RecordBatchReader.from_batches(schema, batches())


def open_table(name: str, uri: str, table: str) -> DatabaseTable:
    """Open a table by its address. Raises `NotFound`, `Configuration` or `SourceFailed`."""
    schema, bare = parse_table(table, DEFAULT_SCHEMA)
    return DatabaseTable(open_postgres(name, uri, schema, bare))
