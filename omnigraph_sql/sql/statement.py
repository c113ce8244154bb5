"""SQL statements, independent of the engine: the request, its parameters, and the columns of its result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from omnigraph_compiler.plain import plain_value
from omnigraph_sql.arguments import raised
from omnigraph_sql.errors import BadRequest
from omnigraph_sql.manifest.snapshot import Snapshot
from omnigraph_sql.runtime.limits import RunLimits
from omnigraph_sql.runtime.streams import Portion
from omnigraph_sql.sql.refs import StateRef

READ_AHEAD = Portion(rows=8192)
"""The rows that are read before a statement returns."""


@dataclass(frozen=True, kw_only=True)
class SqlRequest:
    """A statement with its parameters, on one state of a graph."""

    text: str
    params: Mapping[str, Any]
    default_state: StateRef
    limits: RunLimits
    spent: float = 0.0
    """Seconds of the timeout that the checks of the text have used."""
    states: dict[StateRef, Snapshot] = field(default_factory=dict)
    """The snapshots of state references. Resolved ones are added, so that a second run reads the same states."""


def parameter_scalar(name: str, value: Any) -> pa.Scalar:
    """Convert the value of a parameter to an Arrow scalar."""
    try:
        scalar = pa.scalar(value if _is_numeric(value) else plain_value(value))
        if pa.types.is_nested(scalar.type):
            scalar.as_py()  # raises if Arrow has taken bytes for text
        return scalar
    except UnicodeEncodeError:
        hint = "decode it with another encoding, or replace what is no character"
        raise BadRequest(f"the parameter `{name}` holds half of a surrogate pair", hint=hint) from None
    except Exception as error:  # a class of the caller may raise anything
        hint = "give a plain value, or one of pyarrow.scalar"
        raise BadRequest(f"the parameter `{name}` cannot be bound: {raised(error)}", hint=hint) from None


def _is_numeric(value: Any) -> bool:
    """True for a NumPy number or one-dimensional array of numbers, which Arrow converts with its width."""
    return (
        isinstance(value, np.ndarray | np.generic)
        and (isinstance(value, np.generic) or value.ndim == 1)
        and value.dtype.kind in "iufb"
    )


def result_schema(schema: pa.Schema) -> pa.Schema:
    """Return the columns of a result: plain types, and unique names."""
    original, taken = set(schema.names), set[str]()
    fields = []
    for column in schema:
        name, number = column.name, 1
        while name in taken or (number > 1 and name in original):
            name, number = f"{column.name}_{number}", number + 1
        taken.add(name)
        fields.append(pa.field(name, _plain(column.type)))
    return pa.schema(fields)


def result_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Cast a batch to the columns of a result."""
    if batch.schema.equals(schema):
        return batch
    columns = [
        column if column.type == kind else column.cast(kind)
        for column, kind in zip(batch.columns, schema.types, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _plain(kind: pa.DataType) -> pa.DataType:
    """Replace a view type by the plain one, which every Arrow reader supports."""
    if kind == pa.string_view():
        return pa.string()
    return pa.binary() if kind == pa.binary_view() else kind
