"""Small fragments become one, as part of a write that finds too many of them.

Every small commit leaves a fragment, and a look-up opens all of them: after a thousand commits that is most of what one
more costs. So a write that adds rows also rewrites the small fragments it does not touch, once there are many. Their rows
keep their ids, the version they were made in and their values; other readers keep the version they have; and there is
nothing more to publish or to recover, because it is the same commit.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import pyarrow as pa
from lance.dataset import LanceOperation
from lance.fragment import RowIdSequence, write_fragments

from omnigraph_sql.errors import Internal
from omnigraph_sql.storage.row_updates import row_update

MANY: Final = 32
"""The number of small fragments that are folded into one."""
SMALL: Final = 1 << 20
"""Fragments with fewer bytes are small. Folded fragments soon exceed it, so rows are not rewritten again and again."""
AT_ONCE: Final = 64 << 20
"""The most bytes of files that one write folds."""


def fold_fragments(dataset: Any, operation: Any) -> Any | None:
    """Extend an append or update so that it also replaces the small fragments; None if they are few, or no rows are added.

    Fragments that an index covers are left alone: the index would not learn where their rows went.
    """
    if not (operation.fragments if isinstance(operation, LanceOperation.Append) else operation.new_fragments):
        return None
    chosen = _small(dataset, operation)
    if len(chosen) < MANY or not all(_is_rewritable(field.type) for field in dataset.schema):
        return None
    indexed = {
        number for index in dataset.describe_indices() for segment in index.segments for number in segment.fragment_ids
    }
    chosen = [fragment for fragment in chosen if fragment.fragment_id not in indexed]
    if len(chosen) < MANY:
        return None
    is_append = isinstance(operation, LanceOperation.Append)
    removed = [] if is_append else operation.removed_fragment_ids
    updated = [] if is_append else operation.updated_fragments
    new = operation.fragments if is_append else operation.new_fragments
    gone = [*removed, *(fragment.fragment_id for fragment in chosen)]
    return row_update(gone, updated, [*_rewritten(dataset, chosen), *new])


def _small(dataset: Any, operation: Any) -> list[Any]:
    """Return the small fragments that a write does not touch, in table order."""
    touched = set(getattr(operation, "removed_fragment_ids", ()))
    touched.update(fragment.id for fragment in getattr(operation, "updated_fragments", ()))
    small, total = [], 0
    for fragment in dataset.get_fragments():
        size = _size(fragment.metadata.files)
        if size < SMALL and fragment.fragment_id not in touched:
            total += size
            if total > AT_ONCE:
                break
            small.append(fragment)
    return small


def _size(files: Iterable[Any]) -> int:
    """Return the bytes of a fragment; one with unknown file sizes counts as large."""
    return sum(file.file_size_bytes or SMALL for file in files)


def _is_rewritable(type_: pa.DataType) -> bool:
    """True if values can be rewritten cheaply; the bytes of a Blob would all have to be fetched."""
    if isinstance(type_, pa.BaseExtensionType):
        return False
    return all(_is_rewritable(type_.field(number).type) for number in range(type_.num_fields))


def _rewritten(dataset: Any, chosen: list[Any]) -> list[Any]:
    """Write the live rows of fragments as new fragments with the same row ids."""
    ids = dataset.scanner(columns=["_rowid"], fragments=chosen, scan_in_order=True).to_table().column(0)
    if len(ids) == 0:
        return []
    # A small file may be large in memory, so the rows are streamed.
    rows = dataset.scanner(fragments=chosen, scan_in_order=True).to_reader()
    written = write_fragments(rows, dataset, mode="append")
    start = 0
    for fragment in written:
        fragment.row_id_meta = RowIdSequence(ids.slice(start, fragment.num_rows).to_pylist()).to_inline_metadata()
        start += fragment.num_rows
    if start != len(ids):
        raise Internal(f"{start} rows were written for {len(ids)} that were to be folded")
    return list(written)
