"""The fragments of a table version: what derived state is keyed by, and scans of some of them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph_sql.storage.handles import SnapshotHandle, reading

__all__ = ["FragmentInfo", "btree_covers", "fragment_infos", "fragment_marks", "scan_fragments", "stored_values"]

BATCH_ROWS = 1 << 16


@dataclass(frozen=True)
class FragmentInfo:
    """One fragment, with regard to one column.

    Attributes:
        id: Its number in the table.
        rows: How many rows its files hold, deleted ones included.
        field: The number of the column, which a rename does not change.
        files: The data files that hold the column; their names are never used again.
        deleted: Which of its rows are deleted in this version, ascending; None if none are.
    """

    id: int
    rows: int
    field: int
    files: tuple[str, ...]
    deleted: npt.NDArray[np.int64] | None

    @property
    def live(self) -> int:
        """The number of rows this version shows."""
        return self.rows - (0 if self.deleted is None else len(self.deleted))


def fragment_infos(handle: SnapshotHandle, column: str) -> tuple[FragmentInfo, ...]:
    """The fragments of a table version, in the order a scan reads them."""
    dataset = handle._dataset
    number = next(field.id() for field in dataset.lance_schema.fields() if field.name() == column)
    fragments = dataset.get_fragments()
    with reading(handle):
        deleted = _deleted(dataset, [fragment for fragment in fragments if fragment.num_deletions])
    infos = []
    for fragment in fragments:
        id_, files = fragment.fragment_id, tuple(file.path for file in fragment.metadata.files if number in file.fields)
        infos.append(FragmentInfo(id_, fragment.physical_rows, number, files, deleted.get(id_)))
    return tuple(infos)


def stored_values(handle: SnapshotHandle, column: str, ids: Sequence[int]) -> Iterator[pa.Array]:
    """The values of a column in some fragments, in their order: one for each row their files hold, deleted or not."""
    wanted = set(ids)
    chosen = [fragment for fragment in handle._dataset.get_fragments() if fragment.fragment_id in wanted]
    with reading(handle):
        scanner = handle._dataset.scanner(
            columns=[column], fragments=chosen, with_row_id=True, include_deleted_rows=True, batch_size=BATCH_ROWS
        )
        for batch in scanner.to_reader():
            yield batch.column(column)


def _deleted(dataset: Any, fragments: Iterable[Any]) -> dict[int, npt.NDArray[np.int64]]:
    """Deleted rows of each of the fragments: those that a scan of its addresses does not show."""
    out = {}
    for fragment in fragments:
        scanner = dataset.scanner(columns=["_rowaddr"], fragments=[fragment])
        addresses = scanner.to_table().column(0).to_numpy().astype(np.uint64)
        gone = np.ones(fragment.physical_rows, np.bool_)
        gone[(addresses & np.uint64(0xFFFFFFFF)).astype(np.int64)] = False
        out[fragment.fragment_id] = np.flatnonzero(gone)
    return out


def scan_fragments(
    handle: SnapshotHandle, ids: Sequence[int], columns: Sequence[str], filter: str | None = None
) -> Iterator[pa.RecordBatch]:
    """Columns of the rows of some fragments; in no order, so that files are read while others are worked on."""
    wanted = set(ids)
    chosen = [fragment for fragment in handle._dataset.get_fragments() if fragment.fragment_id in wanted]
    with reading(handle):
        scanner = handle._dataset.scanner(
            columns=list(columns),
            filter=filter,
            fragments=chosen,
            batch_size=BATCH_ROWS,
            scan_in_order=False,
            blob_handling="all_binary",
        )
        yield from scanner.to_reader()


def fragment_marks(dataset: Any) -> list[str]:
    """A mark for what each fragment holds, in table order."""
    return [_mark(fragment.metadata.to_json()) for fragment in dataset.get_fragments()]


def btree_covers(dataset: Any, column: str) -> bool:
    """True if a BTREE on the column knows the rows of all fragments."""
    covered: set[int] = set()
    for index in dataset.describe_indices():
        if index.field_names == [column] and index.type_url.endswith("BTreeIndexDetails"):
            covered.update(number for segment in index.segments for number in segment.fragment_ids)
    return covered.issuperset(fragment.fragment_id for fragment in dataset.get_fragments())


def _mark(fragment: dict[str, Any]) -> str:
    """Files have names of their own, and a list of deleted rows has a number; both are the same on every branch."""
    gone = fragment["deletion_file"]
    parts = [
        fragment["id"],
        fragment["physical_rows"],
        [file["path"] for file in fragment["files"]],
        fragment.get("overlays"),
        None if gone is None else [gone["read_version"], gone["id"], gone["num_deleted_rows"]],
    ]
    return hashlib.blake2b(json.dumps(parts).encode(), digest_size=8).hexdigest()
