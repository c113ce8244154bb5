"""In how many ways what hangs on a vertex can be matched, for its nodes.

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

from omnigraph_sql.engines.masks import mask_of, matching, matching_among, satisfying
from omnigraph_sql.engines.scope import Array, Scope, numbers
from omnigraph_sql.engines.traversal import look_up, stored_edges
from omnigraph_sql.errors import ResourceLimit
from omnigraph_sql.planner.estimate import is_degree, is_walkable
from omnigraph_sql.planner.logical import Branch, Direction, Tree, Vertex
from omnigraph_udfs.arrays import Ints
from omnigraph_udfs.csr import Csr
from omnigraph_udfs.messages import sum_edges, sum_over

_OPPOSITE: dict[Direction, Direction] = {"out": "in", "in": "out", "both": "both"}
SENT = 8
"""Sending a weight along an edge is taken to cost as much as collecting it along so many: a guess, not measured."""
EXACT = 2.0**53
MOST = 2.0**62
Counts = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.float64]


# For some nodes


def weights_at(scope: Scope, branches: tuple[Branch, ...], at: Counts) -> Counts:
    """The product of what the branches on a vertex send to some of its nodes; 0 for -1."""
    found: Counts | None = None
    for branch in branches:
        sent = _sent_to(scope, branch, at)
        found = sent if found is None else product(found, sent)
    return (at >= 0).astype(np.int64) if found is None else found


def is_at_hand(scope: Scope, branches: tuple[Branch, ...]) -> bool:
    """Whether everything that a walk asks for is in memory, or mapped."""
    return all(
        scope.expander(branch.edge, branch.direction).is_at_hand
        and _has_columns(scope, f"edge:{branch.edge}", [each.property for each in branch.conditions])
        and _has_columns(scope, branch.tree.vertex.table_key, [each.property for each in branch.tree.vertex.conditions[0]])
        and is_at_hand(scope, branch.tree.branches)
        for branch in branches
    )


def _has_columns(scope: Scope, table_key: str, names: list[str]) -> bool:
    return all(scope.table(table_key).has_column(name) for name in names)


def _sent_to(scope: Scope, branch: Branch, at: Counts) -> Counts:
    if is_degree(branch):
        return scope.expander(branch.edge, branch.direction).degrees(at, stored=branch.stored)
    if branch not in scope.memo and is_walkable((branch,)):
        walked = _walked(scope, branch, at)
        if walked is not None:
            return walked
    with scope.lock:
        found = sent_to_all(scope, branch, scope.rows(f"node:{_near(scope, branch)}"))
    return found[at] if not len(at) or at.min() >= 0 else np.where(at >= 0, found[at], 0)


def _near(scope: Scope, branch: Branch) -> str:
    """The type of the nodes that a branch hangs on."""
    edge = scope.catalog.edges[branch.edge]
    return edge.target if branch.direction == "in" else edge.source


def _walked(scope: Scope, branch: Branch, at: Counts) -> Counts | None:
    """What a branch sends to some nodes, by walking from there; None if that is more than sending to all."""
    along = scope.expander(branch.edge, branch.direction)
    touched = "walked", branch
    left = scope.rows(f"edge:{branch.edge}") / SENT - scope.memo.get(touched, 0)
    reached = along.walk(at, stored=branch.stored, most=left)
    with scope.lock:
        scope.memo[touched] = scope.memo.get(touched, 0) + (math.inf if reached is None else len(reached.targets))
    if reached is None:
        return None
    rows, ends = reached.rows(), reached.targets
    if branch.conditions:
        assert reached.edges is not None
        kept = satisfying(scope, f"edge:{branch.edge}", branch.conditions, reached.edges)
        rows, ends = rows[kept], ends[kept]
    tree = branch.tree
    if tree.vertex.filters:
        kept = satisfying(scope, tree.vertex.table_key, tree.vertex.conditions[0], ends)
        rows, ends = rows[kept], ends[kept]
    if not tree.branches:
        return np.bincount(rows, minlength=len(at))
    weights = weights_at(scope, tree.branches, ends)
    if float(weights.sum(dtype=np.float64)) >= EXACT:
        return None
    return np.bincount(rows, weights=weights, minlength=len(at)).astype(np.int64)


# For all nodes


def all_weights(scope: Scope, branches: tuple[Branch, ...], size: int) -> Counts:
    """The product of what the branches on a vertex send to each of its nodes."""
    if branches not in scope.memo:
        scope.memo[branches] = _multiplied(scope, branches, size)
    found: Counts = scope.memo[branches]
    return found


def _multiplied(scope: Scope, branches: tuple[Branch, ...], size: int) -> Counts:
    found: Counts | None = None
    for branch in branches:
        sent = sent_to_all(scope, branch, size)
        found = sent if found is None else product(found, sent)
    return np.ones(size, np.int64) if found is None else found


def sent_to_all(scope: Scope, branch: Branch, parents: int) -> Counts:
    """What a branch sends to each of so many nodes."""
    if is_degree(branch):
        return adjacency(scope, branch).degrees()
    if branch not in scope.memo:
        weights = tree_weights(scope, branch.tree)
        if branch.conditions:
            scope.memo[branch] = over_edges(scope, branch, weights, parents)
        elif weights is None:
            scope.memo[branch] = adjacency(scope, branch).degrees()
        else:
            scope.memo[branch] = collected(scope, branch, weights, parents)
    found: Counts = scope.memo[branch]
    return found


def tree_weights(scope: Scope, tree: Tree) -> Counts | None:
    """The weights of the nodes of a tree's root; None if each has one."""
    size = scope.table(tree.vertex.table_key).size
    if not tree.branches:
        allowed = allowed_by(scope, tree.vertex)
        return None if allowed is None else marked(allowed, size)
    weights = all_weights(scope, tree.branches, size)
    if tree.vertex.is_free:
        return weights
    kept = _allowed_among(scope, tree.vertex, np.flatnonzero(weights), size)
    found = np.zeros(size, np.int64)
    found[kept] = weights[kept]
    return found


