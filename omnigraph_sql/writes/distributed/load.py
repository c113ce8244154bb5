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
    DataTestFailed,
    KeyConflict,
    NotFound,
    OmnigraphError,
    ValidationFailed,
    VersionReclaimed,
)
from omnigraph_sql.manifest.journal import Commit
from omnigraph_sql.manifest.snapshot import Entry
from omnigraph_sql.storage.columns import table_schema
from omnigraph_sql.storage.error_translation import LANCE_ERRORS
from omnigraph_sql.storage.fragments import fragment_infos
from omnigraph_sql.storage.handles import SnapshotHandle
from omnigraph_sql.storage.integrity import new_fragments
from omnigraph_sql.storage.table_names import table_name
from omnigraph_sql.storage.table_parts import data_files, fragments_of
from omnigraph_sql.storage.transactions import FILE_NAME
from omnigraph_sql.storage.verification import check_fragments
from omnigraph_sql.store.graph_store import STAGED, GraphStore
from omnigraph_sql.store.json_fields import Fields, is_table_branch, listed, parse, text
from omnigraph_sql.table_keys import TableKey
from omnigraph_sql.writes.distributed.parts import LoadPart, PartRows
from omnigraph_sql.writes.distributed.table import ABORTED, BEGUN, SOURCE_COLUMN, DistributedTable, remove_files
from omnigraph_sql.writes.load.loads import Incoming, LoadResult, check_mode, prepare_incoming
from omnigraph_sql.writes.load.rejects import Rejects
from omnigraph_sql.writes.load.spool import Workspace
from omnigraph_sql.writes.load.stage import Step, stage_prepared
from omnigraph_sql.writes.load.staged_load import StagedLoad, check_load_id, staged_handle
from omnigraph_sql.writes.operation import Provenance
from omnigraph_sql.writes.protocol import Review, execute
from omnigraph_sql.writes.readers import PlacedTable, check_table, type_named
from omnigraph_sql.writes.readers.tables import ROWS

_DAY = 86_400
_FORMAT = 1
_PUBLISHING = "publishing.json"


# The beginning, where the job is started -----------------------------------------------------------------------------


def begin_table(
    store: GraphStore,
    load_id: str,
    type_name: str,
    columns: pa.Schema,
    *,
    mode: str,
    branch: str,
    collects: bool = False,
    origins: tuple[str, ...] | None = None,
    is_text: bool = False,
) -> DistributedTable:
    """Look at everything that can be wrong before any task works, and note what the load is based on."""
    checked = check_mode(mode)
    check_load_id(load_id)
    name = store.coordinator.require(branch)
    _forget_marks(store)
    type_ = type_named(store.catalog, type_name)
    key = TableKey.of_type(type_)
    empty = pa.schema([column for column in columns if column.name != SOURCE_COLUMN]).empty_table()
    check_table(key, empty if origins is None else PlacedTable(empty.to_reader(), is_text), store.catalog)
    snapshot = store.coordinator.fresh(name)
    snapshot.entry(key)
    begun = _begun(store, load_id, {"branch": name, "mode": checked})
    for word, value in (("branch", name), ("mode", checked)):
        if begun[word] != value:
            text = f"the load `{load_id}` has the {word} `{begun[word]}`, and this write wants `{value}`"
            raise BadRequest(text, hint=f"use one {word} for all writes of a load, or another load_id")
    return DistributedTable(
        load_id=load_id,
        table_key=key,
        branch=name,
        mode=checked,
        schema_hash=store.catalog.schema_hash,
        manifest_version=snapshot.manifest_version,
        save_id=ulid.new(),
        explicit="id" in columns.names and not _is_keyed(type_),
        collects=collects,
        origins=origins,
        is_text=is_text,
    )


def _forget_marks(store: GraphStore) -> None:
    """Remove the marks of loads that were given up a day ago: no task of theirs is still at work."""
    long_ago = ulid.first_of(time.time() - _DAY)
    for name in store.objects.list_dir(STAGED):
        is_old = ulid.is_ulid(name) and name < long_ago
        if is_old and store.objects.list_dir(f"{STAGED}/{name}") == [ABORTED]:
            store.objects.delete_prefix(f"{STAGED}/{name}")


def _is_keyed(type_: NodeType | EdgeType) -> bool:
    return isinstance(type_, NodeType) and type_.key is not None


# The end, where the job was started ----------------------------------------------------------------------------------


def finish_table(store: GraphStore, table: DistributedTable, parts: Iterable[LoadPart]) -> None:
    """All tasks of a write have succeeded, and these are the parts that count."""
    kept = sorted(parts, key=lambda part: part.number)
    entry = {"table": table.to_dict(), "parts": [asdict(part) for part in kept]}
    store.objects.write_text(f"{table.directory}/table-{table.save_id}.json", json.dumps(entry))


