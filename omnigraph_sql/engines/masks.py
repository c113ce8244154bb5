"""Conditions on whole columns, decided by Arrow without a query: the common case of what a vertex allows.

A condition that is not a plain comparison of a property with a value is left to the engine.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_compiler import ir
from omnigraph_compiler.types import FLOATS
from omnigraph_sql.engines.scope import Scope
from omnigraph_sql.planner.logical import Vertex
from omnigraph_sql.planner.values import Compared, bind

_COMPARE: dict[str, Callable[[pa.Array, pa.Scalar], pa.Array]] = {
    "=": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
_MIRRORED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def allowed_by_columns(scope: Scope, vertex: Vertex) -> npt.NDArray[np.bool_] | None:
    """For every node whether a vertex allows it; None if that takes more than comparing columns with values."""
    if vertex.negations:
        return None
    found: npt.NDArray[np.bool_] | None = None
    for condition in vertex.filters:
        mask = _mask(scope, vertex, condition)
        if mask is None:
            return None
        found = mask if found is None else found & mask
    return found


def _mask(scope: Scope, vertex: Vertex, condition: ir.Compare) -> npt.NDArray[np.bool_] | None:
    left, op, right = condition.left, condition.op, condition.right
    if isinstance(left, ir.ParamRef | ir.Constant):
        left, op, right = right, _MIRRORED.get(op, op), left  # type: ignore[assignment]
    if op not in _COMPARE or not isinstance(left, ir.PropertyRef) or not isinstance(right, ir.ParamRef | ir.Constant):
        return None
    kind = left.type
    if kind.is_list or kind.is_vector or kind.scalar in ("Bool", "Blob"):
        return None
    value = bind(Compared(right, op, kind), scope.params)
    table = scope.table(vertex.table_key)
    column = table.comparable(left.property) if kind.scalar in FLOATS else table.column(left.property)
    if not value.is_valid:
        return np.zeros(len(column), np.bool_)
    if value.type != column.type and not (pa.types.is_floating(value.type) and pa.types.is_floating(column.type)):
        return None
    found: Any = _COMPARE[op](column, value)
    return np.asarray(found.fill_null(False) if found.null_count else found, np.bool_)
