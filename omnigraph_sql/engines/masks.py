"""Rows of a table that satisfy plain comparisons: by an index where one helps, otherwise by comparing columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_compiler.types import FLOATS
from omnigraph_sql.engines.scope import Array, Bound, Scope
from omnigraph_sql.planner import functions as fn
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
_COMPARE_NUMBERS: dict[str, Callable[..., Any]] = {
    "=": np.equal,
    "!=": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}
Mask = npt.NDArray[np.bool_]
Positions = npt.NDArray[np.int64]


def matching(scope: Scope, table_key: str, conditions: Sequence[Simple]) -> Positions:
    """The positions of the rows that satisfy all conditions."""
    table = scope.table(table_key)
    bound = [(each, bind(Compared(each.value, each.op, each.type), scope.params)) for each in conditions]
    found, rest = _by_index(scope, table, bound)
    if found is None:
        return _rows(table, rest) if rest else np.arange(table.size)
    return _narrowed(scope, table, rest, found)


def matching_among(scope: Scope, table_key: str, conditions: Sequence[Simple], among: Positions) -> Positions:
    """Those of some positions whose rows satisfy all conditions."""
    bound = [(each, bind(Compared(each.value, each.op, each.type), scope.params)) for each in conditions]
    return _narrowed(scope, scope.table(table_key), bound, among)


def satisfying(scope: Scope, table_key: str, conditions: Sequence[Simple], at: Positions) -> Positions:
    """Which of some positions have rows that satisfy all conditions: their places among these."""
    bound = [(each, bind(Compared(each.value, each.op, each.type), scope.params)) for each in conditions]
    return _places(scope, scope.table(table_key), bound, at)


def _narrowed(scope: Scope, table: TableData, bound: list[tuple[Simple, pa.Scalar]], found: Positions) -> Positions:
    return found[_places(scope, table, bound, found)]


def _places(scope: Scope, table: TableData, bound: list[tuple[Simple, pa.Scalar]], at: Positions) -> Positions:
    places: Positions | None = None
    for condition, value in bound:
        gather = table.gather(condition.property, scope.given, comparable=condition.type.scalar in FLOATS)
        holds = _compared(gather(pa.array(at if places is None else at[places])), condition.op, value)
        holds = holds.fill_null(False) if holds.null_count else holds
        found = np.flatnonzero(holds.to_numpy(zero_copy_only=False))
        places = found if places is None else places[found]
    return np.arange(len(at)) if places is None else places


def holds(scope: Scope, asked: fn.Holds) -> Bound:
    """Position to whether its row satisfies all conditions."""
    table = scope.table(asked.table_key)
    parts = []
    for condition in asked.conditions:
        value = bind(Compared(condition.value, condition.op, condition.type), scope.params)
        gather = table.gather(condition.property, scope.given, comparable=condition.type.scalar in FLOATS)
        parts.append((gather, condition.op, value))

    def run(v: Array) -> Array:
        found: Array | None = None
        for gather, op, value in parts:
            each = _compared(gather(v), op, value)
            found = each if found is None else pc.and_kleene(found, each)
        return found

    at_hand = all(table.has_column(condition.property) for condition in asked.conditions)
    return Bound((pa.int64(),), pa.bool_(), run, at_hand=at_hand)


def mask_of(scope: Scope, table_key: str, conditions: Sequence[Simple]) -> Mask:
    """For every row whether it satisfies all conditions."""
    table = scope.table(table_key)
    bound = [(each, bind(Compared(each.value, each.op, each.type), scope.params)) for each in conditions]
    found, rest = _by_index(scope, table, bound)
    if found is None and rest:
        return _holding(table, rest)
    mask = np.zeros(table.size, np.bool_)
    mask[slice(None) if found is None else _narrowed(scope, table, rest, found)] = True
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


def _rows(table: TableData, bound: list[tuple[Simple, pa.Scalar]]) -> Positions:
    """The rows of a table that satisfy conditions, column by column."""
    return np.flatnonzero(_holding(table, bound))


def _holding(table: TableData, bound: list[tuple[Simple, pa.Scalar]]) -> Mask:
    """For every row whether it satisfies conditions."""
    found: Mask | None = None
    for condition, value in bound:
        is_float = condition.type.scalar in FLOATS
        column = table.comparable(condition.property) if is_float else table.column(condition.property)
        holds = _whole(column, condition.op, value)
        found = holds if found is None else found & holds
    assert found is not None
    return found


def _whole(column: Array, op: str, value: pa.Scalar) -> Mask:
    """For each value of a column whether it compares as it should, and is there."""
    if value.is_valid and value.type == column.type and not column.null_count and _is_number(column.type):
        # Many times as fast: what Arrow finds is packed into bits, which somebody has to unpack.
        compared: Mask = _COMPARE_NUMBERS[op](column.to_numpy(), value.as_py())
        return compared
    holds = _compared(column, op, value)
    return np.asarray((holds.fill_null(False) if holds.null_count else holds).to_numpy(zero_copy_only=False), np.bool_)


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _compared(column: Array, op: str, value: pa.Scalar) -> Array:
    """For each value of a column whether it compares as it should; null, or false, where it is null."""
    if not value.is_valid:
        return pa.array(np.zeros(len(column), np.bool_))
    if pa.types.is_decimal(value.type):
        # Beyond every number of the column: what is there compares alike.
        above = value.as_py() > 0
        alike = {"=": False, "!=": True, "<": above, "<=": above, ">": not above, ">=": not above}[op]
        return column.is_valid() if alike else pa.array(np.zeros(len(column), np.bool_))
    if pa.types.is_large_string(column.type):
        value = value.cast(column.type)
    return _COMPARE[op](column, value)
