"""Rows of a table that satisfy plain comparisons: by an index where one helps, otherwise by comparing columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_compiler.types import FLOATS
from omnigraph_sql.engines.scope import Scope
from omnigraph_sql.planner.conditions import Simple
from omnigraph_sql.planner.values import Compared, bind
from omnigraph_sql.topology.tables import TableData

_COMPARE: dict[str, Callable[[pa.Array, pa.Scalar], pa.Array]] = {
    "=": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
Mask = npt.NDArray[np.bool_]
Positions = npt.NDArray[np.int64]


def matching(scope: Scope, table_key: str, conditions: Sequence[Simple]) -> Positions:
    """The positions of the rows that satisfy all conditions."""
    table = scope.table(table_key)
    bound = [(each, bind(Compared(each.value, each.op, each.type), scope.params)) for each in conditions]
    found, rest = _by_index(scope, table, bound)
    if found is None:
        return np.flatnonzero(_mask(table, rest)) if rest else np.arange(table.size)
    for condition, value in rest:
        gather = table.gather(condition.property, scope.given, comparable=condition.type.scalar in FLOATS)
        found = found[_compared(gather(pa.array(found)), condition.op, value)]
    return found


def mask_of(scope: Scope, table_key: str, conditions: Sequence[Simple]) -> Mask:
    """For every row whether it satisfies all conditions."""
    mask = np.zeros(scope.table(table_key).size, np.bool_)
    mask[matching(scope, table_key, conditions)] = True
    return mask


def _by_index(
    scope: Scope, table: TableData, bound: list[tuple[Simple, pa.Scalar]]
) -> tuple[Positions | None, list[tuple[Simple, pa.Scalar]]]:
    """The rows that an index gives for one of the conditions, and what is left to be seen to."""
    for place, (condition, value) in enumerate(bound):
        if condition.op == "=" and value.is_valid and table.asks_index(condition.property, value.type, scope.given):
            scope.trace.note(f"{table.entry.table_key}.{condition.property} = value", "index")
            return table.equal_to(condition.property, value), bound[:place] + bound[place + 1 :]
    return None, bound


def _mask(table: TableData, bound: list[tuple[Simple, pa.Scalar]]) -> Mask:
    found: Mask | None = None
    for condition, value in bound:
        is_float = condition.type.scalar in FLOATS
        column = table.comparable(condition.property) if is_float else table.column(condition.property)
        mask = _compared(column, condition.op, value)
        found = mask if found is None else found & mask
    assert found is not None
    return found


def _compared(column: pa.Array, op: str, value: pa.Scalar) -> Mask:
    if not value.is_valid:
        return np.zeros(len(column), np.bool_)
    if pa.types.is_decimal(value.type):
        # Beyond every number of the column: what is there compares alike.
        above = value.as_py() > 0
        alike = {"=": False, "!=": True, "<": above, "<=": above, ">": not above, ">=": not above}[op]
        return np.asarray(column.is_valid(), np.bool_) & np.bool_(alike)
    if pa.types.is_large_string(column.type):
        value = value.cast(column.type)
    found = _COMPARE[op](column, value)
    return np.asarray(found.fill_null(False) if found.null_count else found, np.bool_)
