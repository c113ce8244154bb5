"""Publishing: the only door through which a change becomes visible.

One publish is one atomic write to the manifest. It carries every change of an operation and always the head row, so any two
publishes on a branch meet there and the loser looks again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from omnigraph_sql import failpoints
from omnigraph_sql.errors import (
    Conflict,
    ExpectedVersionMismatch,
    NotFound,
    OmnigraphError,
    RowLevelCasContention,
    Storage,
)
from omnigraph_sql.manifest.changes import Change, Pin, PointerUpdate, check_batch, manifest_rows, tag_rows
from omnigraph_sql.manifest.coordinator import (
    CURRENT_STAMP,
    MAIN,
    ManifestCoordinator,
    branch_replaced,
    check_known,
    lineage,
)
from omnigraph_sql.manifest.journal import Commit, commit_of
from omnigraph_sql.manifest.snapshot import Intent, Snapshot
from omnigraph_sql.manifest.tags import Tag
from omnigraph_sql.storage.manifest_table import Merged

RETRY_BUDGET = 5
T = TypeVar("T")
Queue = Callable[[], AbstractContextManager[None]]
"""The lock that serialises publishes of a branch."""


@dataclass(frozen=True)
class Published:
    """The commit with the change, and whether it existed before this call."""

    commit: Commit
    replayed: bool = False
    crowded: bool = False
    """True if the manifest has many small fragments."""
    unflushed: OmnigraphError | None = None
    """The reason why the visible publish could not be flushed to disk."""


@dataclass(frozen=True)
class _TagAttempt:
    """A tag that is made or deleted; without a merge it was so already."""

    merged: Merged | None


class ManifestBatchPublisher:
    """Publishes to one graph; holds no state but the coordinator."""

    def __init__(self, coordinator: ManifestCoordinator) -> None:
        self._coordinator = coordinator

    def publish(
        self,
        branch: str,
        changes: Sequence[Change],
        expected: Mapping[str, Pin],
        intent: Intent,
        incarnation: str | None = None,
        queue: Queue = nullcontext,
    ) -> Published:
        """Make changes visible, if every table is where the caller expects it.

        `incarnation` is the branch that the changes were prepared on: one of its name that was made later is another one.
        A publish that another one came before enters the `queue` and tries again for as long as its expectations hold.
        Every loss is another writer's success; `RETRY_BUDGET` limits the losses after which no other writer has published.
        """
        return self._landed(branch, lambda snapshot: self._attempt(snapshot, changes, expected, intent, incarnation), queue)

    def publish_tag(self, name: str, choose: Callable[[Snapshot], Tag | None], queue: Queue = nullcontext) -> Merged | None:
        """Make a tag, or delete it where `choose` returns None; `choose` looks at the main branch and may refuse.

        It is asked again after each publish or tag that came first, also after one whose outcome was lost: should the tag be
        there by then, nothing is left to do and the result is None.
        """
        return self._landed(MAIN, lambda snapshot: self._attempt_tag(snapshot, name, choose), queue).merged

    def _landed(self, branch: str, attempt: Callable[[Snapshot], T | None], queue: Queue) -> T:
        """Attempt something on the present snapshot of a branch until no other publish comes first."""
        seen, losses = -1, 0
        with ExitStack() as turn:
            while True:
                snapshot = self._current(branch)
                losses = losses + 1 if snapshot.manifest_version == seen else 0
                if losses > RETRY_BUDGET:
                    text = f"publishing on `{branch}` failed {losses} times although nobody else published"
                    raise Conflict(text, reason="contention", hint="try again")
                done = attempt(snapshot)
                if done is not None:
                    return done
                if seen < 0:
                    turn.enter_context(queue())
                seen = snapshot.manifest_version

    def _attempt(
        self,
        snapshot: Snapshot,
        changes: Sequence[Change],
        expected: Mapping[str, Pin],
        intent: Intent,
        incarnation: str | None,
    ) -> Published | None:
        """Publish on a snapshot; None when another publish came first."""
        branch = snapshot.branch
        self.reconcile(snapshot)
        done = self._replayed(snapshot, intent) or self._check(snapshot, changes, expected, intent, incarnation)
        if done is not None:
            return Published(done, replayed=True)
        parent = snapshot.head.graph_commit_id if snapshot.head else None
        final = replace(intent, parent_commit_id=parent, graph_id=self._coordinator.table.identity.graph_id)
        failpoints.hit("publish.before_merge")
        merged = self._merge(snapshot, manifest_rows(changes, final))
        if merged is None:
            return None
        failpoints.hit("journal.before_append")
        return Published(self._record(branch, merged.version, final), crowded=merged.crowded, unflushed=merged.unflushed)

    def _attempt_tag(self, snapshot: Snapshot, name: str, choose: Callable[[Snapshot], Tag | None]) -> _TagAttempt | None:
        check_known(snapshot)
        self.reconcile(snapshot)
        tag = choose(snapshot)
        if tag == snapshot.tags.get(name):
            return _TagAttempt(None)
        failpoints.hit("tag.before_merge")
        merged = self._merge(snapshot, tag_rows(name, tag, snapshot.head))
        return None if merged is None else _TagAttempt(merged)

    def _merge(self, snapshot: Snapshot, rows: list[dict[str, Any]]) -> Merged | None:
        """Merge rows into the lineage of a snapshot; None when another publish came first."""
        try:
            if failpoints.fires("publish.force_contention"):
                raise RowLevelCasContention("forced")
            merged = self._coordinator.table.merge_rows(snapshot.lineage, rows, snapshot.manifest_version)
        except RowLevelCasContention:
            return None
        except (NotFound, Storage):
            self._coordinator.confirm(snapshot)  # files that are gone with their branch are no damage
            raise
        failpoints.hit("publish.after_merge")
        self._coordinator.confirm(snapshot)
        self._coordinator.landed(snapshot, merged, rows)
        return merged

    def _current(self, branch: str) -> Snapshot:
        """The present snapshot of a branch, in the current format."""
        snapshot = self._coordinator.fresh(branch)
        if snapshot.stamp == CURRENT_STAMP:
            return snapshot
        self._coordinator.migrate_lineage(snapshot.lineage)
        return self._coordinator.fresh(branch)

    def _check(
        self,
        snapshot: Snapshot,
        changes: Sequence[Change],
        expected: Mapping[str, Pin],
        intent: Intent,
        incarnation: str | None,
    ) -> Commit | None:
        """Raise unless the changes may be published on this snapshot; the commit, if they are published already."""
        check_known(snapshot)
        if incarnation is not None:
            check_incarnation(snapshot.branch, incarnation, snapshot.incarnation)
        try:
            check_expected(snapshot, expected)
        except ExpectedVersionMismatch:
            # Another process may have rolled this operation forward while this one was paused.
            done = self._coordinator.journal.find(intent.graph_commit_id)
            if done is None:
                raise
            return done
        self._check_undone(snapshot, changes, expected, intent)
        check_batch(snapshot, changes)
        return None

    def _check_undone(
        self, snapshot: Snapshot, changes: Sequence[Change], expected: Mapping[str, Pin], intent: Intent
    ) -> None:
        """Refuse forks of an operation that a recovery has undone: they may be gone.

        The tables that it did not fork were restored, which their pins show. No pin shows it for a fork, but a commit does.
        """
        forks = any(
            isinstance(change, PointerUpdate) and change.branch != _branch(expected, change.table_key) for change in changes
        )
        unchanged = snapshot.head is None or snapshot.head.graph_commit_id == intent.parent_commit_id
        if not forks or unchanged or intent.operation_id is None:
            return
        if self._coordinator.journal.find_undo(intent.operation_id) is not None:
            text = f"operation {intent.operation_id} was taken for dead and undone"
            raise Conflict(text, reason="undone", hint="repeat the write")

    def _record(self, branch: str, version: int, intent: Intent) -> Commit:
        """The commit of a publish that is visible. A journal that cannot be written now is completed by the next writer."""
        try:
            return self._coordinator.journal.append(lineage(branch), version, intent)
        except Storage:
            return commit_of(lineage(branch), version, intent)

    def reconcile(self, snapshot: Snapshot) -> None:
        """Record the head's commit if the writer that published it died before doing so."""
        if snapshot.head is not None:
            self._coordinator.journal.record(lineage(snapshot.branch), snapshot.head_version, snapshot.head)

    def _replayed(self, snapshot: Snapshot, intent: Intent) -> Commit | None:
        """A commit of this branch that is this one, or carries its idempotency key."""
        journal = self._coordinator.journal
        head = snapshot.head.graph_commit_id if snapshot.head else None
        if head == intent.graph_commit_id:
            return journal.find(intent.graph_commit_id)
        return None if intent.idempotency_key is None else journal.find_key(intent.idempotency_key, head)


def _branch(expected: Mapping[str, Pin], table_key: str) -> str | None:
    pin = expected.get(table_key)
    return None if pin is None else pin.branch


def check_incarnation(branch: str, expected: str, actual: str) -> None:
    """Refuse a branch that was deleted and made again since."""
    if expected != actual:
        raise branch_replaced(branch)


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
