"""The write protocol: prepare, stage, gates, sidecar, effects, publish, journal.

Every operation that changes tables runs through `execute`. A failure before the sidecar leaves nothing but unreferenced
files; a failure after it is undone (`writes/effects.py`), under the same sidecar, or by whoever finds it later.
"""

from __future__ import annotations

from collections.abc import Callable

from omnigraph_sql import failpoints
from omnigraph_sql.errors import Conflict, ExpectedVersionMismatch, VersionReclaimed
from omnigraph_sql.manifest.coordinator import LOCK_BRANCH
from omnigraph_sql.manifest.journal import Commit
from omnigraph_sql.manifest.publisher import check_expected, check_incarnation
from omnigraph_sql.manifest.snapshot import Snapshot
from omnigraph_sql.writes.effects import commit
from omnigraph_sql.writes.engine import Engine
from omnigraph_sql.writes.locks import table_lock
from omnigraph_sql.writes.operation import Attempt, Outcome, Prepared, Provenance, T, expected_pins, has_moved, is_strict
from omnigraph_sql.writes.recovery import sweep, undo_unclaimed
from omnigraph_sql.writes.staging import needs_fork, open_entry, stage_tables

REPREPARE_ATTEMPTS = 3
RETRIED = ("commit", "rebased", "undone", "branch replaced")
"""Conflicts after which a write that does not depend on exact content is prepared again."""


def execute(
    engine: Engine,
    branch: str,
    prepare: Callable[[Snapshot], Prepared[T]],
    provenance: Provenance,
    precondition: Callable[[Snapshot], None] = lambda _: None,
) -> Outcome[T]:
    """Run one operation. Publishes at most once; a write that changes nothing publishes nothing."""
    branch = engine.coordinator.require(branch)
    refuse_schema_apply(engine)
    sweep(engine, full=False)
    for attempt in range(REPREPARE_ATTEMPTS + 1):
        is_last = attempt == REPREPARE_ATTEMPTS
        try:
            first = _staged(engine, branch, prepare, provenance, precondition)
        except VersionReclaimed:
            if is_last:
                raise
            continue  # others have published since this write looked, and a cleanup removed what it looked at
        if first.prepared.is_empty:
            return Outcome(None, first.prepared.result)
        try:
            return _gated(engine, branch, first, prepare, provenance, precondition)
        except (Conflict, ExpectedVersionMismatch) as error:
            # Our effects are undone by now. A write that does not depend on exact content looks again.
            retry = isinstance(error, ExpectedVersionMismatch) or error.reason in RETRIED
            if not retry or is_strict(first.prepared) or is_last:
                raise
        except VersionReclaimed:
            if is_last:
                raise
    raise AssertionError("unreachable")


def _staged(
    engine: Engine,
    branch: str,
    prepare: Callable[[Snapshot], Prepared[T]],
    provenance: Provenance,
    precondition: Callable[[Snapshot], None],
) -> Attempt[T]:
    """Look at the branch, decide what is to change, and write the files of it."""
    snapshot = engine.coordinator.fresh(branch)
    engine.publisher.reconcile(snapshot)
    precondition(snapshot)
    first = Attempt(snapshot, prepare(snapshot))
    if first.prepared.is_empty:
        return first
    stage_tables(engine, first)
    failpoints.hit("mutation.post_stage_pre_gates")
    if provenance.writer_kind == "EnsureIndices":
        failpoints.hit("ensure_indices.post_stage")
    return first


def _gated(
    engine: Engine,
    branch: str,
    first: Attempt[T],
    prepare: Callable[[Snapshot], Prepared[T]],
    provenance: Provenance,
    precondition: Callable[[Snapshot], None],
) -> Outcome[T]:
    keys = [table_lock(key, branch) for key in first.prepared.keys]
    with engine.locks.hold(keys, shared=["__schema__"]):
        refuse_schema_apply(engine)
        fresh = engine.coordinator.fresh(branch)
        precondition(fresh)
        replay = _replay(engine, fresh, provenance)
        if replay is not None:
            return Outcome(replay, first.prepared.result, replayed=True)
        attempt = first
        if has_moved(first, fresh):
            if is_strict(first.prepared):
                check_expected(fresh, expected_pins(first))
            attempt = Attempt(fresh, prepare(fresh))
            others = attempt.prepared.keys - first.prepared.keys
            if others:
                text = "the write touches other tables than when it was prepared"
                raise ExpectedVersionMismatch(text, table_key=min(others), expected=0, actual=0)
            if attempt.prepared.is_empty:
                return Outcome(None, attempt.prepared.result)
            stage_tables(engine, attempt)
        _check_drift(engine, attempt)
        _check_files(engine, attempt)
        return commit(engine, branch, attempt, provenance)


