"""Weights of a plan: in how many ways what hangs on a vertex can be matched, sent along the edges towards it.

A vertex allows some nodes, each with a weight of one, or of a property. Every branch on it multiplies the weight of a node
by the sum of the weights it leads to. Where few nodes have a weight it is sent from them, otherwise every node collects it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_compiler import ir
from omnigraph_sql.engines.masks import mask_of, matching, matching_among
from omnigraph_sql.engines.scope import Array, Bound, Scope, numbers
from omnigraph_sql.engines.traversal import look_up, stored_edges
from omnigraph_sql.errors import ResourceLimit
from omnigraph_sql.planner import functions as fn
from omnigraph_sql.planner.conditions import split
from omnigraph_sql.planner.estimate import is_degree
from omnigraph_sql.planner.logical import Branch, Direction, Tree, Vertex
from omnigraph_udfs.arrays import Ints
from omnigraph_udfs.csr import Csr
from omnigraph_udfs.meet import meet_counts, meet_weights
from omnigraph_udfs.messages import sum_edges, sum_over

_OPPOSITE: dict[Direction, Direction] = {"out": "in", "in": "out", "both": "both"}
_SENT = 8
"""Sending a weight along an edge is taken to cost as much as collecting it along so many: a guess, not measured."""
_AT_ONCE = 1024
"""So many searches go together; between them a query can be ended."""
_EXACT = 2.0**53
_MOST = 2.0**62
Counts = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.float64]


def support(scope: Scope, asked: fn.Support) -> Counts:
    """The positions that satisfy the conditions and have a weight."""
    table_key = f"node:{asked.type}"
    weights = _weights(scope, asked.branches, scope.table(table_key).size)
    if not asked.conditions:
        return np.flatnonzero(weights)
    at = matching(scope, table_key, asked.conditions)
    return at[weights[at] > 0]


def bind_messages(scope: Scope, asked: fn.Messages) -> Bound:
    """What a function of weights does."""
    match asked:
        case fn.Weight() if asked.branches not in scope.memo and all(map(is_degree, asked.branches)):
            return _degrees(scope, asked.branches)
        case fn.Weight():
            weights = pa.array(_weights(scope, asked.branches, scope.table(f"node:{asked.type}").size))
            return Bound((pa.int64(),), pa.int64(), weights.take, at_hand=True)
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
    weights = _tree(scope, asked.tree)

    def run(us: Array, vs: Array) -> Array:
        if weights is None:
            return pa.array(meet_counts(first, second, numbers(us), numbers(vs)))
        return pa.array(meet_weights(first, second, numbers(us), numbers(vs), weights))

    return Bound((pa.int64(), pa.int64()), pa.int64(), run)


def _within(scope: Scope, asked: fn.ReachWeight) -> Bound:
    along = scope.expander(asked.link.edge, asked.direction)
    bounds = asked.link.minimum, asked.link.maximum
    weights = _tree(scope, asked.tree)

    def run(v: Array) -> Array:
        try:
            return pa.array(along.reach_sums(numbers(v), *bounds, weights, turned=asked.turned))
        except OverflowError:
            raise _too_many() from None

    return Bound((pa.int64(),), pa.int64(), run, at_once=_AT_ONCE)


def _degrees(scope: Scope, branches: tuple[Branch, ...]) -> Bound:
    """Where nothing but neighbours hang, those of the rows asked about are enough."""
    along = [(scope.expander(branch.edge, branch.direction), branch.stored) for branch in branches]

    def run(v: Array) -> Array:
        at = numbers(v)
        found = np.ones(len(at), np.int64)
        for expander, stored in along:
            found = _product(found, expander.degrees(at, stored=stored))
        return pa.array(found)

    return Bound((pa.int64(),), pa.int64(), run, at_hand=all(each.is_at_hand for each, _ in along))


# Counts


def _weights(scope: Scope, branches: tuple[Branch, ...], size: int) -> Counts:
    """The product of what the branches on a vertex send to each of its nodes."""
    if branches not in scope.memo:
        scope.memo[branches] = _multiplied(scope, branches, size)
    found: Counts = scope.memo[branches]
    return found


def _multiplied(scope: Scope, branches: tuple[Branch, ...], size: int) -> Counts:
    found: Counts | None = None
    for branch in branches:
        sent = _sent(scope, branch, size)
        found = sent if found is None else _product(found, sent)
    return np.ones(size, np.int64) if found is None else found


def _sent(scope: Scope, branch: Branch, parents: int) -> Counts:
    """What a branch sends to each of so many nodes."""
    if is_degree(branch):
        return _adjacency(scope, branch).degrees()
    if branch not in scope.memo:
        weights = _tree(scope, branch.tree)
        if branch.conditions:
            scope.memo[branch] = _over_edges(scope, branch, weights, parents)
        elif weights is None:
            scope.memo[branch] = _adjacency(scope, branch).degrees()
        else:
            scope.memo[branch] = _collected(scope, branch, weights, parents)
    found: Counts = scope.memo[branch]
    return found


def _tree(scope: Scope, tree: Tree) -> Counts | None:
    """The weights of the nodes of a tree's root; None if each has one."""
    size = scope.table(tree.vertex.table_key).size
    if not tree.branches:
        allowed = _allowed(scope, tree.vertex)
        return None if allowed is None else _marked(allowed, size)
    weights = _weights(scope, tree.branches, size)
    if tree.vertex.is_free:
        return weights
    kept = _allowed_among(scope, tree.vertex, np.flatnonzero(weights), size)
    found = np.zeros(size, np.int64)
    found[kept] = weights[kept]
    return found


