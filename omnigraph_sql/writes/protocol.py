"""The write protocol: prepare, stage, gates, sidecar, effects, publish, journal.

Every operation that changes tables runs through `execute`. A failure before the sidecar leaves nothing but unreferenced
files; a failure after it is undone here, under the same sidecar, or by whoever finds it later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import pyarrow as pa

from omnigraph_sql import failpoints, ulid
from omnigraph_sql.errors import Conflict, ExpectedVersionMismatch, OmnigraphError, RecoveryRequired, Storage
from omnigraph_sql.manifest.changes import Define, Pin, RegisterTable, Tombstone, Update
from omnigraph_sql.manifest.coordinator import LOCK_BRANCH, MAIN, lineage
from omnigraph_sql.manifest.journal import Commit
from omnigraph_sql.manifest.publisher import Published, check_expected, check_incarnation
from omnigraph_sql.manifest.snapshot import Entry, Intent, Snapshot
from omnigraph_sql.storage.handles import SnapshotHandle, StagedHandle
from omnigraph_sql.writes.delta import TableRows
from omnigraph_sql.writes.engine import Engine
from omnigraph_sql.writes.locks import table_lock
from omnigraph_sql.writes.recovery import now_us, settle, sweep, undo_unclaimed
from omnigraph_sql.writes.sidecar import Sidecar, SidecarTable
from omnigraph_sql.writes.upsert import stage_upsert

REPREPARE_ATTEMPTS = 3
RETRIED = ("commit", "rebased", "undone", "branch replaced")
"""Conflicts after which a write that does not depend on exact content is prepared again."""
T = TypeVar("T")


@dataclass(frozen=True)
class TableWrite:
    """What happens to one table.

    `rows` for append, merge, overwrite, upsert (by `keys`), rewrite and create; `ids` for delete; a rewrite removes the rows
    that satisfy `condition` and adds `rows`. A table that does not exist yet is created at `path`.
    """

    table_key: str
    kind: str
    rows: TableRows | None = None
    ids: pa.Array | None = None
    keys: tuple[str, ...] = ()
    condition: str | None = None
    path: str | None = None

    @property
    def strict(self) -> bool:
        """Whether the write depends on the exact content it was prepared on."""
        return self.kind in ("overwrite", "delete")


@dataclass(frozen=True)
class Prepared(Generic[T]):
    """A validated operation: its writes, the tables it was validated against, and what to tell the caller."""

    writes: tuple[TableWrite, ...]
    reads: frozenset[str]
    result: T
    strict: bool = False
    changes: tuple[Tombstone | Define, ...] = ()
    """What is published besides new versions of tables."""

    @property
    def is_empty(self) -> bool:
        return not self.writes and not self.changes

    @property
    def keys(self) -> set[str]:
        """Everything the operation changes."""
        return {write.table_key for write in self.writes} | {change.table_key for change in self.changes}


@dataclass(frozen=True)
class Provenance:
    writer_kind: str
    actor: str | None = None
    message: str | None = None
    idempotency_key: str | None = None


@dataclass(frozen=True)
class Outcome(Generic[T]):
    commit: Commit | None
    result: T
    replayed: bool = False


@dataclass
class Attempt(Generic[T]):
    """State of one pass through the phases."""

    snapshot: Snapshot
    prepared: Prepared[T]
    staged: dict[str, StagedHandle] = field(default_factory=dict)


def execute(
    engine: Engine,
    branch: str,
    prepare: Callable[[Snapshot], Prepared[T]],
    provenance: Provenance,
    precondition: Callable[[Snapshot], None] = lambda _: None,
) -> Outcome[T]:
    """Run one operation. Publishes at most once; a write that changes nothing publishes nothing."""
    branch = engine.coordinator.require(branch)
    _refuse_schema_apply(engine)
    sweep(engine, full=False)
    for attempt in range(REPREPARE_ATTEMPTS + 1):
        snapshot = engine.coordinator.fresh(branch)
        engine.publisher.reconcile(snapshot)
        precondition(snapshot)
        first = Attempt(snapshot, prepare(snapshot))
        if first.prepared.is_empty:
            return Outcome(None, first.prepared.result)
        stage_tables(engine, first)
        failpoints.hit("mutation.post_stage_pre_gates")
        try:
            return _gated(engine, branch, first, prepare, provenance, precondition)
        except (Conflict, ExpectedVersionMismatch) as error:
            # Our effects are undone by now. A write that does not depend on exact content looks again.
            retry = isinstance(error, ExpectedVersionMismatch) or error.reason in RETRIED
            if not retry or _is_strict(first.prepared) or attempt == REPREPARE_ATTEMPTS:
                raise
    raise AssertionError("unreachable")


def _is_strict(prepared: Prepared[T]) -> bool:
    return prepared.strict or any(write.strict for write in prepared.writes)


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
        _refuse_schema_apply(engine)
        fresh = engine.coordinator.fresh(branch)
        precondition(fresh)
        replay = _replay(engine, fresh, provenance)
        if replay is not None:
            return Outcome(replay, first.prepared.result, replayed=True)
        attempt = first
        if _moved(first, fresh):
            if _is_strict(first.prepared):
                check_expected(fresh, _expected(first))
            attempt = Attempt(fresh, prepare(fresh))
            others = attempt.prepared.keys - first.prepared.keys
            if others:
                text = "the write touches other tables than when it was prepared"
                raise ExpectedVersionMismatch(text, table_key=min(others), expected=0, actual=0)
            if attempt.prepared.is_empty:
                return Outcome(None, attempt.prepared.result)
            stage_tables(engine, attempt)
        _check_drift(engine, attempt)
        return _commit(engine, branch, attempt, provenance)


def publish_attempt(engine: Engine, branch: str, attempt: Attempt[T], provenance: Provenance) -> Outcome[T]:
    """Publish what was prepared and staged earlier, if nothing it relies on has moved."""
    branch = engine.coordinator.require(branch)
    sweep(engine, full=False)
    keys = [table_lock(key, branch) for key in attempt.prepared.keys]
    with engine.locks.hold(keys, shared=["__schema__"]):
        _refuse_schema_apply(engine)
        fresh = engine.coordinator.fresh(branch)
        replay = _replay(engine, fresh, provenance)
        if replay is not None:
            return Outcome(replay, attempt.prepared.result, replayed=True)
        check_incarnation(branch, attempt.snapshot.incarnation, fresh.incarnation)
        check_expected(fresh, _expected(attempt))
        if attempt.prepared.is_empty:
            return Outcome(None, attempt.prepared.result)
        _check_drift(engine, attempt)
        return _commit(engine, branch, attempt, provenance)


def _refuse_schema_apply(engine: Engine) -> None:
    """While a schema is being applied nobody else writes; the lock is a branch, so it holds across processes."""
    if engine.coordinator.table.has_branch(LOCK_BRANCH):
        text = "a schema change is being applied to the graph"
        raise Conflict(text, reason="schema apply", hint="try again when it is done")


def _replay(engine: Engine, snapshot: Snapshot, provenance: Provenance) -> Commit | None:
    if provenance.idempotency_key is None or snapshot.head is None:
        return None
    return engine.coordinator.journal.find_key(provenance.idempotency_key, snapshot.head.graph_commit_id)


def _touched(attempt: Attempt[T]) -> set[str]:
    return attempt.prepared.keys | attempt.prepared.reads


def _moved(attempt: Attempt[T], fresh: Snapshot) -> bool:
    replaced = attempt.snapshot.incarnation != fresh.incarnation
    return replaced or any(attempt.snapshot.state(key) != fresh.state(key) for key in _touched(attempt))


def _expected(attempt: Attempt[T]) -> dict[str, Pin]:
    return {key: attempt.snapshot.expectation(key) for key in _touched(attempt)}


# Staging ---------------------------------------------------------------------------------------------------------


def owner_of(table_branch: str | None) -> str | None:
    """The graph branch that owns a table branch: forks are named `<graph branch>.<operation suffix>`."""
    return None if table_branch is None else table_branch.rsplit(".", 1)[0]


def needs_fork(snapshot: Snapshot, entry: Entry) -> bool:
    return (owner_of(entry.branch) or MAIN) != snapshot.branch


def _open(engine: Engine, entry: Entry) -> SnapshotHandle:
    return engine.storage.open_at(entry.path, entry.branch, entry.version, entry.transaction_uuid)


def stage_tables(engine: Engine, attempt: Attempt[T]) -> None:
    """Write the files of every table that lives on this branch already; forked tables are staged on their fork."""
    for write in attempt.prepared.writes:
        entry = attempt.snapshot.entries.get(write.table_key)
        if entry is not None and not needs_fork(attempt.snapshot, entry):
            attempt.staged[write.table_key] = stage_write(engine, _open(engine, entry), write, "")


def stage_write(engine: Engine, handle: SnapshotHandle, write: TableWrite, operation_id: str) -> StagedHandle:
    storage = engine.storage
    if write.kind == "delete":
        assert write.ids is not None
        return storage.stage_delete(handle, write.ids, operation_id)
    assert write.rows is not None
    if write.kind == "rewrite":
        rows = write.rows.reader() if write.rows.num_rows else None
        return storage.stage_rewrite(handle, write.condition, rows, operation_id)
    if write.kind == "merge" and write.rows.is_large:
        return stage_upsert(storage, handle, write.rows, operation_id)
    if write.kind in ("merge", "upsert"):
        # Given a stream, whose size it cannot know, Lance takes several times as long to join a few rows.
        given = write.rows.reader() if write.rows.is_large else write.rows.table()
        return storage.stage_merge_insert(handle, given, operation_id, keys=write.keys or ("id",))
    stage = storage.stage_append if write.kind == "append" else storage.stage_overwrite
    return stage(handle, write.rows.reader(), operation_id)


def _check_drift(engine: Engine, attempt: Attempt[T]) -> None:
    """A head ahead of what the manifest shows belongs to somebody; a write never folds it in."""
    for write in attempt.prepared.writes:
        entry = attempt.snapshot.entries.get(write.table_key)
        if entry is None or needs_fork(attempt.snapshot, entry):
            continue
        head = engine.storage.newest_version(_open(engine, entry))
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


def _is_claimed(engine: Engine, branch: str, table_key: str) -> bool:
    """Whether a pending sidecar of this branch names a table."""
    pending = (engine.sidecars.read(each) for each in engine.sidecars.pending())
    return any(
        sidecar is not None and sidecar.branch == branch and any(table.table_key == table_key for table in sidecar.tables)
        for sidecar in pending
    )


# Effects ---------------------------------------------------------------------------------------------------------


def _commit(engine: Engine, branch: str, attempt: Attempt[T], provenance: Provenance) -> Outcome[T]:
    operation_id = ulid.new()
    sidecar = _sidecar(engine, branch, attempt, provenance, operation_id)
    if not sidecar.tables:
        # Nothing but rows of the manifest: the publish is the whole operation, and it is atomic by itself.
        return _outcome(sidecar, attempt, _publish(engine, sidecar, ()).commit)
    with engine.locks.own(operation_id), _undone(engine, sidecar) as effects:
        engine.sidecars.write(sidecar)
        effects.started = True
        failpoints.hit("write.post_sidecar_pre_effect")
        updates = [_effect(engine, sidecar, attempt, write) for write in _ordered(attempt)]
        failpoints.hit("write.post_effects_pre_publish")
        published = _publish(engine, sidecar, updates)
        if published.commit.graph_commit_id != sidecar.intent.graph_commit_id:
            # The idempotency key was published by somebody else meanwhile: theirs stands, ours is undone.
            settle(engine, sidecar)
            return _outcome(sidecar, attempt, published.commit)
        failpoints.hit("write.before_sidecar_delete")
        _forget(engine, operation_id)
        if published.crowded:
            engine.coordinator.table.compact(lineage(branch))
        return _outcome(sidecar, attempt, published.commit)
    assert effects.recovered is not None
    return _outcome(sidecar, attempt, effects.recovered)


def _publish(engine: Engine, sidecar: Sidecar, updates: Sequence[Update]) -> Published:
    changes = [*sidecar.changes, *updates]
    return engine.publisher.publish(sidecar.branch, changes, sidecar.pins, sidecar.intent, sidecar.incarnation)


def _outcome(sidecar: Sidecar, attempt: Attempt[T], commit: Commit) -> Outcome[T]:
    return Outcome(commit, attempt.prepared.result, commit.graph_commit_id != sidecar.intent.graph_commit_id)


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
        _expected(attempt),
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
        handle = _open(engine, attempt.snapshot.entry(write.table_key))
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
    recovered: Commit | None = None


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
        effects.recovered = commit


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
