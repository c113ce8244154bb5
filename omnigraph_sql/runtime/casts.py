"""Casts of an engine's batches to the declared columns of a query."""

from __future__ import annotations

import pyarrow as pa

from omnigraph_sql.runtime.execution import Execution


def cast_batch(batch: pa.RecordBatch, schema: pa.Schema, execution: Execution) -> pa.RecordBatch:
    """Return the batch cast to the declared columns."""
    execution.reserve_bytes(_null_bytes(batch, schema))
    columns = [_cast(column, field.type) for column, field in zip(batch.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _null_bytes(batch: pa.RecordBatch, schema: pa.Schema) -> int:
    """Return the bytes that all-null columns need after the cast: a null vector takes as much space as any other."""
    types = [field.type for column, field in zip(batch.columns, schema, strict=True) if pa.types.is_null(column.type)]
    rows: int = batch.num_rows
    width: int = sum(4 * type_.list_size for type_ in types if pa.types.is_fixed_size_list(type_))
    return rows * width


def _cast(column: pa.Array, type_: pa.DataType) -> pa.Array:
    if column.type == type_:
        return column
    return pa.nulls(len(column), type_) if pa.types.is_null(column.type) else column.cast(type_)
