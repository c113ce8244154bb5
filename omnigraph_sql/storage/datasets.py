"""Creation and compaction of Lance datasets, for the manifest, the logs and the tables."""

from __future__ import annotations

from typing import Any, Final

import lance
import pyarrow as pa
from lance.fragment import write_fragments
from lance.optimize import Compaction

from omnigraph_sql.errors import Storage
from omnigraph_sql.storage.error_translation import LANCE_ERRORS
from omnigraph_sql.storage.integrity import new_fragments
from omnigraph_sql.storage.objects import ObjectStore
from omnigraph_sql.storage.relocation import open_relocated
from omnigraph_sql.storage.table_names import table_name

STORAGE_VERSION: Final = "2.2"
_COMPACT_AT: Final = 32


def new_session() -> Any:
    """Caches that Lance shares between the datasets opened with it."""
    return lance.Session()  # type: ignore[attr-defined]


def open_dataset(
    objects: ObjectStore,
    name: str,
    branch: str | None = None,
    version: int | None = None,
    *,
    session: Any = None,
    block_size: int | None = None,
) -> Any:
    """Open a version of a dataset below the root, by default the newest. The graph may have been moved since."""
    settings: dict[str, Any] = {
        "session": session,
        "storage_options": objects.root.storage_options,
        "block_size": block_size,
    }
    dataset = lance.dataset(objects.uri(table_name(name, branch)), version=version, **settings)
    return open_relocated(dataset, str(objects.root), name, **settings)


def stage_new(objects: ObjectStore, name: str, rows: pa.Table) -> Any:
    """Write the files of a new dataset."""
    staged: Any = write_fragments(
        rows,
        objects.uri(name),
        mode="create",
        return_transaction=True,
        enable_stable_row_ids=True,
        data_storage_version=STORAGE_VERSION,
        storage_options=objects.root.storage_options,
    )
    objects.files.require_whole(name, new_fragments(staged.operation))
    return staged


def commit_new(objects: ObjectStore, name: str, staged: Any) -> Any:
    """Commit the first version of a dataset. Without retries: of several processes that create it, one succeeds."""
    return lance.LanceDataset.commit(  # inline-commit-ok: nothing refers to it yet
        objects.uri(name), staged, enable_stable_row_ids=True, max_retries=0, storage_options=objects.root.storage_options
    )


def needs_compaction(dataset: Any) -> bool:
    """True if small fragments have piled up."""
    return len(dataset.get_fragments()) > _COMPACT_AT


def compact(objects: ObjectStore, name: str, dataset: Any) -> bool:
    """Fold the fragments of a dataset if they are many; return True if it was done."""
    if not needs_compaction(dataset):
        return False
    try:
        plan = Compaction.plan(dataset, {})
        if not plan.num_tasks():
            return False
        done: list[Any] = [task.execute(dataset) for task in plan.tasks]
        objects.files.require_whole(name, (fragment for rewrite in done for fragment in rewrite.new_fragments))
        Compaction.commit(dataset, done)  # inline-commit-ok: upkeep
    except (*LANCE_ERRORS, Storage):
        return False  # another writer was faster, or there is no space; the next writer tries again
    return True
