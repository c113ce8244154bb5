"""Records of staged loads that are not published yet, so that another process can take over or remove them."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from omnigraph_sql import ulid
from omnigraph_sql.errors import BadRequest, NotFound, VersionReclaimed
from omnigraph_sql.storage.garbage import named_files
from omnigraph_sql.storage.preview_versions import drop_views, remove_staged
from omnigraph_sql.store.graph_store import STAGED, GraphStore
from omnigraph_sql.store.json_fields import Fields, parse, text, whole
from omnigraph_sql.store.owners import Owner, this_process
from omnigraph_sql.writes.load.staged_load import StagedLoad, staged_handle

_RECORD = "load.json"
_TAKEN = "taken-"


@dataclass(frozen=True)
class Abandoned:
    """A recorded load whose process has ended."""

    load: StagedLoad
    notes: Any
    """The notes of its record."""
    turn: int
    """How often it was taken over."""


def record(store: GraphStore, staged: StagedLoad, notes: Any = None, turn: int = 0) -> None:
    """Record a staged load, so that another process can take it over or remove it if this one dies before publishing."""
    entry = {"owner": asdict(this_process()), "load": staged.to_json(), "notes": notes, "turn": turn}
    store.objects.write_text(f"{STAGED}/{staged.load_id}/{_RECORD}", json.dumps(entry))


def abandoned(store: GraphStore, idempotency_key: str) -> list[Abandoned]:
    """Recorded loads of an idempotency key whose processes have ended without publishing them."""
    loads = []
    for load_id in store.objects.list_dir(STAGED):
        try:
            entry = Fields(parse(store.objects.read_text(f"{STAGED}/{load_id}/{_RECORD}")), "the record")
            owner = entry.read("owner", Owner.read)
            staged = entry.read("load", lambda load: StagedLoad.from_json(text(load)))
            candidate = Abandoned(staged, entry.get("notes", lambda notes: notes, None), entry.get("turn", whole, 0))
        except (NotFound, BadRequest, ValueError):
            continue  # another writer's, or of another release
        if staged.load_id != load_id:
            continue
        if staged.provenance.idempotency_key == idempotency_key and owner is not None and owner.is_gone:
            loads.append(candidate)
    return loads


def take_over(store: GraphStore, candidate: Abandoned) -> bool:
    """Make an abandoned load this process's own; False if another one was first, or the branch has moved on since."""
    base = candidate.load.base
    try:
        now = store.coordinator.fresh(base.branch)
    except NotFound:
        return False
    if (now.commit_id, now.incarnation) != (base.graph_commit_id, base.incarnation):
        return False
    if not store.objects.write_text_if_absent(f"{STAGED}/{candidate.load.load_id}/{_TAKEN}{candidate.turn}", ulid.new()):
        return False
    record(store, candidate.load, candidate.notes, candidate.turn + 1)
    _drop_views(store, candidate.load)
    return True


def discard(store: GraphStore, staged: StagedLoad) -> None:
    """Remove everything that staging a load left. What was published meanwhile stays."""
    _drop_views(store, staged)
    for table in staged.tables:
        if table.staged is not None:
            with suppress(NotFound):
                handle = staged_handle(table)
                # A text from elsewhere may name any file of the table: those that a version has stay.
                kept = frozenset[str]() if staged.is_own else named_files(store.storage, handle.path)
                remove_staged(store.storage, handle, kept)
    store.objects.delete_prefix(f"{STAGED}/{staged.load_id}")


def _drop_views(store: GraphStore, staged: StagedLoad) -> None:
    """Remove what was made to look at a staged load."""
    for table in staged.tables:
        with suppress(NotFound, VersionReclaimed):  # the branch may be gone, and its files with it
            entry = store.coordinator.at_version(staged.branch, staged.base.manifest_version).entry(table.table_key)
            drop_views(store.storage, entry.path, entry.branch, staged.load_id)
