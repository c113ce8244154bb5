"""The answer of queries that only count the matches of one vertex: the sum of its path counts.

No rows are made and no plan is run, which for a few nodes would take most of the time. The plan exists nevertheless:
`explain` shows it, and it runs on other engines and where a way of traversal is prescribed.
"""

from __future__ import annotations

import numpy as np

from omnigraph_sql.binding.context import BindContext
from omnigraph_sql.binding.filters import matching, matching_among
from omnigraph_sql.binding.path_counts import MOST, Counts, all_path_counts, count_overflow, path_counts_at
from omnigraph_sql.binding.traversals import with_key
from omnigraph_sql.planner.logical import CountShortcut
from omnigraph_sql.planner.values import python_value


def shortcut_count(context: BindContext, shortcut: CountShortcut) -> int:
    """The number of matches of the vertex with its branches."""
    vertex = shortcut.vertex
    if vertex.is_free:
        size = context.rows(vertex.table_key)
        return _sum(all_path_counts(context, vertex.branches, size)) if vertex.branches else size
    at = _allowed(context, shortcut)
    for negation in vertex.negations:
        assert negation.branches is not None
        at = at[path_counts_at(context, negation.branches, at) == 0]
    return _sum(path_counts_at(context, vertex.branches, at)) if vertex.branches else len(at)


def _sum(weights: Counts) -> int:
    # To sum them as other numbers takes several times as long as to look for the largest.
    if float(weights.max(initial=0)) * len(weights) >= MOST and float(weights.sum(dtype=np.float64)) >= MOST:
        raise count_overflow()
    return int(weights.sum())


def _allowed(context: BindContext, shortcut: CountShortcut) -> Counts:
    """The nodes that satisfy the conditions of the vertex, all of which are plain comparisons."""
    vertex = shortcut.vertex
    conditions, _ = vertex.conditions
    if shortcut.key is not None:
        values = [python_value(value, context.params) for value in shortcut.key]
        at = with_key(context, context.catalog.nodes[vertex.type], values)
        if at is not None:
            return matching_among(context, vertex.table_key, conditions, at)
    return matching(context, vertex.table_key, conditions)
