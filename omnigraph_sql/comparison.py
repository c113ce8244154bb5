"""The comparison operators, spelled as in the query language, and their forms elsewhere."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

ComparisonOperator: TypeAlias = Literal["=", "!=", "<", "<=", ">", ">="]


@dataclass(frozen=True)
class Comparator:
    """One operator."""

    mirrored: ComparisonOperator
    """The operator that says the same with its sides exchanged."""
    apply: Callable[[Any, Any], Any]
    """Compares Python values, NumPy arrays or Arrow expressions."""
    word: str
    """Its name in the names of functions."""
    arrow: str
    """The compute function of Arrow."""


COMPARATORS: Mapping[str, Comparator] = {
    "=": Comparator("=", operator.eq, "eq", "equal"),
    "!=": Comparator("!=", operator.ne, "ne", "not_equal"),
    "<": Comparator(">", operator.lt, "lt", "less"),
    "<=": Comparator(">=", operator.le, "le", "less_equal"),
    ">": Comparator("<", operator.gt, "gt", "greater"),
    ">=": Comparator("<=", operator.ge, "ge", "greater_equal"),
}
"""By `ComparisonOperator`."""
