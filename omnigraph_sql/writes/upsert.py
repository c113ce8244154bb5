"""Upserts that are larger than memory: the rows of both sides are brought together part by part."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_sql.storage.handles import SnapshotHandle, StagedHandle
from omnigraph_sql.storage.tables import TableStorage
from omnigraph_sql.writes.delta import TableRows, plain
from omnigraph_sql.writes.spool import Workspace, divide, part_count

_PLACES = pa.schema([("id", pa.string()), ("_rowid", pa.uint64()), ("_rowaddr", pa.uint64())])


def stage_upsert(storage: TableStorage, handle: SnapshotHandle, rows: TableRows, operation_id: str) -> StagedHandle:
    """Rows whose id exists replace the row that has it, the others are inserted. Ids must be distinct."""
    count = part_count(rows.nbytes)
    stage = storage.stage_rows(handle)
    with Workspace() as workspace:
        incoming = [workspace.spool(rows.schema) for _ in range(count)]
        divide(rows.batches(rows.schema.names), ["id"], count, incoming)
        committed = [workspace.spool(_PLACES) for _ in range(count)]
        places = (batch.select(_PLACES.names) for batch in storage.scan(handle, _PLACES.names))
        divide((pa.RecordBatch.from_arrays(batch.columns, schema=_PLACES) for batch in places), ["id"], count, committed)
        for mine, theirs in zip(incoming, committed, strict=True):
            table, known = mine.table(), theirs.table()
            found = plain(pc.index_in(table.column("id"), value_set=plain(known.column("id"))))
            at = found.drop_null()
            changed = table.filter(found.is_valid())
            stage.change(changed, plain(known.column("_rowid")).take(at), plain(known.column("_rowaddr")).take(at))
            stage.add(table.filter(found.is_null()))
    return stage.finish(operation_id)
