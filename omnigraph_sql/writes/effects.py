"""Effects: the part of a write that others can meet, from its sidecar to its publish.

A failure in between is undone here, under the same sidecar, or by whoever finds it later.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from omnigraph_sql import failpoints, ulid
from omnigraph_sql.errors import Conflict, ExpectedVersionMismatch, OmnigraphError, RecoveryRequired, Storage
from omnigraph_sql.manifest.changes import Define, RegisterTable, Tombstone, Update
from omnigraph_sql.manifest.coordinator import lineage
from omnigraph_sql.manifest.journal import Commit
from omnigraph_sql.manifest.publisher import Published
from omnigraph_sql.manifest.snapshot import Intent, Snapshot
from omnigraph_sql.storage.handles import SnapshotHandle
from omnigraph_sql.writes.engine import Engine
from omnigraph_sql.writes.operation import Attempt, Outcome, Provenance, T, TableWrite, expected_pins
from omnigraph_sql.writes.recovery import now_us, settle
from omnigraph_sql.writes.sidecar import Sidecar, SidecarTable
from omnigraph_sql.writes.staging import needs_fork, open_entry, stage_write


def commit(engine: Engine, branch: str, attempt: Attempt[T], provenance: Provenance) -> Outcome[T]:
    """Move the heads of the tables and publish. The caller holds their locks and has looked that nothing moved."""
    operation_id = ulid.new()
    sidecar = _sidecar(engine, branch, attempt, provenance, operation_id)
    if not sidecar.tables:
        # Nothing but rows of the manifest: the publish is the whole operation, and it is atomic by itself.
        return _outcome(sidecar, attempt, _publish(engine, sidecar, ()))
    with engine.locks.own(operation_id), _undone(engine, sidecar) as effects:
        engine.sidecars.write(sidecar)
        effects.started = True
        failpoints.hit("write.post_sidecar_pre_effect")
        updates = [_effect(engine, sidecar, attempt, write) for write in _ordered(attempt)]
        failpoints.hit("write.post_effects_pre_publish")
        if provenance.writer_kind == "EnsureIndices":
            failpoints.hit("ensure_indices.post_effects_pre_publish")
        effects.published = published = _publish(engine, sidecar, updates)
        if published.commit.graph_commit_id != sidecar.intent.graph_commit_id:
            # The idempotency key was published by somebody else meanwhile: theirs stands, ours is undone.
            settle(engine, sidecar)
        else:
            failpoints.hit("write.before_sidecar_delete")
            _forget(engine, operation_id)
            if published.crowded:
                engine.coordinator.table.compact(lineage(branch))
    assert effects.published is not None
    return _outcome(sidecar, attempt, effects.published)


def _publish(engine: Engine, sidecar: Sidecar, updates: Sequence[Update]) -> Published:
    changes = [*sidecar.changes, *updates]
    return engine.publisher.publish(sidecar.branch, changes, sidecar.pins, sidecar.intent, sidecar.incarnation)


def _outcome(sidecar: Sidecar, attempt: Attempt[T], published: Published) -> Outcome[T]:
    made = published.commit
    if published.unflushed is not None:
        text = f"the write is visible as commit {made.graph_commit_id}, but not on disk: {published.unflushed.message}"
        hint = "look at the disk. Do not repeat the write: only a power cut or a crash of the machine can take it back"
        raise Storage(text, storage_class="permanent", hint=hint) from published.unflushed
    return Outcome(made, attempt.prepared.result, made.graph_commit_id != sidecar.intent.graph_commit_id)


def _ordered(attempt: Attempt[T]) -> list[TableWrite]:
    return sorted(attempt.prepared.writes, key=lambda write: write.table_key)


def _sidecar(engine: Engine, branch: str, attempt: Attempt[T], provenance: Provenance, operation_id: str) -> Sidecar:
    tables, registrations = [], []
    for write in _ordered(attempt):
        entry = attempt.snapshot.entries.get(write.table_key)
        fork = f"{branch}.{operation_id[-10:]}"
        if entry is None:
            tables.append(_new_table(engine, attempt.snapshot, write, fork))
            registrations.append(RegisterTable(write.table_key, tables[-1].table_path))
            continue
        forks = needs_fork(attempt.snapshot, entry)
        staged = attempt.staged.get(write.table_key)
        tables.append(
            SidecarTable(
                write.table_key,
                entry.path,
                fork if forks else entry.branch,
                entry.version,
                entry.version + 1,
                (staged.transaction_uuid,) if staged else (),
                (entry.branch, entry.version) if forks else None,
                entry.branch,
                entry.transaction_uuid,
            )
        )
    parent = attempt.snapshot.head.graph_commit_id if attempt.snapshot.head else None
    intent = Intent(
        ulid.new(),
        parent,
        now_us(),
        provenance.writer_kind,
        actor_id=provenance.actor,
        operation_id=operation_id,
        message=provenance.message,
        idempotency_key=provenance.idempotency_key,
    )
    changes = attempt.prepared.changes
    return Sidecar(
        operation_id,
        provenance.writer_kind,
        branch,
        provenance.actor,
        intent,
        tuple(tables),
        expected_pins(attempt),
        attempt.snapshot.incarnation,
        tuple(each for each in registrations if each.table_key not in attempt.snapshot.locations),
        tuple(each for each in changes if isinstance(each, Tombstone)),
        tuple(each for each in changes if isinstance(each, Define)),
    )


def _new_table(engine: Engine, snapshot: Snapshot, write: TableWrite, fork: str) -> SidecarTable:
    """A table that does not exist on this branch: a fork of what was there before it was dropped, or of an empty table."""
    assert write.path is not None
    pin, before = snapshot.pin(write.table_key), snapshot.dropped.get(write.table_key)
    if before is None:
        start: tuple[str | None, int] = (None, engine.storage.ensure_table(write.path))
    else:
        start = (before.branch, engine.storage.open_head(before.path, before.branch).version)
    # The first version must lie above the one at which the table was dropped.
    return SidecarTable(write.table_key, write.path, fork, pin, max(start[1], pin) + 1, (), start)


def _effect(engine: Engine, sidecar: Sidecar, attempt: Attempt[T], write: TableWrite) -> Update:
    """Move the head of one table."""
    _claim(engine, sidecar)
    table = next(each for each in sidecar.tables if each.table_key == write.table_key)
    if table.fork_from is not None:
        handle = _fork(engine, sidecar, table)
        failpoints.hit("write.post_fork_pre_commit")
        while handle.version + 1 < table.post_commit_version:
            bump = engine.storage.stage_rewrite(handle, None, None, sidecar.operation_id)
            handle = engine.storage.commit_staged(handle, bump)
        staged = stage_write(engine, handle, write, sidecar.operation_id)
        _claim(engine, sidecar)
    else:
        handle = open_entry(engine, attempt.snapshot.entry(write.table_key))
        staged = engine.storage.attribute(attempt.staged[write.table_key], sidecar.operation_id)
    new = engine.storage.commit_staged(handle, staged)
    failpoints.hit("write.post_table_commit")
    state = engine.storage.state(new, made_by=staged)
    return Update(write.table_key, state.version, table.table_branch, state.row_count, state.transaction_uuid)


def _claim(engine: Engine, sidecar: Sidecar) -> None:
    """Before every effect: somebody may have taken us for dead, and what follows must stay attributable."""
    if not engine.sidecars.exists(sidecar):
        engine.sidecars.write(sidecar)


def _fork(engine: Engine, sidecar: Sidecar, table: SidecarTable) -> SnapshotHandle:
    """The operation's own branch of a table.

    Its name carries the operation's id, so one that is there already is what a create left that failed halfway. It is
    removed, unless the manifest shows it; if that cannot be read, nothing is.
    """
    assert table.fork_from is not None
    assert table.table_branch is not None
    try:
        return engine.storage.fork(table.table_path, *table.fork_from, table.table_branch)
    except Storage:
        if table.table_branch not in engine.storage.list_branches(table.table_path):
            raise
    failpoints.hit("fork.ref_exists")
    snapshot = _authority(engine, sidecar)
    entry = snapshot.entries.get(table.table_key)
    if entry is not None and entry.branch == table.table_branch:
        text = f"{table.table_key} is shown on {table.table_branch} already"
        raise ExpectedVersionMismatch(
            text, table_key=table.table_key, expected=table.expected_version, actual=entry.version, hint="repeat the write"
        )
    failpoints.hit("fork.before_reclaim")
    engine.storage.force_delete_branch(table.table_path, table.table_branch)
    return engine.storage.fork(table.table_path, *table.fork_from, table.table_branch)


def _authority(engine: Engine, sidecar: Sidecar) -> Snapshot:
    """What the branch shows now, for a decision to remove something."""
    try:
        failpoints.hit("classify.fresh_read")
        return engine.coordinator.fresh(sidecar.branch)
    except OmnigraphError as error:
        text = f"who owns a table branch of `{sidecar.branch}` cannot be told: {error}"
        raise Conflict(text, reason="indeterminate", hint="try again when the manifest can be read") from error


@dataclass
class _Effects:
    started: bool = False
    published: Published | None = None


@contextmanager
def _undone(engine: Engine, sidecar: Sidecar) -> Iterator[_Effects]:
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
            _forget(engine, sidecar.operation_id)
            raise
        commit = _settled(engine, sidecar, error)
        if commit is None:
            raise
        _forget(engine, sidecar.operation_id)
        if not isinstance(error, Exception):
            raise
        effects.published = effects.published or Published(commit)


def _settled(engine: Engine, sidecar: Sidecar, error: BaseException) -> Commit | None:
    try:
        return settle(engine, sidecar)
    except Storage as obstacle:
        if not isinstance(error, Exception):
            raise error from obstacle  # an interrupt stays one; the sidecar tells the next one who opens the graph
        raise _unsettled(sidecar, obstacle) from error


def _unsettled(sidecar: Sidecar, obstacle: Storage) -> RecoveryRequired:
    """What a caller must know when the store fails in the middle of a write and while it is undone."""
    text = f"the write was interrupted and could not be undone: {obstacle.message}"
    hint = f"{obstacle.hint or 'look at the disk'}; then open the graph read-write, which finishes or undoes the write"
    return RecoveryRequired(text, reason="undo", operation_id=sidecar.operation_id, hint=hint)


def _forget(engine: Engine, operation_id: str) -> None:
    """Remove a sidecar whose operation is settled; a failure is healed by the next entry."""
    try:
        engine.sidecars.remove(operation_id)
    except OmnigraphError:
        return
