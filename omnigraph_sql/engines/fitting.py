"""Batches of an engine as batches with the declared columns of a query."""

from __future__ import annotations

import pyarrow as pa

from omnigraph_sql.engines.execution import Execution


def fit(batch: pa.RecordBatch, schema: pa.Schema, execution: Execution) -> pa.RecordBatch:
    """A batch with exactly the declared columns."""
    execution.afford(_null_bytes(batch, schema))
    columns = [_cast(column, field.type) for column, field in zip(batch.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _null_bytes(batch: pa.RecordBatch, schema: pa.Schema) -> int:
    """What columns that are nothing but null take once they have their types: vectors take room for their numbers."""
    types = [field.type for column, field in zip(batch.columns, schema, strict=True) if pa.types.is_null(column.type)]
    rows: int = batch.num_rows
    width: int = sum(4 * type_.list_size for type_ in types if pa.types.is_fixed_size_list(type_))
    return rows * width


def _cast(column: pa.Array, type_: pa.DataType) -> pa.Array:
    if column.type == type_:
        return column
    return pa.nulls(len(column), type_) if pa.types.is_null(column.type) else column.cast(type_)
