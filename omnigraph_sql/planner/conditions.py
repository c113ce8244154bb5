"""Plain conditions, which a relation applies itself: comparisons of a property with a value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeGuard

from omnigraph_compiler import PropType, ir
from omnigraph_sql.comparison import COMPARATORS

_ELSEWHERE = ("Bool", "Blob")


@dataclass(frozen=True)
class Simple:
    """A property, an operator and a value."""

    property: str
    type: PropType
    op: str
    value: ir.ParamRef | ir.Constant

    def __str__(self) -> str:
        shown = f"${self.value.name}" if isinstance(self.value, ir.ParamRef) else repr(self.value.value)
        return f"{self.property} {self.op} {shown}"


def split(filters: Sequence[ir.Compare]) -> tuple[tuple[Simple, ...], tuple[ir.Compare, ...]]:
    """The plain comparisons among conditions on one variable, and the others."""
    plain, rest = [], []
    for condition in filters:
        simple = _simple(condition)
        if simple is None:
            rest.append(condition)
        else:
            plain.append(simple)
    return tuple(plain), tuple(rest)


def _simple(condition: ir.Compare) -> Simple | None:
    left, op, right = condition.left, condition.op, condition.right
    if op not in COMPARATORS:
        return None
    if _is_value(left) and isinstance(right, ir.PropertyRef):
        return _plain(right, COMPARATORS[op].mirrored, left)
    if _is_value(right) and isinstance(left, ir.PropertyRef):
        return _plain(left, op, right)
    return None


def _is_value(expr: ir.Expr) -> TypeGuard[ir.ParamRef | ir.Constant]:
    return isinstance(expr, ir.ParamRef | ir.Constant)


def _plain(prop: ir.PropertyRef, op: str, value: ir.ParamRef | ir.Constant) -> Simple | None:
    kind = prop.type
    if kind.is_list or kind.is_vector or kind.scalar in _ELSEWHERE or value.type.is_list or value.type.is_vector:
        return None
    return Simple(prop.property, kind, op, value)
