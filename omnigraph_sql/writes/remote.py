"""Loads whose rows are written by many processes, on many machines, and published by one.

Everything of such a load is below `_staged/<load id>/` until it is published: what it is based on (`remote.json`), what each
task wrote (`attempt-…`, also if nobody heard of it), and which tasks count (`table-…`). The rows themselves are fragments on
their tables, which no version names, or files in the directory. A task only ever adds files; nothing of a load is visible
before `publish_remote` runs it through the write protocol like any other load.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_compiler import EdgeType, NodeType
from omnigraph_sql import failpoints, ulid
from omnigraph_sql.errors import BadRequest, Conflict, KeyConflict, NotFound, OmnigraphError, ValidationFailed
from omnigraph_sql.manifest.journal import Commit
from omnigraph_sql.storage.columns import table_key, table_schema
from omnigraph_sql.storage.fragments import fragments
from omnigraph_sql.storage.handles import StagedHandle
from omnigraph_sql.storage.names import table_name
from omnigraph_sql.storage.parts import data_files, write_part
from omnigraph_sql.storage.wholeness import new_fragments
from omnigraph_sql.writes.delta import with_places
from omnigraph_sql.writes.engine import Engine
from omnigraph_sql.writes.findings import AT, raise_first
from omnigraph_sql.writes.load import Incoming, LoadMode, LoadResult, check_mode, leave_out, prepare_incoming
from omnigraph_sql.writes.operation import Provenance
from omnigraph_sql.writes.parts import Part, PartRows
from omnigraph_sql.writes.protocol import execute
from omnigraph_sql.writes.reading import Placed, Reject, check_table, read_tables, type_named
from omnigraph_sql.writes.reading.model import Place, Places
from omnigraph_sql.writes.reading.tables import ROWS
from omnigraph_sql.writes.rejects import Rejects
from omnigraph_sql.writes.spool import Workspace
from omnigraph_sql.writes.staged import DIRECTORY, StagedLoad, Step, check_load_id, stage_prepared
from omnigraph_sql.writes.staging import needs_fork, open_entry
from omnigraph_sql.writes.validate import value_findings

SOURCE_COLUMN = "__source"
"""The column that says what a row came from; it is no property."""
ABORTED = "aborted"
"""The mark of a load that was given up, for tasks that still work on it."""
ORIGIN_STEP = 1 << 48
"""The numbers of rows from the next origin begin there."""
_DAY = 86_400
_FORMAT = 1
_PUBLISHING = "publishing.json"
_BEGUN = "remote.json"


@dataclass(frozen=True)
class RemoteTable:
    """What a task needs to know to write rows of one table. Crosses processes as JSON."""

    load_id: str
    table_key: str
    branch: str
    mode: LoadMode
    schema_hash: str
    manifest_version: int
    """The state of the branch that the job began with."""
    save_id: str
    """Tells several writes to one table apart."""
    explicit: bool
    """Whether the rows name their ids."""
    collects: bool = False
    """Whether faulty rows are collected instead of failing the task."""
    origins: tuple[str, ...] | None = None
    """What the rows came from. They bring their numbers along (`Placed`), which tell the origin and ascend."""
    is_text: bool = False
    """Whether texts are written values, as in CSV files."""

    @property
    def directory(self) -> str:
        return f"{DIRECTORY}/{self.load_id}"

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, entry: Mapping[str, Any]) -> RemoteTable:
        origins = entry["origins"]
        return cls(**{**entry, "origins": None if origins is None else tuple(origins)})

    def at(self, number: int) -> Place:
        """The place of a row that brought its number along."""
        return Place("a row", None, (self.origins or ())[number // ORIGIN_STEP])


# The beginning, where the job is started -----------------------------------------------------------------------------


def begin_table(
    engine: Engine,
    load_id: str,
    type_name: str,
    columns: pa.Schema,
    *,
    mode: str,
    branch: str,
    collects: bool = False,
    origins: tuple[str, ...] | None = None,
    is_text: bool = False,
) -> RemoteTable:
    """Look at everything that can be wrong before any task works, and note what the load is based on."""
    checked = check_mode(mode)
    check_load_id(load_id)
    name = engine.coordinator.require(branch)
    _forget_marks(engine)
    type_ = type_named(engine.catalog, type_name)
    key = table_key(type_)
    empty = pa.schema([column for column in columns if column.name != SOURCE_COLUMN]).empty_table()
    check_table(key, empty if origins is None else Placed(empty.to_reader(), is_text), engine.catalog)
    snapshot = engine.coordinator.fresh(name)
    snapshot.entry(key)
    begun = _begun(engine, load_id, {"branch": name, "mode": checked})
    for word, value in (("branch", name), ("mode", checked)):
        if begun[word] != value:
            text = f"the load `{load_id}` has the {word} `{begun[word]}`, and this write wants `{value}`"
            raise BadRequest(text, hint=f"use one {word} for all writes of a load, or another load_id")
    return RemoteTable(
        load_id,
        key,
        name,
        checked,
        engine.catalog.schema_hash,
        snapshot.manifest_version,
        ulid.new(),
        "id" in columns.names and not _is_keyed(type_),
        collects,
        origins,
        is_text,
    )


def _forget_marks(engine: Engine) -> None:
    """Remove the marks of loads that were given up a day ago: no task of theirs is still at work."""
    long_ago = ulid.first_of(time.time() - _DAY)
    for name in engine.objects.list_dir(DIRECTORY):
        is_old = ulid.is_ulid(name) and name < long_ago
        if is_old and engine.objects.list_dir(f"{DIRECTORY}/{name}") == [ABORTED]:
            engine.objects.delete_prefix(f"{DIRECTORY}/{name}")


def _is_keyed(type_: NodeType | EdgeType) -> bool:
    return isinstance(type_, NodeType) and type_.key is not None


# The tasks, anywhere -------------------------------------------------------------------------------------------------


def write_rows(engine: Engine, table: RemoteTable, batches: Iterable[pa.RecordBatch], number: int) -> Part:
    """Check the values of rows and write them. What is written is noted under a name of its own, so attempts may repeat."""
    if engine.catalog.schema_hash != table.schema_hash:
        text = "the schema of the graph has changed while the job was running"
        raise Conflict(text, reason="schema changed", hint="run the job again")
    attempt = _Attempt(engine, table, number)
    part = attempt.write(batches)
    if _is_over(engine, table):
        # Nobody waits for this task any more, and nobody would remove its files.
        _remove(engine, [attempt.note(part)])
        raise Conflict(f"the load `{table.load_id}` is over", reason="aborted", hint="run the job again")
    engine.objects.write_text(f"{table.directory}/attempt-{table.save_id}-{attempt.id}.json", json.dumps(attempt.note(part)))
    return part


def _is_over(engine: Engine, table: RemoteTable) -> bool:
    """Whether a load was given up, or published with what another attempt wrote."""
    return engine.objects.exists(f"{table.directory}/{ABORTED}") or not engine.objects.exists(f"{table.directory}/{_BEGUN}")


class _Attempt:
    """One try at one part."""

    def __init__(self, engine: Engine, table: RemoteTable, number: int) -> None:
        self.id = ulid.new()
        self._engine = engine
        self._table = table
        self._number = number
        snapshot = engine.coordinator.at_version(table.branch, table.manifest_version)
        self._entry = entry = snapshot.entry(table.table_key)
        type_ = engine.type_of(table.table_key)
        has_blobs = any(prop.type.is_blob for prop in type_.properties.values())
        # A branch's first write forks the table, and an upsert looks for rows to replace: both happen when it is published.
        self._waits = needs_fork(snapshot, entry) or table.mode == "merge" or has_blobs
        self._type = type_
        self._rejects = Rejects(None, None) if table.collects else None
        self._rows = self._nbytes = 0
        self._sources: list[tuple[str, int]] = []
        self._failure: OmnigraphError | None = None

    def write(self, batches: Iterable[pa.RecordBatch]) -> Part:
        schema = table_schema(self._type)
        rows = pa.RecordBatchReader.from_batches(schema, self._kept(self._normal(batches)))
        try:
            return self._write(rows)
        except OmnigraphError as error:
            # What goes wrong while rows are made is told by whoever reads them, in other words.
            raise self._failure or error from None

    def _kept(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            yield from batches
        except OmnigraphError as error:
            self._failure = error
            raise

    def _write(self, rows: pa.RecordBatchReader) -> Part:
        written: list[Any] = []
        spool: str | None = None
        if self._waits:
            spool = f"{self._table.directory}/rows-{self.id}.arrow"
            self._engine.storage.write_spool(spool, rows)
        else:
            kind = "overwrite" if self._table.mode == "overwrite" else "append"
            written = write_part(open_entry(self._engine, self._entry), rows, kind)
        rejects = self._report()
        count = 0 if self._rejects is None else self._rejects.count
        return Part(self._number, self._rows, self._nbytes, tuple(written), spool, tuple(self._sources), rejects, count)

    def note(self, part: Part) -> dict[str, Any]:
        """What an attempt wrote, so that it can be removed."""
        files = data_files(self._entry.path, self._entry.branch, part.fragments)
        return {"files": [*files, *(name for name in (part.spool, part.rejects) if name is not None)]}

    def _normal(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rows as the table has them, those with faulty values left out or raised."""
        key = self._table.table_key
        places: _Sources | _Origins
        given: Any
        counted: Places
        if self._table.origins is None:
            places = _Sources()
            given, counted = places.stripped(batches), ROWS
        else:
            places = _Origins(self._table.origins)
            given, counted = _placed(batches, is_text=self._table.is_text), self._table
            if given is None:
                return
        on_reject = None if self._rejects is None else partial(self._reject, places)
        for batch in read_tables({key: given}, self._engine.catalog, on_reject=on_reject, places=counted):
            placed = with_places(batch.rows.schema)
            rows = pa.RecordBatch.from_arrays([*batch.rows.columns, batch.lines, batch.explicit_id], schema=placed)
            findings = value_findings(self._type, key, pa.Table.from_batches([rows]))
            if self._rejects is None:
                raise_first(findings, counted)
            else:
                rows = leave_out(rows, findings, self._rejects, counted, places.at)
            self._rows += rows.num_rows
            self._nbytes += rows.nbytes
            self._sources += places.runs(rows.column(AT))
            yield pa.RecordBatch.from_arrays(rows.columns[:-2], schema=batch.rows.schema)

    def _reject(self, places: _Sources | _Origins, reject: Reject) -> None:
        assert self._rejects is not None
        known = reject.source if reject.line is None else places.at(reject.line)
        self._rejects.add(replace(reject, source=known))

    def _report(self) -> str | None:
        if self._rejects is None or self._rejects.count == 0:
            return None
        name = f"{self._table.directory}/rejects-{self.id}.jsonl"
        lines = (json.dumps(entry, ensure_ascii=False) for entry in self._rejects.entries())
        self._engine.objects.write_text(name, "\n".join(lines))
        return name


