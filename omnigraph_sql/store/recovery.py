"""Recovery: finish or undo an operation from its sidecar.

All or nothing per sidecar. Whether a table version belongs to an operation is proven by the operation id in its transaction,
never inferred from version numbers.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, replace
from enum import Enum

from omnigraph_sql import failpoints, ulid
from omnigraph_sql.errors import Conflict, ExpectedVersionMismatch, NotFound, RecoveryRequired, Storage, UnsupportedFormat
from omnigraph_sql.manifest.changes import Change, PointerUpdate
from omnigraph_sql.manifest.coordinator import MAIN
from omnigraph_sql.manifest.journal import Commit, undo_message
from omnigraph_sql.manifest.publisher import check_expected
from omnigraph_sql.manifest.snapshot import Entry, Intent, Snapshot
from omnigraph_sql.storage.error_translation import is_damage
from omnigraph_sql.storage.handles import SnapshotHandle, TransactionInfo
from omnigraph_sql.store.graph_store import GraphStore
from omnigraph_sql.store.locks.manager import table_lock
from omnigraph_sql.store.sidecar_format import Sidecar, SidecarTable

ACTOR = "omnigraph:recovery"
_log = logging.getLogger("omnigraph_sql.recovery")
_ATTEMPTS = 5


class Movement(Enum):
    """The movement of the head of a table that a sidecar names."""

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
    """True if the lineage that the operation writes to is there."""

    @property
    def is_fork(self) -> bool:
        return self.table.fork_from is not None


@dataclass(frozen=True)
class TableInspection:
    """The state of an operation when it was inspected."""

    snapshot: Snapshot
    published: Commit | None
    undone: Commit | None
    """The commit that undid the operation; after it, the operation cannot be published."""
    tables: tuple[Classified, ...]

    @property
    def moved(self) -> list[Classified]:
        return [table for table in self.tables if table.movement is not Movement.NO_MOVEMENT]


def sweep(store: GraphStore, *, full: bool) -> list[str]:
    """Recover every sidecar whose owner is dead, oldest first. Returns the operations that are still pending.

    A full sweep (opening read-write) may undo; otherwise only what can be finished is finished.
    """
    left = []
    for operation_id in store.sidecars.pending():
        with store.locks.take_over(operation_id) as taken:
            if not taken or not recover(store, operation_id, full=full):
                left.append(operation_id)
    return left


def recover(store: GraphStore, operation_id: str, *, full: bool) -> bool:
    """Recover one operation of a dead process; return False if it was left alone."""
    sidecar = store.sidecars.read(operation_id)
    if sidecar is None:
        return True
    keys = [table_lock(table.table_key, sidecar.branch) for table in sidecar.tables]
    with store.locks.hold(keys):
        if not store.sidecars.exists(sidecar):
            return True
        try:
            return _decided(store, sidecar, full=full)
        except (OSError, MemoryError, RecoveryRequired):
            raise
        except UnsupportedFormat:
            return False  # a newer release has written to the branch and must recover it
        except (NotFound, Storage) as error:
            if not is_damage(error):
                raise
            return _left(sidecar, error)
        except Exception as error:
            # A damaged sidecar must not stop operations that it does not concern.
            store.sidecars.quarantine(operation_id, f"{type(error).__name__}: {error}")
            return True


def _decided(store: GraphStore, sidecar: Sidecar, *, full: bool) -> bool:
    for _ in range(_ATTEMPTS):
        try:
            return _decide(store, sidecar, full=full)
        except (ExpectedVersionMismatch, Conflict):
            continue  # another writer has published: inspect again
        except NotFound:
            if sidecar.branch in store.coordinator.branches():
                raise
    return False


def _left(sidecar: Sidecar, reason: object) -> bool:
    """Leave an operation for a recovery after the files are restored. Its tables refuse writes until then."""
    _log.warning("operation %s cannot be finished or undone: %s", sidecar.operation_id, ascii(str(reason)))
    return False


def _lives(store: GraphStore, sidecar: Sidecar) -> bool:
    """True if the branch exists, and is the one the operation was meant for rather than a later one of its name."""
    try:
        incarnation = store.coordinator.incarnation(sidecar.branch)
    except NotFound:
        return False
    return sidecar.incarnation in (None, incarnation)


def _decide(store: GraphStore, sidecar: Sidecar, *, full: bool) -> bool:
    if not _lives(store, sidecar):
        _discard(store, sidecar)
        return True
    look = inspect_tables(store, sidecar)
    movements = {item.movement for item in look.tables}
    if Movement.INVARIANT_VIOLATION in movements:
        behind = [item.table.table_key for item in look.tables if item.movement is Movement.INVARIANT_VIOLATION]
        return _left(sidecar, f"{', '.join(behind)} lacks versions that the graph shows: restore it from a copy")
    if look.published is not None and all(item.is_fork for item in look.moved):
        _finish(store, sidecar, "RolledForward", look.published, ())
        return True
    if movements == {Movement.ROLLED_PAST} and look.undone is None and _still_stands(sidecar, look.snapshot):
        _roll_forward(store, sidecar, look.tables)
        return True
    overtaken = any(item.pin > item.table.expected_version for item in look.tables)
    if not full and not (movements == {Movement.NO_MOVEMENT} and overtaken):
        return False
    published = roll_back(store, sidecar)
    if published is not None:
        _finish(store, sidecar, "RolledForward", published, ())
    return True


def _still_stands(sidecar: Sidecar, snapshot: Snapshot) -> bool:
    """True if everything the operation was validated against is as it was."""
    try:
        check_expected(snapshot, sidecar.pins)
    except ExpectedVersionMismatch:
        return False
    return True


def _discard(store: GraphStore, sidecar: Sidecar) -> None:
    """Drop an operation whose branch is gone: nothing can show its effects any more."""
    _drop_forks(store, sidecar, shown=frozenset())
    _finish(store, sidecar, "OrphanedBranchDiscarded", None, ())


def inspect_tables(store: GraphStore, sidecar: Sidecar) -> TableInspection:
    """Inspect the branch and every table of an operation, without caches."""
    snapshot = store.coordinator.fresh(sidecar.branch)
    store.publisher.reconcile(snapshot)
    journal = store.coordinator.journal
    return TableInspection(
        snapshot,
        journal.find(sidecar.intent.graph_commit_id),
        journal.find_undo(sidecar.operation_id),
        tuple(classify(store, sidecar, table, snapshot) for table in sidecar.tables),
    )


def classify(store: GraphStore, sidecar: Sidecar, table: SidecarTable, snapshot: Snapshot) -> Classified:
    pin = snapshot.pin(table.table_key)
    try:
        handle = store.storage.open_head(table.table_path, table.table_branch)
    except NotFound:
        return Classified(table, Movement.NO_MOVEMENT, pin, pin, exists=False)
    entry = snapshot.entries.get(table.table_key)
    shown = entry is not None and entry.branch == table.table_branch
    base = pin if shown else table.expected_version
    if table.fork_from is not None:
        # Versions of a fork continue from the one it was made at, independently of the table it came from.
        base = table.fork_from[1]
    if handle.version < base:
        return Classified(table, Movement.INVARIANT_VIOLATION, pin, handle.version)
    made = _transactions(store, handle, base)
    if not any(_is_of(sidecar, table, transaction) for transaction in made):
        return Classified(table, Movement.NO_MOVEMENT, pin, handle.version)
    # A recreated table needs several versions to get above its last one; fewer are half a write.
    complete = handle.version == table.post_commit_version
    ours = (
        complete
        and pin == table.expected_version
        and {transaction.operation_id for transaction in made} == {sidecar.operation_id}
    )
    return Classified(table, Movement.ROLLED_PAST if ours else Movement.UNEXPECTED, pin, handle.version)


def _transactions(store: GraphStore, head: SnapshotHandle, base: int) -> list[TransactionInfo]:
    """The transactions of the versions above a base. A late version of an earlier graph may leave a gap."""
    transactions = []
    for version in range(base + 1, head.version + 1):
        try:
            transactions.append(store.storage.read_transaction(head, version))
        except Storage as error:
            if error.storage_class != "not_found" or version == head.version:
                raise
    return transactions


def _is_of(sidecar: Sidecar, table: SidecarTable, made: TransactionInfo) -> bool:
    """True if a version was made by an operation, or by an attempt to undo it."""
    return sidecar.operation_id in (made.operation_id, made.undo_of) or made.uuid in table.transaction_uuids


def _roll_forward(store: GraphStore, sidecar: Sidecar, tables: Sequence[Classified]) -> None:
    changes: list[PointerUpdate] = []
    for classified in tables:
        # The version that is known to be ours, not the head: another writer may have committed on top of it since.
        handle = store.storage.open_at(classified.table.table_path, classified.table.table_branch, classified.head)
        state = store.storage.state(handle)
        changes.append(
            PointerUpdate(
                classified.table.table_key,
                state.version,
                classified.table.table_branch,
                state.row_count,
                state.transaction_uuid,
            )
        )
    intent = replace(sidecar.intent, actor_id=ACTOR)
    everything: list[Change] = [*sidecar.changes, *changes]
    published = store.publisher.publish(sidecar.branch, everything, sidecar.pins, intent, sidecar.incarnation)
    if published.commit.graph_commit_id != intent.graph_commit_id:
        roll_back(store, sidecar)  # its idempotency key was published by another operation
        return
    _finish(store, sidecar, "RolledForward", published.commit, [(classified, classified.head) for classified in tables])


def finish_operation(store: GraphStore, sidecar: Sidecar) -> Commit | None:
    """Undo an operation of this process that failed; returns its commit if it turns out to be published."""
    if not _lives(store, sidecar):
        _discard(store, sidecar)
        return None
    return roll_back(store, sidecar)


def roll_back(store: GraphStore, sidecar: Sidecar) -> Commit | None:
    """Take back what an operation did, unless it is published: then its commit is returned, and nothing is taken back.

    Others may publish at any moment, this very operation included. What is restored becomes visible in one publish that
    expects everything to be as it was seen; if it is not, all starts over.
    """
    first: list[Classified] = []
    for _ in range(_ATTEMPTS):
        if not store.sidecars.exists(sidecar):
            store.sidecars.write(sidecar)  # another process settled it; the following effects must stay attributable
        look = inspect_tables(store, sidecar)
        first = first or look.moved
        try:
            commit = _take_back(store, sidecar, look)
        except ExpectedVersionMismatch:
            continue
        if look.published is not None:
            return look.published
        _drop_forks(store, sidecar, shown={entry.branch for entry in look.snapshot.entries.values()})
        _finish(store, sidecar, "RolledBack", commit or look.undone, [(classified, classified.pin) for classified in first])
        return None
    text = f"operation {sidecar.operation_id} could not be undone yet: others kept publishing"
    raise Conflict(text, reason="contention", hint="reopen the graph read-write")


def _take_back(store: GraphStore, sidecar: Sidecar, look: TableInspection) -> Commit | None:
    """Restore tables and say in the manifest that the operation is undone.

    Every table it named is restored, which also fences off its writer. Where the operation brought forks, the commit itself
    is the fence: a publish that brings them looks for it, so they can be removed afterwards.
    """
    back = [classified for classified in look.tables if _is_to_restore(classified, look)]
    forks = [classified for classified in look.tables if classified.is_fork and classified.exists and look.published is None]
    if not back and (not forks or look.undone is not None):
        return None
    entries = look.snapshot.entries
    changes = [_restore(store, sidecar, entries[classified.table.table_key]) for classified in back]
    failpoints.hit("recovery.post_restore_pre_publish")
    message = undo_message(sidecar.operation_id)
    intent = Intent(
        graph_commit_id=ulid.new(),
        parent_commit_id=None,
        created_at=now_us(),
        writer_kind="Recovery",
        actor_id=ACTOR,
        message=message,
    )
    expected = {
        classified.table.table_key: look.snapshot.expectation(classified.table.table_key) for classified in [*back, *forks]
    }
    return store.publisher.publish(sidecar.branch, changes, expected, intent, look.snapshot.incarnation).commit


def _is_to_restore(classified: Classified, look: TableInspection) -> bool:
    entry = look.snapshot.entries.get(classified.table.table_key)
    if classified.is_fork or entry is None or entry.branch != classified.table.table_branch:
        return False
    # A table that others have published since is theirs, unless something of ours lies above their version.
    untouched = classified.pin == classified.table.expected_version and look.published is None and bool(look.moved)
    return classified.movement is not Movement.NO_MOVEMENT or untouched


def _restore(store: GraphStore, sidecar: Sidecar, entry: Entry) -> PointerUpdate:
    handle = store.storage.open(entry)
    state = store.storage.state(store.storage_inline.restore(handle, sidecar.operation_id))
    return PointerUpdate(entry.table_key, state.version, entry.branch, state.row_count, state.transaction_uuid)


def _drop_forks(store: GraphStore, sidecar: Sidecar, shown: Set[str | None]) -> None:
    """Remove the forks of an operation that can no longer be published; never one that the branch shows."""
    for table in sidecar.tables:
        if table.fork_from is not None and table.table_branch is not None and table.table_branch not in shown:
            store.storage.force_delete_branch(table.table_path, table.table_branch)


def _finish(
    store: GraphStore, sidecar: Sidecar, kind: str, commit: Commit | None, outcomes: Iterable[tuple[Classified, int]]
) -> None:
    """Write the audit row, once per operation, and remove the sidecar."""
    failpoints.hit("recovery.record_audit")
    if store.audit.find("operation_id", sidecar.operation_id) is None:
        tables = [
            {"table_key": classified.table.table_key, "from_version": classified.head, "to_version": to}
            for classified, to in outcomes
        ]
        row = {
            "graph_commit_id": commit.graph_commit_id if commit else None,
            "recovery_kind": kind,
            "recovery_for_actor": sidecar.actor_id,
            "operation_id": sidecar.operation_id,
            "sidecar_writer_kind": sidecar.writer_kind,
            "per_table_outcomes": json.dumps(tables),
            "created_at": now_us(),
        }
        store.audit.append_once(row, "operation_id")
    failpoints.hit("recovery.before_sidecar_delete")
    store.sidecars.remove(sidecar.operation_id)


def undo_unclaimed(store: GraphStore, snapshot: Snapshot, table_key: str) -> bool:
    """Undo versions that a dead writer left above the visible one after its sidecar was gone.

    Only if every such version names an operation of this package that no process runs; anything else is left alone. The
    caller holds the table's lock.
    """
    entry = snapshot.entry(table_key)
    head = store.storage.open_head(entry.path, entry.branch)
    made = _transactions(store, head, entry.version)
    operations = {transaction.operation_id or transaction.undo_of for transaction in made}
    if not operations or None in operations or operations & store.sidecars.quarantined_operations():
        return False
    for operation_id in sorted(operations, key=str):
        with store.locks.take_over(str(operation_id)) as taken:
            if not taken:
                return False
    own = ulid.new()
    intent = Intent(
        graph_commit_id=ulid.new(),
        parent_commit_id=None,
        created_at=now_us(),
        writer_kind="Recovery",
        actor_id=ACTOR,
        operation_id=own,
    )
    table = SidecarTable(
        table_key=table_key,
        table_path=entry.path,
        table_branch=entry.branch,
        expected_version=entry.version,
        post_commit_version=head.version,
        transaction_uuids=tuple(transaction.uuid for transaction in made),
        expected_branch=entry.branch,
        expected_uuid=entry.transaction_uuid,
    )
    pins = {table_key: snapshot.expectation(table_key)}
    roll_back(
        store,
        Sidecar(
            operation_id=own,
            writer_kind="Mutation",
            branch=snapshot.branch,
            actor_id=None,
            intent=intent,
            tables=(table,),
            pins=pins,
            incarnation=snapshot.incarnation,
        ),
    )
    return True


def reconcile_journal(store: GraphStore) -> None:
    """Record the head commit of every branch whose publisher died before it could."""
    for branch in store.coordinator.branches():
        try:
            store.publisher.reconcile(store.coordinator.fresh(branch))
        except (NotFound, Storage) as error:
            # A damaged branch is reported to its own users and must not affect other branches. Lance does not
            # always report it as damage; a skipped branch is completed by its next writer.
            is_local = isinstance(error, Storage) and error.storage_class == "unknown"
            if branch == MAIN or not (is_damage(error) or is_local):
                raise
    store.coordinator.journal.complete_actors()


def now_us() -> int:
    return time.time_ns() // 1000
