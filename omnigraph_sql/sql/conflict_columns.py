"""The columns of `merge_conflicts`."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from omnigraph_compiler import Catalog, EdgeType, NodeType
from omnigraph_sql.sql.resolver import type_columns

SIDES = ("base", "ours", "theirs")


def conflict_columns(types: Iterable[NodeType | EdgeType]) -> pa.Schema:
    """The columns of conflicts in rows of some types: the row of each side is a structure with the columns of all of them.

    A column that has different types in them is a text, the value as JSON.
    """
    listed = list(types)
    mixed = mixed_columns(listed)
    members = {field.name: field.type for type_ in listed for field in type_columns(type_)}
    leading = {name: members.pop(name) for name in ("id", "src", "dst") if name in members}
    kinds = (leading | members).items()
    row = pa.struct([pa.field(name, pa.string() if name in mixed else kind) for name, kind in kinds])
    return pa.schema(
        [
            pa.field("kind", pa.string(), nullable=False),
            pa.field("type", pa.string(), nullable=False),
            pa.field("id", pa.string()),
            *(pa.field(side, row) for side in SIDES),
            pa.field("properties", pa.list_(pa.field("item", pa.string())), nullable=False),
            pa.field("message", pa.string(), nullable=False),
        ]
    )


def mixed_columns(types: Iterable[NodeType | EdgeType]) -> frozenset[str]:
    """The columns that have different Arrow types in some types."""
    kinds: dict[str, set[pa.DataType]] = {}
    for type_ in types:
        for field in type_columns(type_):
            kinds.setdefault(field.name, set()).add(field.type)
    return frozenset(name for name, different in kinds.items() if len(different) > 1)


def all_types(catalog: Catalog) -> list[NodeType | EdgeType]:
    """The types of a schema, nodes first."""
    nodes, edges = catalog.nodes, catalog.edges
    return [*(nodes[name] for name in sorted(nodes)), *(edges[name] for name in sorted(edges))]
