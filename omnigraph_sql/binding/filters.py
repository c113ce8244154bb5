"""Rows of a table that satisfy plain comparisons: by an index where one helps, otherwise by comparing columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_compiler.types import FLOATS, INTEGER_RANGES, INTEGERS
from omnigraph_sql.binding.context import Array, BindContext, BoundFunction
from omnigraph_sql.comparison import COMPARATORS
from omnigraph_sql.planner import plan_functions as fn
from omnigraph_sql.planner.conditions import Simple
from omnigraph_sql.planner.values import Compared, bind, python_value
from omnigraph_sql.topology.ranks import Ranks
from omnigraph_sql.topology.table_columns import TableData

Mask = npt.NDArray[np.bool_]
Positions = npt.NDArray[np.int64]


class _BoundCondition:
    """A condition, with the value that it compares with in one run."""

    def __init__(self, context: BindContext, condition: Simple) -> None:
        self.property = condition.property
        self.type = condition.type
        self.op = condition.op
        self.value = python_value(condition.value, context.params)
        self._form = condition.value, context.params

    @cached_property
    def scalar(self) -> pa.Scalar:
        """The value for Arrow."""
        value, params = self._form
        return bind(Compared(value, self.op, self.type), params)

    def ranks(self, table: TableData) -> Ranks | None:
        """The column as numbers to compare with; None if it has none."""
        return table.ranks(self.property, few_values=self.type.enum_values is not None)

    def number(self, ranks: Ranks) -> float | None:
        """Return the value as a number comparable with the column's; None if there is none."""
        if ranks.texts is not None and self.value is not None:
            return ranks.place(self.value)
        if type(self.value) is int and self.type.scalar in INTEGERS:
            low, high = INTEGER_RANGES[self.type.scalar]
            return self.value if low <= self.value <= high else None
        return self.scalar.as_py() if self.scalar.type == ranks.type else None


def matching(context: BindContext, table_key: str, conditions: Sequence[Simple]) -> Positions:
    """Return the positions of the rows that satisfy all conditions."""
    table = context.table(table_key)
    bound = [_BoundCondition(context, condition) for condition in conditions]
    positions, rest = _by_index(context, table, bound)
    if positions is None:
        return _holding(table, rest).nonzero()[0] if rest else np.arange(table.size)
    return _narrowed(context, table, rest, positions)


def matching_among(context: BindContext, table_key: str, conditions: Sequence[Simple], among: Positions) -> Positions:
    """Return the positions in `among` whose rows satisfy all conditions."""
    bound = [_BoundCondition(context, condition) for condition in conditions]
    return _narrowed(context, context.table(table_key), bound, among)


def satisfying(context: BindContext, table_key: str, conditions: Sequence[Simple], at: Positions) -> Positions:
    """Return the indices in `at` of the positions whose rows satisfy all conditions."""
    bound = [_BoundCondition(context, condition) for condition in conditions]
    return _places(context, context.table(table_key), bound, at)


def _narrowed(context: BindContext, table: TableData, bound: list[_BoundCondition], positions: Positions) -> Positions:
    return positions[_places(context, table, bound, positions)]


def _places(context: BindContext, table: TableData, bound: list[_BoundCondition], at: Positions) -> Positions:
    places: Positions | None = None
    for condition in bound:
        satisfying = _held_at(context, table, condition, at if places is None else at[places]).nonzero()[0]
        places = satisfying if places is None else places[satisfying]
    return np.arange(len(at)) if places is None else places


def _held_at(context: BindContext, table: TableData, condition: _BoundCondition, at: Positions) -> Mask:
    """Return a mask of the given rows: the value is not null and satisfies the comparison."""
    ranks = condition.ranks(table)
    number = None if ranks is None else condition.number(ranks)
    if ranks is not None and number is not None:
        return ranks.holds(condition.op, number, at)
    gather = table.gather(condition.property, context.traversal, comparable=condition.type.scalar in FLOATS)
    return _as_mask(_compared(gather(pa.array(at)), condition.op, condition.scalar))


