"""Predicates of updates and deletes as Arrow expressions; values are never spliced into text."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_compiler import PropType
from omnigraph_compiler.types import FLOATS, INTEGER_RANGES, INTEGERS
from omnigraph_compiler.values import to_f32
from omnigraph_sql.storage.columns import arrow_type

_NOTHING = pc.scalar(False)


def predicate(column: str, type_: PropType, op: str, value: Any) -> pc.Expression:
    """`column op value`. Null on either side never matches."""
    if value is None:
        return _NOTHING
    if type_.scalar in INTEGERS:
        return _integer(column, type_, op, value)
    if type_.scalar in FLOATS:
        return _float(column, type_, op, float(value))
    return _compare(pc.field(column), op, pa.scalar(value, arrow_type(type_)))


def _compare(field: pc.Expression, op: str, value: pa.Scalar) -> pc.Expression:
    match op:
        case "=":
            return field == value
        case "!=":
            return field != value
        case "<":
            return field < value
        case "<=":
            return field <= value
        case ">":
            return field > value
        case _:
            return field >= value


def _integer(column: str, type_: PropType, op: str, value: int | float) -> pc.Expression:
    """An integer column against any number, by mathematical value: nothing is truncated or wrapped."""
    field = pc.field(column)
    low, high = INTEGER_RANGES[type_.scalar]
    if isinstance(value, float) and not value.is_integer():
        if op in ("=", "!="):
            return _NOTHING if op == "=" else field.is_valid()
        op, value = ("<=", math.floor(value)) if op in ("<", "<=") else (">=", math.ceil(value))
    number = int(value)
    if low <= number <= high:
        return _compare(field, op, pa.scalar(number, arrow_type(type_)))
    above = number > high
    everything = op == "!=" or (op != "=" and (op in ("<", "<=")) == above)
    return field.is_valid() if everything else _NOTHING


def _float(column: str, type_: PropType, op: str, value: float) -> pc.Expression:
    """A float column; against F32 the value is first rounded to its width."""
    field = pc.field(column)
    if type_.scalar == "F32":
        try:
            value = to_f32(value)
        except ValueError:
            everything = op == "!=" or (op != "=" and (op in ("<", "<=")) == (value > 0))
            return field.is_valid() if everything else _NOTHING
    return _compare(field, op, pa.scalar(value, arrow_type(type_)))