def forget_tables(store: GraphStore, load_id: str) -> None:
    """Nothing that was written under an id so far counts any more; its files are removed when the load is published."""
    directory = f"{STAGED}/{load_id}"
    for name in store.objects.list_dir(directory):
        if name.startswith("table-") or name == _PUBLISHING:
            store.objects.delete(f"{directory}/{name}")


def table_names(store: GraphStore, load_id: str) -> set[str]:
    """The names of the records of committed writes."""
    return {name for name in store.objects.list_dir(f"{STAGED}/{load_id}") if name.startswith("table-")}


def keep_tables(store: GraphStore, load_id: str, kept: set[str]) -> None:
    """Of all writes only these count; the files of the others are removed when the load is published."""
    for name in table_names(store, load_id) - kept:
        store.objects.delete(f"{STAGED}/{load_id}/{name}")


def abort_table(store: GraphStore, table: DistributedTable, *, whole: bool) -> None:
    """The tasks of a write have failed: remove what they wrote. `whole` gives up the load as well."""
    notes = list(_attempts(store, table.load_id, table.save_id))
    if whole:
        store.objects.write_text(f"{table.directory}/{ABORTED}", "")
        discard_remote(store, table.load_id, keep_mark=True)
    else:
        remove_files(store, notes)


def publish_remote(
    store: GraphStore,
    load_id: str,
    provenance: Provenance,
    rejects: Rejects | None = None,
    review: Review = None,
) -> LoadResult:
    """Check and publish everything that was written under an id as one commit; once, however often it is called."""
    keyed = replace(provenance, idempotency_key=provenance.idempotency_key or key_of(load_id))
    tables = _tables(store, load_id)
    if not tables:
        return _published_before(store, load_id, keyed)
    first = tables[0][0]
    keys = {table.table_key for table, _ in tables}
    commit = find_published(store, first.branch, str(keyed.idempotency_key))
    if commit is not None:
        _sweep(store, load_id, _referenced(store, keys, commit))
        return LoadResult(branch=first.branch, mode=first.mode, nodes={}, edges={}, commit=commit, replayed=True)
    incoming = _incoming(store, load_id, tables, rejects)
    mark = json.dumps({"branch": first.branch, "key": keyed.idempotency_key})
    store.objects.write_text(f"{STAGED}/{load_id}/{_PUBLISHING}", mark)
    failpoints.hit("remote.before_publish")
    try:
        with Workspace() as workspace:
            prepare = prepare_incoming(store, incoming, workspace, mode=first.mode, branch=first.branch)
            outcome = execute(store, first.branch, prepare, keyed, review=review)
    except (ValidationFailed, KeyConflict, BadRequest, NotFound, DataTestFailed):
        store.objects.delete(f"{STAGED}/{load_id}/{_PUBLISHING}")  # raised before anything was touched
        raise
    failpoints.hit("remote.after_publish")
    _sweep(store, load_id, _referenced(store, keys, outcome.commit))
    return replace(outcome.result, commit=outcome.commit, replayed=outcome.replayed)


def stage_remote(
    store: GraphStore,
    load_id: str,
    provenance: Provenance,
    rejects: Rejects | None = None,
    on_step: Callable[[Step], None] = lambda _: None,
) -> StagedLoad:
    """Check everything that was written under an id and make it a staged load, which takes its place."""
    tables = _tables(store, load_id)
    if not tables:
        raise _nothing_staged(load_id)
    first = tables[0][0]
    incoming = _incoming(store, load_id, tables, rejects)
    with Workspace() as workspace:
        prepare = prepare_incoming(store, incoming, workspace, mode=first.mode, branch=first.branch)
        staged = stage_prepared(store, first.branch, prepare, provenance, on_step)
    _sweep(store, load_id, set(staged_files(staged)))
    return staged


def staged_files(staged: StagedLoad) -> Iterator[str]:
    """The data files that a staged load refers to."""
    for table in staged.tables:
        if table.staged is not None:
            handle = staged_handle(table)
            entries = [fragment.to_json() for fragment in new_fragments(handle._transaction.operation)]
            yield from data_files(handle.path, handle.branch, entries)


def _incoming(
    store: GraphStore, load_id: str, tables: list[tuple[DistributedTable, list[LoadPart]]], rejects: Rejects | None
) -> Incoming:
    stale = [table for table, _ in tables if table.schema_hash != store.catalog.schema_hash]
    if stale:
        text = f"the schema of the graph has changed since {stale[0].table_key} of the load `{load_id}` was written"
        raise Conflict(text, reason="schema changed", hint="run the job again")
    incoming = Incoming(ROWS, rejects)
    for key in sorted({table.table_key for table, _ in tables}):
        rows = _rows(store, [pair for pair in tables if pair[0].table_key == key])
        incoming.spools[key] = rows
        incoming.sources[key] = rows.source_of
    if rejects is not None:
        rejects.read += sum(part.rows + part.rejected for _, parts in tables for part in parts)
    _take_rejects(store, tables, rejects)
    return incoming


