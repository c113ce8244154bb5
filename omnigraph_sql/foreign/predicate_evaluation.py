"""Evaluation of predicates on batches with SQL semantics.

Arrow's functions differ in two points: for them `null IN (...)` is false instead of unknown, and no comparison with NaN is
true, while in DataFusion, DuckDB and Postgres NaN equals itself and is greater than every number.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_sql.comparison import COMPARATORS, ComparisonOperator
from omnigraph_sql.foreign.filter_codec import decode_filter
from omnigraph_sql.sqltext.predicates import (
    Both,
    Comparison,
    Either,
    IsIn,
    IsNull,
    Not,
    Predicate,
    PredicateColumn,
    PredicateValue,
    columns_of,
)


class EngineFilters:
    """Evaluates pushed-down filters with SQL's three-valued logic, which Arrow does not use."""

    def columns(self, expression: Any) -> list[str]:
        """Return the columns that a filter reads."""
        return list(columns_of(decode_filter(expression)))

    def satisfying(self, batch: pa.RecordBatch, expression: Any) -> pa.RecordBatch:
        """Return the rows of a batch that satisfy a filter."""
        return filter_batch(batch, decode_filter(expression))


ENGINE_FILTERS = EngineFilters()


def filter_batch(batch: pa.RecordBatch, predicate: Predicate) -> pa.RecordBatch:
    """Return the rows for which a predicate is true."""
    mask = _evaluated(batch, predicate)
    if isinstance(mask, pa.Scalar):
        return batch if mask.as_py() else batch.slice(0, 0)
    return batch.filter(mask)


def _evaluated(batch: pa.RecordBatch, predicate: Predicate) -> Any:
    match predicate:
        case PredicateColumn(name):
            return batch.column(name)
        case PredicateValue(scalar):
            return scalar
        case Comparison(operator, left, right):
            return _compared(operator, _evaluated(batch, left), _evaluated(batch, right))
        case IsIn(operand, values):
            return _is_in(_evaluated(batch, operand), values)
        case IsNull(operand):
            return pc.is_null(_evaluated(batch, operand), nan_is_null=False)
        case Not(operand):
            return pc.invert(_evaluated(batch, operand))
        case Both(left, right):
            return pc.and_kleene(_evaluated(batch, left), _evaluated(batch, right))
        case Either(left, right):
            return pc.or_kleene(_evaluated(batch, left), _evaluated(batch, right))


def _compared(operator: ComparisonOperator, left: Any, right: Any) -> Any:
    plain = pc.call_function(COMPARATORS[operator].arrow, [left, right])
    if not (pa.types.is_floating(left.type) and pa.types.is_floating(right.type)):
        return plain
    left_is_nan, right_is_nan = pc.is_nan(left), pc.is_nan(right)
    # With NaN on a side, compare the flags instead of the values: NaN (1) equals NaN and is greater than a number (0).
    as_flags = pc.call_function(COMPARATORS[operator].arrow, [_flag(left_is_nan), _flag(right_is_nan)])
    return pc.if_else(pc.or_(left_is_nan, right_is_nan), as_flags, plain)


def _flag(is_nan: Any) -> Any:
    return pc.cast(is_nan, pa.int8())


def _is_in(operand: Any, values: pa.Array) -> Any:
    is_in = pc.is_in(operand, value_set=values.cast(operand.type).drop_null())
    unknown = pc.is_null(operand)
    if values.null_count:
        unknown = pc.or_(unknown, pc.invert(is_in))
    return pc.if_else(unknown, pa.scalar(None, pa.bool_()), is_in)
