"""Branches with their newest commits, and how far they are from main."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from omnigraph_sql.errors import NotFound, Storage, UnsupportedFormat
from omnigraph_sql.manifest.coordinator import MAIN, ManifestCoordinator, lineage
from omnigraph_sql.manifest.journal import Commit, commit_of, reachable
from omnigraph_sql.manifest.snapshot import Snapshot


@dataclass(frozen=True, kw_only=True)
class BranchInfo:
    """A branch, its newest commit, and its distance from main."""

    name: str
    """The name of the branch."""
    commit_id: str | None = None
    """The newest commit; None if the branch cannot be read, as all that follows."""
    version: int | None = None
    """The version of the branch."""
    created_at: int | None = None
    """When the commit was made, in microseconds since 1970."""
    actor_id: str | None = None
    """Who made it."""
    message: str | None = None
    """The note of its author."""
    ahead: int | None = None
    """The number of commits in its history that main does not have."""
    behind: int | None = None
    """The number of commits of main that are not in its history."""
    damage: str | None = None
    """Why the branch cannot be read."""

    def to_dict(self) -> dict[str, Any]:
        """Return the members as JSON values.

        Example:
            >>> graph.branch_infos()[0].to_dict()["message"]
            'first ports'
        """
        return dict(vars(self))


def branch_infos(coordinator: ManifestCoordinator) -> list[BranchInfo]:
    """Return all branches. The journal is read once, after the heads, so it has all that they descend from."""
    heads: dict[str, Snapshot | str] = {}
    for name in coordinator.branches():
        head = _head(coordinator, name)
        if head is not None:
            heads[name] = head
    commits = coordinator.journal.commits()
    for snapshot in heads.values():
        if isinstance(snapshot, Snapshot) and snapshot.head is not None:
            commit = commit_of(lineage(snapshot.branch), snapshot.head_version, snapshot.head)
            commits.setdefault(commit.graph_commit_id, commit)
    main = heads.get(MAIN)
    distances = _Distances(commits, main.commit_id if isinstance(main, Snapshot) else None)
    return [_info(name, head, commits, distances) for name, head in heads.items()]


def _head(coordinator: ManifestCoordinator, name: str) -> Snapshot | str | None:
    """The snapshot of a branch, or why it cannot be read; None for one that was deleted since it was listed."""
    try:
        return coordinator.fresh(name)
    except (NotFound, Storage, UnsupportedFormat) as error:
        if isinstance(error, NotFound) and error.what == "graph":
            raise
        return error.message if name in coordinator.branches() else None


def _info(name: str, head: Snapshot | str, commits: Mapping[str, Commit], distances: _Distances) -> BranchInfo:
    if isinstance(head, str):
        return BranchInfo(name=name, damage=head)
    commit = commits.get(head.commit_id)
    ahead, behind = distances.of(head.commit_id)
    return BranchInfo(
        name=name,
        commit_id=head.commit_id,
        version=head.manifest_version,
        created_at=None if commit is None else commit.created_at,
        actor_id=None if commit is None else commit.actor_id,
        message=None if commit is None else commit.message,
        ahead=ahead,
        behind=behind,
    )


class _Distances:
    """Numbers of commits between branches and main. What branches share is walked once."""

    def __init__(self, commits: Mapping[str, Commit], main: str | None) -> None:
        self._commits = commits
        self._main = None if main is None else reachable(commits, [main])
        self._shared: dict[frozenset[str], int] = {}

    def of(self, commit_id: str) -> tuple[int | None, int | None]:
        """Commits of a branch that main lacks, and of main that the branch lacks; None without a main."""
        if self._main is None:
            return None, None
        own = reachable(self._commits, [commit_id], self._main)
        parents = {parent for known in own for parent in self._commits[known].parents}
        # The branch has of main what its own commits stand on, with all before it.
        roots = frozenset((parents | {commit_id}) & self._main)
        if roots not in self._shared:
            self._shared[roots] = len(reachable(self._commits, roots))
        return len(own), len(self._main) - self._shared[roots]
