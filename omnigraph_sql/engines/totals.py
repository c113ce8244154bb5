"""Queries that only count what matches a vertex and what hangs on it: the sum of its weights is the answer.

No rows are made and no plan is run, which for a few nodes would take most of the time. The plan is there all the same: it is
what `explain` shows, what runs if a way of traversal is prescribed, and what other engines are given.
"""

from __future__ import annotations

import numpy as np

from omnigraph_sql.engines.masks import matching, matching_among
from omnigraph_sql.engines.scope import Scope
from omnigraph_sql.engines.traversal import with_key
from omnigraph_sql.engines.weights import MOST, Counts, all_weights, too_many, weights_at
from omnigraph_sql.planner.plan import Total
from omnigraph_sql.planner.values import python_value


def counted(scope: Scope, total: Total) -> int:
    """In how many ways a vertex matches, with what hangs on it."""
    if total.vertex.is_free and not total.branches:
        return scope.rows(total.vertex.table_key)
    if total.vertex.is_free:
        return _sum(all_weights(scope, total.branches, scope.rows(total.vertex.table_key)))
    at = _allowed(scope, total)
    for negation in total.vertex.negations:
        assert negation.branches is not None
        at = at[weights_at(scope, negation.branches, at) == 0]
    return _sum(weights_at(scope, total.branches, at)) if total.branches else len(at)


def _sum(weights: Counts) -> int:
    # To sum them as other numbers takes several times as long as to look for the largest.
    if float(weights.max(initial=0)) * len(weights) >= MOST and float(weights.sum(dtype=np.float64)) >= MOST:
        raise too_many()
    return int(weights.sum())


def _allowed(scope: Scope, total: Total) -> Counts:
    """The nodes that satisfy the conditions of the vertex, all of which are plain."""
    vertex = total.vertex
    conditions, _ = vertex.conditions
    if total.key is not None:
        values = [python_value(value, scope.params) for value in total.key]
        found = with_key(scope, scope.catalog.nodes[vertex.type], values)
        if found is not None:
            return matching_among(scope, vertex.table_key, conditions, found)
    return matching(scope, vertex.table_key, conditions)
