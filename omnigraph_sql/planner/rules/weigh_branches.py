"""Aggregates do not walk along branches that they only count: weights are sent along them instead.

The variables that a query groups by, with the traversals between them, stay. Whatever hangs on them by single hops is taken
off; a row then counts as often as the branches on its nodes can be matched. A sum over a property somewhere in a branch is
a weight, too. A node that hangs on two others by a hop each becomes the number of their common neighbours; one that hangs on
another by several hops, the number of nodes within reach.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from omnigraph_compiler import Catalog, ir
from omnigraph_sql.planner.estimate import Estimate, is_walkable, key_values
from omnigraph_sql.planner.logical import Link, Logical, Pattern, Tree, Vertex, components, used_by, variables_of
from omnigraph_sql.planner.pruning import Pruned, prune

_WEIGHABLE = ("count", "sum", "avg")


def weigh_branches(query: Logical, estimate: Estimate) -> Logical:
    """Take branches off the pattern of a query that aggregates."""
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
    vertices = tuple(each for each in query.pattern.vertices if each.variable in pruned.left)
    found = replace(
        query,
        pattern=replace(query.pattern, vertices=vertices, links=tuple(pruned.links)),
        hanging=tuple((name, tuple(branches)) for name, branches in pruned.branches.items() if name in pruned.left),
        forks=tuple(pruned.forks),
        spreads=tuple(pruned.spreads),
    )
    gone = sorted({each.variable for each in query.pattern.vertices} - pruned.left)
    return found.with_note(f"weights instead of walks: {', '.join(f'${name}' for name in gone)}")


def _calls(output: ir.Aggregate) -> list[ir.AggregateCall]:
    return [item.expr for item in output.items if isinstance(item.expr, ir.AggregateCall)]


def _aggregated(output: ir.Aggregate) -> set[str] | None:
    """The variables of which a property is aggregated; None if rows that match in no way would be seen in an aggregate."""
    calls = _calls(output)
    if any(call.function in ("min", "max") for call in calls):
        return None
    return {call.argument.variable for call in calls if isinstance(call.argument, ir.PropertyRef)}


def _may_count(aggregated: set[str] | None, catalog: Catalog, link: Link, tree: Tree) -> bool:
    """Whether the matches of what a link leads to may be counted for each row."""
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
    """For a component of which nothing is needed, the vertex to which it is cheapest to send everything."""
    found = set(needed)
    for component in components(pattern):
        names = {each.variable for each in component}
        if not names & found:
            best = min(component, key=lambda vertex: (_cost(pattern, needed, vertex, estimate), vertex.variable))
            found.add(best.variable)
    return found


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
    reached = sum(estimate.fan_out(link, root, other) for link, other in others)  # whatever is allowed of it
    return weighed + estimate.finding(root) + rows * (1.0 + reached)


def _cheaper_walked(found: Pruned, query: Logical, output: ir.Aggregate, estimate: Estimate) -> set[str]:
    """The variables of branches along which few rows walk sooner than something is sent to all nodes.

    What is only counted is walked along for few rows anyway, if all conditions on the way are plain.
    """
    pattern, summed = query.pattern, _aggregated(output) or set()
    rows = 1.0
    for name in found.left:
        rows *= estimate.support(pattern.vertex(name), found.branches.get(name, ()))
    for link in found.links:
        start, end = pattern.vertex(link.source), pattern.vertex(link.target)
        rows *= estimate.fan_out(link, start, end) / max(1.0, estimate.nodes(end))
    return {
        name
        for parent, branches in found.branches.items()
        for branch in branches
        if not is_walkable((branch,)) or any(branch.tree.find(variable) for variable in summed)
        if max(rows, 1.0) * estimate.walking(branch, pattern.vertex(parent)) < estimate.sending(branch)
        for name in _names(branch.tree)
    }


def _names(tree: Tree) -> list[str]:
    return [tree.vertex.variable, *(name for branch in tree.branches for name in _names(branch.tree))]
