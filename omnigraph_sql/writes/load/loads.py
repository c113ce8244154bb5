"""Loads: records of any number of types, validated as one change set and published as one commit.

Records are read, checked and spooled batch by batch, so a load may be larger than memory. The graph is not touched
before every check has passed.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_compiler import NodeType
from omnigraph_sql.choices import LoadMode
from omnigraph_sql.embeddings import Embeddings, fill
from omnigraph_sql.errors import BadRequest, ParallelEdgesWarning, RejectsWarning
from omnigraph_sql.manifest.journal import Commit
from omnigraph_sql.manifest.snapshot import Snapshot
from omnigraph_sql.storage.columns import table_schema
from omnigraph_sql.store.graph_store import GraphStore
from omnigraph_sql.table_keys import TableKey
from omnigraph_sql.writes.checks.findings import AT, CheckFinding, raise_first
from omnigraph_sql.writes.checks.pending_graph import (
    EXPLICIT,
    PendingGraph,
    RowSource,
    TableDelta,
    TableRows,
    plain,
    with_places,
)
from omnigraph_sql.writes.checks.validation import (
    STATE_CHECKS,
    Check,
    existing_ids,
    input_findings,
    repeated_ids,
    value_findings,
)
from omnigraph_sql.writes.load.edge_identity import MergeTarget, merge_identified
from omnigraph_sql.writes.load.rejects import Rejects
from omnigraph_sql.writes.load.spool import Spool, Workspace
from omnigraph_sql.writes.operation import Append, Merge, Overwrite, PreparedWrite, Provenance, TableWrite
from omnigraph_sql.writes.protocol import Review, execute, find_replay
from omnigraph_sql.writes.readers import TableBatch
from omnigraph_sql.writes.readers.model import Counted, RecordPlaces

LINES = Counted("line")
MODES: tuple[LoadMode, ...] = ("append", "merge", "overwrite")
INPUT_CHECKS: Mapping[LoadMode, tuple[Check, ...]] = {
    "append": (input_findings, repeated_ids, existing_ids),
    "merge": (input_findings,),
    "overwrite": (input_findings, repeated_ids),
}


@dataclass(frozen=True, kw_only=True)
class LoadResult:
    """The result of a load."""

    branch: str
    """The branch that was loaded into."""
    mode: LoadMode
    """The mode of the load."""
    nodes: Mapping[str, int]
    """Loaded nodes by type."""
    edges: Mapping[str, int]
    """Loaded edges by type."""
    commit: Commit | None
    """The published commit; None if the load changed nothing."""
    base_branch: str | None = None
    """The branch that a missing one was to start from."""
    branch_created: bool = False
    """True if the load created its branch."""
    rejected: int = 0
    """Records that were left out because they break a rule, and the caller allowed it."""
    replayed: bool = False
    """True if the idempotency key was published before; then `commit` is that first commit."""
    rejects: str | None = None
    """The file with the records that were left out."""
    warnings: tuple[str, ...] = ()
    """Warnings of a load that succeeded."""

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON values.

        Example:
            >>> result = graph.load('{"type": "Port", "data": {"code": "GBFXT"}}', mode="append")
            >>> result.to_dict()["tables"]
            [{'table_key': 'node:Port', 'rows': 1}]
        """
        rows = {TableKey.of_node(name): count for name, count in self.nodes.items()}
        rows |= {TableKey.of_edge(name): count for name, count in self.edges.items()}
        return {
            "branch": self.branch,
            "base_branch": self.base_branch,
            "branch_created": self.branch_created,
            "mode": self.mode,
            "nodes": dict(self.nodes),
            "edges": dict(self.edges),
            "tables": [{"table_key": key, "rows": count} for key, count in rows.items()],
            "rejected": self.rejected,
            "rejects": self.rejects,
            "replayed": self.replayed,
            "warnings": list(self.warnings),
            "commit": self.commit.to_dict() if self.commit else None,
        }


@dataclass(frozen=True)
class LoadInput:
    """The input of a load: batches of rows, and the places that their record numbers name."""

    batches: Iterable[TableBatch]
    places: RecordPlaces = LINES
    rejects: Rejects | None = None
    """The target of faulty records; without it the first one fails the load."""
    embeddings: Embeddings | None = None
    """The provider of vectors that rows lack."""


@dataclass
class Incoming:
    """All records of a load, spooled by table."""

    places: RecordPlaces
    rejects: Rejects | None
    spools: dict[str, RowSource] = field(default_factory=dict)
    sources: dict[str, Callable[[int], str | None]] = field(default_factory=dict)
    """Return the origin of the record at a place: a file, if there is one."""


