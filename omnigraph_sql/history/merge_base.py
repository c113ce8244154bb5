"""Bases of merges: the nearest common ancestors of two commits."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from functools import reduce
from itertools import combinations
from operator import and_

from omnigraph_sql.manifest.journal import Commit


def merge_bases(commits: Mapping[str, Commit], source: str, target: str) -> list[Commit]:
    """The common ancestors of two commits, either included, that no other common ancestor descends from.

    There are several if the two were merged crosswise. They are ordered by the sum of their distances; of those at one
    distance the one with the higher manifest version comes first, then the one with the greater id.
    """
    to_source, to_target = _distances(commits, source), _distances(commits, target)
    common = to_source.keys() & to_target.keys()
    passed = ancestors(commits, (parent for commit_id in common for parent in commits[commit_id].parents))

    def order(commit: Commit) -> tuple[int, int, Sequence[int]]:
        distance = to_source[commit.graph_commit_id] + to_target[commit.graph_commit_id]
        return distance, -commit.manifest_version, [-ord(char) for char in commit.graph_commit_id]

    return sorted((commits[commit_id] for commit_id in common - passed), key=order)


def ancestors(commits: Mapping[str, Commit], heads: Iterable[str]) -> set[str]:
    """Everything that commits descend from, they themselves included."""
    reached: set[str] = set()
    waiting = [commit_id for commit_id in heads if commit_id in commits]
    while waiting:
        commit_id = waiting.pop()
        if commit_id not in reached:
            reached.add(commit_id)
            waiting += [parent for parent in commits[commit_id].parents if parent in commits]
    return reached


def branch_bases(commits: Mapping[str, Commit], heads: Collection[str]) -> set[str]:
    """The ids of the commits that merges between branches with these heads will start from.

    Only heads, merges and commits with several children can be bases, so only those are told apart: as bits of numbers,
    which say what a commit descends from.
    """
    reachable = ancestors(commits, heads)
    children = Counter(parent for commit_id in reachable for parent in commits[commit_id].parents)
    passed: dict[str, int] = {}
    nodes: list[str] = []
    for commit_id in _parents_first(commits, reachable):
        parents = [parent for parent in commits[commit_id].parents if parent in reachable]
        bits = 0
        for parent in parents:
            bits |= passed[parent]
        if commit_id in heads or children[commit_id] > 1 or len(parents) > 1:
            bits |= 1 << len(nodes)
            nodes.append(commit_id)
        passed[commit_id] = bits

    def latest(common: int) -> Iterator[str]:
        while common:
            commit_id = nodes[common.bit_length() - 1]
            yield commit_id
            common &= ~passed[commit_id]

    bases: set[str] = set()
    for source, target in combinations(sorted(set(heads) & reachable), 2):
        some = list(latest(passed[source] & passed[target]))
        bases |= {*some}
        if len(some) > 1:
            bases |= {*latest(reduce(and_, (passed[commit_id] for commit_id in some)))}
    return bases


def _parents_first(commits: Mapping[str, Commit], reachable: Set[str]) -> Iterator[str]:
    """Commits in an order in which none comes before its parents."""
    done: set[str] = set()
    waiting = sorted(reachable)
    while waiting:
        commit_id = waiting[-1]
        missing = [parent for parent in commits[commit_id].parents if parent in reachable and parent not in done]
        if missing and commit_id not in done:
            waiting += missing
            continue
        waiting.pop()
        if commit_id not in done:
            done.add(commit_id)
            yield commit_id


def _distances(commits: Mapping[str, Commit], head: str) -> dict[str, int]:
    """The number of steps from a commit to each of its ancestors, by the shortest way."""
    distances = {head: 0} if head in commits else {}
    waiting = deque(distances)
    while waiting:
        commit_id = waiting.popleft()
        for parent in commits[commit_id].parents:
            if parent in commits and parent not in distances:
                distances[parent] = distances[commit_id] + 1
                waiting.append(parent)
    return distances
