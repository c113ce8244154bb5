"""The commits that led to a state."""

from __future__ import annotations

from omnigraph_sql.manifest.coordinator import ManifestCoordinator, lineage
from omnigraph_sql.manifest.journal import Commit, commit_of
from omnigraph_sql.manifest.snapshot import Snapshot


def history(coordinator: ManifestCoordinator, snapshot: Snapshot) -> list[Commit]:
    """Return the commits that the head of a snapshot descends from, and the head itself, newest first."""
    if snapshot.head is None:
        return []
    head = commit_of(lineage(snapshot.branch), snapshot.head_version, snapshot.head)
    return coordinator.journal.history(head.graph_commit_id, head)
