"""Path counts: per node of a vertex, the number of matches of its branches.

A vertex allows some nodes, each with a weight of one. Every branch on it multiplies the weight of a node by the sum of the
weights it leads to. For all nodes of a type, weights are sent along the edges: from those that have one where they are few,
otherwise every node collects them. For a few nodes it is less to walk along the edges from there. How much that is shows on
the way: as soon as the walks have touched a share of the edges, weights are sent after all.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph_compiler import ir
from omnigraph_sql.binding.context import Array, BindContext, numbers
from omnigraph_sql.binding.filters import mask_of, matching, matching_among, satisfying
from omnigraph_sql.binding.traversals import look_up, stored_edges
from omnigraph_sql.errors import ResourceLimit
from omnigraph_sql.planner.estimate import is_degree, is_walkable
from omnigraph_sql.planner.logical import Branch, Tree, Vertex
from omnigraph_udfs.arrays import Ints
from omnigraph_udfs.csr import Csr
from omnigraph_udfs.path_aggregates import sum_edges, sum_over

SENT = 8
"""The estimated cost of scattering a weight along an edge, relative to gathering one. Not measured."""
EXACT = 2.0**53
MOST = 2.0**62
Counts = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.float64]


# For some nodes


def path_counts_at(context: BindContext, branches: tuple[Branch, ...], at: Counts) -> Counts:
    """Return the product of the branch weights at some nodes of a vertex; 0 for position -1."""
    counts: Counts | None = None
    for branch in branches:
        sent = _sent_to(context, branch, at)
        counts = sent if counts is None else product(counts, sent)
    return (at >= 0).astype(np.int64) if counts is None else counts


def is_cached(context: BindContext, branches: tuple[Branch, ...]) -> bool:
    """True if everything that a walk reads is in memory or memory-mapped."""
    return all(
        context.expander(branch.edge, branch.direction).is_cached
        and _has_columns(context, f"edge:{branch.edge}", [condition.property for condition in branch.conditions])
        and _has_columns(
            context, branch.tree.vertex.table_key, [condition.property for condition in branch.tree.vertex.conditions[0]]
        )
        and is_cached(context, branch.tree.branches)
        for branch in branches
    )


def _has_columns(context: BindContext, table_key: str, names: list[str]) -> bool:
    return all(context.table(table_key).has_column(name) for name in names)


def _sent_to(context: BindContext, branch: Branch, at: Counts) -> Counts:
    if is_degree(branch):
        return context.expander(branch.edge, branch.direction).degrees(at, stored=branch.stored)
    if branch not in context.memo and is_walkable((branch,)):
        walked = _walked(context, branch, at)
        if walked is not None:
            return walked
    with context.lock:
        counts = sent_to_all(context, branch, context.rows(f"node:{_near(context, branch)}"))
    return counts[at] if not len(at) or at.min() >= 0 else np.where(at >= 0, counts[at], 0)


def _near(context: BindContext, branch: Branch) -> str:
    """The node type at the root of a branch."""
    edge = context.catalog.edges[branch.edge]
    return edge.target if branch.direction == "in" else edge.source


def _walked(context: BindContext, branch: Branch, at: Counts) -> Counts | None:
    """Return the weights of a branch at some nodes, by walking from them; None if computing all nodes costs less."""
    along = context.expander(branch.edge, branch.direction)
    touched = "walked", branch
    left = context.rows(f"edge:{branch.edge}") / SENT - context.memo.get(touched, 0)
    reached = along.walk(at, stored=branch.stored, most=left)
    with context.lock:
        context.memo[touched] = context.memo.get(touched, 0) + (math.inf if reached is None else len(reached.targets))
    if reached is None:
        return None
    rows, ends = reached.rows(), reached.targets
    if branch.conditions:
        assert reached.edges is not None
        kept = satisfying(context, f"edge:{branch.edge}", branch.conditions, reached.edges)
        rows, ends = rows[kept], ends[kept]
    tree = branch.tree
    if tree.vertex.filters:
        kept = satisfying(context, tree.vertex.table_key, tree.vertex.conditions[0], ends)
        rows, ends = rows[kept], ends[kept]
    if not tree.branches:
        return np.bincount(rows, minlength=len(at))
    weights = path_counts_at(context, tree.branches, ends)
    if float(weights.sum(dtype=np.float64)) >= EXACT:
        return None
    return np.bincount(rows, weights=weights, minlength=len(at)).astype(np.int64)


# For all nodes


def all_path_counts(context: BindContext, branches: tuple[Branch, ...], size: int) -> Counts:
    """Return the product of the branch weights at each node of a vertex."""
    if branches not in context.memo:
        context.memo[branches] = _multiplied(context, branches, size)
    counts: Counts = context.memo[branches]
    return counts


def _multiplied(context: BindContext, branches: tuple[Branch, ...], size: int) -> Counts:
    counts: Counts | None = None
    for branch in branches:
        sent = sent_to_all(context, branch, size)
        counts = sent if counts is None else product(counts, sent)
    return np.ones(size, np.int64) if counts is None else counts


def sent_to_all(context: BindContext, branch: Branch, parents: int) -> Counts:
    """Return the weight of a branch at each of its root nodes; `parents` is their number."""
    if is_degree(branch):
        return adjacency(context, branch).degrees()
    if branch not in context.memo:
        weights = subtree_counts(context, branch.tree)
        if branch.conditions:
            context.memo[branch] = over_edges(context, branch, weights, parents)
        elif weights is None:
            context.memo[branch] = adjacency(context, branch).degrees()
        else:
            context.memo[branch] = collected(context, branch, weights, parents)
    counts: Counts = context.memo[branch]
    return counts


def subtree_counts(context: BindContext, tree: Tree) -> Counts | None:
    """Return the weights of the nodes at the root of a tree; None if all are one."""
    size = context.table(tree.vertex.table_key).size
    if not tree.branches:
        allowed = allowed_by(context, tree.vertex)
        return None if allowed is None else marked(allowed, size)
    weights = all_path_counts(context, tree.branches, size)
    if tree.vertex.is_free:
        return weights
    kept = _allowed_among(context, tree.vertex, np.flatnonzero(weights), size)
    counts = np.zeros(size, np.int64)
    counts[kept] = weights[kept]
    return counts


def marked(positions: Counts, size: int) -> Counts:
    marks = np.zeros(size, np.int64)
    marks[positions] = 1
    return marks


def collected(context: BindContext, branch: Branch, weights: Counts, parents: int) -> Counts:
    if np.count_nonzero(weights) * SENT < len(weights):
        sent = pushed(context, branch, np.flatnonzero(weights), weights, parents)
        if float(sent.sum()) < EXACT:
            return sent.astype(np.int64)
    try:
        return sum_over(adjacency(context, branch), weights).astype(np.int64)
    except OverflowError:
        raise count_overflow() from None


def over_edges(context: BindContext, branch: Branch, weights: Counts | None, parents: int) -> Counts:
    """Gather weights along the edges that satisfy the conditions of a branch."""
    index = context.index(branch.edge)
    if index.has_all_ends and (weights is None or float(weights.max(initial=0)) * len(index.tails) < MOST):
        ends, others = (index.tails, index.heads) if branch.direction == "out" else (index.heads, index.tails)
        kept = mask_of(context, f"edge:{branch.edge}", branch.conditions)
        return sum_edges(ends, others, kept, weights, size=parents)
    ends, others = kept_edges(context, branch)
    if weights is None:
        return np.bincount(ends, minlength=parents).astype(np.int64)
    sent = weights[others]
    total = float(sent.sum(dtype=np.float64))
    if total < EXACT:
        return np.bincount(ends, weights=sent, minlength=parents).astype(np.int64)
    if total >= MOST:
        raise count_overflow()
    sums = np.zeros(parents, np.int64)
    np.add.at(sums, ends, sent)
    return sums


def kept_edges(context: BindContext, branch: Branch) -> tuple[Ints, Ints]:
    """Return the near and far ends of the edges that satisfy the conditions of a branch."""
    _, tails, heads = stored_edges(context, branch.edge, branch.conditions)
    return (tails, heads) if branch.direction == "out" else (heads, tails)


def pushed(context: BindContext, branch: Branch, senders: Counts, weights: npt.NDArray[np.generic], parents: int) -> Numbers:
    """Scatter weights from a few nodes against the direction of the branch."""
    back = context.expander(branch.edge, ir.OPPOSITE[branch.direction])
    reached = back.edges(senders) if branch.stored else back.neighbours(senders)
    sent = np.repeat(weights[senders].astype(np.float64), np.diff(reached.offsets))
    return np.asarray(np.bincount(reached.targets, weights=sent, minlength=parents), np.float64)


def adjacency(context: BindContext, branch: Branch) -> Csr:
    index = context.index(branch.edge)
    return index.edges(branch.direction) if branch.stored else index.neighbours(branch.direction)


def product(a: Counts, b: Counts) -> Counts:
    if float(a.max(initial=0)) * float(b.max(initial=0)) >= MOST:
        raise count_overflow()
    return a * b


def count_overflow() -> ResourceLimit:
    text = "the query counts more matches than 64 bits can hold"
    return ResourceLimit(text, resource="matches", limit=2**63 - 1, actual=2**63, hint="add conditions")


# The conditions of a vertex


def allowed_by(context: BindContext, vertex: Vertex) -> Counts | None:
    """Return the positions that satisfy the conditions of a vertex; None if all do."""
    if vertex.is_free:
        return None
    at = look_up(context, vertex)
    if at is not None:
        return at
    conditions, rest = vertex.conditions
    if not rest and not vertex.negations:
        return matching(context, vertex.table_key, conditions)
    return numbers(only(context.allowed(vertex, None), "v"))


def _allowed_among(context: BindContext, vertex: Vertex, among: Counts, size: int) -> Counts:
    """Return the positions in `among` that satisfy the conditions of a vertex. Few positions are tested one by one."""
    conditions, rest = vertex.conditions
    if len(among) < size // 2 and not rest and not vertex.negations:
        return matching_among(context, vertex.table_key, conditions, among)
    allowed = allowed_by(context, vertex)
    return among if allowed is None else among[marked(allowed, size)[among] > 0]


def only(table: pa.Table, name: str) -> Array:
    column = table.column(name).combine_chunks()
    return column if isinstance(column, pa.Array) else pa.concat_arrays(column.chunks)
