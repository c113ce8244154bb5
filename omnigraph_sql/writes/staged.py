"""Staged loads: validated, their files written, nothing visible yet. Another process may publish one."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from omnigraph_sql import ulid
from omnigraph_sql.errors import BadRequest
from omnigraph_sql.manifest.publisher import check_incarnation
from omnigraph_sql.manifest.snapshot import Snapshot
from omnigraph_sql.storage.handles import StagedHandle
from omnigraph_sql.writes.delta import TableRows
from omnigraph_sql.writes.engine import Engine
from omnigraph_sql.writes.load import LoadInput, LoadResult, prepare_load
from omnigraph_sql.writes.operation import Attempt, Outcome, Prepared, Provenance, TableWrite
from omnigraph_sql.writes.protocol import publish_attempt, published_before
from omnigraph_sql.writes.spool import Workspace
from omnigraph_sql.writes.staging import needs_fork, stage_tables

DIRECTORY = "_staged"
FORMAT = 3
Step = Literal["read", "validate", "stage"]
"""What staging a load does, in this order."""
_LOAD_ID = re.compile("[A-Za-z0-9][A-Za-z0-9_-]{0,127}")


@dataclass(frozen=True)
class SnapshotRef:
    """The snapshot a load was validated against."""

    branch: str
    manifest_version: int
    graph_commit_id: str
    incarnation: str
    """Tells the branch from a later one of its name."""


@dataclass(frozen=True)
class StagedTable:
    """One table of a staged load: fragments on the table's own lineage, or rows that wait for the branch's first fork."""

    table_key: str
    operation: str
    rows: int
    staged: dict[str, Any] | None
    spool: str | None


@dataclass(frozen=True)
class StagedLoad:
    """A load that is ready to be published."""

    load_id: str
    base: SnapshotRef
    mode: str
    tables: tuple[StagedTable, ...]
    reads: tuple[str, ...]
    nodes: tuple[tuple[str, int], ...]
    edges: tuple[tuple[str, int], ...]
    provenance: Provenance
    rejected: int = 0
    """Records that were left out because they break a rule."""

    @property
    def branch(self) -> str:
        return self.base.branch

    def to_json(self) -> str:
        """A text that `from_json` reads back, also on another machine that reaches the same graph."""
        return json.dumps({"format": FORMAT, **asdict(self)})

    @classmethod
    def from_json(cls, text: str) -> StagedLoad:
        try:
            entry = json.loads(text)
            if entry.pop("format") != FORMAT:
                raise ValueError("another format")
            _check_names(entry["load_id"], [table["spool"] for table in entry["tables"]])
            return cls(
                entry["load_id"],
                SnapshotRef(**entry["base"]),
                entry["mode"],
                tuple(StagedTable(**table) for table in entry["tables"]),
                tuple(entry["reads"]),
                tuple((name, count) for name, count in entry["nodes"]),
                tuple((name, count) for name, count in entry["edges"]),
                Provenance(**entry["provenance"]),
                entry.get("rejected", 0),
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise BadRequest(f"this is not a staged load: {error}", hint="stage it again with this release") from None


def check_load_id(load_id: str) -> str:
    """An id that names a directory of its own."""
    if not _LOAD_ID.fullmatch(load_id):
        hint = "use letters, digits, `-` and `_`, at most 128, beginning with a letter or digit"
        raise BadRequest(f"`{load_id}` cannot be the id of a load", hint=hint)
    return load_id


def _check_names(load_id: str, spools: list[str | None]) -> None:
    """A text from elsewhere names files to be read and a directory to be deleted: they must be those of a staged load."""
    if not _LOAD_ID.fullmatch(load_id):
        raise ValueError("its load_id is not an id")
    for spool in spools:
        if spool is not None and not re.fullmatch(rf"{DIRECTORY}/{load_id}/[0-9]+-[\w-]+\.arrow", spool):
            raise ValueError("it names rows outside of its directory")


def stage_load(
    engine: Engine,
    data: LoadInput,
    *,
    mode: str,
    branch: str,
    provenance: Provenance,
    on_step: Callable[[Step], None] = lambda _: None,
) -> StagedLoad:
    """Validate records and write their files; nothing becomes visible. `on_step` is told what begins."""
    name = engine.coordinator.require(branch)
    with Workspace() as workspace:
        on_step("read")
        prepare = prepare_load(engine, data, workspace, mode=mode, branch=name)
        return stage_prepared(engine, name, prepare, provenance, on_step)


def stage_prepared(
    engine: Engine,
    name: str,
    prepare: Callable[[Snapshot], Prepared[LoadResult]],
    provenance: Provenance,
    on_step: Callable[[Step], None] = lambda _: None,
) -> StagedLoad:
    """Validate records that were read and write their files."""
    load_id = ulid.new()
    on_step("validate")
    snapshot = engine.coordinator.fresh(name)
    prepared = prepare(snapshot)
    attempt = Attempt(snapshot, prepared)
    on_step("stage")
    stage_tables(engine, attempt)
    tables = tuple(_table(engine, load_id, attempt, write) for write in prepared.writes)
    return StagedLoad(
        load_id,
        SnapshotRef(name, snapshot.manifest_version, snapshot.commit_id, snapshot.incarnation),
        prepared.result.mode,
        tables,
        tuple(sorted(prepared.reads)),
        tuple(prepared.result.nodes.items()),
        tuple(prepared.result.edges.items()),
        provenance,
        prepared.result.rejected,
    )


def _table(engine: Engine, load_id: str, attempt: Attempt[LoadResult], write: TableWrite) -> StagedTable:
    assert write.rows is not None
    handle = attempt.staged.get(write.table_key)
    if handle is not None:
        return StagedTable(write.table_key, write.kind, write.rows.num_rows, handle.to_dict(), None)
    name = f"{DIRECTORY}/{load_id}/{len(attempt.staged)}-{write.table_key.replace(':', '-')}.arrow"
    engine.storage.write_spool(name, write.rows.reader())
    return StagedTable(write.table_key, write.kind, write.rows.num_rows, None, name)


def publish_staged(engine: Engine, staged: StagedLoad, provenance: Provenance | None = None) -> Outcome[LoadResult]:
    """Make a staged load visible. It must still stand on the snapshot it was validated against."""
    check_incarnation(staged.branch, staged.base.incarnation, engine.coordinator.incarnation(staged.branch))
    snapshot = engine.coordinator.at_version(staged.branch, staged.base.manifest_version)
    given = provenance or staged.provenance
    result = LoadResult(
        staged.branch,
        staged.mode,  # type: ignore[arg-type]
        dict(staged.nodes),
        dict(staged.edges),
        None,
        rejected=staged.rejected,
    )
    writes = tuple(TableWrite(table.table_key, table.operation) for table in staged.tables)
    base = Attempt(snapshot, Prepared(writes, frozenset(staged.reads), result, strict=True))
    # Rows that wait outside of tables are gone after the first publish: look first whether this is a repetition.
    known = published_before(engine, staged.branch, base, given)
    if known is not None:
        return Outcome(known, replace(result, commit=known), replayed=True)
    with Workspace() as workspace:
        return _publish(engine, staged, base, workspace, given)


def _publish(
    engine: Engine, staged: StagedLoad, base: Attempt[LoadResult], workspace: Workspace, provenance: Provenance
) -> Outcome[LoadResult]:
    writes = tuple(_write(engine, base.snapshot, table, workspace) for table in staged.tables)
    attempt = Attempt(base.snapshot, replace(base.prepared, writes=writes))
    for table in staged.tables:
        if table.staged is not None:
            attempt.staged[table.table_key] = StagedHandle.from_dict(table.staged)
    outcome = publish_attempt(engine, staged.branch, attempt, provenance)
    engine.objects.delete_prefix(f"{DIRECTORY}/{staged.load_id}")
    return replace(outcome, result=replace(base.prepared.result, commit=outcome.commit))


def _write(engine: Engine, snapshot: Snapshot, table: StagedTable, workspace: Workspace) -> TableWrite:
    if table.spool is None:
        return TableWrite(table.table_key, table.operation)
    assert needs_fork(snapshot, snapshot.entry(table.table_key))
    return TableWrite(
        table.table_key, table.operation, rows=TableRows.put(engine.storage.read_spool(table.spool), workspace)
    )
