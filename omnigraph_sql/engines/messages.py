"""Weights of a plan: in how many ways what hangs on a vertex can be matched, and sums of a property over these ways."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_compiler import ir
from omnigraph_sql.engines import weights as ways
from omnigraph_sql.engines.masks import mask_of, matching
from omnigraph_sql.engines.scope import Array, Bound, Scope, numbers
from omnigraph_sql.engines.weights import SENT, Counts, Numbers, product
from omnigraph_sql.planner import functions as fn
from omnigraph_sql.planner.estimate import is_walkable
from omnigraph_sql.planner.logical import Branch, Tree, Vertex
from omnigraph_udfs.meet import meet_counts, meet_weights
from omnigraph_udfs.messages import sum_over

_BLOCK = 64
_AT_ONCE = 1024
"""So many searches go together; between them a query can be ended."""


def support(scope: Scope, asked: fn.Support) -> Counts:
    """The positions that satisfy the conditions and have a weight."""
    table_key = f"node:{asked.type}"
    if not asked.conditions:
        weights = ways.all_weights(scope, asked.branches, scope.table(table_key).size)
        return np.flatnonzero(weights >= _least(weights, asked.heaviest))
    at = matching(scope, table_key, asked.conditions)
    weights = ways.weights_at(scope, asked.branches, at)
    some = weights >= _least(weights, asked.heaviest)
    scope.memo["support", asked.branches] = at[some], weights[some]
    return at[some]


def _least(weights: Counts, heaviest: int | None) -> int:
    """The least weight that counts."""
    if heaviest is None or heaviest >= len(weights):
        return 1
    blocks = weights[: len(weights) // _BLOCK * _BLOCK].reshape(-1, _BLOCK).max(axis=1)
    if heaviest <= len(blocks):
        # So many blocks have one that is as large as this: whatever is smaller is not among the largest.
        weights = weights[weights >= np.partition(blocks, -heaviest)[-heaviest]]
    return max(1, int(np.partition(weights, -heaviest)[-heaviest]))


def bind_messages(scope: Scope, asked: fn.Messages) -> Bound:
    """What a function of weights does."""
    match asked:
        case fn.Weight():
            return _weight(scope, asked)
        case fn.WeightedCount():
            known, _ = _sums(scope, asked.branches, asked.of, scope.table(f"node:{asked.type}").size)
            return Bound((pa.int64(),), pa.int64(), pa.array(known).take, at_hand=True)
        case fn.WeightedSum():
            known, sums = _sums(scope, asked.branches, asked.of, scope.table(f"node:{asked.type}").size)
            return Bound((pa.int64(),), pa.float64(), pa.array(sums, mask=known == 0).take, at_hand=True)
        case fn.CommonWeight():
            return _common(scope, asked)
        case fn.ReachWeight():
            return _within(scope, asked)


def _common(scope: Scope, asked: fn.CommonWeight) -> Bound:
    first, second = (
        scope.index(edge).neighbours(direction) for edge, direction in zip(asked.edges, asked.directions, strict=True)
    )
    weights = ways.tree_weights(scope, asked.tree)

    def run(us: Array, vs: Array) -> Array:
        if weights is None:
            return pa.array(meet_counts(first, second, numbers(us), numbers(vs)))
        return pa.array(meet_weights(first, second, numbers(us), numbers(vs), weights))

    return Bound((pa.int64(), pa.int64()), pa.int64(), run)


def _within(scope: Scope, asked: fn.ReachWeight) -> Bound:
    along = scope.expander(asked.link.edge, asked.direction)
    bounds = asked.link.minimum, asked.link.maximum
    weights = ways.tree_weights(scope, asked.tree)

    def run(v: Array) -> Array:
        try:
            return pa.array(along.reach_sums(numbers(v), *bounds, weights, turned=asked.turned))
        except OverflowError:
            raise ways.too_many() from None

    return Bound((pa.int64(),), pa.int64(), run, at_once=_AT_ONCE)


def _weight(scope: Scope, asked: fn.Weight) -> Bound:
    branches = asked.branches
    if branches in scope.memo or not is_walkable(branches):
        found = pa.array(ways.all_weights(scope, branches, scope.table(f"node:{asked.type}").size))
        return Bound((pa.int64(),), pa.int64(), found.take, at_hand=True)
    known, weights = scope.memo.get(("support", branches), (None, None))

    def run(v: Array) -> Array:
        at = numbers(v)
        if known is not None and len(known):
            places = np.minimum(np.searchsorted(known, at), len(known) - 1)
            if (known[places] == at).all():
                return pa.array(weights[places])
        return pa.array(ways.weights_at(scope, branches, at))

    return Bound((pa.int64(),), pa.int64(), run, at_hand=ways.is_at_hand(scope, branches))


# Sums over a property


def _sums(scope: Scope, branches: tuple[Branch, ...], of: ir.PropertyRef, size: int) -> tuple[Counts, Numbers]:
    """In how many ways the property is there, and its sum over them."""
    if (branches, of) not in scope.memo:
        scope.memo[branches, of] = _summed(scope, branches, of, size)
    found: tuple[Counts, Numbers] = scope.memo[branches, of]
    return found


def _summed(scope: Scope, branches: tuple[Branch, ...], of: ir.PropertyRef, size: int) -> tuple[Counts, Numbers]:
    counts: list[Counts] = []
    known = sums = None
    for branch in branches:
        if branch.tree.find(of.variable):
            known, sums = _sent_sums(scope, branch, of, size)
        else:
            counts.append(ways.sent_to_all(scope, branch, size))
    assert known is not None
    assert sums is not None
    for count in counts:
        known, sums = product(known, count), np.where(count > 0, sums * count, 0.0)
    return known, sums


def _sent_sums(scope: Scope, branch: Branch, of: ir.PropertyRef, parents: int) -> tuple[Counts, Numbers]:
    known, sums = _tree_sums(scope, branch.tree, of)
    if branch.conditions:
        ends, others = ways.kept_edges(scope, branch)
        counted = ways.over_edges(scope, branch, known, parents)
        return counted, np.asarray(np.bincount(ends, weights=sums[others], minlength=parents), np.float64)
    if known is None:
        near = ways.adjacency(scope, branch)
        return near.degrees(), np.asarray(sum_over(near, sums), np.float64)
    counted = ways.collected(scope, branch, known, parents)
    if np.count_nonzero(known) * SENT < len(known):
        return counted, ways.pushed(scope, branch, np.flatnonzero(known), sums, parents)
    return counted, np.asarray(sum_over(ways.adjacency(scope, branch), sums), np.float64)


def _tree_sums(scope: Scope, tree: Tree, of: ir.PropertyRef) -> tuple[Counts | None, Numbers]:
    """For each node of a tree's root in how many ways the property is there, None if in one everywhere, and its sum."""
    size = scope.table(tree.vertex.table_key).size
    if tree.vertex.variable == of.variable:
        known, sums = _values(scope, tree.vertex, of, size)
        for branch in tree.branches:
            count = ways.sent_to_all(scope, branch, size)
            known = count if known is None else product(known, count)
            sums = np.where(count > 0, sums * count, 0.0)
        return known, sums
    known, sums = _sums(scope, tree.branches, of, size)
    allowed = ways.allowed_by(scope, tree.vertex)
    if allowed is None:
        return known, sums
    marks = ways.marked(allowed, size)
    return known * marks, np.where(marks > 0, sums, 0.0)


