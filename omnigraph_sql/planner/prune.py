"""Pruning: subtrees of a pattern become branches, forks and spreads of what remains."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from omnigraph_sql.planner.conditions import split
from omnigraph_sql.planner.logical import Branch, Fork, Link, Pattern, Spread, Tree


@dataclass
class Pruned:
    """A pattern after pruning, and the branches that were pruned from it."""

    left: set[str]
    """Node variables that remain."""
    links: list[Link]
    branches: dict[str, list[Branch]] = field(default_factory=dict)
    forks: list[Fork] = field(default_factory=list)
    spreads: list[Spread] = field(default_factory=list)


def empty_branch(_: Link, __: Tree) -> bool:
    return False


def prune(pattern: Pattern, needed: set[str], may_count: Callable[[Link, Tree], bool] = empty_branch) -> Pruned:
    """Prune the subtrees that end in variables which are not needed.

    A vertex that is one hop from each of two others becomes a fork, one that is several hops from another a spread, if
    `may_count` allows to count its matches row by row.
    """
    pruned = Pruned({vertex.variable for vertex in pattern.vertices}, list(pattern.links))
    while True:
        spare = sorted(pruned.left - needed)
        leaf = next((name for name in spare if _is_leaf(pruned, name)), None)
        if leaf is not None:
            _take_off(pruned, pattern, leaf)
            continue
        far = next((name for name in spare if _is_far(pruned, name) and _may(pruned, pattern, name, may_count)), None)
        if far is not None:
            needed = needed | _spread_off(pruned, pattern, far)
            continue
        tip = next((name for name in spare if _is_tip(pruned, name) and _may(pruned, pattern, name, may_count)), None)
        if tip is None:
            return pruned
        needed = needed | _fork_off(pruned, pattern, tip)


def _links_at(pruned: Pruned, name: str) -> list[Link]:
    return [link for link in pruned.links if name in link.ends]


def _is_leaf(pruned: Pruned, name: str) -> bool:
    """True if the only link of a vertex is a single hop."""
    links = _links_at(pruned, name)
    return len(links) == 1 and links[0].is_single


def _is_far(pruned: Pruned, name: str) -> bool:
    """True if the only link of a vertex is several hops."""
    links = _links_at(pruned, name)
    return len(links) == 1 and not links[0].is_single and links[0].source != links[0].target


def _may(pruned: Pruned, pattern: Pattern, name: str, may_count: Callable[[Link, Tree], bool]) -> bool:
    tree = Tree(pattern.vertex(name), tuple(pruned.branches.get(name, ())))
    return all(may_count(link, tree) for link in _links_at(pruned, name))


def _is_tip(pruned: Pruned, name: str) -> bool:
    """True if a vertex is one hop from each of two others that are connected without it."""
    links = _links_at(pruned, name)
    if len(links) != 2 or not all(link.is_hop for link in links):
        return False
    first, second = (link.other(name) for link in links)
    reached, others = {first}, [link for link in pruned.links if link not in links]
    while True:
        more = {end for link in others if reached & set(link.ends) for end in link.ends}
        if more <= reached:
            return first != second and second in reached
        reached |= more


def _tree(pruned: Pruned, pattern: Pattern, name: str) -> Tree:
    return Tree(pattern.vertex(name), tuple(pruned.branches.pop(name, ())))


def _take_off(pruned: Pruned, pattern: Pattern, leaf: str) -> None:
    (link,) = _links_at(pruned, leaf)
    parent = link.other(leaf)
    tree = _tree(pruned, pattern, leaf)
    stored = link.edge_variable is not None
    branch = Branch(link.edge, link.seen_from(parent), tree, stored, split(link.filters)[0])
    pruned.branches.setdefault(parent, []).append(branch)
    pruned.links.remove(link)
    pruned.left.remove(leaf)


def _fork_off(pruned: Pruned, pattern: Pattern, tip: str) -> set[str]:
    first, second = _links_at(pruned, tip)
    ends = first.other(tip), second.other(tip)
    directions = first.seen_from(ends[0]), second.seen_from(ends[1])
    pruned.forks.append(Fork(*ends, (first.edge, second.edge), directions, _tree(pruned, pattern, tip)))
    pruned.links.remove(first)
    pruned.links.remove(second)
    pruned.left.remove(tip)
    return set(ends)


def _spread_off(pruned: Pruned, pattern: Pattern, far: str) -> set[str]:
    (link,) = _links_at(pruned, far)
    start = link.other(far)
    pruned.spreads.append(Spread(start, link, _tree(pruned, pattern, far)))
    pruned.links.remove(link)
    pruned.left.remove(far)
    return {start}
