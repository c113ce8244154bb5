"""Bases of merges: the nearest common ancestors of two commits."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence

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
