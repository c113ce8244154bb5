"""Scanners with filters, those that Lance does not support included."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from lance.dataset import ScannerBuilder
from pyarrow.substrait import serialize_expressions

_DEEPEST = 10


def member_filter(column: str, values: pa.Array) -> pc.Expression | str:
    """The filter for rows whose column is among the values.

    Lance takes Arrow expressions, but not over unsigned columns; for those the filter is a text of plain numbers.
    """
    if pa.types.is_unsigned_integer(values.type):
        return f"`{column}` IN ({', '.join(str(int(value)) for value in values.to_pylist())})"
    return pc.field(column).isin(values)


def is_deep(filter: pc.Expression) -> bool:
    """True if a filter is so deep that Arrow could not write it down for Lance: each level doubles the time that takes."""
    depth = deepest = 0
    for letter in str(filter):
        depth += {"(": 1, ")": -1}.get(letter, 0)
        deepest = max(deepest, depth)
    return deepest > _DEEPEST


def filtered(dataset: Any, filter: pc.Expression | str | None, **options: Any) -> Any:
    """Return a scanner of the rows that satisfy a filter."""
    if not isinstance(filter, pc.Expression) or not any(_is_unsigned_list(field.type) for field in dataset.schema):
        return dataset.scanner(filter=filter, **options)
    # Lance serialises the whole schema with the filter, and Substrait has no type for lists of unsigned numbers.
    # As Lance does for other such columns, another type stands in for it; the filter does not use the column.
    builder: Any = ScannerBuilder(dataset).apply_defaults(
        {name: option for name, option in options.items() if option is not None}
    )
    fields = [
        pa.field(f"__placeholder_{number}", pa.int8()) if _needs_placeholder(field.type) else field
        for number, field in enumerate(dataset.schema)
    ]
    builder._substrait_filter = bytes(serialize_expressions([filter], ["filter"], pa.schema(fields)))
    return builder.to_scanner()


def _is_unsigned_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) and pa.types.is_unsigned_integer(kind.value_type))


def _needs_placeholder(kind: pa.DataType) -> bool:
    return _is_unsigned_list(kind) or pa.types.is_fixed_size_list(kind) or isinstance(kind, pa.BaseExtensionType)