def _values(scope: Scope, vertex: Vertex, of: ir.PropertyRef, size: int) -> tuple[Counts | None, Numbers]:
    """Where a vertex has the property, None if everywhere, and its values there."""
    conditions, rest = vertex.conditions
    if not rest and not vertex.negations:
        column = scope.table(vertex.table_key).column(of.property)
        given = _as_numbers(column)
        if not conditions and not given.null_count:
            return None, given.to_numpy()
        mask = mask_of(scope, vertex.table_key, conditions)
        known = mask & np.asarray(given.is_valid())
        values = given.fill_null(0.0) if given.null_count else given
        return known.astype(np.int64), np.where(known, values.to_numpy(zero_copy_only=False), 0.0)
    table = scope.allowed(vertex, of)
    positions, given = numbers(ways.only(table, "v")), ways.only(table, "x")
    there = np.asarray(given.is_valid())
    counts, sums = np.zeros(size, np.int64), np.zeros(size)
    counts[positions[there]] = 1
    sums[positions[there]] = pc.drop_null(given).to_numpy(zero_copy_only=False)
    return counts, sums


def _as_numbers(column: Array) -> Array:
    """The values of a column as floats. What is no number is only ever counted: any number will do for a value."""
    if column.type == pa.float64():
        return column
    if pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
        return column.cast(pa.float64(), safe=False)
    return pc.if_else(column.is_valid(), 0.0, pa.scalar(None, pa.float64()))