def marked(positions: Counts, size: int) -> Counts:
    marks = np.zeros(size, np.int64)
    marks[positions] = 1
    return marks


def collected(scope: Scope, branch: Branch, weights: Counts, parents: int) -> Counts:
    if np.count_nonzero(weights) * SENT < len(weights):
        sent = pushed(scope, branch, np.flatnonzero(weights), weights, parents)
        if float(sent.sum()) < EXACT:
            return sent.astype(np.int64)
    try:
        return sum_over(adjacency(scope, branch), weights).astype(np.int64)
    except OverflowError:
        raise too_many() from None


def over_edges(scope: Scope, branch: Branch, weights: Counts | None, parents: int) -> Counts:
    """Weights collected along the edges that satisfy the conditions of a branch."""
    index = scope.index(branch.edge)
    if index.has_all_ends and (weights is None or float(weights.max(initial=0)) * len(index.tails) < MOST):
        ends, others = (index.tails, index.heads) if branch.direction == "out" else (index.heads, index.tails)
        kept = mask_of(scope, f"edge:{branch.edge}", branch.conditions)
        return sum_edges(ends, others, kept, weights, size=parents)
    ends, others = kept_edges(scope, branch)
    if weights is None:
        return np.bincount(ends, minlength=parents).astype(np.int64)
    sent = weights[others]
    total = float(sent.sum(dtype=np.float64))
    if total < EXACT:
        return np.bincount(ends, weights=sent, minlength=parents).astype(np.int64)
    if total >= MOST:
        raise too_many()
    found = np.zeros(parents, np.int64)
    np.add.at(found, ends, sent)
    return found


def kept_edges(scope: Scope, branch: Branch) -> tuple[Ints, Ints]:
    """The near and the far ends of the edges that satisfy the conditions of a branch."""
    _, tails, heads = stored_edges(scope, branch.edge, branch.conditions)
    return (tails, heads) if branch.direction == "out" else (heads, tails)


def pushed(scope: Scope, branch: Branch, senders: Counts, weights: npt.NDArray[np.generic], parents: int) -> Numbers:
    """Weights sent from a few nodes, against the direction of the branch."""
    back = scope.expander(branch.edge, _OPPOSITE[branch.direction])
    reached = back.edges(senders) if branch.stored else back.neighbours(senders)
    sent = np.repeat(weights[senders].astype(np.float64), np.diff(reached.offsets))
    return np.asarray(np.bincount(reached.targets, weights=sent, minlength=parents), np.float64)


def adjacency(scope: Scope, branch: Branch) -> Csr:
    index = scope.index(branch.edge)
    return index.edges(branch.direction) if branch.stored else index.neighbours(branch.direction)


def product(a: Counts, b: Counts) -> Counts:
    if float(a.max(initial=0)) * float(b.max(initial=0)) >= MOST:
        raise too_many()
    return a * b


def too_many() -> ResourceLimit:
    text = "the query counts more matches than 64 bits can hold"
    return ResourceLimit(text, resource="matches", limit=2**63 - 1, actual=2**63, hint="add conditions")


# What a vertex allows


def allowed_by(scope: Scope, vertex: Vertex) -> Counts | None:
    """The positions that satisfy the conditions of a vertex; None if all do."""
    if vertex.is_free:
        return None
    found = look_up(scope, vertex)
    if found is not None:
        return found
    conditions, rest = vertex.conditions
    if not rest and not vertex.negations:
        return matching(scope, vertex.table_key, conditions)
    return numbers(only(scope.allowed(vertex, None), "v"))


def _allowed_among(scope: Scope, vertex: Vertex, among: Counts, size: int) -> Counts:
    """Those of some positions that satisfy the conditions of a vertex. Where they are few, only they are looked at."""
    conditions, rest = vertex.conditions
    if len(among) < size // 2 and not rest and not vertex.negations:
        return matching_among(scope, vertex.table_key, conditions, among)
    allowed = allowed_by(scope, vertex)
    return among if allowed is None else among[marked(allowed, size)[among] > 0]


def only(table: pa.Table, name: str) -> Array:
    column = table.column(name).combine_chunks()
    return column if isinstance(column, pa.Array) else pa.concat_arrays(column.chunks)
