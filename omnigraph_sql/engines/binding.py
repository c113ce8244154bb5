"""Functions of a plan, bound to the data of one snapshot: arrays of positions in, arrays out."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from omnigraph_sql.engines import ranking, searching, traversal
from omnigraph_sql.engines.scope import Array, Bound, Scope
from omnigraph_sql.planner import functions as fn
from omnigraph_sql.storage.columns import arrow_type

_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def bind_relation(scope: Scope, relation: fn.Relation) -> pa.RecordBatch:
    """The rows of a relation."""
    if isinstance(relation, fn.Top | fn.FusedTop):
        return ranking.best(scope, relation)
    return pa.record_batch([pa.array(traversal.relation(scope, relation), pa.int64())], names=["v"])


def bind_function(scope: Scope, function: fn.Function) -> Bound:
    """What a function does."""
    match function:
        case fn.Get():
            table = scope.table(function.table_key)
            column = table.comparable(function.column) if function.comparable else table.column(function.column)
            return Bound((pa.int64(),), column.type, column.take)
        case fn.IdRank():
            rank = pa.array(scope.table(function.table_key).rank)
            return Bound((pa.int64(),), pa.int64(), rank.take)
        case fn.Hop():
            return traversal.hop(scope, function)
        case fn.Reach():
            return traversal.within(scope, function)
        case fn.HasAny():
            return traversal.any_neighbour(scope, function)
        case fn.Text():
            return searching.text(scope, function)
        case fn.Bm25Score():
            return searching.score(scope, function)
        case fn.Distance():
            return searching.distance(scope, function)
        case fn.Among():
            return ranking.among(scope, function)
        case fn.Exact():
            return _exact(function)


def _exact(exact: fn.Exact) -> Bound:
    compare = _COMPARE[exact.op]

    def run(left: Array, right: Array) -> Array:
        # Python compares whole and floating numbers by their mathematical value.
        pairs = zip(left.to_pylist(), right.to_pylist(), strict=True)
        return pa.array([None if a is None or b is None else compare(a, b) for a, b in pairs], pa.bool_())

    return Bound((arrow_type(exact.left), arrow_type(exact.right)), pa.bool_(), run)