def publish_attempt(engine: Engine, branch: str, attempt: Attempt[T], provenance: Provenance) -> Outcome[T]:
    """Publish what was prepared and staged earlier, if nothing it relies on has moved."""
    branch = engine.coordinator.require(branch)
    sweep(engine, full=False)
    keys = [table_lock(key, branch) for key in attempt.prepared.keys]
    with engine.locks.hold(keys, shared=["__schema__"]):
        refuse_schema_apply(engine)
        fresh = engine.coordinator.fresh(branch)
        replay = _replay(engine, fresh, provenance)
        if replay is not None:
            return Outcome(replay, attempt.prepared.result, replayed=True)
        check_incarnation(branch, attempt.snapshot.incarnation, fresh.incarnation)
        check_expected(fresh, expected_pins(attempt))
        if attempt.prepared.is_empty:
            return Outcome(None, attempt.prepared.result)
        _check_drift(engine, attempt)
        _check_files(engine, attempt)
        return commit(engine, branch, attempt, provenance)


def published_before(engine: Engine, branch: str, attempt: Attempt[T], provenance: Provenance) -> Commit | None:
    """The commit that an earlier publish under the same key made; raises if something else has moved what it relies on."""
    fresh = engine.coordinator.fresh(engine.coordinator.require(branch))
    found = _replay(engine, fresh, provenance)
    if found is None:
        check_expected(fresh, expected_pins(attempt))
    return found


def refuse_schema_apply(engine: Engine) -> None:
    """While a schema is being applied nobody else writes; the lock is a branch, so it holds across processes."""
    if engine.coordinator.table.has_branch(LOCK_BRANCH):
        text = "a schema change is being applied to the graph"
        raise Conflict(text, reason="schema apply", hint="try again when it is done")


def _replay(engine: Engine, snapshot: Snapshot, provenance: Provenance) -> Commit | None:
    if provenance.idempotency_key is None or snapshot.head is None:
        return None
    return engine.coordinator.journal.find_key(provenance.idempotency_key, snapshot.head.graph_commit_id)


def _check_drift(engine: Engine, attempt: Attempt[T]) -> None:
    """A head ahead of what the manifest shows belongs to somebody; a write never folds it in."""
    for write in attempt.prepared.writes:
        entry = attempt.snapshot.entries.get(write.table_key)
        if entry is None or needs_fork(attempt.snapshot, entry):
            continue
        head = engine.storage.newest_version(open_entry(engine, entry))
        if head <= entry.version:
            continue
        claimed = _is_claimed(engine, attempt.snapshot.branch, write.table_key)
        if not claimed and undo_unclaimed(engine, attempt.snapshot, write.table_key):
            text = f"{write.table_key} was restored after an interrupted write"
            raise ExpectedVersionMismatch(
                text, table_key=write.table_key, expected=entry.version, actual=head + 1, hint="repeat the write"
            )
        text = f"{write.table_key} has version {head}, but the graph shows {entry.version}"
        raise Conflict(text, reason="drift", hint="reopen the graph read-write" if claimed else "run repair")


def _check_files(engine: Engine, attempt: Attempt[T]) -> None:
    """What was staged at another time must still be there. A cleanup that takes it for left over needs the same locks."""
    for staged in attempt.staged.values():
        if staged.waited:
            engine.storage.require_files(staged)


def _is_claimed(engine: Engine, branch: str, table_key: str) -> bool:
    """Whether a pending sidecar of this branch names a table."""
    pending = (engine.sidecars.read(each) for each in engine.sidecars.pending())
    return any(
        sidecar is not None and sidecar.branch == branch and any(table.table_key == table_key for table in sidecar.tables)
        for sidecar in pending
    )
