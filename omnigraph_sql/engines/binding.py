"""Functions of a plan, bound to the data of one snapshot: arrays of positions in, arrays out."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from omnigraph_sql.engines import ranking, traversal
from omnigraph_sql.engines.execution import Execution
from omnigraph_sql.engines.masks import holds
from omnigraph_sql.engines.messages import bind_messages, support
from omnigraph_sql.engines.scope import Array, Bound, Scope, numbers
from omnigraph_sql.planner import functions as fn
from omnigraph_sql.planner.plan import SqlPlan
from omnigraph_sql.planner.values import bind, python_value
from omnigraph_sql.storage.columns import arrow_type
from omnigraph_udfs.numbering import joint

_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True)
class Binding:
    """What the names in the SQL of a query stand for in one run."""

    relations: dict[str, pa.RecordBatch]
    functions: dict[str, Bound]
    values: dict[str, pa.Scalar]

    @property
    def longest(self) -> int:
        """How many rows the longest relation has."""
        return max((batch.num_rows for batch in self.relations.values()), default=0)

    @property
    def notes(self) -> dict[str, str]:
        """How functions do what they do, as far as they say."""
        return {name: bound.note for name, bound in self.functions.items() if bound.note is not None}


def bind_names(plan: SqlPlan, scope: Scope, execution: Execution) -> Binding:
    """Everything that a plan names, bound to the data of one snapshot and to the values of one run."""
    if plan.inputs:
        scope = replace(scope, values={name: python_value(given, scope.params) for name, given in plan.inputs.items()})
    relations = {name: bind_relation(scope, relation) for name, relation in plan.relations.items()}
    bounds = {}
    for name, function in plan.functions.items():
        execution.clock.check()
        bounds[name] = bind_function(scope, function)
    return Binding(relations, bounds, {name: bind(value, scope.params) for name, value in plan.values.items()})


def bind_relation(scope: Scope, relation: fn.Relation) -> pa.RecordBatch:
    """The rows of a relation."""
    match relation:
        case fn.Nodes() | fn.Lookup():
            return pa.record_batch([pa.array(traversal.nodes(scope, relation), pa.int64())], names=["v"])
        case fn.Support():
            return pa.record_batch([pa.array(support(scope, relation), pa.int64())], names=["v"])
        case fn.Top() | fn.FusedTop():
            return ranking.best(scope, relation)
        case fn.Edges():
            columns = traversal.stored_edges(scope, relation.edge, relation.conditions)
            return pa.record_batch([pa.array(column, pa.int64()) for column in columns], names=["e", "s", "d"])
        case fn.Carried():
            return _carried(scope, relation)


def _carried(scope: Scope, relation: fn.Carried) -> pa.RecordBatch:
    edges = traversal.stored_edges(scope, relation.of.edge, relation.of.conditions)
    known = {name: pa.array(at) for name, at in zip("esd", edges, strict=True)}
    columns = {name: known[name].cast(pa.int64()) for name in relation.places}
    for name, function, given in relation.columns:
        columns[name] = bind_function(scope, function).run(*(known[place] for place in given))
    return pa.RecordBatch.from_pydict(columns)


def bind_function(scope: Scope, function: fn.Function) -> Bound:
    """What a function does."""
    match function:
        case fn.Get():
            table = scope.table(function.table_key)
            gather = table.gather(function.column, scope.given, comparable=function.comparable)
            kind, at_hand = table.type_of(function.column), table.has_column(function.column)
            return Bound((pa.int64(),), kind, gather, _entries(kind), at_hand=at_hand)
        case fn.IdRank():
            kind, run = scope.table(function.table_key).order(scope.given)
            return Bound((pa.int64(),), kind, run, at_hand=pa.types.is_int64(kind))
        case fn.Number() | fn.Numbered():
            return _numbers(scope, function)
        case fn.Holds():
            return holds(scope, function)
        case fn.Hop():
            return traversal.hop(scope, function)
        case fn.Reach():
            return traversal.within(scope, function)
        case fn.Single():
            return traversal.single(scope, function)
        case fn.Common():
            return traversal.common(scope, function)
        case fn.Joined():
            return traversal.joined(scope, function)
        case fn.Weight() | fn.WeightedSum() | fn.WeightedCount() | fn.CommonWeight() | fn.ReachWeight():
            return bind_messages(scope, function)
        case fn.Text() | fn.Bm25Score() | fn.Distance() | fn.Among():
            return ranking.bind_search(scope, function)
        case fn.Exact():
            return _exact(function)


def _entries(kind: pa.DataType) -> Callable[[Array], int] | None:
    """Values of some types are so wide that those of a long batch do not fit into memory."""
    if not pa.types.is_fixed_size_list(kind):
        return None
    width = kind.list_size * kind.value_type.bit_width // 8
    return lambda v: len(v) * width // 8


def _numbers(scope: Scope, function: fn.Number | fn.Numbered) -> Bound:
    coded = [scope.table(key).coded(column) for key, column in function.places]
    if len(coded) == 1:
        (only,) = coded
        if isinstance(function, fn.Number):
            return Bound((pa.int64(),), pa.int32(), only.indices.take, at_hand=True)
        return Bound((pa.int32(),), only.dictionary.type, only.dictionary.take, at_hand=True)
    sizes = [len(each.dictionary) + 1 for each in coded]  # no text is one more
    kind = pa.int32() if math.prod(sizes) < 2**31 else pa.int64()
    if isinstance(function, fn.Number):
        return Bound((pa.int64(),) * len(coded), kind, _combined(coded, sizes, kind), at_hand=True)
    texts, size = coded[function.which].dictionary, sizes[function.which]
    stride = math.prod(sizes[function.which + 1 :])

    def text(number: Array) -> Array:
        place = number.to_numpy() // stride % size
        return texts.take(pa.array(place, mask=place == size - 1))

    return Bound((kind,), texts.type, text, at_hand=True)


def _combined(coded: list[pa.DictionaryArray], sizes: list[int], kind: pa.DataType) -> Callable[..., Array]:
    """Positions, one for each column, to the number that their texts have together."""
    codes = [
        np.append(each.indices.fill_null(size - 1).to_numpy(), np.int32(size - 1))  # the last is that of no position
        for each, size in zip(coded, sizes, strict=True)
    ]

    def run(*positions: Array) -> Array:
        return pa.array(joint([numbers(at) for at in positions], codes, sizes, kind.to_pandas_dtype()))

    return run


def _exact(exact: fn.Exact) -> Bound:
    compare = _COMPARE[exact.op]

    def run(left: Array, right: Array) -> Array:
        # Python compares whole and floating numbers by their mathematical value.
        pairs = zip(left.to_pylist(), right.to_pylist(), strict=True)
        return pa.array([None if a is None or b is None else compare(a, b) for a, b in pairs], pa.bool_())

    return Bound((arrow_type(exact.left), arrow_type(exact.right)), pa.bool_(), run)
