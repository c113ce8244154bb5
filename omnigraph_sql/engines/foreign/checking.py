"""Which rows of a batch satisfy a condition, the way SQL has it.

Arrow's own functions differ from it where it matters: they say that null is in no list, and so that it is not in one; and no
comparison with NaN holds for them, while for DataFusion, DuckDB and Postgres NaN equals itself and is above every number.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_sql.engines.foreign.decoding import decoded
from omnigraph_sql.planner.predicates import (
    Both,
    Column,
    Compare,
    Either,
    IsIn,
    IsNull,
    Not,
    Operator,
    Predicate,
    Value,
    columns_of,
)

_FUNCTIONS: dict[Operator, str] = {
    "=": "equal",
    "<>": "not_equal",
    "<": "less",
    "<=": "less_equal",
    ">": "greater",
    ">=": "greater_equal",
}


class EngineFilters:
    """The filters of engines, as these mean them: Arrow's own meaning of nulls is another."""

    def columns(self, expression: Any) -> list[str]:
        """The columns that a filter is about."""
        return list(columns_of(decoded(expression)))

    def satisfying(self, batch: pa.RecordBatch, expression: Any) -> pa.RecordBatch:
        """The rows of a batch that satisfy a filter."""
        return satisfying(batch, decoded(expression))


ENGINE_FILTERS = EngineFilters()


def satisfying(batch: pa.RecordBatch, predicate: Predicate) -> pa.RecordBatch:
    """The rows for which a condition is true."""
    mask = _evaluated(batch, predicate)
    if isinstance(mask, pa.Scalar):
        return batch if mask.as_py() else batch.slice(0, 0)
    return batch.filter(mask)


def _evaluated(batch: pa.RecordBatch, predicate: Predicate) -> Any:
    match predicate:
        case Column(name):
            return batch.column(name)
        case Value(scalar):
            return scalar
        case Compare(operator, left, right):
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


def _compared(operator: Operator, left: Any, right: Any) -> Any:
    plain = pc.call_function(_FUNCTIONS[operator], [left, right])
    if not (pa.types.is_floating(left.type) and pa.types.is_floating(right.type)):
        return plain
    left_is_nan, right_is_nan = pc.is_nan(left), pc.is_nan(right)
    # A number and NaN compare as false and true do; so do two of a kind, where the plain comparison is used instead.
    as_flags = pc.call_function(_FUNCTIONS[operator], [_flag(left_is_nan), _flag(right_is_nan)])
    return pc.if_else(pc.or_(left_is_nan, right_is_nan), as_flags, plain)


def _flag(is_nan: Any) -> Any:
    return pc.cast(is_nan, pa.int8())


def _is_in(operand: Any, values: pa.Array) -> Any:
    found = pc.is_in(operand, value_set=values.cast(operand.type).drop_null())
    unknown = pc.is_null(operand)
    if values.null_count:
        unknown = pc.or_(unknown, pc.invert(found))
    return pc.if_else(unknown, pa.scalar(None, pa.bool_()), found)
