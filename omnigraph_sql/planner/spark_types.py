"""Spark types of Arrow types. Spark has no unsigned numbers: the next wider type holds them."""

from __future__ import annotations

from functools import cache

import pyarrow as pa

_NAMES: dict[pa.DataType, str] = {
    pa.null(): "VOID",
    pa.bool_(): "BOOLEAN",
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.uint32(): "BIGINT",
    pa.uint64(): "DECIMAL(20, 0)",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.string(): "STRING",
    pa.large_string(): "STRING",
    pa.large_binary(): "BINARY",
    pa.date32(): "DATE",
    pa.timestamp("ms", "UTC"): "TIMESTAMP",
    pa.timestamp("us", "UTC"): "TIMESTAMP",
}


@cache
def spark_type(kind: pa.DataType) -> str:
    """The type of Spark that holds every value of an Arrow type."""
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return f"ARRAY<{spark_type(kind.value_type)}>"
    if pa.types.is_struct(kind):
        return f"STRUCT<{', '.join(f'{field.name}: {spark_type(field.type)}' for field in kind)}>"
    if pa.types.is_decimal(kind):
        return f"DECIMAL({kind.precision}, {kind.scale})"
    return _NAMES[kind]
