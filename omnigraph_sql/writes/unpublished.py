"""Staged loads that are not published: looking at them, and removing those that never will be."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from types import MappingProxyType
from typing import Any

from omnigraph_sql.errors import BadRequest, NotFound, VersionReclaimed
from omnigraph_sql.manifest.snapshot import Entry, Snapshot
from omnigraph_sql.storage.detached import commit_view, drop_view, drop_views, remove_staged
from omnigraph_sql.storage.handles import SnapshotHandle, StagedHandle
from omnigraph_sql.writes.delta import TableRows
from omnigraph_sql.writes.engine import Engine
from omnigraph_sql.writes.operation import TableWrite
from omnigraph_sql.writes.owners import Owner, this_process
from omnigraph_sql.writes.spool import Workspace
from omnigraph_sql.writes.staged import DIRECTORY, StagedLoad, StagedTable
from omnigraph_sql.writes.staging import open_entry, stage_write

_RECORD = "load.json"
_TAKEN = "taken-"


@contextmanager
def staged_snapshot(engine: Engine, staged: StagedLoad) -> Iterator[Snapshot]:
    """What the branch will show once a staged load is published. No head moves, and nothing of it stays."""
    base = engine.coordinator.at_version(staged.branch, staged.base.manifest_version)
    views: list[SnapshotHandle] = []
    try:
        entries = dict(base.entries)
        for table in staged.tables:
            entries[table.table_key] = _shown(engine, base.entry(table.table_key), staged.load_id, table, views)
        yield replace(base, entries=MappingProxyType(entries))
    finally:
        for view in views:
            drop_view(engine.storage, view)


def _shown(engine: Engine, entry: Entry, load_id: str, table: StagedTable, views: list[SnapshotHandle]) -> Entry:
    handle = open_entry(engine, entry)
    if table.staged is not None:
        write = StagedHandle.from_dict(table.staged)
        view = commit_view(engine.storage, handle, write, load_id, owns_files=False)
    else:
        # The table is forked when the load is published. Until then its rows are laid over those of the table it forks from.
        assert table.spool is not None
        with Workspace() as workspace:
            rows = TableRows.put(engine.storage.read_spool(table.spool), workspace)
            write = stage_write(engine, handle, TableWrite(table.table_key, table.operation, rows=rows), load_id)
        view = commit_view(engine.storage, handle, write, load_id, owns_files=True)
    views.append(view)
    count = engine.storage.count(view)
    return replace(entry, version=view.version, row_count=count, transaction_uuid=f"view-{view.version}")


@dataclass(frozen=True)
class Abandoned:
    """A recorded load whose process has ended."""

    load: StagedLoad
    notes: Any
    """What was noted about it."""
    turn: int
    """How often somebody took it over."""


def record(engine: Engine, staged: StagedLoad, notes: Any = None, turn: int = 0) -> None:
    """Write down what was staged, so that others can go on or remove it if this process does not live to publish it."""
    entry = {"owner": asdict(this_process()), "load": staged.to_json(), "notes": notes, "turn": turn}
    engine.objects.write_text(f"{DIRECTORY}/{staged.load_id}/{_RECORD}", json.dumps(entry))


def abandoned(engine: Engine, idempotency_key: str) -> list[Abandoned]:
    """Recorded loads of a key whose processes have ended, so that nobody will publish them."""
    found = []
    for load_id in engine.objects.list_dir(DIRECTORY):
        try:
            entry = json.loads(engine.objects.read_text(f"{DIRECTORY}/{load_id}/{_RECORD}"))
            owner, staged = Owner.read(entry["owner"]), StagedLoad.from_json(entry["load"])
            made = Abandoned(staged, entry.get("notes"), int(entry.get("turn", 0)))
        except (NotFound, BadRequest, ValueError, KeyError, TypeError):
            continue  # another writer's, or of another release
        if staged.provenance.idempotency_key == idempotency_key and owner is not None and owner.is_gone:
            found.append(made)
    return found


def take_over(engine: Engine, found: Abandoned) -> bool:
    """Make an abandoned load this process's own; False if another one was first, or the branch has moved on since."""
    base = found.load.base
    try:
        now = engine.coordinator.fresh(base.branch)
    except NotFound:
        return False
    if (now.commit_id, now.incarnation) != (base.graph_commit_id, base.incarnation):
        return False
    if not engine.objects.write_text_if_absent(f"{DIRECTORY}/{found.load.load_id}/{_TAKEN}{found.turn}", ""):
        return False
    record(engine, found.load, found.notes, found.turn + 1)
    _drop_views(engine, found.load)
    return True


def discard(engine: Engine, staged: StagedLoad) -> None:
    """Remove everything that staging a load left. What was published meanwhile stays."""
    _drop_views(engine, staged)
    for table in staged.tables:
        if table.staged is not None:
            with suppress(NotFound):
                remove_staged(engine.storage, StagedHandle.from_dict(table.staged))
    engine.objects.delete_prefix(f"{DIRECTORY}/{staged.load_id}")


def _drop_views(engine: Engine, staged: StagedLoad) -> None:
    """Remove what was made to look at a staged load."""
    for table in staged.tables:
        with suppress(NotFound, VersionReclaimed):  # the branch may be gone, and its files with it
            entry = engine.coordinator.at_version(staged.branch, staged.base.manifest_version).entry(table.table_key)
            drop_views(engine.storage, entry.path, entry.branch, staged.load_id)
