"""Upserts that are larger than memory: the rows of both sides are brought together part by part.

One process divides both sides by their ids. Where many processes have the rows, each looks for those that its own replace,
piece by piece, and the publisher merges their results.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_sql.storage.handles import SnapshotHandle, StagedHandle
from omnigraph_sql.storage.id_lookup import positions_of_ids
from omnigraph_sql.storage.tables import TableStorage
from omnigraph_sql.storage.version_difference import rows_at
from omnigraph_sql.writes.checks.pending_graph import TableRows, plain, probe
from omnigraph_sql.writes.distributed.parts import PartRows
from omnigraph_sql.writes.load.spool import Workspace, divide, part_count

_PLACES: Final = pa.schema([("id", pa.string()), ("_rowid", pa.uint64()), ("_rowaddr", pa.uint64())])
_PIECE_ROWS: Final = 1 << 19
_PIECE_BYTES: Final = 64 << 20


def stage_upsert(storage: TableStorage, handle: SnapshotHandle, rows: TableRows, operation_id: str) -> StagedHandle:
    """Stage an upsert: rows replace those with the same ids, the others are inserted. Ids must be distinct."""
    count = part_count(rows.nbytes)
    stage = storage.stage_rows(handle)
    with Workspace() as workspace:
        incoming = [workspace.spool(rows.schema) for _ in range(count)]
        divide(rows.batches(rows.schema.names), ["id"], count, incoming)
        committed = [workspace.spool(_PLACES) for _ in range(count)]
        places = (batch.select(_PLACES.names) for batch in storage.scan(handle, _PLACES.names))
        divide((pa.RecordBatch.from_arrays(batch.columns, schema=_PLACES) for batch in places), ["id"], count, committed)
        for mine, theirs in zip(incoming, committed, strict=True):
            met = _met(mine.table(), theirs.table())
            stage.change(met.changed, plain(met.replaced.column("_rowid")), plain(met.replaced.column("_rowaddr")))
            stage.add(met.added)
    return stage.finish(operation_id)


def stage_few(storage: TableStorage, handle: SnapshotHandle, rows: pa.Table, operation_id: str) -> StagedHandle:
    """As `stage_upsert`, of rows that are looked up one by one."""
    met = merge_rows(storage, handle, storage.count(handle), rows)
    stage = storage.stage_rows(handle)
    stage.change(met.changed, plain(met.replaced.column("_rowid")), plain(met.replaced.column("_rowaddr")))
    stage.add(met.added)
    return stage.finish(operation_id)


def stage_removal(storage: TableStorage, handle: SnapshotHandle, ids: pa.Array, operation_id: str) -> StagedHandle:
    """Remove the rows with these ids."""
    positions = positions_of_ids(storage, handle, ids)
    if positions is None:
        return storage.stage_delete(handle, ids, operation_id)
    stage = storage.stage_rows(handle)
    for batch in rows_at(storage, handle, ["_rowaddr"], positions):
        stage.remove(batch.column(0))
    return stage.finish(operation_id)


def stage_parts(storage: TableStorage, handle: SnapshotHandle, held: PartRows, operation_id: str) -> StagedHandle:
    """As `stage_upsert`, of rows that tasks have joined with this version of the table already, all but a few."""
    stage = storage.stage_rows(handle)
    for part in held.parts:
        if part.joined is not None:
            replaced = storage.read_spool(part.joined.replaced).read_all()
            changed = [part.fragments[place] for place in part.joined.changed]
            stage.change_parts(changed, plain(replaced.column("_rowid")), plain(replaced.column("_rowaddr")))
            stage.add_parts(fragment for place, fragment in enumerate(part.fragments) if place not in part.joined.changed)
    count = storage.count(handle)
    for piece in pieces(held.waiting()):
        met = merge_rows(storage, handle, count, piece)
        stage.change(met.changed, plain(met.replaced.column("_rowid")), plain(met.replaced.column("_rowaddr")))
        stage.add(met.added)
    return stage.finish(operation_id)


def pieces(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yield rows in portions that fit into memory; a portion is large enough for one scan of the table's ids."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        held.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= _PIECE_ROWS or size >= _PIECE_BYTES:
            yield pa.Table.from_batches(held)
            held, rows, size = [], 0, 0
    if rows:
        yield pa.Table.from_batches(held)


@dataclass(frozen=True)
class MergedRows:
    """Rows of an upsert, and what they meet in the table."""

    changed: pa.Table
    """The rows whose ids exist."""
    added: pa.Table
    replaced: pa.Table
    """The row ids and addresses of the rows that have these ids, in the order of `changed`."""


def merge_rows(storage: TableStorage, handle: SnapshotHandle, count: int, rows: pa.Table) -> MergedRows:
    """Look for the rows of a table, which has so many, that others are to replace."""
    batches = list(probe(storage, handle, count, _PLACES.names, "id", plain(rows.column("id"))))
    columns = [batch.select(_PLACES.names).columns for batch in batches]
    existing = [pa.RecordBatch.from_arrays(arrays, schema=_PLACES) for arrays in columns]
    return _met(rows, pa.Table.from_batches(existing, _PLACES))


def _met(rows: pa.Table, existing: pa.Table) -> MergedRows:
    places = plain(pc.index_in(rows.column("id"), value_set=plain(existing.column("id"))))
    replaced = existing.select(["_rowid", "_rowaddr"]).take(places.drop_null())
    return MergedRows(rows.filter(places.is_valid()), rows.filter(places.is_null()), replaced)