def check_mode(mode: str) -> LoadMode:
    for candidate in MODES:
        if mode == candidate:
            return candidate
    raise BadRequest(f"`{mode}` is not a load mode", hint=f"use {', '.join(MODES)}")


def load(
    store: GraphStore,
    data: LoadInput,
    *,
    mode: str,
    branch: str = "main",
    provenance: Provenance | None = None,
    review: Review = None,
) -> LoadResult:
    """Load typed batches; of a load whose key was published before none is read."""
    provenance = provenance or Provenance("Load")
    commit = find_replay(store, branch, provenance)
    if commit is not None:
        return LoadResult(branch=branch, mode=check_mode(mode), nodes={}, edges={}, commit=commit, replayed=True)
    with Workspace() as workspace:
        prepare = prepare_load(store, data, workspace, mode=mode, branch=branch)
        outcome = execute(store, branch, prepare, provenance, review=review)
    return replace(outcome.result, commit=outcome.commit, replayed=outcome.replayed)


def reported_result(result: LoadResult, rejects: Rejects | None) -> LoadResult:
    """The result of a published load with where its rejected records are. Issues its warnings."""
    warn_of(result.warnings)
    if rejects is None:
        return result
    if rejects.problem is None:
        return replace(result, rejects=rejects.place)
    warnings.warn(rejects.problem, RejectsWarning, stacklevel=3)
    return replace(result, rejects=rejects.place, warnings=(*result.warnings, rejects.problem))


def warn_of(texts: Iterable[str]) -> None:
    """Issue what a load found out about its edges as warnings of Python."""
    for text in texts:
        warnings.warn(text, ParallelEdgesWarning, stacklevel=4)


def prepare_load(
    store: GraphStore, data: LoadInput, workspace: Workspace, *, mode: str, branch: str
) -> Callable[[Snapshot], PreparedWrite[LoadResult]]:
    """Read all records and check their values; the result validates them against a snapshot."""
    check_mode(mode)
    return prepare_incoming(store, collect(store, data, workspace), workspace, mode=mode, branch=branch)


def prepare_incoming(
    store: GraphStore, incoming: Incoming, workspace: Workspace, *, mode: str, branch: str
) -> Callable[[Snapshot], PreparedWrite[LoadResult]]:
    """A load of spooled records; the result validates them against a snapshot."""
    checked = check_mode(mode)

    def prepare(snapshot: Snapshot) -> PreparedWrite[LoadResult]:
        return _prepare(
            store, snapshot, incoming, workspace, LoadResult(branch=branch, mode=checked, nodes={}, edges={}, commit=None)
        )

    return prepare


def collect(store: GraphStore, data: LoadInput, workspace: Workspace) -> Incoming:
    """Read everything; rows with faulty values are reported or left out."""
    incoming = Incoming(data.places, data.rejects)
    spools: dict[str, Spool] = {}
    for batch in data.batches:
        type_ = store.type_of(batch.table_key)
        filled = batch.rows if data.embeddings is None else fill(type_, batch.rows, data.embeddings)
        if batch.table_key not in spools:
            spools[batch.table_key] = incoming.spools[batch.table_key] = workspace.spool(with_places(table_schema(type_)))
        schema = spools[batch.table_key].schema
        rows = pa.RecordBatch.from_arrays([*filled.columns, batch.lines, batch.explicit_id], schema=schema)
        incoming.sources[batch.table_key] = source = _always(batch.source)
        if data.rejects is not None:
            data.rejects.read += rows.num_rows
        findings = value_findings(type_, batch.table_key, pa.Table.from_batches([rows]))
        if data.rejects is None:
            raise_first(findings, data.places)
        else:
            rows = leave_out(rows, findings, data.rejects, data.places, source)
        spools[batch.table_key].append(rows)
    if data.rejects is not None:
        data.rejects.mark()
    return incoming


def _always(source: str | None) -> Callable[[int], str | None]:
    return lambda _: source


def leave_out(
    rows: pa.RecordBatch,
    findings: Iterable[CheckFinding],
    rejects: Rejects,
    places: RecordPlaces,
    source: Callable[[int], str | None],
) -> pa.RecordBatch:
    """The rows without those that were found, each of which is reported once."""
    seen = pa.array([], pa.int64())
    for finding in findings:
        fresh = _not_in(finding, seen)
        rejects.add_finding(fresh, places, source)
        seen = pa.concat_arrays([seen, plain(fresh.rows.column(AT))])
    return rows.filter(pc.invert(pc.is_in(rows.column(AT), value_set=seen))) if len(seen) else rows


def _not_in(finding: CheckFinding, seen: pa.Array) -> CheckFinding:
    return replace(finding, rows=finding.rows.filter(pc.invert(pc.is_in(finding.rows.column(AT), value_set=seen))))


