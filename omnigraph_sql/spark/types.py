"""Tables as Spark sees them: it has fewer types, and wants them exactly."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

_DECIMAL = pa.decimal128(20, 0)
"""What holds every whole number of 64 bits without a sign."""


def widened(kind: pa.DataType) -> pa.DataType:
    """The type that shows the values of another in Spark."""
    if isinstance(kind, pa.BaseExtensionType) or pa.types.is_large_binary(kind):
        return pa.binary()
    if pa.types.is_fixed_size_list(kind) or pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(pa.field("element", widened(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(each.name, widened(each.type), each.nullable) for each in kind])
    if pa.types.is_dictionary(kind):
        return widened(kind.value_type)
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


def shown_schema(schema: pa.Schema, columns: Sequence[str] | None = None) -> pa.Schema:
    """The columns of a table as Spark sees them."""
    names = schema.names if columns is None else columns
    fields = [schema.field(name) for name in names]
    return pa.schema([pa.field(each.name, widened(each.type), each.nullable) for each in fields])


def shown(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """A batch with exactly these columns."""
    arrays = [_shown(batch.column(field.name), field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _shown(column: pa.Array, kind: pa.DataType) -> pa.Array:
    if column.type.equals(kind) and not pa.types.is_nested(kind):
        return column
    if pa.types.is_list(kind) and pa.types.is_fixed_size_list(column.type):
        column = column.cast(pa.list_(column.type.value_type))
    return column.cast(kind)
