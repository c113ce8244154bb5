"""The history of one table: which commits changed rows of it, each compared with its first parent.

Of a merge that changed the table, the merged side is looked at as well: most rows that it brought were made there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from omnigraph_sql.errors import NotFound, Storage, VersionReclaimed
from omnigraph_sql.history.row_changes import RowChanges
from omnigraph_sql.history.table_differences import TableDifferences
from omnigraph_sql.manifest.coordinator import MAIN, ManifestCoordinator
from omnigraph_sql.manifest.journal import Commit
from omnigraph_sql.manifest.snapshot import Entry, Snapshot
from omnigraph_sql.manifest.timelines import TableTimeline


@dataclass(frozen=True, kw_only=True)
class TableChange:
    """What a commit did to a table."""

    commit: Commit
    before: Entry | None
    after: Entry | None
    rows: RowChanges
    """The rows that it changed."""
    is_baseline: bool = False
    """True at the oldest state that can be read: `rows` are all rows of it, whoever made them."""
    unlike_merged: pa.Array | None = None
    """Of a merge, the ids of the rows that are not as on the merged side; None if that side cannot be read."""


@dataclass(frozen=True)
class _Lineage:
    """Commits of one lineage, and the versions of the table that they show."""

    timeline: TableTimeline
    commits: frozenset[str]

    def shown(self, commit: Commit) -> Entry | None:
        return self.timeline.at(commit.manifest_version)


class TableHistory:
    """The changes of one table that led to a state."""

    def __init__(
        self,
        coordinator: ManifestCoordinator,
        snapshot: Snapshot,
        commits: Mapping[str, Commit],
        table_key: str,
        changes: TableDifferences,
    ) -> None:
        """`commits` are those that the state descends from, newest first."""
        self.commits = commits
        self.changed: dict[str, TableChange] = {}
        """The commits that changed the table."""
        self.visited: set[str] = set()
        """The commits that were looked at."""
        self._coordinator = coordinator
        self._key = table_key
        self._changes = changes
        self._lineages: dict[str, _Lineage | None] = {}
        own = _Lineage(coordinator.timeline(snapshot, table_key), frozenset())
        waiting = [(snapshot.commit_id, own)]
        while waiting:
            head, lineage = waiting.pop()
            for merge in self._follow(head, lineage):
                merged = self._merged(merge)
                if merged is not None:
                    waiting.append(merged)

    def _follow(self, head: str, lineage: _Lineage) -> Iterator[TableChange]:
        """Look at a commit and its first parents. Yields the merges that changed the table."""
        commit = self.commits.get(head)
        while commit is not None and commit.graph_commit_id not in self.visited:
            self.visited.add(commit.graph_commit_id)
            parent = self.commits.get(commit.parent_commit_id or "")
            after = lineage.shown(commit)
            before = None if parent is None else lineage.shown(parent)
            if parent is None or before != after:
                change = self._change(commit, before, after, is_cut=parent is None and commit.parent_commit_id is not None)
                if len(change.rows):
                    self.changed[commit.graph_commit_id] = change
                    if commit.merged_parent_commit_id is not None and not change.is_baseline:
                        yield change
                if change.is_baseline:
                    return
            commit = parent

    def _change(self, commit: Commit, before: Entry | None, after: Entry | None, *, is_cut: bool) -> TableChange:
        """The change that a commit made; the baseline if what was before it cannot be read."""
        if not is_cut:
            try:
                rows = self._changes.between(before, after)
                return TableChange(commit=commit, before=before, after=after, rows=rows)
            except VersionReclaimed:
                pass
        every = self._changes.between(None, after)
        return TableChange(commit=commit, before=None, after=after, rows=every, is_baseline=True)

    def _merged(self, change: TableChange) -> tuple[str, _Lineage] | None:
        """Compare a merge with the merged side; return where that begins, or None if it cannot be read."""
        merged = self.commits.get(change.commit.merged_parent_commit_id or "")
        lineage = None if merged is None else self._lineage(merged)
        if merged is None or lineage is None:
            return None
        try:
            unlike = self._changes.between(lineage.shown(merged), change.after).ids
        except VersionReclaimed:
            return None
        self.changed[change.commit.graph_commit_id] = TableChange(**(vars(change) | {"unlike_merged": unlike}))
        return merged.graph_commit_id, lineage

    def _lineage(self, commit: Commit) -> _Lineage | None:
        """The lineage that a commit was published on; None if its branch was deleted, or made anew since."""
        branch = commit.manifest_branch or MAIN
        if branch not in self._lineages:
            self._lineages[branch] = self._opened(branch)
        lineage = self._lineages[branch]
        return lineage if lineage is not None and commit.graph_commit_id in lineage.commits else None

    def _opened(self, branch: str) -> _Lineage | None:
        try:
            snapshot = self._coordinator.fresh(branch)
            timeline = self._coordinator.timeline(snapshot, self._key)
        except (NotFound, Storage):
            return None
        line = [snapshot.commit_id]
        parent = None if snapshot.head is None else snapshot.head.parent_commit_id
        while parent is not None:
            line.append(parent)
            commit = self._recorded.get(parent)
            parent = None if commit is None else commit.parent_commit_id
        return _Lineage(timeline, frozenset(line))

    @cached_property
    def _recorded(self) -> Mapping[str, Commit]:
        return self._coordinator.journal.commits()
