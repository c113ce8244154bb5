"""Nodes whose properties compare as they should with given values: a whole column at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_compiler.types import FLOATS
from omnigraph_sql.engines.scope import Scope
from omnigraph_sql.planner import functions as fn
from omnigraph_sql.planner.values import bind

_COMPARE: dict[str, Callable[[Any, Any], pa.Array]] = {
    "=": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


def matching(scope: Scope, asked: fn.Matching) -> npt.NDArray[np.int64]:
    """The positions that satisfy all conditions, ascending."""
    table, found = scope.table(f"node:{asked.type}"), None
    for name, value in asked.conditions:
        column = table.comparable(name) if value.column.scalar in FLOATS else table.column(name)
        holds = _COMPARE[value.op](column, bind(value, scope.params))
        found = holds if found is None else pc.and_(found, holds)
    rows: npt.NDArray[np.int64] = pc.indices_nonzero(found).to_numpy().astype(np.int64)
    return rows
