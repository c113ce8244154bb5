"""Recovery: finish or undo an operation from its sidecar.

All or nothing per sidecar. Whether a table version belongs to an operation is proven by the operation id in its transaction,
never inferred from version numbers.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum

from omnigraph_sql import failpoints, ulid
from omnigraph_sql.errors import Conflict, ExpectedVersionMismatch, NotFound, RecoveryRequired
from omnigraph_sql.manifest.changes import Change, Update
from omnigraph_sql.manifest.journal import Commit, undo_message
from omnigraph_sql.manifest.publisher import check_expected
from omnigraph_sql.manifest.snapshot import Entry, Intent, Snapshot
from omnigraph_sql.storage.handles import TransactionInfo
from omnigraph_sql.writes.engine import Engine
from omnigraph_sql.writes.locks import table_lock
from omnigraph_sql.writes.sidecar import Sidecar, SidecarTable

ACTOR = "omnigraph:recovery"
_ATTEMPTS = 5


class Movement(Enum):
    """What happened to a table that a sidecar names."""

    INVARIANT_VIOLATION = "InvariantViolation"
    NO_MOVEMENT = "NoMovement"
    ROLLED_PAST = "RolledPast"
    UNEXPECTED = "Unexpected"


@dataclass(frozen=True)
class Classified:
    table: SidecarTable
    movement: Movement
    pin: int
    head: int
    exists: bool = True
    """Whether the lineage that the operation writes to is there."""

    @property
    def is_fork(self) -> bool:
        return self.table.fork_from is not None


@dataclass(frozen=True)
class Look:
    """What can be seen of an operation at one moment."""

    snapshot: Snapshot
    published: Commit | None
    undone: Commit | None
    """The commit that took the operation back; from then on it cannot be published."""
    tables: tuple[Classified, ...]

    @property
    def moved(self) -> list[Classified]:
        return [each for each in self.tables if each.movement is not Movement.NO_MOVEMENT]


def sweep(engine: Engine, *, full: bool) -> list[str]:
    """Recover every sidecar whose owner is dead, oldest first. Returns the operations that are still pending.

    A full sweep (opening read-write) may undo; otherwise only what can be finished is finished.
    """
    left = []
    for operation_id in engine.sidecars.pending():
        with engine.locks.take_over(operation_id) as taken:
            if not taken or not recover(engine, operation_id, full=full):
                left.append(operation_id)
    return left


def recover(engine: Engine, operation_id: str, *, full: bool) -> bool:
    """Recover one operation that nobody runs any more; False when it was left alone."""
    sidecar = engine.sidecars.read(operation_id)
    if sidecar is None:
        return True
    keys = [table_lock(table.table_key, sidecar.branch) for table in sidecar.tables]
    with engine.locks.hold(keys):
        if not engine.sidecars.exists(sidecar):
            return True
        for _ in range(_ATTEMPTS):
            try:
                return _decide(engine, sidecar, full=full)
            except (ExpectedVersionMismatch, Conflict):
                continue  # somebody published meanwhile: look again
            except NotFound:
                if _lives(engine, sidecar):
                    raise
    return False


def _lives(engine: Engine, sidecar: Sidecar) -> bool:
    """Whether the branch exists, and is the one the operation was meant for rather than a later one of its name."""
    try:
        incarnation = engine.coordinator.incarnation(sidecar.branch)
    except NotFound:
        return False
    return sidecar.incarnation in (None, incarnation)


def _decide(engine: Engine, sidecar: Sidecar, *, full: bool) -> bool:
    if not _lives(engine, sidecar):
        _discard(engine, sidecar)
        return True
    look = look_at(engine, sidecar)
    movements = {each.movement for each in look.tables}
    if Movement.INVARIANT_VIOLATION in movements:
        if not full:
            return False
        text = f"operation {sidecar.operation_id} left a table behind what the manifest shows"
        raise RecoveryRequired(text, reason="invariant", operation_id=sidecar.operation_id, hint="run repair")
    if look.published is not None and all(each.is_fork for each in look.moved):
        _finish(engine, sidecar, "RolledForward", look.published, ())
        return True
    if movements == {Movement.ROLLED_PAST} and look.undone is None and _still_stands(sidecar, look.snapshot):
        _roll_forward(engine, sidecar, look.tables)
        return True
    overtaken = any(each.pin > each.table.expected_version for each in look.tables)
    if not full and not (movements == {Movement.NO_MOVEMENT} and overtaken):
        return False
    published = roll_back(engine, sidecar)
    if published is not None:
        _finish(engine, sidecar, "RolledForward", published, ())
    return True


def _still_stands(sidecar: Sidecar, snapshot: Snapshot) -> bool:
    """Whether everything the operation was validated against is as it was."""
    try:
        check_expected(snapshot, sidecar.pins)
    except ExpectedVersionMismatch:
        return False
    return True


def _discard(engine: Engine, sidecar: Sidecar) -> None:
    """Forget an operation whose branch is gone; nothing can show what it did any more."""
    _drop_forks(engine, sidecar, shown=frozenset())
    _finish(engine, sidecar, "OrphanedBranchDiscarded", None, ())


def look_at(engine: Engine, sidecar: Sidecar) -> Look:
    """Look at the branch and at every table of an operation, afresh."""
    snapshot = engine.coordinator.fresh(sidecar.branch)
    engine.publisher.reconcile(snapshot)
    journal = engine.coordinator.journal
    return Look(
        snapshot,
        journal.find(sidecar.intent.graph_commit_id),
        journal.find_undo(sidecar.operation_id),
        tuple(classify(engine, sidecar, table, snapshot) for table in sidecar.tables),
    )


def classify(engine: Engine, sidecar: Sidecar, table: SidecarTable, snapshot: Snapshot) -> Classified:
    pin = snapshot.pin(table.table_key)
    try:
        handle = engine.storage.open_head(table.table_path, table.table_branch)
    except NotFound:
        return Classified(table, Movement.NO_MOVEMENT, pin, pin, exists=False)
    entry = snapshot.entries.get(table.table_key)
    shown = entry is not None and entry.branch == table.table_branch
    base = pin if shown else table.expected_version
    if table.fork_from is not None:
        # A fork counts on from the version it was made at, whatever happened to the table it came from.
        base = table.fork_from[1]
    if handle.version < base:
        return Classified(table, Movement.INVARIANT_VIOLATION, pin, handle.version)
    made = [engine.storage.read_transaction(handle, version) for version in range(base + 1, handle.version + 1)]
    if not any(_is_of(sidecar, table, each) for each in made):
        return Classified(table, Movement.NO_MOVEMENT, pin, handle.version)
    # A table that comes back takes several versions to get above its last one; fewer than all of them are half a write.
    complete = handle.version == table.post_commit_version
    ours = complete and pin == table.expected_version and {each.operation_id for each in made} == {sidecar.operation_id}
    return Classified(table, Movement.ROLLED_PAST if ours else Movement.UNEXPECTED, pin, handle.version)


def _is_of(sidecar: Sidecar, table: SidecarTable, made: TransactionInfo) -> bool:
    """Whether a version was made by an operation, or by an attempt to undo it."""
    return sidecar.operation_id in (made.operation_id, made.undo_of) or made.uuid in table.transaction_uuids


def _roll_forward(engine: Engine, sidecar: Sidecar, tables: Sequence[Classified]) -> None:
    changes: list[Update] = []
    for each in tables:
        # The version that was proven to be ours, not the head: somebody may have landed on top of it since.
        handle = engine.storage.open_at(each.table.table_path, each.table.table_branch, each.head)
        state = engine.storage.state(handle)
        changes.append(
            Update(each.table.table_key, state.version, each.table.table_branch, state.row_count, state.transaction_uuid)
        )
    intent = replace(sidecar.intent, actor_id=ACTOR)
    everything: list[Change] = [*sidecar.changes, *changes]
    published = engine.publisher.publish(sidecar.branch, everything, sidecar.pins, intent, sidecar.incarnation)
    if published.commit.graph_commit_id != intent.graph_commit_id:
        roll_back(engine, sidecar)  # its idempotency key was published by another operation
        return
    _finish(engine, sidecar, "RolledForward", published.commit, [(each, each.head) for each in tables])


def settle(engine: Engine, sidecar: Sidecar) -> Commit | None:
    """Undo an operation of this process that failed; returns its commit if it turns out to be published."""
    if not _lives(engine, sidecar):
        _discard(engine, sidecar)
        return None
    return roll_back(engine, sidecar)


def roll_back(engine: Engine, sidecar: Sidecar) -> Commit | None:
    """Take back what an operation did, unless it is published: then its commit is returned, and nothing is taken back.

    Others may publish at any moment, this very operation included. What is restored becomes visible in one publish that
    expects everything to be as it was seen; if it is not, all starts over.
    """
    first: list[Classified] = []
    for _ in range(_ATTEMPTS):
        if not engine.sidecars.exists(sidecar):
            engine.sidecars.write(sidecar)  # somebody thinks it is settled; what we are about to do must stay attributable
        look = look_at(engine, sidecar)
        first = first or look.moved
        try:
            commit = _take_back(engine, sidecar, look)
        except ExpectedVersionMismatch:
            continue
        if look.published is not None:
            return look.published
        _drop_forks(engine, sidecar, shown={entry.branch for entry in look.snapshot.entries.values()})
        _finish(engine, sidecar, "RolledBack", commit or look.undone, [(each, each.pin) for each in first])
        return None
    text = f"operation {sidecar.operation_id} could not be undone yet: others kept publishing"
    raise Conflict(text, reason="contention", hint="reopen the graph read-write")


def _take_back(engine: Engine, sidecar: Sidecar, look: Look) -> Commit | None:
    """Restore tables and say in the manifest that the operation is undone.

    Every table it named is restored, which also fences off its writer. Where the operation brought forks, the commit itself
    is the fence: a publish that brings them looks for it, so they can be removed afterwards.
    """
    back = [each for each in look.tables if _is_to_restore(each, look)]
    forks = [each for each in look.tables if each.is_fork and each.exists and look.published is None]
    if not back and (not forks or look.undone is not None):
        return None
    entries = look.snapshot.entries
    changes = [_restore(engine, sidecar, entries[each.table.table_key]) for each in back]
    failpoints.hit("recovery.post_restore_pre_publish")
    message = undo_message(sidecar.operation_id)
    intent = Intent(ulid.new(), None, now_us(), "Recovery", actor_id=ACTOR, message=message)
    expected = {each.table.table_key: look.snapshot.expectation(each.table.table_key) for each in [*back, *forks]}
    return engine.publisher.publish(sidecar.branch, changes, expected, intent, look.snapshot.incarnation).commit


def _is_to_restore(each: Classified, look: Look) -> bool:
    entry = look.snapshot.entries.get(each.table.table_key)
    if each.is_fork or entry is None or entry.branch != each.table.table_branch:
        return False
    # A table that others have published since is theirs, unless something of ours lies above their version.
    untouched = each.pin == each.table.expected_version and look.published is None and bool(look.moved)
    return each.movement is not Movement.NO_MOVEMENT or untouched


def _restore(engine: Engine, sidecar: Sidecar, entry: Entry) -> Update:
    handle = engine.storage.open_at(entry.path, entry.branch, entry.version, entry.transaction_uuid)
    state = engine.storage.state(engine.storage_inline.restore(handle, sidecar.operation_id))
    return Update(entry.table_key, state.version, entry.branch, state.row_count, state.transaction_uuid)


def _drop_forks(engine: Engine, sidecar: Sidecar, shown: Set[str | None]) -> None:
    """Remove the forks of an operation that can no longer be published; never one that the branch shows."""
    for table in sidecar.tables:
        if table.fork_from is not None and table.table_branch is not None and table.table_branch not in shown:
            engine.storage.force_delete_branch(table.table_path, table.table_branch)


def _finish(
    engine: Engine, sidecar: Sidecar, kind: str, commit: Commit | None, outcomes: Iterable[tuple[Classified, int]]
) -> None:
    """Audit, once per operation, and forget the sidecar."""
    failpoints.hit("recovery.record_audit")
    if engine.audit.find("operation_id", sidecar.operation_id) is None:
        tables = [{"table_key": each.table.table_key, "from_version": each.head, "to_version": to} for each, to in outcomes]
        row = {
            "graph_commit_id": commit.graph_commit_id if commit else None,
            "recovery_kind": kind,
            "recovery_for_actor": sidecar.actor_id,
            "operation_id": sidecar.operation_id,
            "sidecar_writer_kind": sidecar.writer_kind,
            "per_table_outcomes": json.dumps(tables),
            "created_at": now_us(),
        }
        engine.audit.append_once(row, "operation_id")
    failpoints.hit("recovery.before_sidecar_delete")
    engine.sidecars.remove(sidecar.operation_id)


def undo_unclaimed(engine: Engine, snapshot: Snapshot, table_key: str) -> bool:
    """Undo versions that a dead writer left above the visible one after its sidecar was gone.

    Only when every such version names an operation of ours that nobody runs; anything else is for `repair` to judge. The
    caller holds the table's lock.
    """
    entry = snapshot.entry(table_key)
    head = engine.storage.open_head(entry.path, entry.branch)
    made = [engine.storage.read_transaction(head, version) for version in range(entry.version + 1, head.version + 1)]
    operations = {each.operation_id or each.undo_of for each in made}
    quarantined = {name.removesuffix(".json") for name in engine.sidecars.quarantined()}
    if not operations or None in operations or operations & quarantined:
        return False
    for operation_id in sorted(operations, key=str):
        with engine.locks.take_over(str(operation_id)) as taken:
            if not taken:
                return False
    own = ulid.new()
    intent = Intent(ulid.new(), None, now_us(), "Recovery", actor_id=ACTOR, operation_id=own)
    table = SidecarTable(
        table_key,
        entry.path,
        entry.branch,
        entry.version,
        head.version,
        tuple(each.uuid for each in made),
        expected_branch=entry.branch,
        expected_uuid=entry.transaction_uuid,
    )
    pins = {table_key: snapshot.expectation(table_key)}
    roll_back(engine, Sidecar(own, "Mutation", snapshot.branch, None, intent, (table,), pins, snapshot.incarnation))
    return True


def reconcile_journal(engine: Engine) -> None:
    """Record the head commit of every branch whose publisher died before it could."""
    for branch in engine.coordinator.branches():
        # A branch that has lost its files is reported to whoever uses it, and keeps nobody from the others.
        with suppress(NotFound):
            engine.publisher.reconcile(engine.coordinator.fresh(branch))
    engine.coordinator.journal.complete_actors()


def now_us() -> int:
    return time.time_ns() // 1000
