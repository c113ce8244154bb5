"""The write protocol: prepare, stage, gates, sidecar, effects, publish, journal.

Every operation that changes tables runs through `execute`. A failure before the sidecar leaves nothing but unreferenced
files; a failure after it is undone (`writes/effects.py`) under the same sidecar, or by a later recovery.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Final, Generic, TypeAlias

from omnigraph_sql import failpoints
from omnigraph_sql.errors import Conflict, ConflictReason, ExpectedVersionMismatch, VersionReclaimed
from omnigraph_sql.manifest.coordinator import LOCK_BRANCH
from omnigraph_sql.manifest.journal import Commit
from omnigraph_sql.manifest.publisher import check_expected, check_incarnation
from omnigraph_sql.manifest.snapshot import Snapshot
from omnigraph_sql.storage.error_translation import START_OVER
from omnigraph_sql.store.graph_store import GraphStore
from omnigraph_sql.store.locks.manager import table_lock
from omnigraph_sql.store.recovery import sweep, undo_unclaimed
from omnigraph_sql.writes.checks.selection import check_decision
from omnigraph_sql.writes.effects import commit
from omnigraph_sql.writes.operation import (
    Attempt,
    PreparedWrite,
    Provenance,
    T,
    WriteOutcome,
    expected_pins,
    has_moved,
    touched,
)
from omnigraph_sql.writes.previews import attempt_snapshot
from omnigraph_sql.writes.stage import needs_fork, stage_tables

REPREPARE_ATTEMPTS = 3
Review: TypeAlias = Callable[[Snapshot], None] | None
"""Looks at the snapshot that a write is about to publish."""
RETRIED: Final[tuple[ConflictReason, ...]] = ("commit", "rebased", "undone", "branch replaced")
"""Conflicts after which a write is prepared again, as long as what it decided still holds."""


def execute(
    store: GraphStore,
    branch: str,
    prepare: Callable[[Snapshot], PreparedWrite[T]],
    provenance: Provenance,
    precondition: Callable[[Snapshot], None] = lambda _: None,
    *,
    retries: int = 0,
    tables: Collection[str] = (),
    review: Review = None,
) -> WriteOutcome[T]:
    """Run one operation. Publishes at most once; a write that changes nothing publishes nothing.

    A decision that rests on rows which others have changed is taken anew at most `retries` times. An operation that
    is known to change some `tables` is prepared when its turn has come, if others are writing to them. `review` looks at
    the graph as it will be, and raises to stop the publish.
    """
    branch = store.coordinator.require(branch)
    refuse_schema_apply(store)
    sweep(store, full=False)
    return _Run(
        store=store,
        branch=branch,
        prepare=prepare,
        provenance=provenance,
        precondition=precondition,
        retries=retries,
        tables=frozenset(tables),
        review=review,
    ).run()


@dataclass(kw_only=True)
class _Run(Generic[T]):
    """One run of `execute`: attempts until one is published."""

    store: GraphStore
    branch: str
    prepare: Callable[[Snapshot], PreparedWrite[T]]
    provenance: Provenance
    precondition: Callable[[Snapshot], None]
    retries: int
    """The number of stale decisions may still be repeated."""
    tables: frozenset[str]
    review: Review = None
    latest: Attempt[T] | None = None
    keys: set[str] = field(default_factory=set)
    """Tables that are locked in the next attempt besides those that it changes."""
    stale: ExpectedVersionMismatch | None = None

    def run(self) -> WriteOutcome[T]:
        losses = 0
        while True:
            try:
                first = None if self._must_wait() else self._staged()
                if first is not None and first.prepared.is_empty:
                    return WriteOutcome(None, first.prepared.result)
                failpoints.hit("mutation.post_stage_pre_gates")
                outcome = self._gated(first)
                if outcome is not None:
                    return outcome
                continue  # it needs locks that it does not hold yet
            except (Conflict, ExpectedVersionMismatch) as error:
                # Our effects are undone by now, if there were any.
                lost = isinstance(error, ExpectedVersionMismatch) or error.reason in RETRIED
                if not lost or error is self.stale or losses == REPREPARE_ATTEMPTS:
                    raise
            except VersionReclaimed:  # others have published since this write looked, and a cleanup removed what it saw
                if losses == REPREPARE_ATTEMPTS:
                    raise
            losses += 1
            if self.latest is not None:
                self.keys |= touched(self.latest)  # what was lost against is held from now on, so the next attempt wins

    def _must_wait(self) -> bool:
        """True if other writers hold or await these tables: what is prepared before they are done would be stale."""
        is_crowded = self.store.locks.is_crowded(table_lock(key, self.branch) for key in self.tables)
        if is_crowded:
            self.keys |= self.tables
        return is_crowded

    def _staged(self) -> Attempt[T]:
        """Look at the branch, decide what is to change, and write the files of it."""
        snapshot = self.store.coordinator.fresh(self.branch)
        self.store.publisher.reconcile(snapshot)
        self.precondition(snapshot)
        first = self._prepared(snapshot)
        if first.prepared.is_empty:
            return first
        if not self.store.locks.is_crowded(self._locks(first)):  # otherwise the branch will have moved when its turn comes
            stage_tables(self.store, first)
        review_attempt(self.store, first, self.review)
        return first

    def _prepared(self, snapshot: Snapshot) -> Attempt[T]:
        """The operation on a snapshot, if what was decided on an earlier one still holds there or may be decided anew."""
        if self.latest is not None and has_moved(self.latest, snapshot):
            try:
                check_decision(self.store, self.latest, snapshot)
            except ExpectedVersionMismatch as error:
                if self.retries == 0:
                    self.stale = error
                    raise
                self.retries -= 1
        self.latest = Attempt(snapshot, self.prepare(snapshot))
        return self.latest

    def _locks(self, attempt: Attempt[T] | None) -> list[str]:
        keys = self.keys if attempt is None else attempt.prepared.keys | self.keys
        return [table_lock(key, self.branch) for key in keys]

    def _gated(self, first: Attempt[T] | None) -> WriteOutcome[T] | None:
        """Look (again) while holding the locks, and publish; None when other locks are needed than those."""
        locks = self._locks(first)
        with self.store.locks.hold(locks, shared=["__schema__"]):
            refuse_schema_apply(self.store)
            fresh = self.store.coordinator.fresh(self.branch)
            if first is None:
                self.store.publisher.reconcile(fresh)
            self.precondition(fresh)
            replay = _replay(self.store, fresh, self.provenance)
            if replay is not None:
                result = self.prepare(fresh).result if first is None else first.prepared.result
                return WriteOutcome(replay, result, replayed=True)
            attempt = self._prepared(fresh) if first is None or has_moved(first, fresh) else first
            if not set(self._locks(attempt)) <= set(locks):
                self.keys |= attempt.prepared.keys
                return None
            if attempt.prepared.is_empty:
                return WriteOutcome(None, attempt.prepared.result)
            if not attempt.staged:
                stage_tables(self.store, attempt)
            _check_drift(self.store, attempt)
            _check_files(self.store, attempt)
            if attempt is not first:
                review_attempt(self.store, attempt, self.review)
            return commit(self.store, self.branch, attempt, self.provenance)


def publish_attempt(
    store: GraphStore, branch: str, attempt: Attempt[T], provenance: Provenance, review: Review = None
) -> WriteOutcome[T]:
    """Publish what was prepared and staged earlier, if nothing it relies on has moved."""
    branch = store.coordinator.require(branch)
    sweep(store, full=False)
    review_attempt(store, attempt, review)
    keys = [table_lock(key, branch) for key in attempt.prepared.keys]
    with store.locks.hold(keys, shared=["__schema__"]):
        refuse_schema_apply(store)
        fresh = store.coordinator.fresh(branch)
        replay = _replay(store, fresh, provenance)
        if replay is not None:
            return WriteOutcome(replay, attempt.prepared.result, replayed=True)
        check_incarnation(branch, attempt.snapshot.incarnation, fresh.incarnation)
        check_expected(fresh, expected_pins(attempt))
        if attempt.prepared.is_empty:
            return WriteOutcome(None, attempt.prepared.result)
        _check_drift(store, attempt)
        _check_files(store, attempt)
        return commit(store, branch, attempt, provenance)


def published_before(store: GraphStore, branch: str, attempt: Attempt[T], provenance: Provenance) -> Commit | None:
    """The commit that an earlier publish under the same key made; raises if something else has moved what it relies on."""
    fresh = store.coordinator.fresh(store.coordinator.require(branch))
    replayed = _replay(store, fresh, provenance)
    if replayed is None:
        check_expected(fresh, expected_pins(attempt))
    return replayed


def find_replay(store: GraphStore, branch: str, provenance: Provenance) -> Commit | None:
    """The commit that an earlier write published under the key of this one.

    Asked before a write is prepared: what the first one inserted would stand in the way of a repetition.
    """
    if provenance.idempotency_key is None:
        return None
    name = store.coordinator.require(branch)
    refuse_schema_apply(store)
    sweep(store, full=False)
    return _replay(store, store.coordinator.fresh(name), provenance)


def refuse_schema_apply(store: GraphStore) -> None:
    """Refuse writes while a schema is being applied; the lock is a branch, so it holds across processes."""
    if store.coordinator.table.has_branch(LOCK_BRANCH):
        text = "a schema change is being applied to the graph"
        raise Conflict(text, reason="schema apply", hint="try again when it is done")


def _replay(store: GraphStore, snapshot: Snapshot, provenance: Provenance) -> Commit | None:
    if provenance.idempotency_key is None or snapshot.head is None:
        return None
    return store.coordinator.journal.find_key(provenance.idempotency_key, snapshot.head.graph_commit_id)


def review_attempt(store: GraphStore, attempt: Attempt[T], review: Review) -> None:
    """Show a write to its review before it is published."""
    if review is not None and not attempt.prepared.is_empty:
        with attempt_snapshot(store, attempt) as snapshot:
            review(snapshot)


def _check_drift(store: GraphStore, attempt: Attempt[T]) -> None:
    """A head ahead of the manifest belongs to another operation; a write never builds on it."""
    for write in attempt.prepared.writes:
        entry = attempt.snapshot.entries.get(write.table_key)
        if entry is None or needs_fork(attempt.snapshot, entry):
            continue
        head = store.storage.newest_version(store.storage.open(entry))
        if head <= entry.version:
            continue
        claimed = _is_claimed(store, attempt.snapshot.branch, write.table_key)
        if not claimed and undo_unclaimed(store, attempt.snapshot, write.table_key):
            text = f"{write.table_key} was restored after an interrupted write"
            raise ExpectedVersionMismatch(
                text, table_key=write.table_key, expected=entry.version, actual=head + 1, hint="repeat the write"
            )
        text = f"{write.table_key} has version {head}, but the graph shows {entry.version}"
        raise Conflict(text, reason="drift", hint="reopen the graph read-write" if claimed else START_OVER)


def _check_files(store: GraphStore, attempt: Attempt[T]) -> None:
    """Files that were staged earlier must still exist. A cleanup that removes leftovers needs the same locks."""
    for staged in attempt.staged.values():
        if staged.waited:
            store.storage.require_files(staged)


def _is_claimed(store: GraphStore, branch: str, table_key: str) -> bool:
    """True if a pending sidecar of this branch names a table."""
    pending = (store.sidecars.read(operation_id) for operation_id in store.sidecars.pending())
    return any(
        sidecar is not None and sidecar.branch == branch and any(table.table_key == table_key for table in sidecar.tables)
        for sidecar in pending
    )
