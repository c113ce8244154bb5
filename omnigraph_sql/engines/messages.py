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
from omnigraph_sql.engines.scope import Array, Bound, Scope, numbers
from omnigraph_sql.engines.traversal import look_up
from omnigraph_sql.errors import ResourceLimit
from omnigraph_sql.planner import functions as fn
from omnigraph_sql.planner.build import build_positions
from omnigraph_sql.planner.estimate import is_degree
from omnigraph_sql.planner.logical import Branch, Direction, Tree, Vertex
from omnigraph_udfs.csr import Csr
from omnigraph_udfs.expand import expand
from omnigraph_udfs.meet import meet_counts, meet_weights
from omnigraph_udfs.messages import sum_over

_OPPOSITE: dict[Direction, Direction] = {"out": "in", "in": "out", "both": "both"}
_SENT = 8
"""Sending a weight along an edge costs about as much as collecting it along so many."""
_EXACT = 2.0**53
_MOST = 2.0**62
Counts = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.float64]


def support(scope: Scope, asked: fn.Support) -> Counts:
    """The positions with a weight."""
    return np.flatnonzero(_weights(scope, asked.branches, scope.table(f"node:{asked.type}").size))


def bind_messages(scope: Scope, asked: fn.Messages) -> Bound:
    """What a function of weights does."""
    match asked:
        case fn.Weight():
            weights = pa.array(_weights(scope, asked.branches, scope.table(f"node:{asked.type}").size))
            return Bound((pa.int64(),), pa.int64(), weights.take)
        case fn.WeightedCount():
            known, _ = _sums(scope, asked.branches, asked.of)
            return Bound((pa.int64(),), pa.int64(), pa.array(known).take)
        case fn.WeightedSum():
            known, sums = _sums(scope, asked.branches, asked.of)
            return Bound((pa.int64(),), pa.float64(), pa.array(sums, mask=known == 0).take)
        case fn.CommonWeight():
            return _common(scope, asked)


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


# Counts


def _weights(scope: Scope, branches: tuple[Branch, ...], size: int) -> Counts:
    """The product of what the branches on a vertex send to each of its nodes."""
    found: Counts | None = None
    for branch in branches:
        sent = _sent(scope, branch)
        found = sent if found is None else _product(found, sent)
    return np.ones(size, np.int64) if found is None else found


def _sent(scope: Scope, branch: Branch) -> Counts:
    csr = _adjacency(scope, branch)
    if is_degree(branch):
        return csr.degrees()
    weights = _tree(scope, branch.tree)
    return csr.degrees() if weights is None else _collected(scope, branch, csr, weights)


def _tree(scope: Scope, tree: Tree) -> Counts | None:
    """The weights of the nodes of a tree's root; None if each has one."""
    allowed = _allowed(scope, tree.vertex)
    size = scope.table(tree.vertex.table_key).size
    if not tree.branches:
        return None if allowed is None else _marked(allowed, size)
    weights = _weights(scope, tree.branches, size)
    return weights if allowed is None else np.where(_marked(allowed, size) > 0, weights, 0)


def _marked(positions: Counts, size: int) -> Counts:
    marks = np.zeros(size, np.int64)
    marks[positions] = 1
    return marks


def _collected(scope: Scope, branch: Branch, csr: Csr, weights: Counts) -> Counts:
    senders = np.flatnonzero(weights)
    if len(senders) * _SENT < csr.width and float(weights.max(initial=0)) < _EXACT:
        back = _adjacency(scope, branch, backwards=True)
        total = float(weights[senders].astype(np.float64) @ back.degrees()[senders].astype(np.float64))
        if total < _EXACT:
            return _pushed(back, senders, weights, csr.sources).astype(np.int64)
    try:
        return sum_over(csr, weights).astype(np.int64)
    except OverflowError:
        raise _too_many() from None


def _pushed(back: Csr, senders: Counts, weights: npt.NDArray[np.generic], size: int) -> Numbers:
    reached = expand(back, senders)
    sent = np.repeat(weights[senders].astype(np.float64), np.diff(reached.offsets))
    return np.asarray(np.bincount(reached.targets, weights=sent, minlength=size), np.float64)


def _adjacency(scope: Scope, branch: Branch, *, backwards: bool = False) -> Csr:
    index = scope.index(branch.edge)
    direction = _OPPOSITE[branch.direction] if backwards else branch.direction
    return index.edges(direction) if branch.stored else index.neighbours(direction)


def _product(a: Counts, b: Counts) -> Counts:
    if float(a.max(initial=0)) * float(b.max(initial=0)) >= _MOST:
        raise _too_many()
    return a * b


def _too_many() -> ResourceLimit:
    text = "the query counts more matches than 64 bits can hold"
    return ResourceLimit(text, resource="matches", limit=2**63 - 1, actual=2**63, hint="add conditions")


# Sums over a property


def _sums(scope: Scope, branches: tuple[Branch, ...], of: ir.PropertyRef) -> tuple[Counts, Numbers]:
    """In how many ways the property is there, and its sum over them."""
    counts: list[Counts] = []
    known = sums = None
    for branch in branches:
        if branch.tree.find(of.variable):
            known, sums = _sent_sums(scope, branch, of)
        else:
            counts.append(_sent(scope, branch))
    assert known is not None
    assert sums is not None
    for count in counts:
        known, sums = _product(known, count), np.where(count > 0, sums * count, 0.0)
    return known, sums


def _sent_sums(scope: Scope, branch: Branch, of: ir.PropertyRef) -> tuple[Counts, Numbers]:
    csr = _adjacency(scope, branch)
    known, sums = _tree_sums(scope, branch.tree, of)
    counted = _collected(scope, branch, csr, known)
    senders = np.flatnonzero(known)
    if len(senders) * _SENT < csr.width:
        return counted, _pushed(_adjacency(scope, branch, backwards=True), senders, sums, csr.sources)
    return counted, np.asarray(sum_over(csr, sums), np.float64)


def _tree_sums(scope: Scope, tree: Tree, of: ir.PropertyRef) -> tuple[Counts, Numbers]:
    size = scope.table(tree.vertex.table_key).size
    if tree.vertex.variable == of.variable:
        known, sums = _values(scope, tree.vertex, of, size)
        for branch in tree.branches:
            count = _sent(scope, branch)
            known, sums = _product(known, count), np.where(count > 0, sums * count, 0.0)
        return known, sums
    known, sums = _sums(scope, tree.branches, of)
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
    return numbers(_one(scope.run(build_positions(vertex, None, scope.catalog, scope)), "v"))


def _values(scope: Scope, vertex: Vertex, of: ir.PropertyRef, size: int) -> tuple[Counts, Numbers]:
    """Where a vertex has the property, and its values there."""
    if vertex.is_free:
        column = scope.table(vertex.table_key).column(of.property)
        positions = np.arange(size)
        given = column.cast(pa.float64()) if column.type != pa.float64() else column
    else:
        table = scope.run(build_positions(vertex, of, scope.catalog, scope))
        positions, given = numbers(_one(table, "v")), _one(table, "x")
    there = np.asarray(given.is_valid())
    known, sums = np.zeros(size, np.int64), np.zeros(size)
    known[positions[there]] = 1
    sums[positions[there]] = pc.drop_null(given).to_numpy(zero_copy_only=False)
    return known, sums


def _one(table: pa.Table, name: str) -> Array:
    column = table.column(name).combine_chunks()
    return column if isinstance(column, pa.Array) else pa.concat_arrays(column.chunks)
