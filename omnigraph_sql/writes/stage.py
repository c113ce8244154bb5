"""Staging: writing the files of a write, which no version shows before its commit."""

from __future__ import annotations

from typing import Literal

from omnigraph_sql.errors import Internal
from omnigraph_sql.manifest.coordinator import MAIN
from omnigraph_sql.manifest.snapshot import Entry, Snapshot
from omnigraph_sql.storage.handles import SnapshotHandle, StagedHandle
from omnigraph_sql.storage.id_lookup import MOST_IDS
from omnigraph_sql.storage.tables import TableStorage
from omnigraph_sql.store.graph_store import GraphStore
from omnigraph_sql.writes.checks.pending_graph import TableRows
from omnigraph_sql.writes.distributed.parts import PartRows
from omnigraph_sql.writes.load.upsert import pieces, stage_few, stage_parts, stage_removal, stage_upsert
from omnigraph_sql.writes.operation import (
    Append,
    Attempt,
    BuildIndexes,
    CreateTable,
    Delete,
    Merge,
    Overwrite,
    Rewrite,
    RowEdits,
    StagedBefore,
    T,
    TableWrite,
    Upsert,
)


def owner_of(table_branch: str | None) -> str | None:
    """The graph branch that owns a table branch: forks are named `<graph branch>.<operation suffix>`."""
    return None if table_branch is None else table_branch.rsplit(".", 1)[0]


def needs_fork(snapshot: Snapshot, entry: Entry) -> bool:
    """True if a table is shown on the branch of a snapshot, but belongs to another one."""
    return (owner_of(entry.branch) or MAIN) != snapshot.branch


def stage_tables(store: GraphStore, attempt: Attempt[T]) -> None:
    """Write the files of every table that lives on this branch already; forked tables are staged on their fork."""
    for write in attempt.prepared.writes:
        entry = attempt.snapshot.entries.get(write.table_key)
        if entry is not None and not needs_fork(attempt.snapshot, entry):
            attempt.staged[write.table_key] = stage_write(store, store.storage.open(entry), write, "")


def stage_write(store: GraphStore, handle: SnapshotHandle, write: TableWrite, operation_id: str) -> StagedHandle:
    """Write the files of one table."""
    storage = store.storage
    match write:
        case Append(rows=rows):
            return _stage_rows(storage, handle, rows, "append", operation_id)
        case Overwrite(rows=rows) | CreateTable(rows=rows):
            return _stage_rows(storage, handle, rows, "overwrite", operation_id)
        case Merge(rows=rows):
            return _stage_merge(storage, handle, rows, operation_id)
        case Upsert(rows=rows, keys=keys):
            return _merge_insert(storage, handle, rows, operation_id, keys)
        case Delete(ids=ids):
            return stage_removal(storage, handle, ids, operation_id)
        case Rewrite(rows=rows, condition=condition):
            added = rows.reader() if rows.num_rows else None
            return storage.stage_rewrite(handle, condition, added, operation_id)
        case RowEdits():
            return _stage_edits(storage, handle, write, operation_id)
        case BuildIndexes(indexes=indexes):
            return storage.stage_create_indices(handle, indexes, operation_id)
        case StagedBefore(table_key=key):
            raise Internal(f"the files of {key} were staged before")


def _stage_rows(
    storage: TableStorage, handle: SnapshotHandle, rows: TableRows, mode: Literal["append", "overwrite"], operation_id: str
) -> StagedHandle:
    source = rows.untouched
    if isinstance(source, PartRows) and source.is_on(handle):
        return storage.stage_parts(handle, source.fragments, mode, operation_id)
    stage = storage.stage_append if mode == "append" else storage.stage_overwrite
    return stage(handle, rows.reader(), operation_id)


def _stage_merge(storage: TableStorage, handle: SnapshotHandle, rows: TableRows, operation_id: str) -> StagedHandle:
    source = rows.untouched
    if isinstance(source, PartRows) and source.is_met(handle):
        return stage_parts(storage, handle, source, operation_id)
    if rows.is_large:
        return stage_upsert(storage, handle, rows, operation_id)
    if rows.num_rows <= MOST_IDS:
        return stage_few(storage, handle, rows.table(), operation_id)
    return _merge_insert(storage, handle, rows, operation_id, ("id",))


def _stage_edits(storage: TableStorage, handle: SnapshotHandle, write: RowEdits, operation_id: str) -> StagedHandle:
    """Write the rows in portions that fit into memory; those that replace others come first."""
    stage = storage.stage_rows(handle, folds=False)
    replaced = start = 0
    for piece in pieces(write.rows.batches(write.rows.schema.names)):
        split = min(max(len(write.row_ids) - start, 0), piece.num_rows)
        start += piece.num_rows
        stage.change(piece.slice(0, split), write.row_ids.slice(replaced, split), write.addresses.slice(replaced, split))
        stage.add(piece.slice(split))
        replaced += split
    stage.remove(write.removed)
    return stage.finish(operation_id)


def _merge_insert(
    storage: TableStorage, handle: SnapshotHandle, rows: TableRows, operation_id: str, keys: tuple[str, ...]
) -> StagedHandle:
    # The size of a stream is unknown to Lance, which then takes several times as long to join a few rows.
    data = rows.reader() if rows.is_large else rows.table()
    return storage.stage_merge_insert(handle, data, operation_id, keys=keys)
