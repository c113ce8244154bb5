"""Arrow schemas of graph tables."""

from __future__ import annotations

import lance
import pyarrow as pa

from omnigraph_compiler import EdgeType, NodeType, PropType

PRIMARY_KEY = {b"lance-schema:unenforced-primary-key": b"true"}

_SCALARS: dict[str, pa.DataType] = {
    "String": pa.string(),
    "Bool": pa.bool_(),
    "I32": pa.int32(),
    "I64": pa.int64(),
    "U32": pa.uint32(),
    "U64": pa.uint64(),
    "F32": pa.float32(),
    "F64": pa.float64(),
    "Date": pa.date32(),
    "DateTime": pa.timestamp("ms", "UTC"),
}


def arrow_type(type_: PropType) -> pa.DataType:
    """The Arrow type of a property as queries see it; a Blob is binary."""
    if type_.is_vector:
        return pa.list_(pa.field("item", pa.float32()), type_.dimension)
    if type_.is_blob:
        return pa.large_binary()
    scalar = _SCALARS[type_.scalar]
    return pa.list_(pa.field("item", scalar)) if type_.is_list else scalar


def table_schema(type_: NodeType | EdgeType) -> pa.Schema:
    """The schema of a type's table: `id` (and `src`, `dst`), then the properties in column order."""
    names = ("id", "src", "dst") if isinstance(type_, EdgeType) else ("id",)
    fields = [pa.field(name, pa.string(), nullable=False, metadata=PRIMARY_KEY if name == "id" else None) for name in names]
    return pa.schema([*fields, *(_column(name, prop.type) for name, prop in type_.properties.items())])


def vector_bytes(type_: NodeType | EdgeType) -> int:
    """The bytes of the vectors of one row. Null vectors count: Arrow allocates their numbers, too."""
    return sum(4 * (prop.type.dimension or 0) for prop in type_.properties.values() if prop.type.is_vector)


def _column(name: str, type_: PropType) -> pa.Field:
    if type_.is_blob:
        return lance.blob_field(name, nullable=type_.nullable)
    return pa.field(name, arrow_type(type_), nullable=type_.nullable)


def blob_column(values: pa.LargeBinaryArray) -> pa.Array:
    """Inline bytes as the values of a `Blob` column; null stays null."""
    absent = [pa.nulls(len(values), type_) for type_ in (pa.string(), pa.uint64(), pa.uint64())]
    names = ["data", "uri", "position", "size"]
    storage = pa.StructArray.from_arrays([values, *absent], names=names, mask=values.is_null())
    return pa.ExtensionArray.from_storage(lance.blob_field("blob").type, storage)
