"""Rows of a table that satisfy plain comparisons: by an index where one helps, otherwise by comparing columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_compiler.types import FLOATS, INTEGER_RANGES, INTEGERS
from omnigraph_sql.engines.scope import Array, Bound, Scope
from omnigraph_sql.planner import functions as fn
from omnigraph_sql.planner.conditions import Simple
from omnigraph_sql.planner.values import Compared, bind, python_value
from omnigraph_sql.topology.ranks import Ranks
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


class _Asked:
    """A condition, with the value that it compares with in one run."""

    def __init__(self, scope: Scope, condition: Simple) -> None:
        self.property = condition.property
        self.type = condition.type
        self.op = condition.op
        self.value = python_value(condition.value, scope.params)
        self._form = condition.value, scope.params

    @cached_property
    def scalar(self) -> pa.Scalar:
        """The value for Arrow."""
        value, params = self._form
        return bind(Compared(value, self.op, self.type), params)

    def ranks(self, table: TableData) -> Ranks | None:
        """What to compare the number with."""
        return table.ranks(self.property, few_values=self.type.enum_values is not None)

    def number(self, ranks: Ranks) -> float | None:
        """The value among the numbers that stand for those of the column; None if there is none."""
        if ranks.texts is not None and self.value is not None:
            return ranks.place(self.value)
        if type(self.value) is int and self.type.scalar in INTEGERS:
            low, high = INTEGER_RANGES[self.type.scalar]
            return self.value if low <= self.value <= high else None
        return self.scalar.as_py() if self.scalar.type == ranks.type else None


def matching(scope: Scope, table_key: str, conditions: Sequence[Simple]) -> Positions:
    """The positions of the rows that satisfy all conditions."""
    table = scope.table(table_key)
    bound = [_Asked(scope, each) for each in conditions]
    found, rest = _by_index(scope, table, bound)
    if found is None:
        return _holding(table, rest).nonzero()[0] if rest else np.arange(table.size)
    return _narrowed(scope, table, rest, found)


def matching_among(scope: Scope, table_key: str, conditions: Sequence[Simple], among: Positions) -> Positions:
    """Those of some positions whose rows satisfy all conditions."""
    bound = [_Asked(scope, each) for each in conditions]
    return _narrowed(scope, scope.table(table_key), bound, among)


def satisfying(scope: Scope, table_key: str, conditions: Sequence[Simple], at: Positions) -> Positions:
    """Which of some positions have rows that satisfy all conditions: their places among these."""
    bound = [_Asked(scope, each) for each in conditions]
    return _places(scope, scope.table(table_key), bound, at)


def _narrowed(scope: Scope, table: TableData, bound: list[_Asked], found: Positions) -> Positions:
    return found[_places(scope, table, bound, found)]


def _places(scope: Scope, table: TableData, bound: list[_Asked], at: Positions) -> Positions:
    places: Positions | None = None
    for asked in bound:
        found = _held_at(scope, table, asked, at if places is None else at[places]).nonzero()[0]
        places = found if places is None else places[found]
    return np.arange(len(at)) if places is None else places


def _held_at(scope: Scope, table: TableData, asked: _Asked, at: Positions) -> Mask:
    """For each of some rows whether a value compares as it should, and is there."""
    ranks = asked.ranks(table)
    number = None if ranks is None else asked.number(ranks)
    if ranks is not None and number is not None:
        return ranks.holds(asked.op, number, at)
    gather = table.gather(asked.property, scope.given, comparable=asked.type.scalar in FLOATS)
    return _as_mask(_compared(gather(pa.array(at)), asked.op, asked.scalar))


def holds(scope: Scope, asked: fn.Holds) -> Bound:
    """Position to whether its row satisfies all conditions."""
    table = scope.table(asked.table_key)
    parts = [_comparison(scope, table, _Asked(scope, each)) for each in asked.conditions]

    def run(v: Array) -> Array:
        found: Array | None = None
        for part in parts:
            each = part(v)
            found = each if found is None else pc.and_kleene(found, each)
        return found

    at_hand = all(table.has_column(condition.property) for condition in asked.conditions)
    return Bound((pa.int64(),), pa.bool_(), run, at_hand=at_hand)


def _comparison(scope: Scope, table: TableData, asked: _Asked) -> Callable[[Array], Array]:
    """From positions to whether a value compares as it should."""
    ranks = asked.ranks(table)
    number = None if ranks is None else asked.number(ranks)
    gather = table.gather(asked.property, scope.given, comparable=asked.type.scalar in FLOATS)

    def run(v: Array) -> Array:
        if ranks is not None and number is not None and not v.null_count:
            return pa.array(ranks.holds(asked.op, number, v.to_numpy()))
        return _compared(gather(v), asked.op, asked.scalar)

    return run


def mask_of(scope: Scope, table_key: str, conditions: Sequence[Simple]) -> Mask:
    """For every row whether it satisfies all conditions."""
    table = scope.table(table_key)
    bound = [_Asked(scope, each) for each in conditions]
    found, rest = _by_index(scope, table, bound)
    if found is None and rest:
        return _holding(table, rest)
    mask = np.zeros(table.size, np.bool_)
    mask[slice(None) if found is None else _narrowed(scope, table, rest, found)] = True
    return mask


def _by_index(scope: Scope, table: TableData, bound: list[_Asked]) -> tuple[Positions | None, list[_Asked]]:
    """The rows that an index gives for one of the conditions, and what is left to be seen to."""
    for place, asked in enumerate(bound):
        if asked.op != "=" or table.has_column(asked.property):
            continue
        value = asked.scalar
        if value.is_valid and table.asks_index(asked.property, value.type, scope.given):
            scope.trace.note(f"{table.entry.table_key}.{asked.property} = value", "index")
            return table.equal_to(asked.property, value), bound[:place] + bound[place + 1 :]
    return None, bound


def _holding(table: TableData, bound: list[_Asked]) -> Mask:
    """For every row whether it satisfies conditions."""
    found: Mask | None = None
    for asked in bound:
        holds = _held(table, asked)
        found = holds if found is None else found & holds
    assert found is not None
    return found


def _held(table: TableData, asked: _Asked) -> Mask:
    """For every row whether a value compares as it should, and is there."""
    column = table.column(asked.property)
    ranks = asked.ranks(table)
    number = None if ranks is None else asked.number(ranks)
    if ranks is not None and number is not None:
        # Many times as fast: what Arrow finds is packed into bits, which somebody has to unpack.
        return ranks.holds(asked.op, number)
    column = table.comparable(asked.property) if asked.type.scalar in FLOATS else column
    return _as_mask(_compared(column, asked.op, asked.scalar))


def _as_mask(holds: Array) -> Mask:
    return np.asarray((holds.fill_null(False) if holds.null_count else holds).to_numpy(zero_copy_only=False), np.bool_)


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
