"""From columns of values to the rows of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_compiler import Catalog, EdgeType, NodeType, Property, PropType
from omnigraph_compiler.diagnostics import did_you_mean
from omnigraph_compiler.values import stored_scalar
from omnigraph_sql import ulid
from omnigraph_sql.storage.columns import arrow_type, blob_column, table_schema, vector_bytes
from omnigraph_sql.table_keys import TableKey
from omnigraph_sql.writes.readers.ids import key_ids
from omnigraph_sql.writes.readers.model import TableBatch

SYSTEM_NAMES = frozenset(
    {
        "_rowid",
        "_rowaddr",
        "_rowoffset",
        "_row_created_at_version",
        "_row_last_updated_at_version",
        "_distance",
        "_score",
        "_tombstone",
    }
)
ENDPOINT_NAMES = frozenset({"src", "dst", "from", "to"})


@dataclass(frozen=True)
class Layout:
    """A type and its table, as the readers need them."""

    type: NodeType | EdgeType
    computes: bool = False
    """True if vectors that are computed from a text may be left out."""
    ends: Mapping[str, PropType] = field(default_factory=dict)
    """Of an edge: the types of the keys that `src` and `dst` name, where a key is one property that is no text."""

    def end_kind(self, end: str) -> str:
        """Return the expected value of an end, for messages."""
        return f"of type {self.ends[end].scalar} or a string" if end in self.ends else "a string"

    def requires(self, prop: Property) -> bool:
        """True if every record must have a value for a property."""
        return not prop.type.nullable and not (self.computes and prop.embed is not None)

    @cached_property
    def key(self) -> str:
        return TableKey.of_type(self.type)

    @cached_property
    def schema(self) -> pa.Schema:
        return table_schema(self.type)

    @property
    def is_edge(self) -> bool:
        return isinstance(self.type, EdgeType)

    @property
    def properties(self) -> Mapping[str, Property]:
        return self.type.properties

    @cached_property
    def node_with_key(self) -> NodeType | None:
        return self.type if isinstance(self.type, NodeType) and self.type.key is not None else None

    @cached_property
    def vector_bytes(self) -> int:
        """The bytes of the vectors of a row, null or not."""
        return vector_bytes(self.type)

    @cached_property
    def value_types(self) -> Mapping[str, pa.DataType]:
        """The Arrow types of the properties; Blobs are bytes until the very end."""
        return {name: arrow_type(prop.type) for name, prop in self.properties.items()}

    @cached_property
    def defaults(self) -> Mapping[str, Any]:
        """Stored values of the properties that have a `@default`."""
        return {
            name: stored_scalar(prop.type, prop.default)
            for name, prop in self.properties.items()
            if prop.default is not None
        }

    def named(self, name: str) -> str:
        """A property with its type, for messages."""
        return f"`{self.type.name}.{name}`"

    def is_reserved(self, name: str) -> bool:
        """True if no property of this type can ever have the name."""
        return name in SYSTEM_NAMES or (self.is_edge and name in ENDPOINT_NAMES)


@dataclass(frozen=True)
class LayoutPart:
    """Rows of a table: values of the right types, and ids only where they are given or derived from a key."""

    lines: npt.NDArray[np.int64]
    columns: Mapping[str, pa.Array]


class Layouts:
    """The types of a catalog, by the names that data uses for them."""

    def __init__(self, catalog: Catalog, *, computes: bool = False) -> None:
        self._catalog = catalog
        self._nodes = {name: Layout(node, computes) for name, node in catalog.nodes.items()}
        self._edges = {name: Layout(edge, computes, _ends(edge, catalog)) for name, edge in catalog.edges.items()}

    def widest(self, limit: int) -> int:
        """The most bytes of vectors of a row of any type, without types whose rows are refused."""
        sizes = [layout.vector_bytes for layout in (*self._nodes.values(), *self._edges.values())]
        return max((size for size in sizes if size <= limit), default=0)

    def node(self, name: str) -> Layout | None:
        return self._nodes.get(name)

    def edge(self, name: str) -> Layout | None:
        """Edge types by name, in any case."""
        edge = self._catalog.edge_by_word(name)
        return None if edge is None else self._edges[edge.name]

    def node_hint(self, name: str) -> str | None:
        hint = did_you_mean(name, self._nodes)
        edge = self.edge(name)
        return hint if edge is None else f"`{edge.type.name}` is an edge type"

    def hint(self, name: str) -> str | None:
        return did_you_mean(name, [*self._nodes, *self._edges])

    def edge_hint(self, name: str) -> str | None:
        return f"`{name}` is a node type" if name in self._nodes else did_you_mean(name, self._edges)


def _ends(edge: EdgeType, catalog: Catalog) -> dict[str, PropType]:
    types: dict[str, PropType] = {}
    for end, name in (("src", edge.source), ("dst", edge.target)):
        node = catalog.nodes[name]
        if node.key is not None and len(node.key) == 1 and node.properties[node.key[0]].type.scalar != "String":
            types[end] = node.properties[node.key[0]].type
    return types


def with_key_ids(layout: Layout, columns: Mapping[str, pa.Array]) -> dict[str, pa.Array]:
    """The columns with the ids that follow from the key, where the type has one."""
    node = layout.node_with_key
    return {**columns, "id": key_ids(node, columns)} if node is not None else dict(columns)


def to_batch(layout: Layout, parts: Sequence[LayoutPart]) -> TableBatch:
    """Combine parts of a table into one batch, in the order of their lines, with all ids filled in."""
    lines = np.concatenate([part.lines for part in parts])
    columns = {name: _joined([part.columns[name] for part in parts]) for name in layout.schema.names}
    if len(parts) > 1:
        order = np.argsort(lines, kind="stable")
        lines = lines[order]
        columns = {name: column.take(order) for name, column in columns.items()}
    has_id = columns["id"].is_valid()
    absent = len(lines) - has_id.true_count
    if absent:
        columns["id"] = pc.replace_with_mask(columns["id"], pc.invert(has_id), ulid.new_many(absent))
    arrays = [
        blob_column(columns[name]) if name in layout.properties and layout.properties[name].type.is_blob else columns[name]
        for name in layout.schema.names
    ]
    explicit = has_id if layout.node_with_key is None else pa.repeat(pa.scalar(False), len(lines))
    rows = pa.RecordBatch.from_arrays(arrays, schema=layout.schema)
    return TableBatch(layout.key, rows, pa.array(lines), explicit)


def _joined(arrays: list[pa.Array]) -> pa.Array:
    return arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)
