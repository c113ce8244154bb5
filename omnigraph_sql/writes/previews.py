"""Previews of writes: the snapshot that a branch will show once an attempt is published."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import MappingProxyType

from omnigraph_sql import ulid
from omnigraph_sql.manifest.changes import DefinitionChange, PointerUpdate, Tombstone
from omnigraph_sql.manifest.snapshot import Definition, Entry, Snapshot
from omnigraph_sql.storage.handles import SnapshotHandle
from omnigraph_sql.storage.preview_versions import commit_view, drop_view
from omnigraph_sql.store.graph_store import GraphStore
from omnigraph_sql.writes.operation import Attempt, CreateTable, T, TableWrite
from omnigraph_sql.writes.stage import stage_write


@contextmanager
def attempt_snapshot(store: GraphStore, attempt: Attempt[T]) -> Iterator[Snapshot]:
    """The snapshot of a branch as an attempt will leave it. No head moves, and the preview is removed afterwards."""
    base = attempt.snapshot
    preview_id = ulid.new()
    views: list[SnapshotHandle] = []
    try:
        entries = dict(base.entries)
        definitions = dict(base.definitions)
        for change in attempt.prepared.changes:
            _apply(change, entries, definitions)
        for write in attempt.prepared.writes:
            view = _view(store, attempt, write, preview_id)
            views.append(view)
            entries[write.table_key] = _shown(store, base, write, view)
        yield replace(base, entries=MappingProxyType(entries), definitions=MappingProxyType(definitions))
    finally:
        for view in views:
            drop_view(store.storage, view)


def _apply(
    change: Tombstone | DefinitionChange | PointerUpdate, entries: dict[str, Entry], definitions: dict[str, Definition]
) -> None:
    match change:
        case Tombstone():
            entries.pop(change.table_key, None)
        case DefinitionChange():
            definitions[change.table_key] = Definition(change.table_key, change.revision, change.definition)
        case PointerUpdate():
            entries[change.table_key] = replace(
                entries[change.table_key],
                version=change.version,
                branch=change.branch,
                row_count=change.row_count,
                transaction_uuid=change.transaction_uuid,
            )


def _view(store: GraphStore, attempt: Attempt[T], write: TableWrite, preview_id: str) -> SnapshotHandle:
    staged = attempt.staged.get(write.table_key)
    if staged is not None:
        handle = store.storage.open(attempt.snapshot.entry(write.table_key))
        return commit_view(store.storage, handle, staged, preview_id, owns_files=False)
    # The table is forked or created by the publish. Until then its rows are laid over what it starts from.
    if isinstance(write, CreateTable):
        handle = store.storage.open_at(write.path, None, store.storage.ensure_table(write.path))
    else:
        handle = store.storage.open(attempt.snapshot.entry(write.table_key))
    own = stage_write(store, handle, write, preview_id)
    return commit_view(store.storage, handle, own, preview_id, owns_files=True)


def _shown(store: GraphStore, base: Snapshot, write: TableWrite, view: SnapshotHandle) -> Entry:
    uuid, rows = f"view-{view.version}", store.storage.count(view)
    entry = base.entries.get(write.table_key)
    if entry is not None:
        return replace(entry, version=view.version, row_count=rows, transaction_uuid=uuid)
    return Entry(
        table_key=write.table_key,
        path=view.path,
        version=view.version,
        branch=view.branch,
        row_count=rows,
        transaction_uuid=uuid,
    )
