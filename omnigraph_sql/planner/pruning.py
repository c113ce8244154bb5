"""Taking branches off a pattern."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from omnigraph_sql.planner.conditions import split
from omnigraph_sql.planner.logical import Branch, Fork, Link, Pattern, Spread, Tree


@dataclass
class Pruned:
    """What is left of a pattern, and what hangs on it."""

    left: set[str]
    links: list[Link]
    branches: dict[str, list[Branch]] = field(default_factory=dict)
    forks: list[Fork] = field(default_factory=list)
    spreads: list[Spread] = field(default_factory=list)


def nothing(_: Link, __: Tree) -> bool:
    return False


def prune(pattern: Pattern, needed: set[str], may_count: Callable[[Link, Tree], bool] = nothing) -> Pruned:
    """Take off whatever hangs on the variables that are needed.

    Variables that must stay for other reasons are among those needed. What hangs on two variables by a hop each, or on one
    by several hops, is taken off if `may_count` says that its matches may be counted row by row.
    """
    found = Pruned({each.variable for each in pattern.vertices}, list(pattern.links))
    while True:
        spare = sorted(found.left - needed)
        leaf = next((name for name in spare if _is_leaf(found, name)), None)
        if leaf is not None:
            _take_off(found, pattern, leaf)
            continue
        far = next((name for name in spare if _is_far(found, name) and _may(found, pattern, name, may_count)), None)
        if far is not None:
            needed = needed | _spread_off(found, pattern, far)
            continue
        tip = next((name for name in spare if _is_tip(found, name) and _may(found, pattern, name, may_count)), None)
        if tip is None:
            return found
        needed = needed | _fork_off(found, pattern, tip)


def _links_at(found: Pruned, name: str) -> list[Link]:
    return [link for link in found.links if name in link.ends]


def _is_leaf(found: Pruned, name: str) -> bool:
    """Whether a vertex hangs on another by a single hop."""
    links = _links_at(found, name)
    return len(links) == 1 and links[0].is_single


def _is_far(found: Pruned, name: str) -> bool:
    """Whether a vertex hangs on another by several hops."""
    links = _links_at(found, name)
    return len(links) == 1 and not links[0].is_single and links[0].source != links[0].target


def _may(found: Pruned, pattern: Pattern, name: str, may_count: Callable[[Link, Tree], bool]) -> bool:
    tree = Tree(pattern.vertex(name), tuple(found.branches.get(name, ())))
    return all(may_count(link, tree) for link in _links_at(found, name))


def _is_tip(found: Pruned, name: str) -> bool:
    """Whether a vertex hangs by a hop each on two others that hang together without it."""
    links = _links_at(found, name)
    if len(links) != 2 or not all(link.is_hop for link in links):
        return False
    first, second = (link.other(name) for link in links)
    reached, others = {first}, [link for link in found.links if link not in links]
    while True:
        more = {end for link in others if reached & set(link.ends) for end in link.ends}
        if more <= reached:
            return first != second and second in reached
        reached |= more


def _tree(found: Pruned, pattern: Pattern, name: str) -> Tree:
    return Tree(pattern.vertex(name), tuple(found.branches.pop(name, ())))


def _take_off(found: Pruned, pattern: Pattern, leaf: str) -> None:
    (link,) = _links_at(found, leaf)
    parent = link.other(leaf)
    tree = _tree(found, pattern, leaf)
    stored = link.edge_variable is not None
    branch = Branch(link.edge, link.seen_from(parent), tree, stored, split(link.filters)[0])
    found.branches.setdefault(parent, []).append(branch)
    found.links.remove(link)
    found.left.remove(leaf)


def _fork_off(found: Pruned, pattern: Pattern, tip: str) -> set[str]:
    first, second = _links_at(found, tip)
    ends = first.other(tip), second.other(tip)
    directions = first.seen_from(ends[0]), second.seen_from(ends[1])
    found.forks.append(Fork(*ends, (first.edge, second.edge), directions, _tree(found, pattern, tip)))
    found.links.remove(first)
    found.links.remove(second)
    found.left.remove(tip)
    return set(ends)


def _spread_off(found: Pruned, pattern: Pattern, far: str) -> set[str]:
    (link,) = _links_at(found, far)
    start = link.other(far)
    found.spreads.append(Spread(start, link, _tree(found, pattern, far)))
    found.links.remove(link)
    found.left.remove(far)
    return {start}
