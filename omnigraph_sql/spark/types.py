"""Arrow types and batches for Spark, which has fewer types and requires exact matches."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

_DECIMAL = pa.decimal128(20, 0)
"""The type that holds every unsigned integer of 64 bits."""


def widened_type(kind: pa.DataType) -> pa.DataType:
    """Return the type that represents the values of another in Spark."""
    if isinstance(kind, pa.BaseExtensionType) or pa.types.is_large_binary(kind):
        return pa.binary()
    if pa.types.is_fixed_size_list(kind) or pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(pa.field("element", widened_type(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, widened_type(field.type), field.nullable) for field in kind])
    if pa.types.is_dictionary(kind):
        return widened_type(kind.value_type)
    if pa.types.is_uint64(kind):
        return _DECIMAL
    if pa.types.is_unsigned_integer(kind):
        return pa.int64()
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_null(kind):
        return pa.string()
    return kind


def spark_schema(schema: pa.Schema, columns: Sequence[str] | None = None) -> pa.Schema:
    """Return the schema of a table in Spark, limited to some columns."""
    names = schema.names if columns is None else columns
    fields = [schema.field(name) for name in names]
    return pa.schema([pa.field(field.name, widened_type(field.type), field.nullable) for field in fields])


def spark_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the columns of a batch that a schema names, cast to its types."""
    arrays = [_cast(batch.column(field.name), field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _cast(column: pa.Array, kind: pa.DataType) -> pa.Array:
    if column.type.equals(kind) and not pa.types.is_nested(kind):
        return column
    if pa.types.is_list(kind) and pa.types.is_fixed_size_list(column.type):
        column = column.cast(pa.list_(column.type.value_type))
    return column.cast(kind)
