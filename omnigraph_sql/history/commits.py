"""The commits that led to a state."""

from __future__ import annotations

from omnigraph_sql.errors import NotFound
from omnigraph_sql.manifest.coordinator import ManifestCoordinator, lineage
from omnigraph_sql.manifest.journal import Commit, commit_of
from omnigraph_sql.manifest.snapshot import Snapshot


def history(coordinator: ManifestCoordinator, snapshot: Snapshot) -> list[Commit]:
    """Return the commits that the head of a snapshot descends from, and the head itself, newest first."""
    if snapshot.head is None:
        return []
    head = commit_of(lineage(snapshot.branch), snapshot.head_version, snapshot.head)
    return coordinator.journal.history(head.graph_commit_id, head)


def page(commits: list[Commit], limit: int | None, after: str | None, branch: str) -> list[Commit]:
    """Return at most `limit` commits of a branch, from the one that follows `after` on."""
    start = 0
    if after is not None:
        places = [place for place, commit in enumerate(commits) if commit.graph_commit_id == after]
        if not places:
            text = f"the commit `{after}` is not in the history of the branch `{branch}`"
            raise NotFound(text, what="commit", name=after, hint="list the commits from the newest one on")
        start = places[0] + 1
    return commits[start:] if limit is None else commits[start : start + limit]
