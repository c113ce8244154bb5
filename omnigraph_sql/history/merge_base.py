"""Common ancestors of two commits, the best base of a merge first."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

from omnigraph_sql.manifest.journal import Commit


def common_ancestors(commits: Mapping[str, Commit], source: str, target: str) -> list[Commit]:
    """The commits that two commits descend from, either included, by the sum of their distances.

    Of those at one distance the one with the higher manifest version comes first, then the one with the greater id.
    """
    to_source, to_target = _distances(commits, source), _distances(commits, target)
    common = [commits[commit_id] for commit_id in to_source.keys() & to_target.keys()]

    def order(commit: Commit) -> tuple[int, int, Sequence[int]]:
        distance = to_source[commit.graph_commit_id] + to_target[commit.graph_commit_id]
        return distance, -commit.manifest_version, [-ord(char) for char in commit.graph_commit_id]

    return sorted(common, key=order)


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
