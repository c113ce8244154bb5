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
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, replace
from typing import Any

import pyarrow as pa

from omnigraph_compiler import EdgeType, NodeType
from omnigraph_sql import failpoints, ulid
from omnigraph_sql.errors import (
    BadRequest,
    Conflict,
    KeyConflict,
    NotFound,
    OmnigraphError,
    ValidationFailed,
    VersionReclaimed,
)
from omnigraph_sql.manifest.journal import Commit
from omnigraph_sql.storage.columns import table_key, table_schema
from omnigraph_sql.storage.fragments import fragments
from omnigraph_sql.storage.handles import StagedHandle
from omnigraph_sql.storage.names import table_name
from omnigraph_sql.storage.parts import data_files
from omnigraph_sql.storage.wholeness import new_fragments
from omnigraph_sql.writes.engine import Engine
from omnigraph_sql.writes.load import Incoming, LoadResult, check_mode, prepare_incoming
from omnigraph_sql.writes.operation import Provenance
from omnigraph_sql.writes.parts import Part, PartRows
from omnigraph_sql.writes.protocol import execute
from omnigraph_sql.writes.reading import Placed, check_table, type_named
from omnigraph_sql.writes.reading.tables import ROWS
from omnigraph_sql.writes.rejects import Rejects
from omnigraph_sql.writes.remote_table import ABORTED, BEGUN, SOURCE_COLUMN, RemoteTable, remove_files
from omnigraph_sql.writes.spool import Workspace
from omnigraph_sql.writes.staged import DIRECTORY, StagedLoad, Step, check_load_id, stage_prepared
from omnigraph_sql.writes.staging import open_entry

_DAY = 86_400
_FORMAT = 1
_PUBLISHING = "publishing.json"


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


def table_names(engine: Engine, load_id: str) -> set[str]:
    """What was noted of writes that count."""
    return {name for name in engine.objects.list_dir(f"{DIRECTORY}/{load_id}") if name.startswith("table-")}


def keep_tables(engine: Engine, load_id: str, kept: set[str]) -> None:
    """Of all writes only these count; the files of the others are removed when the load is published."""
    for name in table_names(engine, load_id) - kept:
        engine.objects.delete(f"{DIRECTORY}/{load_id}/{name}")


def abort_table(engine: Engine, table: RemoteTable, *, whole: bool) -> None:
    """The tasks of a write have failed: remove what they wrote. `whole` gives up the load as well."""
    notes = list(_attempts(engine, table.load_id, table.save_id))
    if whole:
        engine.objects.write_text(f"{table.directory}/{ABORTED}", "")
        discard_remote(engine, table.load_id, keep_mark=True)
    else:
        remove_files(engine, notes)


def publish_remote(engine: Engine, load_id: str, provenance: Provenance, rejects: Rejects | None = None) -> LoadResult:
    """Check and publish everything that was written under an id as one commit; once, however often it is called."""
    given = replace(provenance, idempotency_key=provenance.idempotency_key or key_of(load_id))
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


def check_unpublished(engine: Engine, load_id: str, branch: str) -> None:
    """Raise if a load of this id was published: what is written under it now would never be."""
    known = find_published(engine, engine.coordinator.require(branch), key_of(load_id))
    if known is not None:
        text = f"the load `{load_id}` was published already, as commit {known.graph_commit_id}"
        raise Conflict(text, reason="published", hint="use another load_id: an id names one load, and is published once")


def key_of(load_id: str) -> str:
    """What a load is published under unless another key is given."""
    return f"load:{check_load_id(load_id)}"


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
    return sorted(name for name in names if engine.objects.exists(f"{DIRECTORY}/{name}/{BEGUN}"))


def _sweep(engine: Engine, load_id: str, kept: set[str] | None, *, keep_mark: bool = False) -> None:
    """Remove the files of attempts but those to keep (None: all of them), then what is known about the load."""
    directory = f"{DIRECTORY}/{load_id}"
    if kept is not None:
        notes = list(_attempts(engine, load_id, ""))
        remove_files(engine, ({"files": [name for name in note["files"] if name not in kept]} for note in notes))
    if keep_mark:
        for name in engine.objects.list_dir(directory):
            if name != ABORTED:
                with suppress(OmnigraphError):
                    engine.objects.delete(f"{directory}/{name}")
    else:
        engine.objects.delete_prefix(directory)


def _referenced(engine: Engine, keys: Iterable[str], commit: Commit | None) -> set[str] | None:
    """The data files of tables that a commit shows; None if a cleanup has removed it, so that nobody can tell."""
    if commit is None:
        return set()
    snapshot = engine.coordinator.at_commit(commit.graph_commit_id)
    found: set[str] = set()
    for key in keys:
        entry = snapshot.entry(key)
        try:
            parts = fragments(open_entry(engine, entry), "id")
        except VersionReclaimed:
            return None
        found |= {f"{table_name(entry.path, entry.branch)}/data/{file}" for part in parts for file in part.files}
    return found


def _begun(engine: Engine, load_id: str, wanted: dict[str, str]) -> dict[str, Any]:
    """What a load began with: what this write wants, if it is the first."""
    name = f"{DIRECTORY}/{load_id}/{BEGUN}"
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
