"""Functions of a plan, bound to the data of one snapshot: arrays of positions in, arrays out."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from omnigraph_sql.binding import top_k, traversals
from omnigraph_sql.binding.context import Array, BindContext, BoundFunction, numbers
from omnigraph_sql.binding.filters import holds
from omnigraph_sql.binding.path_aggregates import bind_path_aggregates, support
from omnigraph_sql.comparison import COMPARATORS
from omnigraph_sql.planner import plan_functions as fn
from omnigraph_sql.planner.plan import SqlPlan
from omnigraph_sql.planner.values import bind, python_value
from omnigraph_sql.storage.columns import arrow_type
from omnigraph_udfs.dictionary_codes import joint


@dataclass(frozen=True)
class Binding:
    """The relations, functions and values that the names in a query's SQL refer to in one run."""

    relations: dict[str, pa.RecordBatch]
    functions: dict[str, BoundFunction]
    values: dict[str, pa.Scalar]

    @property
    def longest(self) -> int:
        """The number of rows of the longest relation."""
        return max((batch.num_rows for batch in self.relations.values()), default=0)

    @property
    def notes(self) -> dict[str, str]:
        """The notes of functions on how they work, by name."""
        return {name: bound.note for name, bound in self.functions.items() if bound.note is not None}


def bind_names(plan: SqlPlan, context: BindContext, check: Callable[[], None]) -> Binding:
    """Bind everything that a plan names to the data of one snapshot and the values of one run.

    `check` raises when the time of the run is over.
    """
    if plan.inputs:
        context = replace(context, values={name: python_value(value, context.params) for name, value in plan.inputs.items()})
    relations = {name: bind_relation(context, relation) for name, relation in plan.relations.items()}
    bounds = {}
    for name, function in plan.functions.items():
        check()
        bounds[name] = bind_function(context, function)
    return Binding(relations, bounds, {name: bind(value, context.params) for name, value in plan.values.items()})


def bind_relation(context: BindContext, relation: fn.Relation) -> pa.RecordBatch:
    """The rows of a relation."""
    match relation:
        case fn.Nodes() | fn.Lookup():
            return pa.record_batch([pa.array(traversals.nodes(context, relation), pa.int64())], names=["v"])
        case fn.Support():
            return pa.record_batch([pa.array(support(context, relation), pa.int64())], names=["v"])
        case fn.Top() | fn.FusedTop():
            return top_k.best(context, relation)
        case fn.Edges():
            columns = traversals.stored_edges(context, relation.edge, relation.conditions)
            return pa.record_batch([pa.array(column, pa.int64()) for column in columns], names=["e", "s", "d"])
        case fn.EdgeGroups():
            return _edge_groups(context, relation)


def _edge_groups(context: BindContext, relation: fn.EdgeGroups) -> pa.RecordBatch:
    edges = traversals.stored_edges(context, relation.of.edge, relation.of.conditions)
    ends = {name: pa.array(at) for name, at in zip("esd", edges, strict=True)}
    columns = {name: ends[name].cast(pa.int64()) for name in relation.places}
    for name, function, arguments in relation.columns:
        columns[name] = bind_function(context, function).run(*(ends[place] for place in arguments))
    return pa.RecordBatch.from_pydict(columns)


def bind_function(context: BindContext, function: fn.Function) -> BoundFunction:
    """Bind a function to the data of the snapshot."""
    match function:
        case fn.Get():
            table = context.table(function.table_key)
            gather = table.gather(function.column, context.traversal, comparable=function.comparable)
            kind, at_hand = table.type_of(function.column), table.has_column(function.column)
            return BoundFunction((pa.int64(),), kind, gather, destinations=_entries(kind), is_cached=at_hand)
        case fn.IdRank():
            kind, run = context.table(function.table_key).order(context.traversal)
            return BoundFunction((pa.int64(),), kind, run, is_cached=pa.types.is_int64(kind))
        case fn.Number() | fn.Numbered():
            return _numbers(context, function)
        case fn.Holds():
            return holds(context, function)
        case fn.HopFunction():
            return traversals.hop(context, function)
        case fn.Reach():
            return traversals.within(context, function)
        case fn.Single():
            return traversals.single(context, function)
        case fn.Common():
            return traversals.common(context, function)
        case fn.JoinedPath():
            return traversals.joined(context, function)
        case fn.Weight() | fn.WeightedSum() | fn.WeightedCount() | fn.CommonWeight() | fn.ReachWeight():
            return bind_path_aggregates(context, function)
        case fn.Text() | fn.Bm25Score() | fn.Distance() | fn.Among():
            return top_k.bind_search(context, function)
        case fn.Exact():
            return _exact(function)


def _entries(kind: pa.DataType) -> Callable[[Array], int] | None:
    """Values of some types are so wide that those of a long batch do not fit into memory."""
    if not pa.types.is_fixed_size_list(kind):
        return None
    width = kind.list_size * kind.value_type.bit_width // 8
    return lambda v: len(v) * width // 8


def _numbers(context: BindContext, function: fn.Number | fn.Numbered) -> BoundFunction:
    coded = [context.table(key).coded(column) for key, column in function.places]
    if len(coded) == 1:
        (only,) = coded
        if isinstance(function, fn.Number):
            return BoundFunction((pa.int64(),), pa.int32(), only.indices.take, is_cached=True)
        return BoundFunction((pa.int32(),), only.dictionary.type, only.dictionary.take, is_cached=True)
    sizes = [len(column.dictionary) + 1 for column in coded]  # null has a code of its own
    kind = pa.int32() if math.prod(sizes) < 2**31 else pa.int64()
    if isinstance(function, fn.Number):
        return BoundFunction((pa.int64(),) * len(coded), kind, _combined(coded, sizes, kind), is_cached=True)
    texts, size = coded[function.which].dictionary, sizes[function.which]
    stride = math.prod(sizes[function.which + 1 :])

    def text(number: Array) -> Array:
        place = number.to_numpy() // stride % size
        return texts.take(pa.array(place, mask=place == size - 1))

    return BoundFunction((kind,), texts.type, text, is_cached=True)


def _combined(coded: list[pa.DictionaryArray], sizes: list[int], kind: pa.DataType) -> Callable[..., Array]:
    """Map positions, one for each column, to the combined dictionary code of their texts."""
    codes = [
        np.append(column.indices.fill_null(size - 1).to_numpy(), np.int32(size - 1))
        for column, size in zip(coded, sizes, strict=True)
    ]

    def run(*positions: Array) -> Array:
        return pa.array(joint([numbers(at) for at in positions], codes, sizes, kind.to_pandas_dtype()))

    return run


def _exact(exact: fn.Exact) -> BoundFunction:
    compare = COMPARATORS[exact.op].apply

    def run(left: Array, right: Array) -> Array:
        # Python compares whole and floating numbers by their mathematical value.
        pairs = zip(left.to_pylist(), right.to_pylist(), strict=True)
        return pa.array([None if a is None or b is None else compare(a, b) for a, b in pairs], pa.bool_())

    return BoundFunction((arrow_type(exact.left), arrow_type(exact.right)), pa.bool_(), run)
