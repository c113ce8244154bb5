"""Recovery: finish or undo an operation from its sidecar.

All or nothing per sidecar. Whether a table version belongs to an operation is proven by the operation id in its transaction,
never inferred from version numbers.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum

from omnigraph_sql import failpoints, ulid
from omnigraph_sql.errors import ExpectedVersionMismatch, NotFound, RecoveryRequired
from omnigraph_sql.manifest.changes import Change, Pin, Update
from omnigraph_sql.manifest.journal import Commit
from omnigraph_sql.manifest.snapshot import Intent, Snapshot
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
            except ExpectedVersionMismatch:
                continue  # somebody published meanwhile: look again
    return False


def _decide(engine: Engine, sidecar: Sidecar, *, full: bool) -> bool:
    if sidecar.branch not in engine.coordinator.branches():
        _finish(engine, sidecar, "OrphanedBranchDiscarded", None, ())
        return True
    snapshot = engine.coordinator.fresh(sidecar.branch)
    engine.publisher.reconcile(snapshot)
    published = find_published(engine, sidecar)
    if published is not None:
        _finish(engine, sidecar, "RolledForward", published, ())
        return True
    tables = [classify(engine, sidecar, table, snapshot) for table in sidecar.tables]
    movements = {each.movement for each in tables}
    if Movement.INVARIANT_VIOLATION in movements:
        if not full:
            return False
        text = f"operation {sidecar.operation_id} left a table behind what the manifest shows"
        raise RecoveryRequired(text, reason="invariant", operation_id=sidecar.operation_id, hint="run repair")
    if movements == {Movement.ROLLED_PAST}:
        _roll_forward(engine, sidecar, tables)
        return True
    overtaken = any(each.pin > each.table.expected_version for each in tables)
    if movements == {Movement.NO_MOVEMENT} and overtaken:
        roll_back(engine, sidecar, tables)
        return True
    if not full:
        return False
    roll_back(engine, sidecar, tables)
    return True


def find_published(engine: Engine, sidecar: Sidecar) -> Commit | None:
    """The operation's commit, if it became visible."""
    return engine.coordinator.journal.find(sidecar.intent.graph_commit_id)


def classify(engine: Engine, sidecar: Sidecar, table: SidecarTable, snapshot: Snapshot) -> Classified:
    pin = snapshot.pin(table.table_key)
    try:
        handle = engine.storage.open_head(table.table_path, table.table_branch)
    except NotFound:
        return Classified(table, Movement.NO_MOVEMENT, pin, pin)
    # A fork counts on from the version it was made at, whatever happened to the table it came from.
    base = table.fork_from[1] if table.fork_from is not None else pin
    if handle.version < base:
        return Classified(table, Movement.INVARIANT_VIOLATION, pin, handle.version)
    operations = [
        engine.storage.read_transaction(handle, version).operation_id for version in range(base + 1, handle.version + 1)
    ]
    if sidecar.operation_id not in operations:
        return Classified(table, Movement.NO_MOVEMENT, pin, handle.version)
    ours = pin == table.expected_version and set(operations) == {sidecar.operation_id}
    return Classified(table, Movement.ROLLED_PAST if ours else Movement.UNEXPECTED, pin, handle.version)


def _roll_forward(engine: Engine, sidecar: Sidecar, tables: list[Classified]) -> None:
    changes: list[Update] = []
    for each in tables:
        handle = engine.storage.open_at(each.table.table_path, each.table.table_branch, each.head)
        state = engine.storage.state(handle)
        changes.append(
            Update(each.table.table_key, state.version, each.table.table_branch, state.row_count, state.transaction_uuid)
        )
    intent = replace(sidecar.intent, actor_id=ACTOR)
    everything: list[Change] = [*sidecar.changes, *changes]
    published = engine.publisher.publish(sidecar.branch, everything, expected_pins(sidecar.tables), intent)
    if published.commit.graph_commit_id != intent.graph_commit_id:
        roll_back(engine, sidecar, tables)  # its idempotency key was published by another operation
        return
    _finish(engine, sidecar, "RolledForward", published.commit, [(each, each.head) for each in tables])


def roll_back(engine: Engine, sidecar: Sidecar, tables: Iterable[Classified]) -> None:
    """Undo what the operation did. Every table it named is restored, which also fences off its writer."""
    tables = list(tables)
    moved = [each for each in tables if each.movement is not Movement.NO_MOVEMENT]
    # A table that others have published since is theirs; what we did to it lies below their version.
    own = [each for each in tables if each.table.fork_from is None and each.pin == each.table.expected_version]
    commit = None
    if moved and own:
        changes = [_restore(engine, sidecar, each) for each in own]
        failpoints.hit("recovery.post_restore_pre_publish")
        intent = Intent(ulid.new(), None, now_us(), "Recovery", actor_id=ACTOR, message=f"undo of {sidecar.operation_id}")
        commit = engine.publisher.publish(sidecar.branch, changes, expected_pins(each.table for each in own), intent).commit
    for each in tables:
        if each.table.fork_from is not None and each.table.table_branch is not None:
            engine.storage.force_delete_branch(each.table.table_path, each.table.table_branch)
    _finish(engine, sidecar, "RolledBack", commit, [(each, each.pin) for each in moved])


def _restore(engine: Engine, sidecar: Sidecar, each: Classified) -> Update:
    handle = engine.storage.open_at(each.table.table_path, each.table.table_branch, each.table.expected_version)
    new = engine.storage_inline.restore(handle, sidecar.operation_id)
    state = engine.storage.state(new)
    return Update(each.table.table_key, state.version, each.table.table_branch, state.row_count, state.transaction_uuid)


def expected_pins(tables: Iterable[SidecarTable]) -> dict[str, Pin]:
    return {table.table_key: Pin(table.expected_version, table.expected_branch, table.expected_uuid) for table in tables}


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
        engine.audit.append([row])
    failpoints.hit("recovery.before_sidecar_delete")
    engine.sidecars.remove(sidecar.operation_id)


def undo_unclaimed(engine: Engine, snapshot: Snapshot, table_key: str) -> bool:
    """Undo versions that a dead writer left above the visible one after its sidecar was gone.

    Only when every such version names an operation of ours that nobody runs; anything else is for `repair` to judge. The
    caller holds the table's lock.
    """
    entry = snapshot.entry(table_key)
    head = engine.storage.open_head(entry.path, entry.branch)
    versions = range(entry.version + 1, head.version + 1)
    operations = {engine.storage.read_transaction(head, version).operation_id for version in versions}
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
        expected_branch=entry.branch,
        expected_uuid=entry.transaction_uuid,
    )
    sidecar = Sidecar(own, "Mutation", snapshot.branch, None, intent, (table,))
    engine.sidecars.write(sidecar)
    roll_back(engine, sidecar, [Classified(table, Movement.UNEXPECTED, entry.version, head.version)])
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
