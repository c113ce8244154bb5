"""Path aggregates: per node, the number of matches of its branches and property sums over them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_compiler import ir
from omnigraph_sql.binding import path_counts as ways
from omnigraph_sql.binding.context import Array, BindContext, BoundFunction, numbers
from omnigraph_sql.binding.filters import mask_of, matching
from omnigraph_sql.binding.path_counts import SENT, Counts, Numbers, product
from omnigraph_sql.planner import plan_functions as fn
from omnigraph_sql.planner.estimate import is_walkable
from omnigraph_sql.planner.logical import Branch, Tree, Vertex
from omnigraph_udfs.common_neighbours import meet_counts, meet_weights
from omnigraph_udfs.path_aggregates import sum_over

_BLOCK = 64
_AT_ONCE = 1024
"""The number of searches per call; a query can be cancelled between calls."""


def support(context: BindContext, relation: fn.Support) -> Counts:
    """The positions that satisfy the conditions and have a match."""
    table_key = f"node:{relation.type}"
    if not relation.conditions:
        weights = ways.all_path_counts(context, relation.branches, context.table(table_key).size)
        return np.flatnonzero(weights >= _least(weights, relation.top_k))
    at = matching(context, table_key, relation.conditions)
    weights = ways.path_counts_at(context, relation.branches, at)
    some = weights >= _least(weights, relation.top_k)
    context.memo["support", relation.branches] = at[some], weights[some]
    return at[some]


def _least(weights: Counts, top_k: int | None) -> int:
    """The least weight among the `top_k` largest."""
    if top_k is None or top_k >= len(weights):
        return 1
    blocks = weights[: len(weights) // _BLOCK * _BLOCK].reshape(-1, _BLOCK).max(axis=1)
    if top_k <= len(blocks):
        # At least `top_k` blocks have a weight as large as this, so smaller ones are not among the largest.
        weights = weights[weights >= np.partition(blocks, -top_k)[-top_k]]
    return max(1, int(np.partition(weights, -top_k)[-top_k]))


def bind_path_aggregates(context: BindContext, function: fn.Messages) -> BoundFunction:
    """Bind a function of path aggregates."""
    match function:
        case fn.Weight():
            return _weight(context, function)
        case fn.WeightedCount():
            known, _ = _sums(context, function.branches, function.of, context.table(f"node:{function.type}").size)
            return BoundFunction((pa.int64(),), pa.int64(), pa.array(known).take, is_cached=True)
        case fn.WeightedSum():
            known, sums = _sums(context, function.branches, function.of, context.table(f"node:{function.type}").size)
            return BoundFunction((pa.int64(),), pa.float64(), pa.array(sums, mask=known == 0).take, is_cached=True)
        case fn.CommonWeight():
            return _common(context, function)
        case fn.ReachWeight():
            return _within(context, function)


def _common(context: BindContext, function: fn.CommonWeight) -> BoundFunction:
    first, second = (
        context.index(edge).neighbours(direction)
        for edge, direction in zip(function.edges, function.directions, strict=True)
    )
    weights = ways.subtree_counts(context, function.tree)

    def run(us: Array, vs: Array) -> Array:
        if weights is None:
            return pa.array(meet_counts(first, second, numbers(us), numbers(vs)))
        return pa.array(meet_weights(first, second, numbers(us), numbers(vs), weights))

    return BoundFunction((pa.int64(), pa.int64()), pa.int64(), run)


def _within(context: BindContext, function: fn.ReachWeight) -> BoundFunction:
    along = context.expander(function.link.edge, function.direction)
    bounds = function.link.minimum, function.link.maximum
    weights = ways.subtree_counts(context, function.tree)

    def run(v: Array) -> Array:
        try:
            return pa.array(along.reach_sums(numbers(v), *bounds, weights, turned=function.turned))
        except OverflowError:
            raise ways.count_overflow() from None

    return BoundFunction((pa.int64(),), pa.int64(), run, portion_rows=_AT_ONCE)


def _weight(context: BindContext, function: fn.Weight) -> BoundFunction:
    branches = function.branches
    if branches in context.memo or not is_walkable(branches):
        counts = pa.array(ways.all_path_counts(context, branches, context.table(f"node:{function.type}").size))
        return BoundFunction((pa.int64(),), pa.int64(), counts.take, is_cached=True)
    positions, weights = context.memo.get(("support", branches), (None, None))

    def run(v: Array) -> Array:
        at = numbers(v)
        if positions is not None and len(positions):
            places = np.minimum(np.searchsorted(positions, at), len(positions) - 1)
            if (positions[places] == at).all():
                return pa.array(weights[places])
        return pa.array(ways.path_counts_at(context, branches, at))

    return BoundFunction((pa.int64(),), pa.int64(), run, is_cached=ways.is_cached(context, branches))


# Sums over a property


def _sums(context: BindContext, branches: tuple[Branch, ...], of: ir.PropertyRef, size: int) -> tuple[Counts, Numbers]:
    """The number of matches with the property, and its sum over them."""
    if (branches, of) not in context.memo:
        context.memo[branches, of] = _summed(context, branches, of, size)
    aggregates: tuple[Counts, Numbers] = context.memo[branches, of]
    return aggregates


def _summed(context: BindContext, branches: tuple[Branch, ...], of: ir.PropertyRef, size: int) -> tuple[Counts, Numbers]:
    counts: list[Counts] = []
    known_counts = sums = None
    for branch in branches:
        if branch.tree.find(of.variable):
            known_counts, sums = _sent_sums(context, branch, of, size)
        else:
            counts.append(ways.sent_to_all(context, branch, size))
    assert known_counts is not None
    assert sums is not None
    for count in counts:
        known_counts, sums = product(known_counts, count), np.where(count > 0, sums * count, 0.0)
    return known_counts, sums


def _sent_sums(context: BindContext, branch: Branch, of: ir.PropertyRef, parents: int) -> tuple[Counts, Numbers]:
    known_counts, sums = _tree_sums(context, branch.tree, of)
    if branch.conditions:
        ends, others = ways.kept_edges(context, branch)
        counted = ways.over_edges(context, branch, known_counts, parents)
        return counted, np.asarray(np.bincount(ends, weights=sums[others], minlength=parents), np.float64)
    if known_counts is None:
        near = ways.adjacency(context, branch)
        return near.degrees(), np.asarray(sum_over(near, sums), np.float64)
    counted = ways.collected(context, branch, known_counts, parents)
    if np.count_nonzero(known_counts) * SENT < len(known_counts):
        return counted, ways.pushed(context, branch, np.flatnonzero(known_counts), sums, parents)
    return counted, np.asarray(sum_over(ways.adjacency(context, branch), sums), np.float64)


def _tree_sums(context: BindContext, tree: Tree, of: ir.PropertyRef) -> tuple[Counts | None, Numbers]:
    """For each node of a tree's root the number of matches with the property, None if one everywhere, and its sum."""
    size = context.table(tree.vertex.table_key).size
    if tree.vertex.variable == of.variable:
        known_counts, sums = _values(context, tree.vertex, of, size)
        for branch in tree.branches:
            count = ways.sent_to_all(context, branch, size)
            known_counts = count if known_counts is None else product(known_counts, count)
            sums = np.where(count > 0, sums * count, 0.0)
        return known_counts, sums
    known_counts, sums = _sums(context, tree.branches, of, size)
    allowed = ways.allowed_by(context, tree.vertex)
    if allowed is None:
        return known_counts, sums
    marks = ways.marked(allowed, size)
    return known_counts * marks, np.where(marks > 0, sums, 0.0)


