"""Values of a query at run time: every literal and parameter is bound and never part of the SQL text."""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import pyarrow as pa

from omnigraph_compiler import PropType, ir
from omnigraph_compiler.types import FLOATS, INTEGER_RANGES, INTEGERS
from omnigraph_compiler.values import to_f32
from omnigraph_sql.comparison import COMPARATORS
from omnigraph_sql.errors import BadRequest
from omnigraph_sql.storage.columns import arrow_type

_EPOCH_DAY = datetime.date(1970, 1, 1)
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_WIDE = pa.decimal128(38, 0)
_BEYOND = 10**30
"""A number that no column of whole numbers holds."""


@dataclass(frozen=True)
class Plain:
    """The value itself, in the type it was declared with."""

    expr: ir.ParamRef | ir.Constant
    type: PropType


@dataclass(frozen=True)
class Compared:
    """A value to be compared with a column: rounded or moved so that the comparison is the mathematical one."""

    expr: ir.ParamRef | ir.Constant
    op: str
    """The column on the left."""
    column: PropType


@dataclass(frozen=True)
class Member:
    """A value to be looked for in a list column: in the type of its elements, or null if no element can equal it."""

    expr: ir.ParamRef | ir.Constant
    column: PropType


@dataclass(frozen=True)
class Decided:
    """A comparison of two values, decided before the query runs."""

    left: ir.ParamRef | ir.Constant
    op: str
    right: ir.ParamRef | ir.Constant


@dataclass(frozen=True)
class Listed:
    """A list in which the value of a column is looked for: as far as the column can hold its elements."""

    expr: ir.ParamRef | ir.Constant
    column: PropType


@dataclass(frozen=True)
class Positive:
    """A number above zero, or the default."""

    expr: ir.Expr | None
    what: str
    default: int


Input: TypeAlias = ir.ParamRef | ir.Constant
Value: TypeAlias = Plain | Compared | Member | Listed | Positive | Decided


def bind(value: Value, params: Mapping[str, Any]) -> pa.Scalar:
    """The scalar that stands for a value."""
    match value:
        case Plain():
            plain = python_value(value.expr, params)
            # DataFusion takes no null of a list.
            listed = value.type.is_vector or value.type.is_list
            return pa.scalar(plain, pa.null() if plain is None and listed else arrow_type(value.type))
        case Compared():
            return _compared(python_value(value.expr, params), value.op, value.column)
        case Member():
            return _member(python_value(value.expr, params), value.column)
        case Listed():
            return _listed(python_value(value.expr, params), value.column)
        case Positive():
            return _positive(value, params)
        case Decided():
            return pa.scalar(
                _decided(python_value(value.left, params), value.op, python_value(value.right, params)), pa.bool_()
            )


def kind_of(value: Value) -> pa.DataType | None:
    """Return the static type of a value; None for a number to compare with, which may exceed the range of a column."""
    match value:
        case Plain():
            return arrow_type(value.type)
        case Member():
            return arrow_type(value.column.item)
        case Listed():
            return pa.list_(arrow_type(replace(value.column, nullable=True)))
        case Positive():
            return pa.float64()
        case Decided():
            return pa.bool_()
        case Compared():
            return None if value.column.scalar in (*INTEGERS, *FLOATS) else arrow_type(value.column)


def python_value(expr: ir.ParamRef | ir.Constant, params: Mapping[str, Any]) -> Any:
    """A literal or parameter as a plain Python value."""
    if isinstance(expr, ir.ParamRef):
        return params[expr.name]
    value: Any = expr.value
    convert = {"Date": _date, "DateTime": _instant}.get(expr.type.scalar)
    if isinstance(value, tuple):
        return [convert(item) for item in value] if convert is not None else list(value)
    return convert(value) if convert is not None else value


def _date(days: int) -> datetime.date:
    return _EPOCH_DAY + datetime.timedelta(days=days)


def _instant(milliseconds: int) -> datetime.datetime:
    return _EPOCH + datetime.timedelta(milliseconds=milliseconds)


