"""Aggregates by message passing: branches that a query only counts or sums are pruned, and weights are sent along them.

The variables that a query groups by stay, with the traversals between them. Subtrees of single hops are pruned; a row then
counts as often as the branches of its nodes can be matched. A sum over a property in a branch is a weight, too. A node that
is one hop from each of two others becomes the number of their common neighbours; one that is several hops from another, the
number of nodes within reach.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from omnigraph_compiler import Catalog, ir
from omnigraph_sql.planner.estimate import Estimate, is_walkable, key_values
from omnigraph_sql.planner.logical import Link, Logical, Pattern, Tree, Vertex, components, used_by, variables_of
from omnigraph_sql.planner.prune import Pruned, prune

_WEIGHABLE = ("count", "sum", "avg")


def weigh_branches(query: Logical, estimate: Estimate) -> Logical:
    """Prune branches from the pattern of a query that aggregates."""
    if not isinstance(query.output, ir.Aggregate) or not query.pattern.links:
        return query
    may_count = partial(_may_count, _aggregated(query.output), estimate.catalog)
    needed = _needed(query, query.output)
    pruned = prune(query.pattern, _with_roots(query.pattern, needed, estimate), may_count)
    cheap = _cheaper_walked(pruned, query, query.output, estimate)
    while cheap:
        needed |= cheap
        pruned = prune(query.pattern, _with_roots(query.pattern, needed, estimate), may_count)
        cheap = _cheaper_walked(pruned, query, query.output, estimate) - needed
    if not pruned.branches and not pruned.forks and not pruned.spreads:
        return query
    vertices = tuple(
        replace(vertex, branches=tuple(pruned.branches.get(vertex.variable, ())))
        for vertex in query.pattern.vertices
        if vertex.variable in pruned.left
    )
    pattern = replace(query.pattern, vertices=vertices, links=tuple(pruned.links))
    weighted = replace(query, pattern=pattern, forks=tuple(pruned.forks), spreads=tuple(pruned.spreads))
    gone = sorted({vertex.variable for vertex in query.pattern.vertices} - pruned.left)
    return weighted.with_note(f"weights instead of walks: {', '.join(f'${name}' for name in gone)}")


def _calls(output: ir.Aggregate) -> list[ir.AggregateCall]:
    return [item.expr for item in output.items if isinstance(item.expr, ir.AggregateCall)]


def _aggregated(output: ir.Aggregate) -> set[str] | None:
    """The variables of which a property is aggregated; None if an aggregate would show rows without a match."""
    calls = _calls(output)
    if any(call.function in ("min", "max") for call in calls):
        return None
    return {call.argument.variable for call in calls if isinstance(call.argument, ir.PropertyRef)}


def _may_count(aggregated: set[str] | None, catalog: Catalog, link: Link, tree: Tree) -> bool:
    """True if the matches of the tree behind a link may be counted for each row."""
    if aggregated is None or any(tree.find(variable) for variable in aggregated):
        return False
    edge = catalog.edges[link.edge]
    return link.is_single or (edge.source == edge.target and key_values(catalog, tree.vertex) is None)


def _needed(query: Logical, output: ir.Aggregate) -> set[str]:
    """The node variables that must be in the rows."""
    pattern = query.pattern
    used: set[str] = set()
    for item in output.items:
        call = item.expr
        if not isinstance(call, ir.AggregateCall):
            used |= variables_of(call)
        elif call.function == "count" and isinstance(call.argument, ir.IdRef):
            continue
        elif call.function not in _WEIGHABLE or not isinstance(call.argument, ir.PropertyRef):
            used |= variables_of(call)
        elif not pattern.has_vertex(call.argument.variable):
            used.add(call.argument.variable)
    for condition in pattern.filters:
        used |= used_by(condition)
    for negation in pattern.negations:
        used |= set(negation.outer)
    for link in pattern.links:
        counted = link.is_countable and link.edge_variable not in used
        if not counted or link.source == link.target:
            used |= set(link.ends)
    return {name for name in used if pattern.has_vertex(name)}


def _with_roots(pattern: Pattern, needed: set[str], estimate: Estimate) -> set[str]:
    """Add, for each component of which nothing is needed, the vertex to which it is cheapest to send all weights."""
    roots = set(needed)
    for component in components(pattern):
        names = {vertex.variable for vertex in component}
        if not names & roots:
            best = min(component, key=lambda root: (_cost(pattern, needed, root, estimate), root.variable))
            roots.add(best.variable)
    return roots


def _cost(pattern: Pattern, needed: set[str], root: Vertex, estimate: Estimate) -> float:
    pruned = prune(pattern, needed | {root.variable})
    branches = pruned.branches.get(root.variable, [])
    weighed = sum(estimate.weighing(branch, root) for branch in branches)
    rows = estimate.support(root, branches)
    others = [
        (link, replace(pattern.vertex(link.other(root.variable)), filters=(), negations=()))
        for link in pruned.links
        if root.variable in link.ends
    ]
    reached = sum(estimate.fan_out(link, root, other) for link, other in others)  # conditions of the other end do not count
    return weighed + estimate.finding(root) + rows * (1.0 + reached)


def _cheaper_walked(pruned: Pruned, query: Logical, output: ir.Aggregate, estimate: Estimate) -> set[str]:
    """The variables of branches that few rows walk along more cheaply than weights are sent to all nodes.

    Binding walks along branches that are only counted anyway, for few rows, if all conditions on the way are plain.
    """
    pattern, summed = query.pattern, _aggregated(output) or set()
    rows = 1.0
    for name in pruned.left:
        rows *= estimate.support(pattern.vertex(name), pruned.branches.get(name, ()))
    for link in pruned.links:
        start, end = pattern.vertex(link.source), pattern.vertex(link.target)
        rows *= estimate.fan_out(link, start, end) / max(1.0, estimate.nodes(end))
    return {
        name
        for parent, branches in pruned.branches.items()
        for branch in branches
        if not is_walkable((branch,)) or any(branch.tree.find(variable) for variable in summed)
        if max(rows, 1.0) * estimate.walking(branch, pattern.vertex(parent)) < estimate.sending(branch)
        for name in _names(branch.tree)
    }


def _names(tree: Tree) -> list[str]:
    return [tree.vertex.variable, *(name for branch in tree.branches for name in _names(branch.tree))]
