"""Versions of tables that only one transaction sees, and the one write that they amount to.

A transaction commits its writes one after another beside the versions of a table (`commit_view`). No head moves, and nobody
else finds these versions. In the end the last of them and the version that the transaction began on are compared, and the
difference is staged as a single write. Data files are used as they are; only rows that the transaction added and
deleted part of again are written once more.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
from lance.dataset import LanceOperation, Transaction
from lance.fragment import FragmentMetadata, RowIdSequence, write_fragments

from omnigraph_sql.storage.columns import blob_column
from omnigraph_sql.storage.handles import SnapshotHandle, StagedHandle, reading
from omnigraph_sql.storage.relocation import next_row_id
from omnigraph_sql.storage.row_stage import FRAGMENT_ROWS
from omnigraph_sql.storage.row_updates import row_update
from omnigraph_sql.storage.tables import TableStorage
from omnigraph_sql.storage.version_difference import (
    FragmentPlace,
    Positions,
    deleted_offsets,
    fragment_places,
    row_ids_of,
)

_NUMBERED_ANEW: Final = {"id": 0, "created_at_version_meta": None, "last_updated_at_version_meta": None}
_STABLE: Final = "_rowid"


def collapse(
    storage: TableStorage, base: SnapshotHandle, last: SnapshotHandle, operation_id: str, *, fresh: int | None
) -> StagedHandle | None:
    """The write that leads from a version of a table to a working version of it; None if they have the same rows.

    `fresh` is the first row id that the transaction has given to a row, None if it replaced the whole table.
    """
    storage.calls["stage"] += 1
    if fresh is None:
        return _replaced(storage, base, last, operation_id)
    before, after = fragment_places(base), fragment_places(last)
    removed = [place.number for files, place in before.items() if files not in after]
    updated = [
        _with_deletions(storage, base, place, last, after[files]) for files, place in before.items() if files in after
    ]
    new = [fragment for files, place in after.items() if files not in before for fragment in _adopted(last, place, fresh)]
    changed = [fragment for fragment in updated if fragment is not None]
    if not (removed or changed or new):
        return None
    operation = row_update(removed, changed, new)
    return _staged(storage, base, operation, "rows", operation_id, sum(fragment.num_rows for fragment in new))


def next_row(handle: SnapshotHandle) -> int:
    """The row id that the next new row of a version gets."""
    with reading(handle):
        return next_row_id(handle._dataset)


def _with_deletions(
    storage: TableStorage, base: SnapshotHandle, place: FragmentPlace, last: SnapshotHandle, other: FragmentPlace
) -> Any | None:
    """A fragment of the base without the rows that the transaction deleted; None if it deleted none of them."""
    if place.deletion_key == other.deletion_key:
        return None
    gone: Positions = np.setdiff1d(
        deleted_offsets(storage, last, other), deleted_offsets(storage, base, place), assume_unique=True
    )
    if len(gone) == 0:
        return None
    with reading(base):
        return base._dataset.get_fragment(place.number).delete_rows(gone.tolist())


def _adopted(last: SnapshotHandle, place: FragmentPlace, fresh: int) -> Iterator[Any]:
    """A fragment that the transaction wrote, as one that the base does not have yet."""
    fragment = last._dataset.get_fragment(place.number)
    ids = np.asarray(row_ids_of(last, place)).astype(np.int64)
    if place.deletion is None and (ids.min() >= fresh or ids.max() < fresh):
        metadata = FragmentMetadata.from_json(json.dumps(fragment.metadata.to_json() | _NUMBERED_ANEW))
        if ids.min() >= fresh:
            metadata.row_id_meta = None  # they get their row ids when the write is committed
        yield metadata
        return
    # Rows of a fragment whose list of deletions names another fragment cannot be adopted as they are.
    with reading(last):
        rows = last._dataset.scanner(fragments=[fragment], with_row_id=True, blob_handling="all_binary").to_table()
    live = rows.column(_STABLE).to_numpy().astype(np.int64)
    plain = _writable(rows.drop_columns([_STABLE]), last._dataset.schema)
    for mask, keeps in ((live < fresh, True), (live >= fresh, False)):
        chosen = np.flatnonzero(mask)
        if len(chosen) == 0:
            continue
        written = write_fragments(
            plain.take(pa.array(chosen)), last._dataset, mode="append", max_rows_per_file=FRAGMENT_ROWS
        )
        start = 0
        for part in written:
            if keeps:
                numbers = live[chosen[start : start + part.num_rows]].tolist()
                part.row_id_meta = RowIdSequence(numbers).to_inline_metadata()
            start += part.num_rows
        yield from written


def _writable(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows as they are written; the values of a Blob were read as bytes."""
    columns = [
        blob_column(column.combine_chunks().cast(pa.large_binary()))
        if isinstance(field.type, pa.BaseExtensionType)
        else column
        for field, column in zip(schema, rows.columns, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _replaced(storage: TableStorage, base: SnapshotHandle, last: SnapshotHandle, operation_id: str) -> StagedHandle:
    """A write that makes the rows of a working version those of the whole table."""
    fragments: list[Any] = []
    for place in fragment_places(last).values():
        fragments += _adopted(last, place, fresh=0)
    for fragment in fragments:
        fragment.row_id_meta = None
    operation = LanceOperation.Overwrite(last._dataset.lance_schema, fragments)
    return _staged(storage, base, operation, "overwrite", operation_id, sum(fragment.num_rows for fragment in fragments))


def _staged(
    storage: TableStorage, base: SnapshotHandle, operation: Any, kind: Any, operation_id: str, rows: int
) -> StagedHandle:
    transaction = Transaction(base.version, operation, uuid=str(uuid.uuid4()))
    return storage._staged(base, transaction, kind, operation_id, rows, folds=False)
