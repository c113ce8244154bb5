"""Predicates of updates and deletes as Arrow expressions; values are never spliced into text."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_compiler import PropType
from omnigraph_compiler.types import FLOATS, INTEGER_RANGES, INTEGERS
from omnigraph_compiler.values import to_f32
from omnigraph_sql.comparison import COMPARATORS
from omnigraph_sql.storage.columns import arrow_type

_NOTHING = pc.scalar(False)


@dataclass(frozen=True)
class Condition:
    """One comparison, for rows in memory and for a table scan."""

    expression: pc.Expression
    scan: pc.Expression | str


def predicate(column: str, type_: PropType, op: str, value: Any) -> Condition:
    """`column op value`. Null on either side never matches."""
    if value is None:
        return Condition(_NOTHING, _NOTHING)
    if type_.scalar in INTEGERS:
        return _integer(column, type_, op, value)
    if type_.scalar in FLOATS:
        expression = _float(column, type_, op, float(value))
    else:
        expression = COMPARATORS[op].apply(pc.field(column), pa.scalar(value, arrow_type(type_)))
    return Condition(expression, expression)


def _integer(column: str, type_: PropType, op: str, value: int | float) -> Condition:
    """An integer column against any number, by mathematical value: nothing is truncated or wrapped."""
    field = pc.field(column)
    low, high = INTEGER_RANGES[type_.scalar]
    everything = Condition(field.is_valid(), f"`{column}` IS NOT NULL")
    nothing = Condition(_NOTHING, _NOTHING)
    if isinstance(value, float) and not value.is_integer():
        if op in ("=", "!="):
            return nothing if op == "=" else everything
        op, value = ("<=", math.floor(value)) if op in ("<", "<=") else (">=", math.ceil(value))
    number = int(value)
    if low <= number <= high:
        expression = COMPARATORS[op].apply(field, pa.scalar(number, arrow_type(type_)))
        # Lance does not take Arrow expressions over unsigned columns; a text of one plain number says the same.
        return Condition(expression, f"`{column}` {op} {number}" if type_.scalar.startswith("U") else expression)
    above = number > high
    return everything if op == "!=" or (op != "=" and (op in ("<", "<=")) == above) else nothing


def _float(column: str, type_: PropType, op: str, value: float) -> pc.Expression:
    """A float column; against F32 the value is first rounded to its width."""
    field = pc.field(column)
    if type_.scalar == "F32":
        try:
            value = to_f32(value)
        except ValueError:
            everything = op == "!=" or (op != "=" and (op in ("<", "<=")) == (value > 0))
            return field.is_valid() if everything else _NOTHING
    return COMPARATORS[op].apply(field, pa.scalar(value, arrow_type(type_)))
