"""Effects: the part of a write that is visible to other processes, from its sidecar to its publish.

A failure in between is undone here, under the same sidecar, or by a later recovery.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from omnigraph_sql import failpoints, ulid
from omnigraph_sql.errors import Conflict, ExpectedVersionMismatch, OmnigraphError, RecoveryRequired, Storage
from omnigraph_sql.manifest.changes import DefinitionChange, PointerUpdate, RegisterTable, Tombstone
from omnigraph_sql.manifest.journal import Commit
from omnigraph_sql.manifest.publisher import Published
from omnigraph_sql.manifest.snapshot import Intent, Snapshot
from omnigraph_sql.storage.handles import SnapshotHandle
from omnigraph_sql.store.graph_store import GraphStore
from omnigraph_sql.store.locks.manager import publish_lock
from omnigraph_sql.store.recovery import finish_operation, now_us
from omnigraph_sql.store.sidecar_format import Sidecar, SidecarTable
from omnigraph_sql.writes.operation import (
    Attempt,
    CommitSources,
    CreateTable,
    Provenance,
    T,
    TableWrite,
    WriteOutcome,
    expected_pins,
)
from omnigraph_sql.writes.stage import needs_fork, stage_write


def commit(store: GraphStore, branch: str, attempt: Attempt[T], provenance: Provenance) -> WriteOutcome[T]:
    """Move the heads of the tables and publish. The caller holds their locks and has looked that nothing moved."""
    operation_id = attempt.operation_id or ulid.new()
    sidecar = _sidecar(store, branch, attempt, provenance, operation_id)
    if not sidecar.tables:
        # Nothing but rows of the manifest: the publish is the whole operation, and it is atomic by itself.
        return _outcome(sidecar, attempt, _publish(store, sidecar, ()))
    with store.locks.own(operation_id), _undone(store, sidecar) as effects:
        store.sidecars.write(sidecar)
        effects.started = True
        failpoints.hit("write.post_sidecar_pre_effect")
        updates = [_effect(store, sidecar, attempt, write) for write in _ordered(attempt)]
        failpoints.hit("write.post_effects_pre_publish")
        if _is_merge(sidecar):
            failpoints.hit("merge.post_effects_pre_publish")
        effects.published = published = _publish(store, sidecar, updates)
        if published.commit.graph_commit_id != sidecar.intent.graph_commit_id:
            # Another process has published the idempotency key: its commit stands, ours is undone.
            finish_operation(store, sidecar)
        else:
            failpoints.hit("write.before_sidecar_delete")
            _forget(store, operation_id)
            if published.crowded:
                store.coordinator.table.compact(attempt.snapshot.lineage)
    assert effects.published is not None
    return _outcome(sidecar, attempt, effects.published)


def _publish(store: GraphStore, sidecar: Sidecar, updates: Sequence[PointerUpdate]) -> Published:
    changes = [*sidecar.changes, *updates]
    branch = sidecar.branch
    return store.publisher.publish(
        branch,
        changes,
        sidecar.pins,
        sidecar.intent,
        sidecar.incarnation,
        lambda: store.locks.turn(publish_lock(branch)),
    )


def _outcome(sidecar: Sidecar, attempt: Attempt[T], published: Published) -> WriteOutcome[T]:
    made = published.commit
    if published.unflushed is not None:
        text = f"the write is visible as commit {made.graph_commit_id}, but not on disk: {published.unflushed.message}"
        hint = "look at the disk. Do not repeat the write: only a power cut or a crash of the machine can take it back"
        raise Storage(text, storage_class="permanent", hint=hint) from published.unflushed
    return WriteOutcome(made, attempt.prepared.result, made.graph_commit_id != sidecar.intent.graph_commit_id)


def _ordered(attempt: Attempt[T]) -> list[TableWrite]:
    return sorted(attempt.prepared.writes, key=lambda write: write.table_key)


def _sidecar(store: GraphStore, branch: str, attempt: Attempt[T], provenance: Provenance, operation_id: str) -> Sidecar:
    tables, registrations = [], []
    for write in _ordered(attempt):
        entry = attempt.snapshot.entries.get(write.table_key)
        fork = fork_name(branch, operation_id)
        placed = attempt.places.get(write.table_key)
        if placed is not None:
            tables.append(replace(placed, transaction_uuids=(attempt.staged[write.table_key].transaction_uuid,)))
            if entry is None:
                registrations.append(RegisterTable(write.table_key, placed.table_path))
            continue
        if entry is None:
            tables.append(new_table(store, attempt.snapshot, write, fork))
            registrations.append(RegisterTable(write.table_key, tables[-1].table_path))
            continue
        forks = needs_fork(attempt.snapshot, entry)
        staged = attempt.staged.get(write.table_key)
        tables.append(
            SidecarTable(
                table_key=write.table_key,
                table_path=entry.path,
                table_branch=fork if forks else entry.branch,
                expected_version=entry.version,
                post_commit_version=entry.version + 1,
                transaction_uuids=(staged.transaction_uuid,) if staged else (),
                fork_from=(entry.branch, entry.version) if forks else None,
                expected_branch=entry.branch,
                expected_uuid=entry.transaction_uuid,
            )
        )
    parent = attempt.snapshot.head.graph_commit_id if attempt.snapshot.head else None
    sources = provenance.sources or CommitSources()
    intent = Intent(
        graph_commit_id=ulid.new(),
        parent_commit_id=parent,
        created_at=now_us(),
        writer_kind=provenance.writer_kind,
        actor_id=provenance.actor,
        operation_id=operation_id,
        message=provenance.message,
        idempotency_key=provenance.idempotency_key,
        merged_parent_commit_id=sources.merged_parent,
        origin_commit_id=sources.origin,
    )
    changes = attempt.prepared.changes
    return Sidecar(
        operation_id=operation_id,
        writer_kind=provenance.writer_kind,
        branch=branch,
        actor_id=provenance.actor,
        intent=intent,
        tables=tuple(tables),
        pins=expected_pins(attempt),
        incarnation=attempt.snapshot.incarnation,
        registrations=tuple(change for change in registrations if change.table_key not in attempt.snapshot.locations),
        tombstones=tuple(change for change in changes if isinstance(change, Tombstone)),
        definitions=tuple(change for change in changes if isinstance(change, DefinitionChange)),
        adoptions=tuple(change for change in changes if isinstance(change, PointerUpdate)),
    )


def fork_name(branch: str, operation_id: str) -> str:
    """The name of the table branches that an operation makes for a graph branch."""
    return f"{branch}.{operation_id[-10:]}"


def new_table(store: GraphStore, snapshot: Snapshot, write: TableWrite, fork: str) -> SidecarTable:
    """A table that does not exist on this branch: a fork of what was there before it was dropped, or of an empty table."""
    assert isinstance(write, CreateTable)
    pin, before = snapshot.pin(write.table_key), snapshot.dropped.get(write.table_key)
    if before is None:
        start: tuple[str | None, int] = (None, store.storage.ensure_table(write.path))
    else:
        start = (before.branch, store.storage.open_head(before.path, before.branch).version)
    # The first version must lie above the one at which the table was dropped.
    return SidecarTable(
        table_key=write.table_key,
        table_path=write.path,
        table_branch=fork,
        expected_version=pin,
        post_commit_version=max(start[1], pin) + 1,
        transaction_uuids=(),
        fork_from=start,
    )


def _effect(store: GraphStore, sidecar: Sidecar, attempt: Attempt[T], write: TableWrite) -> PointerUpdate:
    """Move the head of one table."""
    if _is_merge(sidecar) and write.table_key != sidecar.tables[0].table_key:
        failpoints.hit("merge.between_tables")
    _claim(store, sidecar)
    table = next(candidate for candidate in sidecar.tables if candidate.table_key == write.table_key)
    if write.table_key in attempt.heads:
        handle = attempt.heads[write.table_key]
        staged = store.storage.attribute(attempt.staged[write.table_key], sidecar.operation_id)
    elif table.fork_from is not None:
        handle = _fork(store, sidecar, table)
        failpoints.hit("write.post_fork_pre_commit")
        while handle.version + 1 < table.post_commit_version:
            bump = store.storage.stage_rewrite(handle, None, None, sidecar.operation_id)
            handle = store.storage.commit_staged(handle, bump)
        staged = stage_write(store, handle, write, sidecar.operation_id)
        _claim(store, sidecar)
    else:
        handle = store.storage.open(attempt.snapshot.entry(write.table_key))
        staged = store.storage.attribute(attempt.staged[write.table_key], sidecar.operation_id)
    new = store.storage.commit_staged(handle, staged)
    failpoints.hit("write.post_table_commit")
    state = store.storage.state(new, made_by=staged)
    return PointerUpdate(write.table_key, state.version, table.table_branch, state.row_count, state.transaction_uuid)


def _is_merge(sidecar: Sidecar) -> bool:
    """True for merges, and for those whose base was chosen."""
    return sidecar.writer_kind in ("BranchMerge", "Revert", "CherryPick", "Restore")


def _claim(store: GraphStore, sidecar: Sidecar) -> None:
    """Before every effect: another process may have recovered this operation, and effects must stay attributable."""
    if not store.sidecars.exists(sidecar):
        store.sidecars.write(sidecar)


def _fork(store: GraphStore, sidecar: Sidecar, table: SidecarTable) -> SnapshotHandle:
    """The operation's own branch of a table.

    Its name carries the operation's id, so one that is there already is what a create left that failed halfway. It is
    removed, unless the manifest shows it; if that cannot be read, nothing is.
    """
    assert table.fork_from is not None
    assert table.table_branch is not None
    try:
        return store.storage.fork(table.table_path, *table.fork_from, table.table_branch)
    except Storage:
        if table.table_branch not in store.storage.list_branches(table.table_path):
            raise
    failpoints.hit("fork.ref_exists")
    snapshot = _authority(store, sidecar)
    entry = snapshot.entries.get(table.table_key)
    if entry is not None and entry.branch == table.table_branch:
        text = f"{table.table_key} is shown on {table.table_branch} already"
        raise ExpectedVersionMismatch(
            text, table_key=table.table_key, expected=table.expected_version, actual=entry.version, hint="repeat the write"
        )
    failpoints.hit("fork.before_reclaim")
    store.storage.force_delete_branch(table.table_path, table.table_branch)
    return store.storage.fork(table.table_path, *table.fork_from, table.table_branch)


def _authority(store: GraphStore, sidecar: Sidecar) -> Snapshot:
    """The present snapshot of the branch, for a decision to remove something."""
    try:
        failpoints.hit("classify.fresh_read")
        return store.coordinator.fresh(sidecar.branch)
    except OmnigraphError as error:
        text = f"who owns a table branch of `{sidecar.branch}` cannot be told: {error}"
        raise Conflict(text, reason="indeterminate", hint="try again when the manifest can be read") from error


@dataclass
class _Effects:
    started: bool = False
    published: Published | None = None


@contextmanager
def _undone(store: GraphStore, sidecar: Sidecar) -> Iterator[_Effects]:
    """Undo on any exception after the sidecar was written, unless the operation turns out to be published.

    Any: an interrupt from the keyboard as well, for the process goes on living. It is passed on when all is settled.
    """
    effects = _Effects()
    try:
        yield effects
    except failpoints.Panic:
        raise  # stands for the death of the process
    except BaseException as error:
        if not effects.started:
            _forget(store, sidecar.operation_id)
            raise
        commit = _settled(store, sidecar, error)
        if commit is None:
            raise
        _forget(store, sidecar.operation_id)
        if not isinstance(error, Exception):
            raise
        effects.published = effects.published or Published(commit)


def _settled(store: GraphStore, sidecar: Sidecar, error: BaseException) -> Commit | None:
    try:
        return finish_operation(store, sidecar)
    except Storage as obstacle:
        if not isinstance(error, Exception):
            raise error from obstacle  # an interrupt stays one; the sidecar informs the next process that opens the graph
        raise _unsettled(sidecar, obstacle) from error


def _unsettled(sidecar: Sidecar, obstacle: Storage) -> RecoveryRequired:
    """The error when the store fails in the middle of a write and while it is undone."""
    text = f"the write was interrupted and could not be undone: {obstacle.message}"
    hint = f"{obstacle.hint or 'look at the disk'}; then open the graph read-write, which finishes or undoes the write"
    return RecoveryRequired(text, reason="undo", operation_id=sidecar.operation_id, hint=hint)


def _forget(store: GraphStore, operation_id: str) -> None:
    """Remove a sidecar whose operation is settled; a failure is healed by the next entry."""
    try:
        store.sidecars.remove(operation_id)
    except OmnigraphError:
        return