def _rows(store: GraphStore, shares: list[tuple[DistributedTable, list[LoadPart]]]) -> PartRows:
    table = shares[0][0]
    entry = store.coordinator.at_version(table.branch, table.manifest_version).entry(table.table_key)
    parts = [part for _, parts_of_table in shares for part in parts_of_table]
    schema = table_schema(store.type_of(table.table_key))
    _check_parts(store, entry, parts)
    explicit = any(share.explicit for share, _ in shares)
    return PartRows(store.storage, (entry.path, entry.branch), schema, parts, explicit=explicit)


def _check_parts(store: GraphStore, entry: Entry, parts: list[LoadPart]) -> None:
    """Open every file that a task wrote: a version that names one which is not what it should be could never be read."""
    try:
        written = fragments_of(fragment for part in parts for fragment in part.fragments)
    except (*LANCE_ERRORS, KeyError, TypeError) as error:
        message = f"what a task wrote to {entry.table_key} is no fragment: {error}"
        raise BadRequest(message, hint="run the job again") from None
    if written:
        check_fragments(store.storage, _lineage(store, entry), written)
    for part in parts:
        held = sum(fragment["physical_rows"] for fragment in part.fragments)
        if part.spool is None and held != part.rows:
            message = f"a task wrote {held} rows to {entry.table_key}, and says {part.rows}"
            raise BadRequest(message, hint="run the job again")


def _lineage(store: GraphStore, entry: Entry) -> SnapshotHandle:
    try:
        return store.storage.open(entry)
    except VersionReclaimed:
        return store.storage.open_head(entry.path, entry.branch)


def _take_rejects(store: GraphStore, tables: list[tuple[DistributedTable, list[LoadPart]]], rejects: Rejects | None) -> None:
    names = [part.rejects for _, parts in tables for part in parts if part.rejects is not None]
    if names and rejects is None:
        raise BadRequest("rows of this load were rejected", hint="publish it with a place for rejects")
    for name in names:
        assert rejects is not None
        rejects.add_noted(json.loads(line) for line in store.objects.read_text(name).splitlines())
    if rejects is not None:
        rejects.mark()


def _published_before(store: GraphStore, load_id: str, provenance: Provenance) -> LoadResult:
    """The result of a load whose files are gone because it was published."""
    assert provenance.idempotency_key is not None
    for branch in store.coordinator.branches():
        commit = find_published(store, branch, provenance.idempotency_key)
        if commit is not None:
            return LoadResult(branch=branch, mode="append", nodes={}, edges={}, commit=commit, replayed=True)
    raise _nothing_staged(load_id)


def _nothing_staged(load_id: str) -> NotFound:
    hint = "write at least one table with this load_id first"
    return NotFound(f"there is no staged load `{load_id}`", what="staged load", name=load_id, hint=hint)


def check_unpublished(store: GraphStore, load_id: str, branch: str) -> None:
    """Raise if a load of this id was published: what is written under it now would never be."""
    commit = find_published(store, store.coordinator.require(branch), key_of(load_id))
    if commit is not None:
        text = f"the load `{load_id}` was published already, as commit {commit.graph_commit_id}"
        raise Conflict(text, reason="published", hint="use another load_id: an id names one load, and is published once")


def key_of(load_id: str) -> str:
    """The idempotency key of a load unless another one is given."""
    return f"load:{check_load_id(load_id)}"


def find_published(store: GraphStore, branch: str, key: str) -> Commit | None:
    """The commit of a branch that was published under a key."""
    head = store.coordinator.fresh(branch).head
    return None if head is None else store.coordinator.journal.find_key(key, head.graph_commit_id)


def discard_remote(store: GraphStore, load_id: str, *, keep_mark: bool = False) -> None:
    """Remove everything that was written under an id; what was published stays."""
    check_load_id(load_id)
    directory = f"{STAGED}/{load_id}"
    kept: set[str] | None = set()
    if store.objects.exists(f"{directory}/{_PUBLISHING}"):
        begun = _read(store, f"{directory}/{_PUBLISHING}", lambda entry: _texts(entry, "branch", "key"))
        commit = find_published(store, begun["branch"], begun["key"])
        # If it is not there, another process may be publishing now: files without an owner do less harm than a loss.
        keys = {table.table_key for table, _ in _tables(store, load_id)}
        kept = None if commit is None else _referenced(store, keys, commit)
    _sweep(store, load_id, kept, keep_mark=keep_mark)


def remote_loads(store: GraphStore) -> list[str]:
    """Return the ids of unpublished loads."""
    names = store.objects.list_dir(STAGED)
    return sorted(name for name in names if store.objects.exists(f"{STAGED}/{name}/{BEGUN}"))


