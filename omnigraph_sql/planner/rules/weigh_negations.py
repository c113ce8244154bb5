"""A negation whose pattern is branches of one vertex holds where their weight is zero."""

from __future__ import annotations

from dataclasses import replace

from omnigraph_sql.planner.estimate import Estimate, is_walkable
from omnigraph_sql.planner.logical import Branch, Logical, Pattern, Vertex
from omnigraph_sql.planner.prune import prune


def weigh_negations(query: Logical, estimate: Estimate) -> Logical:
    """Turn the patterns of negations into branches of their only seed."""
    vertices = tuple(_weighed(vertex, estimate) for vertex in query.pattern.vertices)
    if vertices == query.pattern.vertices:
        return query
    weighed = replace(query, pattern=replace(query.pattern, vertices=vertices))
    return weighed.with_note("negations are weights of zero")


def _weighed(vertex: Vertex, estimate: Estimate) -> Vertex:
    rows = estimate.nodes(replace(vertex, negations=()))
    negations = []
    for negation in vertex.negations:
        branches = _branches(negation.pattern)
        if branches is not None and _is_worth_it(branches, vertex, rows, estimate):
            negation = replace(negation, branches=branches)  # noqa: PLW2901
        negations.append(negation)
    return replace(vertex, negations=tuple(negations))


def _branches(pattern: Pattern) -> tuple[Branch, ...] | None:
    """The branches of the only seed of a body, if the body is nothing else."""
    (seed,) = pattern.seeds
    if pattern.filters or pattern.negations or not pattern.vertex(seed).is_free:
        return None
    if not all(link.is_single and link.is_countable and link.source != link.target for link in pattern.links):
        return None
    pruned = prune(pattern, {seed})
    return tuple(pruned.branches.get(seed, ())) if pruned.left == {seed} else None


def _is_worth_it(branches: tuple[Branch, ...], vertex: Vertex, rows: float, estimate: Estimate) -> bool:
    return all(
        is_walkable((branch,)) or estimate.sending(branch) <= rows * estimate.walking(branch, vertex) for branch in branches
    )