def _values(context: BindContext, vertex: Vertex, of: ir.PropertyRef, size: int) -> tuple[Counts | None, Numbers]:
    """Where a vertex has the property, None if everywhere, and its values there."""
    conditions, rest = vertex.conditions
    if not rest and not vertex.negations:
        column = context.table(vertex.table_key).column(of.property)
        floats = _as_numbers(column)
        if not conditions and not floats.null_count:
            return None, floats.to_numpy()
        mask = mask_of(context, vertex.table_key, conditions)
        known_counts = mask & np.asarray(floats.is_valid())
        values = floats.fill_null(0.0) if floats.null_count else floats
        return known_counts.astype(np.int64), np.where(known_counts, values.to_numpy(zero_copy_only=False), 0.0)
    table = context.allowed(vertex, of)
    positions, floats = numbers(ways.only(table, "v")), ways.only(table, "x")
    there = np.asarray(floats.is_valid())
    counts, sums = np.zeros(size, np.int64), np.zeros(size)
    counts[positions[there]] = 1
    sums[positions[there]] = pc.drop_null(floats).to_numpy(zero_copy_only=False)
    return counts, sums


def _as_numbers(column: Array) -> Array:
    """The values of a column as floats. What is no number is only ever counted: any number will do for a value."""
    if column.type == pa.float64():
        return column
    if pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
        return column.cast(pa.float64(), safe=False)
    return pc.if_else(column.is_valid(), 0.0, pa.scalar(None, pa.float64()))
