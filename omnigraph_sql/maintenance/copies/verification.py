"""The last look at a copy, before it becomes a graph."""

from __future__ import annotations

from collections.abc import Iterable

from omnigraph_sql.errors import Storage
from omnigraph_sql.manifest.snapshot import Snapshot
from omnigraph_sql.store.graph_store import GraphStore


def verify_tables(store: GraphStore, snapshots: Iterable[Snapshot]) -> None:
    """Open every table that snapshots show. Raise unless each has its rows."""
    entries = {entry for snapshot in snapshots for entry in snapshot.entries.values()}
    for entry in sorted(entries, key=lambda entry: (entry.table_key, entry.branch or "", entry.version)):
        state = store.storage.state(store.storage.open(entry))
        if (state.version, state.row_count) != (entry.version, entry.row_count):
            text = f"version {state.version} of {entry.path} has {state.row_count} rows in the copy, not {entry.row_count}"
            raise Storage(text, storage_class="permanent", hint="remove the copy and copy again")