def _marked(positions: Counts, size: int) -> Counts:
    marks = np.zeros(size, np.int64)
    marks[positions] = 1
    return marks


def _collected(scope: Scope, branch: Branch, weights: Counts, parents: int) -> Counts:
    if np.count_nonzero(weights) * _SENT < len(weights):
        sent = _pushed(scope, branch, np.flatnonzero(weights), weights, parents)
        if float(sent.sum()) < _EXACT:
            return sent.astype(np.int64)
    try:
        return sum_over(_adjacency(scope, branch), weights).astype(np.int64)
    except OverflowError:
        raise _too_many() from None


def _over_edges(scope: Scope, branch: Branch, weights: Counts | None, parents: int) -> Counts:
    """Weights collected along the edges that satisfy the conditions of a branch."""
    index = scope.index(branch.edge)
    if index.has_all_ends and (weights is None or float(weights.max(initial=0)) * len(index.tails) < _MOST):
        ends, others = (index.tails, index.heads) if branch.direction == "out" else (index.heads, index.tails)
        kept = mask_of(scope, f"edge:{branch.edge}", branch.conditions)
        return sum_edges(ends, others, kept, weights, size=parents)
    ends, others = _kept_edges(scope, branch)
    if weights is None:
        return np.bincount(ends, minlength=parents).astype(np.int64)
    sent = weights[others]
    total = float(sent.sum(dtype=np.float64))
    if total < _EXACT:
        return np.bincount(ends, weights=sent, minlength=parents).astype(np.int64)
    if total >= _MOST:
        raise _too_many()
    found = np.zeros(parents, np.int64)
    np.add.at(found, ends, sent)
    return found


def _kept_edges(scope: Scope, branch: Branch) -> tuple[Ints, Ints]:
    """The near and the far ends of the edges that satisfy the conditions of a branch."""
    _, tails, heads = stored_edges(scope, branch.edge, branch.conditions)
    return (tails, heads) if branch.direction == "out" else (heads, tails)


def _pushed(scope: Scope, branch: Branch, senders: Counts, weights: npt.NDArray[np.generic], parents: int) -> Numbers:
    """Weights sent from a few nodes, against the direction of the branch."""
    back = scope.expander(branch.edge, _OPPOSITE[branch.direction])
    reached = back.edges(senders) if branch.stored else back.neighbours(senders)
    sent = np.repeat(weights[senders].astype(np.float64), np.diff(reached.offsets))
    return np.asarray(np.bincount(reached.targets, weights=sent, minlength=parents), np.float64)


