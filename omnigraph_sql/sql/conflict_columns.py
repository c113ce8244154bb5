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
    members: dict[str, pa.DataType] = {}
    for type_ in types:
        for field in type_columns(type_):
            known = members.get(field.name, field.type)
            members[field.name] = field.type if known == field.type else pa.string()
    leading = {name: members.pop(name) for name in ("id", "src", "dst") if name in members}
    row = pa.struct([pa.field(name, kind) for name, kind in (leading | members).items()])
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


def all_types(catalog: Catalog) -> list[NodeType | EdgeType]:
    """The types of a schema, nodes first."""
    nodes, edges = catalog.nodes, catalog.edges
    return [*(nodes[name] for name in sorted(nodes)), *(edges[name] for name in sorted(edges))]