def _placed(batches: Iterable[pa.RecordBatch], *, is_text: bool) -> Placed | None:
    """Rows that bring their numbers along; None if there are none, not even of no length."""
    rest = iter(batches)
    first = next(rest, None)
    if first is None:
        return None
    return Placed(pa.RecordBatchReader.from_batches(first.schema, chain([first], rest)), is_text)


class _Origins:
    """What rows came from that tell it by their numbers."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self._names = names

    def at(self, number: int) -> str | None:
        """What a row came from."""
        return self._names[number // ORIGIN_STEP]

    def runs(self, numbers: pa.Array) -> list[tuple[str, int]]:
        """The names for rows with these numbers, each with how many rows it stands for."""
        places = numbers.to_numpy(zero_copy_only=False) // ORIGIN_STEP
        ends = np.flatnonzero(np.diff(places, append=-1))
        return [(self._names[places[end]], int(count)) for end, count in zip(ends, np.diff(ends, prepend=-1), strict=True)]


class _Sources:
    """What the rows of a part came from, by their number."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._names: list[str] = []
        self._next = 1

    def stripped(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The batches without the column that names sources."""
        for batch in batches:
            if SOURCE_COLUMN in batch.schema.names:
                self._note(batch.column(SOURCE_COLUMN))
                names = [name for name in batch.schema.names if name != SOURCE_COLUMN]
                batch = batch.select(names)  # noqa: PLW2901
            self._next += batch.num_rows
            yield batch

    def _note(self, column: pa.Array) -> None:
        if len(column) == 0:
            return
        runs = pc.run_end_encode(column.fill_null(""))
        start = self._next
        for name, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
            self._starts.append(start)
            self._names.append(name)
            start = self._next + end

    def at(self, number: int) -> str | None:
        """What a row came from."""
        place = int(np.searchsorted(self._starts, number, side="right")) - 1
        return (self._names[place] or None) if place >= 0 else None

    def runs(self, numbers: pa.Array) -> list[tuple[str, int]]:
        """The names for rows with these numbers, each with how many rows it stands for."""
        if not self._starts or len(numbers) == 0:
            return []
        places = np.searchsorted(self._starts, numbers.to_numpy(zero_copy_only=False), side="right") - 1
        ends = np.flatnonzero(np.diff(places, append=-1))
        counts = np.diff(ends, prepend=-1)
        return [(self._names[places[end]], int(count)) for end, count in zip(ends, counts, strict=True)]


# The end, where the job was started ----------------------------------------------------------------------------------


def finish_table(engine: Engine, table: RemoteTable, parts: Iterable[Part]) -> None:
    """All tasks of a write have succeeded, and these are the parts that count."""
    kept = sorted(parts, key=lambda part: part.number)
    entry = {"table": table.to_dict(), "parts": [asdict(part) for part in kept]}
    engine.objects.write_text(f"{table.directory}/table-{table.save_id}.json", json.dumps(entry))


def forget_tables(engine: Engine, load_id: str) -> None:
    """Nothing that was written under an id so far counts any more; its files are removed when the load is published."""
    directory = f"{DIRECTORY}/{load_id}"
    for name in engine.objects.list_dir(directory):
        if name.startswith("table-") or name == _PUBLISHING:
            engine.objects.delete(f"{directory}/{name}")


def abort_table(engine: Engine, table: RemoteTable, *, whole: bool) -> None:
    """The tasks of a write have failed: remove what they wrote. `whole` gives up the load as well."""
    notes = list(_attempts(engine, table.load_id, table.save_id))
    if whole:
        engine.objects.write_text(f"{table.directory}/{ABORTED}", "")
        discard_remote(engine, table.load_id, keep_mark=True)
    else:
        _remove(engine, notes)


def publish_remote(engine: Engine, load_id: str, provenance: Provenance, rejects: Rejects | None = None) -> LoadResult:
    """Check and publish everything that was written under an id as one commit; once, however often it is called."""
    check_load_id(load_id)
    given = replace(provenance, idempotency_key=provenance.idempotency_key or f"load:{load_id}")
    tables = _tables(engine, load_id)
    if not tables:
        return _published_before(engine, load_id, given)
    first = tables[0][0]
    keys = {table.table_key for table, _ in tables}
    known = find_published(engine, first.branch, str(given.idempotency_key))
    if known is not None:
        _sweep(engine, load_id, _referenced(engine, keys, known))
        return LoadResult(first.branch, first.mode, {}, {}, known, replayed=True)
    incoming = _incoming(engine, load_id, tables, rejects)
    mark = json.dumps({"branch": first.branch, "key": given.idempotency_key})
    engine.objects.write_text(f"{DIRECTORY}/{load_id}/{_PUBLISHING}", mark)
    failpoints.hit("remote.before_publish")
    try:
        with Workspace() as workspace:
            prepare = prepare_incoming(engine, incoming, workspace, mode=first.mode, branch=first.branch)
            outcome = execute(engine, first.branch, prepare, given)
    except (ValidationFailed, KeyConflict, BadRequest, NotFound):
        engine.objects.delete(f"{DIRECTORY}/{load_id}/{_PUBLISHING}")  # raised before anything was touched
        raise
    failpoints.hit("remote.after_publish")
    _sweep(engine, load_id, _referenced(engine, keys, outcome.commit))
    return replace(outcome.result, commit=outcome.commit, replayed=outcome.replayed)


def stage_remote(
    engine: Engine,
    load_id: str,
    provenance: Provenance,
    rejects: Rejects | None = None,
    on_step: Callable[[Step], None] = lambda _: None,
) -> StagedLoad:
    """Check everything that was written under an id and make it a staged load, which takes its place."""
    tables = _tables(engine, load_id)
    if not tables:
        raise _nothing_staged(load_id)
    first = tables[0][0]
    incoming = _incoming(engine, load_id, tables, rejects)
    with Workspace() as workspace:
        prepare = prepare_incoming(engine, incoming, workspace, mode=first.mode, branch=first.branch)
        staged = stage_prepared(engine, first.branch, prepare, provenance, on_step)
    _sweep(engine, load_id, set(staged_files(staged)))
    return staged


def staged_files(staged: StagedLoad) -> Iterator[str]:
    """The data files that a staged load refers to."""
    for table in staged.tables:
        if table.staged is not None:
            handle = StagedHandle.from_dict(table.staged)
            entries = [each.to_json() for each in new_fragments(handle._transaction.operation)]
            yield from data_files(handle.path, handle.branch, entries)


def _incoming(
    engine: Engine, load_id: str, tables: list[tuple[RemoteTable, list[Part]]], rejects: Rejects | None
) -> Incoming:
    stale = [table for table, _ in tables if table.schema_hash != engine.catalog.schema_hash]
    if stale:
        text = f"the schema of the graph has changed since {stale[0].table_key} of the load `{load_id}` was written"
        raise Conflict(text, reason="schema changed", hint="run the job again")
    incoming = Incoming(ROWS, rejects)
    for key in sorted({table.table_key for table, _ in tables}):
        rows = _rows(engine, [found for found in tables if found[0].table_key == key])
        incoming.spools[key] = rows
        incoming.sources[key] = rows.source_of
    if rejects is not None:
        rejects.read += sum(part.rows + part.rejected for _, parts in tables for part in parts)
    _take_rejects(engine, tables, rejects)
    return incoming


def _rows(engine: Engine, found: list[tuple[RemoteTable, list[Part]]]) -> PartRows:
    table = found[0][0]
    entry = engine.coordinator.at_version(table.branch, table.manifest_version).entry(table.table_key)
    parts = [part for _, each in found for part in each]
    schema = table_schema(engine.type_of(table.table_key))
    explicit = any(each.explicit for each, _ in found)
    return PartRows(engine.storage, (entry.path, entry.branch), schema, parts, explicit=explicit)


def _take_rejects(engine: Engine, tables: list[tuple[RemoteTable, list[Part]]], rejects: Rejects | None) -> None:
    names = [part.rejects for _, parts in tables for part in parts if part.rejects is not None]
    if names and rejects is None:
        raise BadRequest("rows of this load were rejected", hint="publish it with a place for rejects")
    for name in names:
        assert rejects is not None
        rejects.add_noted(json.loads(line) for line in engine.objects.read_text(name).splitlines())
    if rejects is not None:
        rejects.mark()


def _published_before(engine: Engine, load_id: str, provenance: Provenance) -> LoadResult:
    """The result of a load whose files are gone because it was published."""
    assert provenance.idempotency_key is not None
    for branch in engine.coordinator.branches():
        found = find_published(engine, branch, provenance.idempotency_key)
        if found is not None:
            return LoadResult(branch, "append", {}, {}, found, replayed=True)
    raise _nothing_staged(load_id)


def _nothing_staged(load_id: str) -> NotFound:
    hint = "write at least one table with this load_id first"
    return NotFound(f"there is no staged load `{load_id}`", what="staged load", name=load_id, hint=hint)


def find_published(engine: Engine, branch: str, key: str) -> Commit | None:
    """The commit of a branch that was published under a key."""
    head = engine.coordinator.fresh(branch).head
    return None if head is None else engine.coordinator.journal.find_key(key, head.graph_commit_id)


def discard_remote(engine: Engine, load_id: str, *, keep_mark: bool = False) -> None:
    """Remove everything that was written under an id; what was published stays."""
    check_load_id(load_id)
    directory = f"{DIRECTORY}/{load_id}"
    kept: set[str] | None = set()
    if engine.objects.exists(f"{directory}/{_PUBLISHING}"):
        begun = _read(engine, f"{directory}/{_PUBLISHING}", dict)
        commit = find_published(engine, begun["branch"], begun["key"])
        # If it is not there, somebody may be publishing at this moment: files without an owner are less harm than a loss.
        keys = {table.table_key for table, _ in _tables(engine, load_id)}
        kept = None if commit is None else _referenced(engine, keys, commit)
    _sweep(engine, load_id, kept, keep_mark=keep_mark)


def remote_loads(engine: Engine) -> list[str]:
    """The ids of loads that wait to be published."""
    names = engine.objects.list_dir(DIRECTORY)
    return sorted(name for name in names if engine.objects.exists(f"{DIRECTORY}/{name}/{_BEGUN}"))


def _sweep(engine: Engine, load_id: str, kept: set[str] | None, *, keep_mark: bool = False) -> None:
    """Remove the files of attempts but those to keep (None: all of them), then what is known about the load."""
    directory = f"{DIRECTORY}/{load_id}"
    if kept is not None:
        notes = list(_attempts(engine, load_id, ""))
        _remove(engine, ({"files": [name for name in note["files"] if name not in kept]} for note in notes))
    if keep_mark:
        for name in engine.objects.list_dir(directory):
            if name != ABORTED:
                with suppress(OmnigraphError):
                    engine.objects.delete(f"{directory}/{name}")
    else:
        engine.objects.delete_prefix(directory)


def _remove(engine: Engine, notes: Iterable[Mapping[str, Any]]) -> None:
    """Best effort: a file that stays is one that nobody refers to."""
    for note in notes:
        for name in note["files"]:
            with suppress(OmnigraphError):
                engine.objects.delete(name)


def _referenced(engine: Engine, keys: Iterable[str], commit: Commit | None) -> set[str]:
    """The data files of tables that a commit shows."""
    if commit is None:
        return set()
    snapshot = engine.coordinator.at_commit(commit.graph_commit_id)
    found: set[str] = set()
    for key in keys:
        entry = snapshot.entry(key)
        parts = fragments(open_entry(engine, entry), "id")
        found |= {f"{table_name(entry.path, entry.branch)}/data/{file}" for part in parts for file in part.files}
    return found


def _begun(engine: Engine, load_id: str, wanted: dict[str, str]) -> dict[str, Any]:
    """What a load began with: what this write wants, if it is the first."""
    name = f"{DIRECTORY}/{load_id}/{_BEGUN}"
    engine.objects.write_text_if_absent(name, json.dumps({"format": _FORMAT, **wanted}))
    found: dict[str, Any] = _read(engine, name, dict)
    return found


def _tables(engine: Engine, load_id: str) -> list[tuple[RemoteTable, list[Part]]]:
    directory = f"{DIRECTORY}/{load_id}"
    names = sorted(name for name in engine.objects.list_dir(directory) if re.fullmatch(r"table-\w+\.json", name))

    def table(entry: Any) -> tuple[RemoteTable, list[Part]]:
        return RemoteTable.from_dict(entry["table"]), [Part.from_dict(part) for part in entry["parts"]]

    return [_read(engine, f"{directory}/{name}", table) for name in names]


def _attempts(engine: Engine, load_id: str, save_id: str) -> Iterator[dict[str, Any]]:
    directory = f"{DIRECTORY}/{load_id}"
    for name in engine.objects.list_dir(directory):
        if name.startswith(f"attempt-{save_id}"):
            yield _read(engine, f"{directory}/{name}", lambda entry: {"files": [str(each) for each in entry["files"]]})


def _read(engine: Engine, name: str, parse: Callable[[Any], Any]) -> Any:
    try:
        return parse(json.loads(engine.objects.read_text(name)))
    except (ValueError, KeyError, TypeError) as error:
        text = f"{name} does not describe a staged load: {error}"
        raise BadRequest(text, hint="run the job again with this release") from None
