"""Previews of staged loads: the snapshot that a branch will show once a load is published."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import MappingProxyType

from omnigraph_sql.manifest.snapshot import Entry, Snapshot
from omnigraph_sql.storage.handles import SnapshotHandle
from omnigraph_sql.storage.preview_versions import commit_view, drop_view
from omnigraph_sql.storage.verification import check_staged
from omnigraph_sql.store.graph_store import GraphStore
from omnigraph_sql.writes.checks.pending_graph import TableRows
from omnigraph_sql.writes.load.spool import Workspace
from omnigraph_sql.writes.load.staged_checks import base_snapshot
from omnigraph_sql.writes.load.staged_load import StagedLoad, StagedTable, staged_handle, write_of
from omnigraph_sql.writes.stage import stage_write


@contextmanager
def staged_snapshot(store: GraphStore, staged: StagedLoad) -> Iterator[Snapshot]:
    """The snapshot of the branch once a staged load is published. No head moves, and the preview is removed afterwards."""
    base = base_snapshot(store, staged)
    views: list[SnapshotHandle] = []
    try:
        entries = dict(base.entries)
        for table in staged.tables:
            entry = base.entry(table.table_key)
            if table.staged is not None and not staged.is_own:
                check_staged(store.storage, store.storage.open(entry), staged_handle(table))
            entries[table.table_key] = _shown(store, entry, staged.load_id, table, views)
        yield replace(base, entries=MappingProxyType(entries))
    finally:
        for view in views:
            drop_view(store.storage, view)


def _shown(store: GraphStore, entry: Entry, load_id: str, table: StagedTable, views: list[SnapshotHandle]) -> Entry:
    handle = store.storage.open(entry)
    if table.staged is not None:
        write = staged_handle(table)
        view = commit_view(store.storage, handle, write, load_id, owns_files=False)
    else:
        # The table is forked when the load is published. Until then its rows are laid over those of the table it forks from.
        assert table.spool is not None
        with Workspace() as workspace:
            rows = TableRows.put(store.storage.read_spool(table.spool), workspace)
            write = stage_write(store, handle, write_of(table, rows), load_id)
        view = commit_view(store.storage, handle, write, load_id, owns_files=True)
    views.append(view)
    count = store.storage.count(view)
    return replace(entry, version=view.version, row_count=count, transaction_uuid=f"view-{view.version}")
