"""Operations on tables that Lance cannot stage: they commit at once."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from dataclasses import replace

import lance
from lance.dataset import LanceOperation, Transaction

from omnigraph_sql import failpoints
from omnigraph_sql.errors import OmnigraphError
from omnigraph_sql.storage.error_translation import translated_errors
from omnigraph_sql.storage.garbage import Removal, note_of
from omnigraph_sql.storage.handles import SnapshotHandle
from omnigraph_sql.storage.object_stores import open_objects
from omnigraph_sql.storage.roots import Root
from omnigraph_sql.storage.tables import _SEAL, UNDO_OF, TableStorage


class InlineCommitResidual:
    """Operations whose bindings commit at once and cannot be staged. Each docstring says why that is safe."""

    def __init__(self, storage: TableStorage) -> None:
        self._storage = storage

    def restore(self, handle: SnapshotHandle, undo_of: str) -> SnapshotHandle:
        """Append a version equal to this one. Recovery only: it also fences off a writer that died in the middle."""
        head = self._storage.open_head(handle.path, handle.branch)
        transaction = Transaction(head.version, LanceOperation.Restore(handle.version), uuid=str(uuid.uuid4()))
        transaction.transaction_properties = {UNDO_OF: undo_of}
        self._storage.calls["restore"] += 1
        options = self._storage.objects.root.storage_options
        with translated_errors(handle.path):
            dataset = lance.LanceDataset.commit(head._dataset, transaction, storage_options=options)
        return self._storage._durable(SnapshotHandle(handle.path, handle.branch, dataset.version, dataset))

    def cleanup_versions(self, removal: Removal, confirm: Callable[[], None] = lambda: None) -> None:
        """Remove old versions and the files that only they name. Cleanup only: it makes no version, and none is undone.

        Versions are removed before files, so that no reader opens an incomplete version. The list of files is written first:
        if the process dies here, only this list names the files of a removed version. Then
        `confirm` raises if somebody has come to need one of the versions: nothing is removed.
        """
        objects, note = self._storage.objects, note_of(removal.path)
        if not removal.is_empty:
            self._storage.calls["cleanup"] += 1
            objects.write_text(note, _note(removal))
            self._confirm(removal, confirm)
            failpoints.hit("cleanup.after_note")
            for branch, version in removal.versions:
                self._storage.forget(removal.path, branch, version)
            objects.delete_all(stored.name for stored in removal.manifests)
            objects.delete_all(stored.name for stored in removal.files)
        if removal.is_noted or not removal.is_empty:
            objects.delete(note)

    def _confirm(self, removal: Removal, confirm: Callable[[], None]) -> None:
        try:
            confirm()
        except OmnigraphError:
            if removal.is_noted:
                self._storage.objects.write_text(note_of(removal.path), _note(replace(removal, versions=())))
            else:
                self._storage.objects.delete(note_of(removal.path))
            raise


def _note(removal: Removal) -> str:
    files = [stored.name for stored in removal.files]
    return json.dumps({"path": removal.path, "files": files, "versions": removal.versions})


def open_storage(root: Root) -> tuple[TableStorage, InlineCommitResidual]:
    """The storage of a graph root, and the accessor of what cannot be staged."""
    storage = TableStorage(_SEAL, open_objects(root))
    return storage, InlineCommitResidual(storage)