def _sweep(store: GraphStore, load_id: str, kept: set[str] | None, *, keep_mark: bool = False) -> None:
    """Remove the files of attempts but those to keep (None: all of them), then what is known about the load."""
    directory = f"{STAGED}/{load_id}"
    if kept is not None:
        notes = list(_attempts(store, load_id, ""))
        remove_files(store, ({"files": [name for name in note["files"] if name not in kept]} for note in notes))
    if keep_mark:
        for name in store.objects.list_dir(directory):
            if name != ABORTED:
                with suppress(OmnigraphError):
                    store.objects.delete(f"{directory}/{name}")
    else:
        store.objects.delete_prefix(directory)


def _referenced(store: GraphStore, keys: Iterable[str], commit: Commit | None) -> set[str] | None:
    """The data files of tables that a commit shows; None if a cleanup has removed the commit's version."""
    if commit is None:
        return set()
    snapshot = store.coordinator.at_commit(commit.graph_commit_id)
    names: set[str] = set()
    for key in keys:
        entry = snapshot.entry(key)
        try:
            parts = fragment_infos(store.storage.open(entry), "id")
        except VersionReclaimed:
            return None
        names |= {f"{table_name(entry.path, entry.branch)}/data/{file}" for part in parts for file in part.files}
    return names


def _begun(store: GraphStore, load_id: str, wanted: dict[str, str]) -> dict[str, Any]:
    """The recorded settings of a load: those of this write, if it is the first."""
    name = f"{STAGED}/{load_id}/{BEGUN}"
    store.objects.write_text_if_absent(name, json.dumps({"format": _FORMAT, **wanted}))
    texts: dict[str, str] = _read(store, name, lambda entry: _texts(entry, *wanted))
    return texts


def _texts(entry: Any, *names: str) -> dict[str, str]:
    fields = Fields(entry, "the note")
    return {name: fields.read(name, text) for name in names}


def _tables(store: GraphStore, load_id: str) -> list[tuple[DistributedTable, list[LoadPart]]]:
    directory = f"{STAGED}/{load_id}"
    names = sorted(name for name in store.objects.list_dir(directory) if re.fullmatch(r"table-\w+\.json", name))

    def table(entry: Any) -> tuple[DistributedTable, list[LoadPart]]:
        fields = Fields(entry, "a write of the load")
        pair = fields.read("table", DistributedTable.from_dict), list(fields.read("parts", listed(LoadPart.from_dict)))
        _check_places(load_id, *pair)
        return pair

    return [_read(store, f"{directory}/{name}", table) for name in names]


def _check_places(load_id: str, table: DistributedTable, parts: list[LoadPart]) -> None:
    """Check that the files a task names lie below the load's directory: they are read, and removed afterwards."""
    if table.load_id != load_id:
        raise ValueError(f"it is of the load {table.load_id}")
    replaced = [None if part.joined is None else part.joined.replaced for part in parts]
    for name in [*replaced, *(part.spool for part in parts), *(part.rejects for part in parts)]:
        if name is not None and not _is_of(load_id, name):
            raise ValueError("it names rows outside of its directory")


def _is_of(load_id: str, name: str) -> bool:
    """True if a file is one of a load: below its directory, or right below the data of a table."""
    return bool(re.fullmatch(rf"{STAGED}/{re.escape(load_id)}/[\w-]+\.\w+", name))


def _is_noted(load_id: str, name: str) -> bool:
    """True if a file is one that a task of a load may have written."""
    place, _, file = name.rpartition("/data/")
    is_data = re.fullmatch(r"(?:nodes|edges)/[0-9a-f]{16}(?:/tree/(?P<branch>.+))?", place)
    if is_data is None or not FILE_NAME.fullmatch(file):
        return _is_of(load_id, name)
    return is_data["branch"] is None or is_table_branch(is_data["branch"])


def _attempts(store: GraphStore, load_id: str, save_id: str) -> Iterator[dict[str, Any]]:
    directory = f"{STAGED}/{load_id}"
    for name in store.objects.list_dir(directory):
        if name.startswith(f"attempt-{save_id}"):
            files = _read(store, f"{directory}/{name}", _attempted)
            yield {"files": [file for file in files if _is_noted(load_id, file)]}


def _attempted(entry: Any) -> tuple[str, ...]:
    """The files that an attempt wrote."""
    return Fields(entry, "an attempt").read("files", listed(text))


def _read(store: GraphStore, name: str, read: Callable[[Any], Any]) -> Any:
    try:
        return read(parse(store.objects.read_text(name)))
    except (ValueError, KeyError, TypeError) as error:
        text = f"{name} does not describe a staged load: {error}"
        raise BadRequest(text, hint="run the job again with this release") from None