def _prepare(
    store: GraphStore, snapshot: Snapshot, incoming: Incoming, workspace: Workspace, result: LoadResult
) -> PreparedWrite[LoadResult]:
    mode, rejects = result.mode, incoming.rejects
    if rejects is not None:
        rejects.rewind()
    left = {key: TableRows(incoming.spools[key]) for key in sorted(incoming.spools)}
    while True:
        merge = MergeTarget(left)
        if mode == "merge":
            merge = merge_identified(PendingGraph(store, snapshot, _deltas(left, mode), workspace), left)
        tables = merge.rows
        image = PendingGraph(store, snapshot, _deltas(tables, mode), workspace)
        with closing(image):
            findings = _first_findings(image, INPUT_CHECKS[mode], incoming)
            latest = {} if findings or mode != "merge" else {key: _superseded(image, key) for key in tables}
        if any(len(places) for places in latest.values()):
            image = PendingGraph(
                store, snapshot, _deltas({key: tables[key].without(latest[key]) for key in tables}, mode), workspace
            )
        with closing(image):
            findings = findings or _first_findings(image, STATE_CHECKS, incoming)
        if not findings:
            break
        left = _reject(left, findings, incoming)
    if rejects is not None:
        rejects.check()
    counts = {TableKey(key): rows.num_rows for key, rows in tables.items()}
    counted = replace(
        result,
        nodes={key.name: count for key, count in counts.items() if key.is_node},
        edges={key.name: count for key, count in counts.items() if key.is_edge},
        rejected=0 if rejects is None else rejects.count,
        warnings=merge.warnings(),
    )
    writes = tuple(write for key in tables if (write := _write(snapshot, image.deltas[key], mode)) is not None)
    return PreparedWrite(writes=writes, reads=frozenset(image.read), result=counted)


def _deltas(tables: Mapping[str, TableRows], mode: LoadMode) -> dict[str, TableDelta]:
    return {key: TableDelta(key, rows, overwrite=mode == "overwrite") for key, rows in tables.items()}


def _first_findings(image: PendingGraph, checks: Iterable[Check], incoming: Incoming) -> list[CheckFinding]:
    """The findings of the first check that has any; without rejects its first row is raised at once.

    Later checks wait until the rows are gone: they may be in order then.
    """
    for check in checks:
        if incoming.rejects is None:
            raise_first(check(image), incoming.places)
        elif findings := list(check(image)):
            return findings
    return []


def _reject(tables: Mapping[str, TableRows], findings: Iterable[CheckFinding], incoming: Incoming) -> dict[str, TableRows]:
    assert incoming.rejects is not None
    left = dict(tables)
    seen: dict[str, pa.Array] = {}
    for finding in findings:
        if finding.rows.column(AT).null_count:
            # No record is at fault alone: rows that are there already would break the rule.
            raise finding.error(finding.rows.filter(pc.is_null(finding.rows.column(AT))).slice(0, 1).to_pylist()[0], None)
        key = finding.table_key
        fresh = _not_in(finding, seen.get(key, pa.array([], pa.int64())))
        incoming.rejects.add_finding(fresh, incoming.places, incoming.sources[key])
        places = plain(fresh.rows.column(AT))
        seen[key] = pa.concat_arrays([seen[key], places]) if key in seen else places
    for key, places in seen.items():
        left[key] = left[key].without(places.unique())
    return left


def _superseded(image: PendingGraph, key: str) -> pa.Array:
    """Places of rows that a later row of the same id replaces."""
    type_ = image.store.type_of(key)
    none = pa.array([], pa.int64())
    if isinstance(type_, NodeType) and type_.key is not None:
        return none
    hidden = [none]
    for number in range(image.count):
        rows = image.part(key, ["id", AT, EXPLICIT], ["id"], number)
        if not pc.any(rows.column(EXPLICIT)).as_py():
            continue
        last = rows.group_by("id").aggregate([(AT, "max")]).column(f"{AT}_max")
        if len(last) < rows.num_rows:
            places = plain(rows.column(AT))
            hidden.append(places.filter(pc.invert(pc.is_in(places, value_set=plain(last)))))
    return pa.concat_arrays(hidden)


def _write(snapshot: Snapshot, delta: TableDelta, mode: LoadMode) -> TableWrite | None:
    if mode == "overwrite":
        return Overwrite(delta.table_key, delta.rows)
    if delta.rows.num_rows == 0:
        return None
    is_new = mode == "append" or snapshot.entry(delta.table_key).row_count == 0
    return (Append if is_new else Merge)(delta.table_key, delta.rows)
