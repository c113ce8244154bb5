"""Staged loads: validated, their files written, nothing visible yet. Another process may publish one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Literal

from omnigraph_sql import ulid
from omnigraph_sql.manifest.snapshot import Snapshot
from omnigraph_sql.store.graph_store import STAGED, GraphStore
from omnigraph_sql.writes.load.loads import LoadInput, LoadResult, check_mode, prepare_load
from omnigraph_sql.writes.load.spool import Workspace
from omnigraph_sql.writes.load.staged_checks import base_snapshot, discard_written, foreign_attempt, own_attempt
from omnigraph_sql.writes.load.staged_load import RowWrite, SnapshotRef, StagedLoad, StagedTable, operation_of
from omnigraph_sql.writes.operation import (
    Attempt,
    PreparedWrite,
    Provenance,
    StagedBefore,
    TableWrite,
    WriteOutcome,
)
from omnigraph_sql.writes.protocol import Review, publish_attempt, published_before
from omnigraph_sql.writes.stage import stage_tables

Step = Literal["read", "validate", "stage"]
"""The steps of staging a load, in this order."""


def stage_load(
    store: GraphStore,
    data: LoadInput,
    *,
    mode: str,
    branch: str,
    provenance: Provenance,
    on_step: Callable[[Step], None] = lambda _: None,
) -> StagedLoad:
    """Validate records and write their files; nothing becomes visible. `on_step` is called as each step begins."""
    name = store.coordinator.require(branch)
    with Workspace() as workspace:
        on_step("read")
        prepare = prepare_load(store, data, workspace, mode=mode, branch=name)
        return stage_prepared(store, name, prepare, provenance, on_step)


def stage_prepared(
    store: GraphStore,
    name: str,
    prepare: Callable[[Snapshot], PreparedWrite[LoadResult]],
    provenance: Provenance,
    on_step: Callable[[Step], None] = lambda _: None,
) -> StagedLoad:
    """Validate records that were read and write their files."""
    load_id = ulid.new()
    on_step("validate")
    snapshot = store.coordinator.fresh(name)
    prepared = prepare(snapshot)
    attempt = Attempt(snapshot, prepared)
    on_step("stage")
    stage_tables(store, attempt)
    tables = tuple(_table(store, load_id, attempt, write) for write in prepared.writes)
    staged = StagedLoad(
        load_id=load_id,
        base=SnapshotRef(
            name,
            snapshot.manifest_version,
            snapshot.commit_id,
            snapshot.incarnation,
            store.catalog.schema_hash,
        ),
        mode=prepared.result.mode,
        tables=tables,
        reads=tuple(sorted(prepared.reads)),
        nodes=tuple(prepared.result.nodes.items()),
        edges=tuple(prepared.result.edges.items()),
        provenance=provenance,
        rejected=prepared.result.rejected,
        warnings=prepared.result.warnings,
    )
    object.__setattr__(staged, "is_own", True)
    return staged


def _table(store: GraphStore, load_id: str, attempt: Attempt[LoadResult], write: TableWrite) -> StagedTable:
    assert isinstance(write, RowWrite)
    handle = attempt.staged.get(write.table_key)
    if handle is not None:
        return StagedTable(write.table_key, operation_of(write), write.rows.num_rows, handle.to_dict(), None)
    name = f"{STAGED}/{load_id}/{len(attempt.staged)}-{write.table_key.replace(':', '-')}.arrow"
    store.storage.write_spool(name, write.rows.reader())
    return StagedTable(write.table_key, operation_of(write), write.rows.num_rows, None, name)


def publish_staged(
    store: GraphStore, staged: StagedLoad, provenance: Provenance | None = None, review: Review = None
) -> WriteOutcome[LoadResult]:
    """Make a staged load visible. It must still stand on the snapshot it was validated against."""
    snapshot = base_snapshot(store, staged)
    provenance = provenance or staged.provenance
    result = LoadResult(
        branch=staged.branch,
        mode=check_mode(staged.mode),
        nodes=dict(staged.nodes),
        edges=dict(staged.edges),
        commit=None,
        rejected=staged.rejected,
        warnings=staged.warnings,
    )
    writes = tuple(StagedBefore(table.table_key) for table in staged.tables)
    base = Attempt(snapshot, PreparedWrite(writes=writes, reads=frozenset(staged.reads), result=result))
    # Rows that wait outside of tables are gone after the first publish: look first whether this is a repetition.
    commit = published_before(store, staged.branch, base, provenance)
    if commit is not None:
        return WriteOutcome(commit, replace(result, commit=commit), replayed=True)
    with Workspace() as workspace:
        if staged.is_own:
            attempt = own_attempt(store, staged, base, workspace)
        else:
            attempt = foreign_attempt(store, staged, snapshot, workspace)
        outcome = publish_attempt(store, staged.branch, attempt, provenance, review)
    if not staged.is_own:
        discard_written(store, staged)
    store.objects.delete_prefix(f"{STAGED}/{staged.load_id}")
    return replace(outcome, result=replace(attempt.prepared.result, commit=outcome.commit))
