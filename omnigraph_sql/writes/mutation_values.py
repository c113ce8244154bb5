"""Values of mutations: from bound parameters and literals to what a column stores."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from omnigraph_compiler import EdgeType, NodeType, PropType, ir
from omnigraph_sql.embeddings import outdated_by
from omnigraph_sql.errors import BadRequest, ResourceLimit
from omnigraph_sql.storage.columns import blob_column, table_schema
from omnigraph_sql.writes.value_codec import Complaint, stored_value

_EPOCH_DAY = datetime.date(1970, 1, 1)
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def evaluate(expr: ir.Expr, params: Mapping[str, Any]) -> Any:
    """The value of a mutation's literal or parameter, as a plain Python value."""
    if isinstance(expr, ir.ParamRef):
        return params[expr.name]
    assert isinstance(expr, ir.Constant)
    value = expr.value
    if expr.type.scalar == "Date" and not expr.type.is_list:
        return _EPOCH_DAY + datetime.timedelta(days=value)  # type: ignore[arg-type]
    if expr.type.scalar == "DateTime" and not expr.type.is_list:
        return _EPOCH + datetime.timedelta(milliseconds=value)  # type: ignore[arg-type]
    return list(value) if isinstance(value, tuple) else value


def stored(name: str, type_: PropType, value: Any) -> Any:
    """A value converted for a column; `name` is `Type.property` and appears in the message."""
    if value is None:
        return None
    try:
        return stored_value(type_, value)
    except Complaint as complaint:
        raise _refusal(f"`{name}` {complaint.sentence}", complaint) from None


def _refusal(text: str, complaint: Complaint) -> BadRequest | ResourceLimit:
    excess = complaint.excess
    if excess is not None:
        return ResourceLimit(text, resource=excess.resource, limit=excess.limit, actual=excess.actual)
    return BadRequest(text, hint="write inline data as `base64:<data>`" if complaint.rule == "blob" else None)


def outdated_vectors(type_: NodeType | EdgeType, changes: Mapping[str, Any]) -> dict[str, None]:
    """Vectors whose text changes, as nulls: they are computed anew before the rows are written.

    Without a text there is nothing to compute: a vector that may be null goes, one that is required stays.
    """
    names = outdated_by(type_, changes.keys())
    vectors = [prop for prop in type_.properties.values() if prop.name in names and prop.embed is not None]
    return {prop.name: None for prop in vectors if prop.type.nullable or changes[prop.embed.source]}  # type: ignore[union-attr]


def rows_table(type_: NodeType | EdgeType, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Rows as a table of the type's exact schema."""
    schema = table_schema(type_)
    columns = []
    for column in schema:
        values = [row.get(column.name) for row in rows]
        prop = type_.properties.get(column.name)
        if prop is not None and prop.type.is_blob:
            columns.append(blob_column(pa.array(values, pa.large_binary())))
        else:
            columns.append(pa.array(values, column.type))
    return pa.Table.from_arrays(columns, schema=schema)
