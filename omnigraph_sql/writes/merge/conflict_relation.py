"""Conflicts of a merge as a relation: one row per conflict, with the row of each side as a structure."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import Any

import pyarrow as pa

from omnigraph_compiler import Catalog
from omnigraph_sql.result import json_rows
from omnigraph_sql.sql.conflict_columns import SIDES, all_types, conflict_columns, mixed_columns
from omnigraph_sql.sql.resolver import type_columns
from omnigraph_sql.table_keys import TableKey
from omnigraph_sql.writes.merge.conflicts import MergeConflict


def conflicts_table(catalog: Catalog, conflicts: Sequence[MergeConflict], *, of_all_types: bool = False) -> pa.Table:
    """The conflicts as a table. The rows of the sides have the columns of the types that are in conflict.

    They have those of all types if no type is, so that a statement works with and without conflicts, or `of_all_types`.
    """
    types = all_types(catalog)
    keys = {conflict.table_key for conflict in conflicts}
    concerned = [] if of_all_types else [type_ for type_ in types if TableKey.of_type(type_) in keys]
    columns, mixed = conflict_columns(concerned or types), mixed_columns(concerned or types)
    stored = {str(TableKey.of_type(type_)): type_columns(type_) for type_ in types}
    records = [
        {
            "kind": conflict.kind,
            "type": conflict.type_name,
            "id": conflict.id,
            "properties": list(conflict.properties),
            "message": conflict.message,
        }
        | {side: _image(getattr(conflict, side), mixed, stored.get(conflict.table_key)) for side in SIDES}
        for conflict in conflicts
    ]
    return pa.Table.from_pylist(records, columns)


def _image(values: dict[str, Any] | None, mixed: Collection[str], stored: pa.Schema | None) -> dict[str, Any] | None:
    """The row of a side, with values as JSON in columns that have other types elsewhere."""
    if values is None or stored is None:
        return None
    return {
        name: _json(value, stored.field(name).type) if name in mixed else value
        for name, value in values.items()
        if name in stored.names
    }


def _json(value: Any, kind: pa.DataType) -> str | None:
    if value is None:
        return None
    (row,) = json_rows(pa.record_batch([pa.array([value], kind)], names=["value"]))
    return json.dumps(row["value"], ensure_ascii=False)