def holds(context: BindContext, function: fn.Holds) -> BoundFunction:
    """Bind a function from a position to whether its row satisfies all conditions."""
    table = context.table(function.table_key)
    parts = [_comparison(context, table, _BoundCondition(context, condition)) for condition in function.conditions]

    def run(v: Array) -> Array:
        mask: Array | None = None
        for part in parts:
            part_mask = part(v)
            mask = part_mask if mask is None else pc.and_kleene(mask, part_mask)
        return mask

    is_cached = all(table.has_column(condition.property) for condition in function.conditions)

    return BoundFunction((pa.int64(),), pa.bool_(), run, is_cached=is_cached)


def _comparison(context: BindContext, table: TableData, condition: _BoundCondition) -> Callable[[Array], Array]:
    """Bind a function from positions to whether a value satisfies a comparison."""
    ranks = condition.ranks(table)
    number = None if ranks is None else condition.number(ranks)
    gather = table.gather(condition.property, context.traversal, comparable=condition.type.scalar in FLOATS)

    def run(v: Array) -> Array:
        if ranks is not None and number is not None and not v.null_count:
            return pa.array(ranks.holds(condition.op, number, v.to_numpy()))
        return _compared(gather(v), condition.op, condition.scalar)

    return run


def mask_of(context: BindContext, table_key: str, conditions: Sequence[Simple]) -> Mask:
    """Return a mask of the rows that satisfy all conditions."""
    table = context.table(table_key)
    bound = [_BoundCondition(context, condition) for condition in conditions]
    positions, rest = _by_index(context, table, bound)
    if positions is None and rest:
        return _holding(table, rest)
    mask = np.zeros(table.size, np.bool_)
    mask[slice(None) if positions is None else _narrowed(context, table, rest, positions)] = True
    return mask


def _by_index(
    context: BindContext, table: TableData, bound: list[_BoundCondition]
) -> tuple[Positions | None, list[_BoundCondition]]:
    """Return the rows that an index finds for one condition, and the remaining conditions."""
    for place, condition in enumerate(bound):
        if condition.op != "=" or table.has_column(condition.property):
            continue
        value = condition.scalar
        if value.is_valid and table.asks_index(condition.property, value.type, context.traversal):
            context.trace.note(f"{table.entry.table_key}.{condition.property} = value", "index")
            return table.equal_to(condition.property, value), bound[:place] + bound[place + 1 :]
    return None, bound


def _holding(table: TableData, bound: list[_BoundCondition]) -> Mask:
    """Return a mask of the rows that satisfy conditions."""
    mask: Mask | None = None
    for condition in bound:
        holds = _held(table, condition)
        mask = holds if mask is None else mask & holds
    assert mask is not None
    return mask


def _held(table: TableData, condition: _BoundCondition) -> Mask:
    """Return a mask of all rows: the value is not null and satisfies the comparison."""
    column = table.column(condition.property)
    ranks = condition.ranks(table)
    number = None if ranks is None else condition.number(ranks)
    if ranks is not None and number is not None:
        # Many times as fast: Arrow returns a bitmap, which would have to be unpacked.
        return ranks.holds(condition.op, number)
    column = table.comparable(condition.property) if condition.type.scalar in FLOATS else column
    return _as_mask(_compared(column, condition.op, condition.scalar))


def _as_mask(holds: Array) -> Mask:
    return np.asarray((holds.fill_null(False) if holds.null_count else holds).to_numpy(zero_copy_only=False), np.bool_)


def _compared(column: Array, op: str, value: pa.Scalar) -> Array:
    """Evaluate a comparison for each value of a column; null, or false, for nulls."""
    if not value.is_valid:
        return pa.array(np.zeros(len(column), np.bool_))
    if pa.types.is_decimal(value.type):
        # Out of range of the column's type: all values compare alike.
        above = value.as_py() > 0
        alike = {"=": False, "!=": True, "<": above, "<=": above, ">": not above, ">=": not above}[op]
        return column.is_valid() if alike else pa.array(np.zeros(len(column), np.bool_))
    if pa.types.is_large_string(column.type):
        value = value.cast(column.type)
    return pc.call_function(COMPARATORS[op].arrow, [column, value])
