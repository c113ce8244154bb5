"""A negation that only asks whether some branch can be matched is answered by a weight of zero."""

from __future__ import annotations

from dataclasses import replace

from omnigraph_sql.planner.estimate import Estimate, is_walkable
from omnigraph_sql.planner.logical import Branch, Logical, Pattern, Vertex
from omnigraph_sql.planner.pruning import prune


def weigh_negations(query: Logical, estimate: Estimate) -> Logical:
    """Give negations that hang on one variable the branches they ask about."""
    vertices = tuple(_weighed(vertex, estimate) for vertex in query.pattern.vertices)
    if vertices == query.pattern.vertices:
        return query
    found = replace(query, pattern=replace(query.pattern, vertices=vertices))
    return found.with_note("negations are weights of zero")


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
    """What hangs on the only seed of a body, if that is all there is to it."""
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
