"""Loads: records of any number of types, validated as one change set and published as one commit.

Records are read, checked and put aside batch by batch, so a load may be larger than memory. Nothing of the graph is touched
before every check has passed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_compiler import NodeType
from omnigraph_sql.embeddings import Embeddings, fill
from omnigraph_sql.errors import BadRequest
from omnigraph_sql.manifest.journal import Commit
from omnigraph_sql.manifest.snapshot import Snapshot
from omnigraph_sql.storage.columns import table_schema
from omnigraph_sql.writes.delta import EXPLICIT, Held, Image, TableDelta, TableRows, plain, with_places
from omnigraph_sql.writes.engine import Engine
from omnigraph_sql.writes.findings import AT, Finding, raise_first
from omnigraph_sql.writes.operation import Prepared, Provenance, TableWrite
from omnigraph_sql.writes.protocol import execute
from omnigraph_sql.writes.reading import TableBatch
from omnigraph_sql.writes.reading.model import Counted, Places
from omnigraph_sql.writes.rejects import Rejects
from omnigraph_sql.writes.spool import Spool, Workspace
from omnigraph_sql.writes.validate import STATE_CHECKS, Check, existing_ids, input_findings, repeated_ids, value_findings

LINES = Counted("line")
LoadMode = Literal["append", "merge", "overwrite"]
MODES: tuple[LoadMode, ...] = ("append", "merge", "overwrite")
INPUT_CHECKS: Mapping[LoadMode, tuple[Check, ...]] = {
    "append": (input_findings, repeated_ids, existing_ids),
    "merge": (input_findings,),
    "overwrite": (input_findings, repeated_ids),
}


@dataclass(frozen=True)
class LoadResult:
    """What a load did."""

    branch: str
    mode: LoadMode
    nodes: Mapping[str, int]
    edges: Mapping[str, int]
    commit: Commit | None
    base_branch: str | None = None
    branch_created: bool = False
    rejected: int = 0
    """Records that were left out because they break a rule, and the caller allowed it."""
    replayed: bool = False
    """Whether the idempotency key was published before; then `commit` is that first commit."""

    def to_dict(self) -> dict[str, Any]:
        rows = {f"node:{name}": count for name, count in self.nodes.items()}
        rows |= {f"edge:{name}": count for name, count in self.edges.items()}
        return {
            "branch": self.branch,
            "base_branch": self.base_branch,
            "branch_created": self.branch_created,
            "mode": self.mode,
            "nodes": dict(self.nodes),
            "edges": dict(self.edges),
            "tables": [{"table_key": key, "rows": count} for key, count in rows.items()],
            "rejected": self.rejected,
            "replayed": self.replayed,
            "commit": self.commit.to_dict() if self.commit else None,
        }


@dataclass(frozen=True)
class LoadInput:
    """What is loaded: batches of rows, and what the numbers of their records mean."""

    batches: Iterable[TableBatch]
    places: Places = LINES
    rejects: Rejects | None = None
    """Where faulty records go; without it the first one fails the load."""
    embeddings: Embeddings | None = None
    """Who computes the vectors that rows lack."""


@dataclass
class Incoming:
    """All records of a load, put aside by table."""

    places: Places
    rejects: Rejects | None
    spools: dict[str, Held] = field(default_factory=dict)
    sources: dict[str, Callable[[int], str | None]] = field(default_factory=dict)
    """What the record at a place came from: a file, where there is one."""


def check_mode(mode: str) -> LoadMode:
    for known in MODES:
        if mode == known:
            return known
    raise BadRequest(f"`{mode}` is not a load mode", hint=f"use {', '.join(MODES)}")


def load(
    engine: Engine, data: LoadInput, *, mode: str, branch: str = "main", provenance: Provenance | None = None
) -> LoadResult:
    """Load typed batches."""
    with Workspace() as workspace:
        prepare = prepare_load(engine, data, workspace, mode=mode, branch=branch)
        outcome = execute(engine, branch, prepare, provenance or Provenance("Load"))
    return replace(outcome.result, commit=outcome.commit, replayed=outcome.replayed)


def prepare_load(
    engine: Engine, data: LoadInput, workspace: Workspace, *, mode: str, branch: str
) -> Callable[[Snapshot], Prepared[LoadResult]]:
    """Read all records and check their values; the result validates them against a snapshot."""
    check_mode(mode)
    return prepare_incoming(engine, collect(engine, data, workspace), workspace, mode=mode, branch=branch)


def prepare_incoming(
    engine: Engine, incoming: Incoming, workspace: Workspace, *, mode: str, branch: str
) -> Callable[[Snapshot], Prepared[LoadResult]]:
    """A load of records that are put aside already; the result validates them against a snapshot."""
    checked = check_mode(mode)

    def prepare(snapshot: Snapshot) -> Prepared[LoadResult]:
        return _prepare(engine, snapshot, incoming, workspace, LoadResult(branch, checked, {}, {}, None))

    return prepare


def collect(engine: Engine, data: LoadInput, workspace: Workspace) -> Incoming:
    """Read everything; rows with faulty values are reported or left out."""
    incoming = Incoming(data.places, data.rejects)
    spools: dict[str, Spool] = {}
    for batch in data.batches:
        type_ = engine.type_of(batch.table_key)
        given = batch.rows if data.embeddings is None else fill(type_, batch.rows, data.embeddings)
        if batch.table_key not in spools:
            spools[batch.table_key] = incoming.spools[batch.table_key] = workspace.spool(with_places(table_schema(type_)))
        schema = spools[batch.table_key].schema
        rows = pa.RecordBatch.from_arrays([*given.columns, batch.lines, batch.explicit_id], schema=schema)
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
    rows: pa.RecordBatch, findings: Iterable[Finding], rejects: Rejects, places: Places, source: Callable[[int], str | None]
) -> pa.RecordBatch:
    """The rows without those that were found, each of which is reported once."""
    seen = pa.array([], pa.int64())
    for finding in findings:
        fresh = _not_in(finding, seen)
        rejects.add_finding(fresh, places, source)
        seen = pa.concat_arrays([seen, plain(fresh.rows.column(AT))])
    return rows.filter(pc.invert(pc.is_in(rows.column(AT), value_set=seen))) if len(seen) else rows


def _not_in(finding: Finding, seen: pa.Array) -> Finding:
    return replace(finding, rows=finding.rows.filter(pc.invert(pc.is_in(finding.rows.column(AT), value_set=seen))))


def _prepare(
    engine: Engine, snapshot: Snapshot, incoming: Incoming, workspace: Workspace, result: LoadResult
) -> Prepared[LoadResult]:
    mode, rejects = result.mode, incoming.rejects
    if rejects is not None:
        rejects.rewind()
    given = {key: TableRows(incoming.spools[key]) for key in sorted(incoming.spools)}
    while True:
        image = Image(engine, snapshot, _deltas(given, mode), workspace)
        with closing(image):
            found = _first_findings(image, INPUT_CHECKS[mode], incoming)
            latest = {} if found or mode != "merge" else {key: _superseded(image, key) for key in given}
        if any(len(places) for places in latest.values()):
            image = Image(
                engine, snapshot, _deltas({key: given[key].without(latest[key]) for key in given}, mode), workspace
            )
        with closing(image):
            found = found or _first_findings(image, STATE_CHECKS, incoming)
        if not found:
            break
        given = _reject(given, found, incoming)
    if rejects is not None:
        rejects.check()
    counted = replace(
        result,
        nodes={key[5:]: rows.num_rows for key, rows in given.items() if key.startswith("node:")},
        edges={key[5:]: rows.num_rows for key, rows in given.items() if key.startswith("edge:")},
        rejected=0 if rejects is None else rejects.count,
    )
    writes = tuple(write for key in given if (write := _write(snapshot, image.deltas[key], mode)) is not None)
    return Prepared(writes, frozenset(image.read), counted)


def _deltas(given: Mapping[str, TableRows], mode: LoadMode) -> dict[str, TableDelta]:
    return {key: TableDelta(key, rows, overwrite=mode == "overwrite") for key, rows in given.items()}


def _first_findings(image: Image, checks: Iterable[Check], incoming: Incoming) -> list[Finding]:
    """What the first check that finds something finds; without rejects its first row is raised at once.

    Later checks wait until the rows are gone: they may be in order then.
    """
    for each in checks:
        if incoming.rejects is None:
            raise_first(each(image), incoming.places)
        elif found := list(each(image)):
            return found
    return []


def _reject(given: Mapping[str, TableRows], found: Iterable[Finding], incoming: Incoming) -> dict[str, TableRows]:
    assert incoming.rejects is not None
    left = dict(given)
    seen: dict[str, pa.Array] = {}
    for finding in found:
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


def _superseded(image: Image, key: str) -> pa.Array:
    """Places of rows that a later row of the same id replaces."""
    type_ = image.engine.type_of(key)
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
        return TableWrite(delta.table_key, "overwrite", rows=delta.rows)
    if delta.rows.num_rows == 0:
        return None
    is_new = mode == "append" or snapshot.entry(delta.table_key).row_count == 0
    return TableWrite(delta.table_key, "append" if is_new else "merge", rows=delta.rows)