def _adjacency(scope: Scope, branch: Branch) -> Csr:
    index = scope.index(branch.edge)
    return index.edges(branch.direction) if branch.stored else index.neighbours(branch.direction)


def _product(a: Counts, b: Counts) -> Counts:
    if float(a.max(initial=0)) * float(b.max(initial=0)) >= _MOST:
        raise _too_many()
    return a * b


def _too_many() -> ResourceLimit:
    text = "the query counts more matches than 64 bits can hold"
    return ResourceLimit(text, resource="matches", limit=2**63 - 1, actual=2**63, hint="add conditions")


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
            counts.append(_sent(scope, branch, size))
    assert known is not None
    assert sums is not None
    for count in counts:
        known, sums = _product(known, count), np.where(count > 0, sums * count, 0.0)
    return known, sums


def _sent_sums(scope: Scope, branch: Branch, of: ir.PropertyRef, parents: int) -> tuple[Counts, Numbers]:
    known, sums = _tree_sums(scope, branch.tree, of)
    if branch.conditions:
        ends, others = _kept_edges(scope, branch)
        counted = _over_edges(scope, branch, known, parents)
        return counted, np.asarray(np.bincount(ends, weights=sums[others], minlength=parents), np.float64)
    if known is None:
        near = _adjacency(scope, branch)
        return near.degrees(), np.asarray(sum_over(near, sums), np.float64)
    counted = _collected(scope, branch, known, parents)
    if np.count_nonzero(known) * _SENT < len(known):
        return counted, _pushed(scope, branch, np.flatnonzero(known), sums, parents)
    return counted, np.asarray(sum_over(_adjacency(scope, branch), sums), np.float64)


def _tree_sums(scope: Scope, tree: Tree, of: ir.PropertyRef) -> tuple[Counts | None, Numbers]:
    """For each node of a tree's root in how many ways the property is there, None if in one everywhere, and its sum."""
    size = scope.table(tree.vertex.table_key).size
    if tree.vertex.variable == of.variable:
        known, sums = _values(scope, tree.vertex, of, size)
        for branch in tree.branches:
            count = _sent(scope, branch, size)
            known = count if known is None else _product(known, count)
            sums = np.where(count > 0, sums * count, 0.0)
        return known, sums
    known, sums = _sums(scope, tree.branches, of, size)
    allowed = _allowed(scope, tree.vertex)
    if allowed is None:
        return known, sums
    marks = _marked(allowed, size)
    return known * marks, np.where(marks > 0, sums, 0.0)


# What a vertex allows


def _allowed(scope: Scope, vertex: Vertex) -> Counts | None:
    """The positions that satisfy the conditions of a vertex; None if all do."""
    if vertex.is_free:
        return None
    found = look_up(scope, vertex)
    if found is not None:
        return found
    conditions, rest = split(vertex.filters)
    if not rest and not vertex.negations:
        return matching(scope, vertex.table_key, conditions)
    return numbers(_one(scope.allowed(vertex, None), "v"))


def _allowed_among(scope: Scope, vertex: Vertex, among: Counts, size: int) -> Counts:
    """Those of some positions that satisfy the conditions of a vertex. Where they are few, only they are looked at."""
    conditions, rest = split(vertex.filters)
    if len(among) < size // 2 and not rest and not vertex.negations:
        return matching_among(scope, vertex.table_key, conditions, among)
    allowed = _allowed(scope, vertex)
    return among if allowed is None else among[_marked(allowed, size)[among] > 0]


def _values(scope: Scope, vertex: Vertex, of: ir.PropertyRef, size: int) -> tuple[Counts | None, Numbers]:
    """Where a vertex has the property, None if everywhere, and its values there."""
    conditions, rest = split(vertex.filters)
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
    positions, given = numbers(_one(table, "v")), _one(table, "x")
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


def _one(table: pa.Table, name: str) -> Array:
    column = table.column(name).combine_chunks()
    return column if isinstance(column, pa.Array) else pa.concat_arrays(column.chunks)
