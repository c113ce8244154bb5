"""Staging: the files of a write, which nobody sees before its commit."""

from __future__ import annotations

from omnigraph_sql.manifest.coordinator import MAIN
from omnigraph_sql.manifest.snapshot import Entry, Snapshot
from omnigraph_sql.storage.handles import SnapshotHandle, StagedHandle
from omnigraph_sql.writes.engine import Engine
from omnigraph_sql.writes.operation import Attempt, T, TableWrite
from omnigraph_sql.writes.parts import PartRows
from omnigraph_sql.writes.upsert import stage_parts, stage_upsert


def owner_of(table_branch: str | None) -> str | None:
    """The graph branch that owns a table branch: forks are named `<graph branch>.<operation suffix>`."""
    return None if table_branch is None else table_branch.rsplit(".", 1)[0]


def needs_fork(snapshot: Snapshot, entry: Entry) -> bool:
    """Whether a table is shown on the branch of a snapshot, but belongs to another one."""
    return (owner_of(entry.branch) or MAIN) != snapshot.branch


def open_entry(engine: Engine, entry: Entry) -> SnapshotHandle:
    """The version of a table that a snapshot shows."""
    return engine.storage.open_at(entry.path, entry.branch, entry.version, entry.transaction_uuid)


def stage_tables(engine: Engine, attempt: Attempt[T]) -> None:
    """Write the files of every table that lives on this branch already; forked tables are staged on their fork."""
    for write in attempt.prepared.writes:
        entry = attempt.snapshot.entries.get(write.table_key)
        if entry is not None and not needs_fork(attempt.snapshot, entry):
            attempt.staged[write.table_key] = stage_write(engine, open_entry(engine, entry), write, "")


def stage_write(engine: Engine, handle: SnapshotHandle, write: TableWrite, operation_id: str) -> StagedHandle:
    storage = engine.storage
    if write.kind == "delete":
        assert write.ids is not None
        return storage.stage_delete(handle, write.ids, operation_id)
    if write.kind == "indices":
        return storage.stage_create_indices(handle, write.indexes, operation_id)
    assert write.rows is not None
    if write.kind == "rewrite":
        rows = write.rows.reader() if write.rows.num_rows else None
        return storage.stage_rewrite(handle, write.condition, rows, operation_id)
    held = write.rows.untouched
    if write.kind == "merge" and isinstance(held, PartRows) and held.is_met(handle):
        return stage_parts(storage, handle, held, operation_id)
    if write.kind == "merge" and write.rows.is_large:
        return stage_upsert(storage, handle, write.rows, operation_id)
    if write.kind in ("merge", "upsert"):
        # Given a stream, whose size it cannot know, Lance takes several times as long to join a few rows.
        given = write.rows.reader() if write.rows.is_large else write.rows.table()
        return storage.stage_merge_insert(handle, given, operation_id, keys=write.keys or ("id",))
    if isinstance(held, PartRows) and held.is_on(handle):
        return storage.stage_parts(handle, held.fragments, "append" if write.kind == "append" else "overwrite", operation_id)
    stage = storage.stage_append if write.kind == "append" else storage.stage_overwrite
    return stage(handle, write.rows.reader(), operation_id)
