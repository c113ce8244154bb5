"""A copy of one state: a new graph, whose first commit shows what a branch, tag, version or commit of the original shows."""

from __future__ import annotations

import json
from collections.abc import Iterator

from omnigraph_sql import ulid
from omnigraph_sql.maintenance.copies.destination import CopyDestination
from omnigraph_sql.maintenance.copies.verification import verify_tables
from omnigraph_sql.manifest.changes import Change, DefinitionChange, PointerUpdate, RegisterTable, manifest_rows
from omnigraph_sql.manifest.coordinator import CURRENT_STAMP
from omnigraph_sql.manifest.journal import Commit
from omnigraph_sql.manifest.snapshot import Intent, Snapshot
from omnigraph_sql.storage.copied_files import CopiedFile, files_of_version
from omnigraph_sql.storage.identity import STATE
from omnigraph_sql.storage.transfers import TransferStats
from omnigraph_sql.store.graph_store import GraphStore, assemble_store
from omnigraph_sql.store.lifecycle import SOURCE, compiled_texts
from omnigraph_sql.store.recovery import now_us
from omnigraph_sql.writes.operation import Provenance


def copy_state(
    store: GraphStore, snapshot: Snapshot, target: CopyDestination, provenance: Provenance
) -> tuple[TransferStats, Commit]:
    """Copy the tables of a snapshot, each as a table with this one version, and write a manifest that shows them."""
    stats = target.write(store.objects, list(_files(store, snapshot, target)))
    schema = store.objects.read_text(SOURCE)
    texts = compiled_texts(schema, store.catalog, target.identity)
    state = texts.pop(STATE)
    for name, text in ({SOURCE: schema} | texts).items():
        target.objects.write_text(name, text)
    made = assemble_store(target.objects.root, store.catalog, target.identity)
    intent = Intent(
        graph_commit_id=ulid.new(),
        parent_commit_id=None,
        created_at=now_us(),
        writer_kind=provenance.writer_kind,
        actor_id=provenance.actor,
        message=provenance.message,
        graph_id=target.identity.graph_id,
        origin_commit_id=None if provenance.sources is None else provenance.sources.origin,
    )
    version = made.coordinator.table.create(manifest_rows(list(_changes(snapshot)), intent), CURRENT_STAMP)
    commit = made.coordinator.journal.record(None, version, intent)
    verify_tables(made, [made.coordinator.fresh("main")])
    target.complete(state)
    return stats, commit


def _files(store: GraphStore, snapshot: Snapshot, target: CopyDestination) -> Iterator[CopiedFile]:
    for entry in snapshot.entries.values():
        yield from files_of_version(store.storage, entry.path, entry.branch, entry.version, str(target.objects.root))


def _changes(snapshot: Snapshot) -> Iterator[Change]:
    for key, entry in snapshot.entries.items():
        yield RegisterTable(key, entry.path)
        yield PointerUpdate(key, entry.version, None, entry.row_count, entry.transaction_uuid)
    for key, definition in snapshot.definitions.items():
        if definition.metadata is not None:
            yield DefinitionChange(key, 1, json.loads(json.dumps(dict(definition.metadata))))