def _decided(left: Any, op: str, right: Any) -> bool | None:
    if left is None or right is None:
        return None
    if op == "contains":
        return any(element is not None and element == right for element in left)
    if op == "contains_text":
        return right in left
    if op == "starts_with":
        return bool(left.startswith(right))
    if isinstance(left, str):
        left, right = left.encode(), right.encode()
    holds: bool = COMPARATORS[op].apply(left, right)
    return holds


def _compared(value: Any, op: str, column: PropType) -> pa.Scalar:
    if value is None:
        return pa.scalar(None, pa.null() if column.is_vector else arrow_type(column))
    if column.scalar in INTEGERS:
        return _against_integers(value, op, column)
    if column.scalar in FLOATS:
        return _against_floats(value, op, column)
    return pa.scalar(value, arrow_type(column))


def _against_integers(value: int | float, op: str, column: PropType) -> pa.Scalar:
    number = value
    if isinstance(value, float):
        if math.isnan(value):
            return pa.scalar(None, arrow_type(column))
        if math.isinf(value):
            number = _BEYOND if value > 0 else -_BEYOND
        elif not value.is_integer():
            if op == "=":
                return pa.scalar(None, arrow_type(column))
            number = {"!=": _BEYOND, "<": math.ceil(value), ">=": math.ceil(value)}.get(op, math.floor(value))
        else:
            number = int(value)
    low, high = INTEGER_RANGES[column.scalar]
    if low <= number <= high:
        return pa.scalar(number, arrow_type(column))
    return pa.scalar(max(-_BEYOND, min(_BEYOND, int(number))), _WIDE)


def _against_floats(value: int | float, op: str, column: PropType) -> pa.Scalar:
    if isinstance(value, float):
        if column.scalar == "F32":
            try:
                return pa.scalar(to_f32(value) + 0.0, pa.float32())
            except ValueError:
                pass  # beyond every value of the column
        return pa.scalar(value + 0.0, pa.float64())
    near = float(value)
    if int(near) == value:
        return pa.scalar(near + 0.0, pa.float64())
    below, above = (near, math.nextafter(near, math.inf)) if int(near) < value else (math.nextafter(near, -math.inf), near)
    if op == "=":
        return pa.scalar(None, pa.float64())
    return pa.scalar({"!=": math.nan, "<": above, ">=": above}.get(op, below), pa.float64())


def _member(value: Any, column: PropType) -> pa.Scalar:
    item = column.item
    kind = arrow_type(item)
    if value is None:
        return pa.scalar(None, kind)
    if item.scalar in INTEGERS:
        low, high = INTEGER_RANGES[item.scalar]
        if isinstance(value, float) and (not math.isfinite(value) or not value.is_integer()):
            return pa.scalar(None, kind)
        return pa.scalar(int(value) if low <= value <= high else None, kind)
    if item.scalar in FLOATS:
        return pa.scalar(_float_member(value, item), kind)
    return pa.scalar(value, kind)


def _float_member(value: int | float, item: PropType) -> float | None:
    try:
        near = to_f32(value) if item.scalar == "F32" else float(value)
    except (ValueError, OverflowError):
        return None
    return near + 0.0 if isinstance(value, float) or near == value else None


def _listed(values: Any, column: PropType) -> pa.Scalar:
    items = [_member(element, replace(column, is_list=True)).as_py() for element in values or ()]
    return pa.scalar([item for item in items if item is not None], pa.list_(arrow_type(replace(column, nullable=True))))


def _positive(value: Positive, params: Mapping[str, Any]) -> pa.Scalar:
    if value.expr is None:
        return pa.scalar(float(value.default), pa.float64())
    assert isinstance(value.expr, ir.ParamRef | ir.Constant)
    number = python_value(value.expr, params)
    if number is None:
        number = value.default
    if number <= 0:
        raise BadRequest(f"{value.what} is {number}", hint="it must be above 0")
    return pa.scalar(float(number), pa.float64())  # a whole number may be more than 64 bits hold with a sign
