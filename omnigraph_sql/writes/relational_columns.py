"""The columns that relational tables keep: the types of callers, and the names that a table can hold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa

from omnigraph_sql.errors import BadRequest

UNKEPT: Final = "cast the column to a type that a table keeps, such as BIGINT, DOUBLE, VARCHAR, DATE or TIMESTAMP"
_MOST_DIGITS: Final = 38
_NAMES: Final = "give it a name with AS: visible characters but no dots and backquotes, not beginning `_row`"


def check_column_names(names: Sequence[str]) -> None:
    """Raise for names that no table can hold."""
    for name in names:
        if names.count(name) > 1:
            raise BadRequest(f"two columns are called `{name}`", hint="rename one of them")
        if not name or "." in name or "`" in name or name.startswith("_row"):
            raise BadRequest(f"`{name!r}` cannot be the name of a column", hint=_NAMES)


def kept_type(column: str, kind: pa.DataType) -> pa.DataType:
    """The type that a table keeps for values of a type. Raises if there is none.

    >>> str(kept_type("a", pa.list_view(pa.float16()))), str(kept_type("a", pa.decimal256(20, 2)))
    ('list<item: float>', 'decimal128(20, 2)')
    """
    types = pa.types
    if types.is_null(kind):
        return pa.string()
    if types.is_dictionary(kind) or types.is_run_end_encoded(kind):
        return kept_type(column, kind.value_type)
    if types.is_float16(kind):
        return pa.float32()
    if types.is_time32(kind):
        return pa.time64("us")
    if types.is_decimal(kind) and kind.precision <= _MOST_DIGITS:
        return pa.decimal128(kind.precision, kind.scale)
    if types.is_decimal(kind) or types.is_interval(kind) or types.is_duration(kind) or types.is_union(kind):
        raise BadRequest(f"the column `{column}` is of type {kind}, which a table cannot keep", hint=UNKEPT)
    if types.is_fixed_size_list(kind):
        return pa.list_(kept_field(column, kind.value_field), kind.list_size)
    if types.is_list(kind) or types.is_large_list(kind) or types.is_list_view(kind) or types.is_large_list_view(kind):
        return pa.list_(kept_field(column, kind.value_field))
    if types.is_struct(kind):
        return pa.struct([kept_field(column, member) for member in kind])
    if types.is_map(kind):
        return pa.map_(kept_type(column, kind.key_type), kept_field(column, kind.item_field))
    return kind


def kept_field(column: str, field: pa.Field) -> pa.Field:
    """A field, or a member of the type of a column, with the type that a table keeps."""
    kind = kept_type(column, field.type)
    return field if kind == field.type else field.with_type(kind)


def kept_rows(reader: pa.RecordBatchReader) -> pa.RecordBatchReader:
    """The rows of a caller as a new table keeps them."""
    check_column_names(reader.schema.names)
    schema = pa.schema([kept_field(field.name, field) for field in reader.schema], reader.schema.metadata)
    if schema == reader.schema:
        return reader

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in reader:
            columns = [_kept(column, field) for column, field in zip(batch.columns, schema, strict=True)]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)

    return pa.RecordBatchReader.from_batches(schema, batches())


def cast_values(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Values of another type. Arrow casts list views wrongly, and cannot cast run-ends, so these are made anew."""
    return pa.array(values.to_pylist(), kind) if _needs_copy(values.type) else values.cast(kind)


def _needs_copy(kind: pa.DataType) -> bool:
    types = pa.types
    if types.is_list_view(kind) or types.is_large_list_view(kind) or types.is_run_end_encoded(kind):
        return True
    return any(_needs_copy(kind.field(place).type) for place in range(kind.num_fields))


def _kept(values: pa.Array, field: pa.Field) -> pa.Array:
    try:
        return values if values.type == field.type else cast_values(values, field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        text = f"the column `{field.name}` is of type {values.type}, which a table keeps as {field.type}: {error}"
        raise BadRequest(text, hint=UNKEPT) from None
