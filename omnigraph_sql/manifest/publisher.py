"""Publishing: the only door through which a change becomes visible.

One publish is one atomic write to the manifest. It carries every change of an operation and always the head row, so any two
publishes on a branch meet there and the loser looks again.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from omnigraph_sql import failpoints
from omnigraph_sql.errors import Conflict, ExpectedVersionMismatch, RowLevelCasContention, Storage
from omnigraph_sql.manifest.changes import Change, Pin, check_batch, manifest_rows
from omnigraph_sql.manifest.coordinator import ManifestCoordinator, check_known, lineage
from omnigraph_sql.manifest.journal import Commit, commit_of
from omnigraph_sql.manifest.snapshot import Intent, Snapshot

RETRY_BUDGET = 5
FORCED_CONTENTION = "OMNIGRAPH_FORCE_CONTENTION"


@dataclass(frozen=True)
class Published:
    """The commit that shows the change, and whether it was there before this call."""

    commit: Commit
    replayed: bool = False
    crowded: bool = False
    """Whether the manifest wants compacting."""


class ManifestBatchPublisher:
    """Publishes to one graph; holds no state but the coordinator."""

    def __init__(self, coordinator: ManifestCoordinator) -> None:
        self._coordinator = coordinator

    def publish(self, branch: str, changes: Sequence[Change], expected: Mapping[str, Pin], intent: Intent) -> Published:
        """Make changes visible, if every table is where the caller expects it."""
        journal = self._coordinator.journal
        for attempt in range(RETRY_BUDGET + 1):
            snapshot = self._coordinator.fresh(branch)
            self.reconcile(snapshot)
            done = self._replayed(snapshot, intent)
            if done is not None:
                return Published(done, replayed=True)
            check_known(snapshot)
            try:
                check_expected(snapshot, expected)
            except ExpectedVersionMismatch:
                # Somebody may have rolled this very operation forward while we were paused.
                done = journal.find(intent.graph_commit_id)
                if done is None:
                    raise
                return Published(done, replayed=True)
            check_batch(snapshot, changes)
            parent = snapshot.head.graph_commit_id if snapshot.head else None
            final = replace(intent, parent_commit_id=parent)
            failpoints.hit("publish.before_merge")
            try:
                _force_contention(attempt)
                rows = manifest_rows(changes, final)
                merged = self._coordinator.table.merge_rows(lineage(branch), rows, snapshot.manifest_version)
            except RowLevelCasContention:
                continue
            failpoints.hit("publish.after_merge")
            self._coordinator.landed(snapshot, merged.version, rows)
            failpoints.hit("journal.before_append")
            return Published(self._record(branch, merged.version, final), crowded=merged.crowded)
        text = f"publishing on `{branch}` lost against other writers {RETRY_BUDGET + 1} times"
        raise Conflict(text, reason="contention", hint="try again")

    def _record(self, branch: str, version: int, intent: Intent) -> Commit:
        """The commit of a publish that is visible. A journal that cannot be written now is completed by the next writer."""
        try:
            return self._coordinator.journal.append(lineage(branch), version, intent)
        except Storage:
            return commit_of(lineage(branch), version, intent)

    def reconcile(self, snapshot: Snapshot) -> None:
        """Record the head's commit if the writer that published it died before doing so."""
        if snapshot.head is not None:
            self._coordinator.journal.record(lineage(snapshot.branch), snapshot.manifest_version, snapshot.head)

    def _replayed(self, snapshot: Snapshot, intent: Intent) -> Commit | None:
        """A commit of this branch that is this one, or carries its idempotency key."""
        journal = self._coordinator.journal
        head = snapshot.head.graph_commit_id if snapshot.head else None
        if head == intent.graph_commit_id:
            return journal.find(intent.graph_commit_id)
        return None if intent.idempotency_key is None else journal.find_key(intent.idempotency_key, head)


def check_expected(snapshot: Snapshot, expected: Mapping[str, Pin]) -> None:
    """Raise for the first table, in key order, that is not where it should be."""
    for key in sorted(expected):
        pin = expected[key]
        entry = snapshot.entries.get(key)
        actual = snapshot.pin(key)
        same = actual == pin.version
        if same and entry is not None and pin.transaction_uuid:
            same = (entry.branch, entry.transaction_uuid) == (pin.branch, pin.transaction_uuid)
        if not same:
            text = f"{key} is at version {actual}, the write was prepared on {pin.version}"
            hint = "read again and repeat the write"
            raise ExpectedVersionMismatch(text, table_key=key, expected=pin.version, actual=actual, hint=hint)


def _force_contention(attempt: int) -> None:
    """Test hook: pretend to lose the first n attempts."""
    if attempt < int(os.environ.get(FORCED_CONTENTION, "0")):
        raise RowLevelCasContention("forced")
