"""Conditions on the rows of a foreign table, as a tree: the engines hand them over, and remote SQL is made of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from omnigraph_sql.comparison import ComparisonOperator


@dataclass(frozen=True)
class PredicateColumn:
    """The value of a column."""

    name: str


@dataclass(frozen=True)
class PredicateValue:
    """A constant, which may be null."""

    scalar: pa.Scalar


@dataclass(frozen=True)
class Comparison:
    """Two values compared; unknown where one of them is null."""

    operator: ComparisonOperator
    left: Predicate
    right: Predicate


@dataclass(frozen=True)
class IsIn:
    """`IN`: unknown for null, and for a value without a match if the list contains null."""

    operand: Predicate
    values: pa.Array


@dataclass(frozen=True)
class IsNull:
    """`IS NULL`: NaN is not null."""

    operand: Predicate


@dataclass(frozen=True)
class Not:
    """The opposite; unknown stays unknown."""

    operand: Predicate


@dataclass(frozen=True)
class Both:
    """`AND` of SQL."""

    left: Predicate
    right: Predicate


@dataclass(frozen=True)
class Either:
    """`OR` of SQL."""

    left: Predicate
    right: Predicate


Predicate = PredicateColumn | PredicateValue | Comparison | IsIn | IsNull | Not | Both | Either


def columns_of(predicate: Predicate) -> Iterator[str]:
    """The names of the columns in a condition, some maybe more than once."""
    match predicate:
        case PredicateColumn(name):
            yield name
        case PredicateValue():
            return
        case IsIn(operand) | IsNull(operand) | Not(operand):
            yield from columns_of(operand)
        case Comparison(_, left, right) | Both(left, right) | Either(left, right):
            yield from columns_of(left)
            yield from columns_of(right)
