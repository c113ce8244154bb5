"""Preview versions: staged writes that can be read before they are published, and removal of abandoned ones.

Lance can commit a write as a detached version: it is never the head of its table, and can be opened by its number
only. Nothing else uses detached versions, so each belongs to a preview.
"""

from __future__ import annotations

import uuid
from collections.abc import Set
from typing import Any, Final

import lance
from lance.dataset import LanceOperation, Transaction

from omnigraph_sql.errors import NotFound, Storage, VersionReclaimed
from omnigraph_sql.storage.error_translation import LANCE_ERRORS, translated_errors
from omnigraph_sql.storage.handles import SnapshotHandle, StagedHandle
from omnigraph_sql.storage.integrity import staged_files
from omnigraph_sql.storage.tables import TableStorage

VIEW_OF: Final = "omnigraph.view_of"
OWNS_FILES: Final = "omnigraph.view_owns_files"


def commit_view(
    storage: TableStorage, handle: SnapshotHandle, staged: StagedHandle, load_id: str, *, owns_files: bool
) -> SnapshotHandle:
    """A version of a table with a staged write applied. `handle` is the version that it was staged on.

    `owns_files` says that the write was staged for this view alone, so its files go with it.
    """
    storage.calls["view"] += 1
    # A transaction of its own: the staged one must still be fresh when it is published.
    shown = Transaction(staged._transaction.read_version, staged._transaction.operation, uuid=str(uuid.uuid4()))
    shown.transaction_properties = {VIEW_OF: load_id} | ({OWNS_FILES: "1"} if owns_files else {})
    with translated_errors(handle.path):
        dataset = lance.LanceDataset.commit(handle._dataset, shown, detached=True, storage_options=storage._options)
    return SnapshotHandle(handle.path, handle.branch, int(dataset.version), dataset)


def commit_rows(storage: TableStorage, handle: SnapshotHandle, fragments: list[Any], load_id: str) -> SnapshotHandle:
    """A view of nothing but the rows of fragments that were written on the lineage of a handle."""
    operation = LanceOperation.Overwrite(handle._dataset.lance_schema, fragments)
    transaction = Transaction(handle.version, operation, uuid=str(uuid.uuid4()))
    rows = sum(fragment.num_rows for fragment in fragments)
    staged = StagedHandle(
        path=handle.path,
        branch=handle.branch,
        base_version=handle.version,
        kind="overwrite",
        operation_id="",
        transaction_uuid=transaction.uuid,
        rows=rows,
        _transaction=transaction,
    )
    return commit_view(storage, handle, staged, load_id, owns_files=False)


def drop_view(storage: TableStorage, view: SnapshotHandle) -> None:
    """Remove what `commit_view` left; readers of the view may fail from here on."""
    with translated_errors(view.path):
        transaction = view._dataset.read_transaction(view.version)
    _remove(storage, view.path, view.branch, view.version, transaction)


def drop_views(storage: TableStorage, path: str, branch: str | None, load_id: str) -> None:
    """Remove the views of a load on one table, which a process that died may have left."""
    for name in storage.objects.list_dir(f"{_place(path, branch)}/_versions"):
        number = name.removeprefix("d").removesuffix(".manifest")
        if not name.startswith("d") or not number.isdigit():
            continue
        try:
            view = storage.open_at(path, branch, int(number))
            transaction = view._dataset.read_transaction(view.version)
        except (*LANCE_ERRORS, VersionReclaimed):
            continue  # another process removes it, or it is no preview
        if (transaction.transaction_properties or {}).get(VIEW_OF) == load_id:
            _remove(storage, path, branch, int(number), transaction)


def _remove(storage: TableStorage, path: str, branch: str | None, version: int, transaction: Any) -> None:
    place = _place(path, branch)
    storage.forget(path, branch, version)
    storage.objects.delete(f"{place}/_versions/d{version}.manifest")
    storage.objects.delete(f"{place}/_transactions/{transaction.read_version}-{transaction.uuid}.txn")
    if (transaction.transaction_properties or {}).get(OWNS_FILES):
        _remove_files(storage, place, transaction)


def remove_staged(storage: TableStorage, staged: StagedHandle, kept: Set[str] = frozenset()) -> bool:
    """Remove the files of a staged write; False, and nothing is removed, if it was committed at some time.

    `kept` are files that stay, by their names within a branch.
    """
    if _was_committed(storage, staged):
        return False
    _remove_files(storage, _place(staged.path, staged.branch), staged._transaction, kept)
    return True


def _was_committed(storage: TableStorage, staged: StagedHandle) -> bool:
    """A staged write lands right above its base, or nowhere."""
    head = storage.open_head(staged.path, staged.branch)
    if head.version <= staged.base_version:
        return False
    try:
        return storage.read_transaction(head, staged.base_version + 1).uuid == staged.transaction_uuid
    except (NotFound, Storage, VersionReclaimed):
        return True  # that version is gone, so it is unknown whether the file is needed: keep it


def _remove_files(storage: TableStorage, place: str, transaction: Any, kept: Set[str] = frozenset()) -> None:
    for name in staged_files(transaction, place):
        if name.removeprefix(f"{place}/") not in kept:
            storage.objects.delete(name)


def _place(path: str, branch: str | None) -> str:
    return path if branch is None else f"{path}/tree/{branch}"
