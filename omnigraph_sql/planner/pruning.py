"""Taking branches off a pattern."""

from __future__ import annotations

from dataclasses import dataclass, field

from omnigraph_sql.planner.logical import Branch, Fork, Link, Pattern, Tree


@dataclass
class Pruned:
    """What is left of a pattern, and what hangs on it."""

    left: set[str]
    links: list[Link]
    branches: dict[str, list[Branch]] = field(default_factory=dict)
    forks: list[Fork] = field(default_factory=list)


def prune(pattern: Pattern, needed: set[str], *, forks: bool = False) -> Pruned:
    """Take off whatever hangs on the variables that are needed; with `forks`, also what hangs on two of them.

    Variables that must stay for other reasons are among those needed.
    """
    found = Pruned({each.variable for each in pattern.vertices}, list(pattern.links))
    while True:
        leaf = next((name for name in _spare(found, needed) if len(_links_at(found, name)) == 1), None)
        if leaf is not None:
            _take_off(found, pattern, leaf)
            continue
        tip = next((name for name in _spare(found, needed) if _is_tip(found, name)), None) if forks else None
        if tip is None:
            return found
        needed = needed | _fork_off(found, pattern, tip)


def _spare(found: Pruned, needed: set[str]) -> list[str]:
    return sorted(found.left - needed)


def _links_at(found: Pruned, name: str) -> list[Link]:
    return [link for link in found.links if name in link.ends]


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
    branch = Branch(link.edge, link.seen_from(parent), tree, stored=link.edge_variable is not None)
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
