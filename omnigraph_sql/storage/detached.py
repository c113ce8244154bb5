"""Staged writes that can be read before they are published, and the files of those that never will be.

Lance can commit a write beside the versions of a table: a detached version, which is no table's head and which only those
find who know its number. Nothing else here uses detached versions, so each belongs to a load that is being looked at.
"""

from __future__ import annotations

import uuid
from typing import Any, Final

import lance
from lance.dataset import Transaction

from omnigraph_sql.errors import NotFound, Storage, VersionReclaimed
from omnigraph_sql.storage.faults import LANCE_ERRORS, guarded
from omnigraph_sql.storage.handles import SnapshotHandle, StagedHandle
from omnigraph_sql.storage.tables import TableStorage
from omnigraph_sql.storage.wholeness import staged_files

VIEW_OF: Final = "omnigraph.view_of"
OWNS_FILES: Final = "omnigraph.view_owns_files"


def commit_view(
    storage: TableStorage, handle: SnapshotHandle, staged: StagedHandle, load_id: str, *, owns_files: bool
) -> SnapshotHandle:
    """What a table will be once a staged write is published. `handle` is the version that it was staged on.

    `owns_files` says that the write was staged for this view alone, so its files go with it.
    """
    storage.calls["view"] += 1
    # A transaction of its own: the staged one must still be fresh when it is published.
    shown = Transaction(staged._transaction.read_version, staged._transaction.operation, uuid=str(uuid.uuid4()))
    shown.transaction_properties = {VIEW_OF: load_id} | ({OWNS_FILES: "1"} if owns_files else {})
    with guarded(handle.path):
        dataset = lance.LanceDataset.commit(handle._dataset, shown, detached=True, storage_options=storage._options)
    return SnapshotHandle(handle.path, handle.branch, int(dataset.version), dataset)


def drop_view(storage: TableStorage, view: SnapshotHandle) -> None:
    """Remove what `commit_view` left; readers of the view may fail from here on."""
    with guarded(view.path):
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
            continue  # somebody else removes it, or it is none of ours
        if (transaction.transaction_properties or {}).get(VIEW_OF) == load_id:
            _remove(storage, path, branch, int(number), transaction)


def _remove(storage: TableStorage, path: str, branch: str | None, version: int, transaction: Any) -> None:
    place = _place(path, branch)
    storage.forget(path, branch, version)
    storage.objects.delete(f"{place}/_versions/d{version}.manifest")
    storage.objects.delete(f"{place}/_transactions/{transaction.read_version}-{transaction.uuid}.txn")
    if (transaction.transaction_properties or {}).get(OWNS_FILES):
        _remove_files(storage, place, transaction)


def remove_staged(storage: TableStorage, staged: StagedHandle) -> bool:
    """Remove the files of a staged write; False, and nothing is removed, if it was committed at some time."""
    if _was_committed(storage, staged):
        return False
    _remove_files(storage, _place(staged.path, staged.branch), staged._transaction)
    return True


def _was_committed(storage: TableStorage, staged: StagedHandle) -> bool:
    """A staged write lands right above its base, or nowhere."""
    head = storage.open_head(staged.path, staged.branch)
    if head.version <= staged.base_version:
        return False
    try:
        return storage.read_transaction(head, staged.base_version + 1).uuid == staged.transaction_uuid
    except (NotFound, Storage, VersionReclaimed):
        return True  # that version is gone: nobody can tell, and files that are needed must not go


def _remove_files(storage: TableStorage, place: str, transaction: Any) -> None:
    for name in staged_files(transaction, place):
        storage.objects.delete(name)


def _place(path: str, branch: str | None) -> str:
    return path if branch is None else f"{path}/tree/{branch}"
