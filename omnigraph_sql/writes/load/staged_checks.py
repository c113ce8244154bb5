"""Checks of a staged load before it is published.

A load that this process staged was validated then; its files are opened and compared. Of one whose text came from
elsewhere nothing is believed but the rows: they are read back and go through every check of the schema again, against the
snapshot that the load is based on. What is published is what these checks saw. Rows of an append or overwrite stay in their
files.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from omnigraph_sql import ulid
from omnigraph_sql.errors import BadRequest, Conflict, OmnigraphError
from omnigraph_sql.manifest.publisher import check_incarnation
from omnigraph_sql.manifest.snapshot import Snapshot
from omnigraph_sql.storage.columns import blob_column, table_schema
from omnigraph_sql.storage.garbage import named_files
from omnigraph_sql.storage.handles import SnapshotHandle, StagedHandle
from omnigraph_sql.storage.preview_versions import commit_rows, drop_view, remove_staged
from omnigraph_sql.storage.table_parts import fragments_of
from omnigraph_sql.storage.verification import check_fragments, check_staged, own_fragments
from omnigraph_sql.store.graph_store import GraphStore
from omnigraph_sql.writes.checks.findings import raise_first
from omnigraph_sql.writes.checks.pending_graph import RowSource, TableRows, with_places
from omnigraph_sql.writes.checks.validation import value_findings
from omnigraph_sql.writes.distributed.parts import LoadPart, PartRows
from omnigraph_sql.writes.load.loads import Incoming, LoadResult, check_mode, prepare_incoming
from omnigraph_sql.writes.load.spool import Workspace
from omnigraph_sql.writes.load.staged_load import StagedLoad, StagedTable, staged_handle, write_of
from omnigraph_sql.writes.operation import Attempt, PreparedWrite, StagedBefore, TableWrite
from omnigraph_sql.writes.readers.tables import ROWS
from omnigraph_sql.writes.stage import needs_fork, stage_tables

_HINT = "stage the load again"
_NUMBERED_ANEW = {
    "id": 0,
    "row_id_meta": None,
    "created_at_version_meta": None,
    "last_updated_at_version_meta": None,
}
"""The members of a new fragment that its commit assigns: its number, and the row metadata derived from it."""


def base_snapshot(store: GraphStore, staged: StagedLoad) -> Snapshot:
    """The snapshot that a load was validated against, if its branch, schema and commit are still those."""
    base = staged.base
    check_incarnation(staged.branch, base.incarnation, store.coordinator.incarnation(staged.branch))
    if base.schema_hash != store.catalog.schema_hash:
        text = "the schema of the graph has changed since the load was staged"
        raise Conflict(text, reason="schema changed", hint=_HINT)
    snapshot = store.coordinator.at_version(staged.branch, base.manifest_version)
    if snapshot.commit_id != base.graph_commit_id:
        text = f"the load is based on commit {base.graph_commit_id}, which version {base.manifest_version} does not show"
        raise Conflict(text, reason="commit", hint=_HINT)
    return snapshot


def own_attempt(
    store: GraphStore, staged: StagedLoad, base: Attempt[LoadResult], workspace: Workspace
) -> Attempt[LoadResult]:
    """A load that this process staged, its files opened and compared."""
    writes = tuple(_write(store, base.snapshot, table, workspace) for table in staged.tables)
    attempt = Attempt(base.snapshot, replace(base.prepared, writes=writes))
    for table in staged.tables:
        if table.staged is not None:
            attempt.staged[table.table_key] = _checked(store, base.snapshot, table)
    return attempt


def _write(store: GraphStore, snapshot: Snapshot, table: StagedTable, workspace: Workspace) -> TableWrite:
    if table.spool is None:
        return StagedBefore(table.table_key)
    reader = _waiting(store, snapshot, table)
    rows = TableRows.put(reader, workspace)
    _check_count(table, rows.num_rows)
    return write_of(table, rows)


def foreign_attempt(store: GraphStore, staged: StagedLoad, snapshot: Snapshot, workspace: Workspace) -> Attempt[LoadResult]:
    """A load whose text came from elsewhere: validated again from its rows, and staged from them."""
    incoming = Incoming(ROWS, None)
    for table in staged.tables:
        store.type_of(table.table_key)
        rows = _rows(store, snapshot, table, workspace)
        incoming.spools[table.table_key] = rows
        incoming.sources[table.table_key] = lambda _: None
        _check_count(table, rows.num_rows)
        _check_values(store, table.table_key, rows)
    prepare = prepare_incoming(store, incoming, workspace, mode=check_mode(staged.mode), branch=staged.branch)
    prepared: PreparedWrite[LoadResult] = prepare(snapshot)
    stated = ({**dict(staged.nodes)}, {**dict(staged.edges)})
    if stated != (dict(prepared.result.nodes), dict(prepared.result.edges)):
        raise BadRequest("the staged load has other rows than it says", hint=_HINT)
    result = replace(prepared.result, rejected=staged.rejected)
    attempt = Attempt(snapshot, replace(prepared, result=result))
    stage_tables(store, attempt)
    return attempt


def discard_written(store: GraphStore, staged: StagedLoad) -> None:
    """Remove what was staged and not taken over, after the rows were staged again; files that a version has stay."""
    for table in staged.tables:
        if table.staged is not None and "update" in table.staged["transaction"]:
            handle = staged_handle(table)
            with suppress(OmnigraphError):
                remove_staged(store.storage, handle, named_files(store.storage, handle.path))


def _checked(store: GraphStore, snapshot: Snapshot, table: StagedTable) -> StagedHandle:
    entry = snapshot.entry(table.table_key)
    staged = staged_handle(table)
    check_staged(store.storage, store.storage.open(entry), staged)
    return staged


def _check_count(table: StagedTable, count: int) -> None:
    if count != table.rows:
        raise BadRequest(f"the staged load has {count} rows for {table.table_key}, and says {table.rows}", hint=_HINT)


def _check_values(store: GraphStore, key: str, rows: RowSource) -> None:
    type_ = store.type_of(key)
    for batch in rows.batches():
        raise_first(value_findings(type_, key, pa.Table.from_batches([batch])), ROWS)


def _rows(store: GraphStore, snapshot: Snapshot, table: StagedTable, workspace: Workspace) -> RowSource:
    """Read the staged rows of a table."""
    if table.spool is not None:
        return _put(_waiting(store, snapshot, table), table_schema(store.type_of(table.table_key)), workspace)
    staged = _checked(store, snapshot, table)
    handle = store.storage.open(snapshot.entry(table.table_key))
    fragments: list[Any] = fragments_of(fragment.to_json() | _NUMBERED_ANEW for fragment in own_fragments(staged))
    type_ = store.type_of(table.table_key)
    if any(prop.type.is_blob for prop in type_.properties.values()):
        with _shown(store, handle, fragments) as view:
            return _put(store.storage.scan(view), table_schema(type_), workspace)
    size = check_fragments(store.storage, handle, fragments)
    entries = tuple(fragment.to_json() for fragment in fragments)
    count = sum(fragment.num_rows for fragment in fragments)
    lineage = (handle.path, handle.branch)
    return PartRows(
        store.storage,
        lineage,
        table_schema(type_),
        [LoadPart(number=0, rows=count, nbytes=size, fragments=entries)],
        explicit=True,
    )


def _waiting(store: GraphStore, snapshot: Snapshot, table: StagedTable) -> pa.RecordBatchReader:
    """Read rows that are staged outside of their table, because the branch has not forked it yet."""
    assert table.spool is not None
    if not needs_fork(snapshot, snapshot.entry(table.table_key)):
        raise BadRequest(f"the rows of {table.table_key} wait for a fork that is not needed", hint=_HINT)
    reader = store.storage.read_spool(table.spool)
    if not reader.schema.equals(table_schema(store.type_of(table.table_key))):
        raise BadRequest(f"{table.spool} has other columns than {table.table_key}", hint=_HINT)
    return reader


def _put(reader: pa.RecordBatchReader, columns: pa.Schema, workspace: Workspace) -> RowSource:
    schema = with_places(columns)
    spool = workspace.spool(schema)
    for batch in reader:
        places = pa.array(np.arange(spool.num_rows + 1, spool.num_rows + batch.num_rows + 1))
        explicit = pa.array(np.ones(batch.num_rows, dtype=np.bool_))
        spool.append(pa.RecordBatch.from_arrays([*map(_stored, batch.columns, columns), places, explicit], schema=schema))
    return spool


def _stored(values: pa.Array, column: pa.Field) -> pa.Array:
    """Values as they are written; those of a Blob are read as bytes."""
    return values if values.type == column.type else blob_column(values.cast(pa.large_binary()))


@contextmanager
def _shown(store: GraphStore, handle: SnapshotHandle, fragments: list[Any]) -> Iterator[SnapshotHandle]:
    view = commit_rows(store.storage, handle, fragments, ulid.new())
    try:
        yield view
    finally:
        drop_view(store.storage, view)
