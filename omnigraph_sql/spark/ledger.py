"""The ledger of a pipeline on Spark: notes of written targets beside the load, so that a later run can resume a killed one.

A target is finished when its note exists. A write without a note is forgotten, and repeated.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from omnigraph_sql import failpoints, ulid
from omnigraph_sql.errors import OmnigraphError
from omnigraph_sql.store.graph_store import STAGED, GraphStore
from omnigraph_sql.store.json_fields import Fields, listed, parse, text, whole
from omnigraph_sql.store.owners import Owner, this_process
from omnigraph_sql.writes.distributed.load import discard_remote, keep_tables, table_names
from omnigraph_sql.writes.load.staged_load import check_load_id

_RUN = "run.json"
_TAKEN_OVER = "taken-"


@dataclass(frozen=True)
class FinishedTarget:
    """The note of a target that was written."""

    seen: int
    """The number of rows of its source."""
    malformed: int
    mapped: int
    """The number of mapped rows, malformed ones included."""
    tables: tuple[str, ...]
    """The names of the tables that its write added to the load."""


class Ledger:
    """The notes of one run."""

    def __init__(self, store: GraphStore, load_id: str, done: dict[int, FinishedTarget]) -> None:
        self.load_id = load_id
        self.done = done
        self._store = store
        self._written = table_names(store, load_id)

    def note(self, number: int, seen: int, malformed: int, mapped: int) -> None:
        """Note that a target was written. The tables added to the load since the last note belong to it."""
        written = table_names(self._store, self.load_id)
        finished = FinishedTarget(seen, malformed, mapped, tuple(sorted(written - self._written)))
        self._written, self.done[number] = written, finished
        failpoints.hit("pipeline.pre_note")
        self._store.objects.write_text(f"{STAGED}/{self.load_id}/done-{number}.json", json.dumps(asdict(finished)))
        failpoints.hit("pipeline.post_target")


def open_ledger(store: GraphStore, identity: list[str] | None) -> Ledger:
    """Reopen the ledger of a killed run with this identity, or create one. Discards other killed runs with its key."""
    if identity is None:
        return Ledger(store, ulid.new(), {})
    for load_id, entry in list(_abandoned(store)):
        if entry["identity"] == identity and _take_over(store, load_id, entry):
            return _reopen(store, load_id)
        if entry["identity"][0] == identity[0]:
            discard_remote(store, load_id)
    load_id = ulid.new()
    _write_run(store, load_id, identity, 0)
    return Ledger(store, load_id, {})


def _write_run(store: GraphStore, load_id: str, identity: list[str], turn: int) -> None:
    entry = {"owner": asdict(this_process()), "identity": identity, "turn": turn}
    store.objects.write_text(f"{STAGED}/{load_id}/{_RUN}", json.dumps(entry))


def _abandoned(store: GraphStore) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the ids and entries of runs whose processes have ended."""
    for load_id in sorted(store.objects.list_dir(STAGED)):
        with suppress(OmnigraphError, ValueError):  # not a run, or a run of another release
            check_load_id(load_id)
            entry = Fields(parse(store.objects.read_text(f"{STAGED}/{load_id}/{_RUN}")), "the run")
            owner, identity = entry.read("owner", Owner.read), list(entry.read("identity", listed(text)))
            if owner is not None and owner.is_gone and identity:
                yield load_id, {"identity": identity, "turn": entry.read("turn", whole)}


def _take_over(store: GraphStore, load_id: str, entry: dict[str, Any]) -> bool:
    """Make this process the owner of a run; False if another process was first."""
    turn = entry["turn"]
    if not store.objects.write_text_if_absent(f"{STAGED}/{load_id}/{_TAKEN_OVER}{turn}", ulid.new()):
        return False
    _write_run(store, load_id, entry["identity"], turn + 1)
    return True


def _read_note(document: str) -> FinishedTarget:
    entry = Fields(parse(document), "the note")
    return FinishedTarget(
        entry.read("seen", whole),
        entry.read("malformed", whole),
        entry.read("mapped", whole),
        entry.read("tables", listed(text)),
    )


def _reopen(store: GraphStore, load_id: str) -> Ledger:
    directory = f"{STAGED}/{load_id}"
    done = {}
    for name in store.objects.list_dir(directory):
        if name.startswith("done-"):
            with suppress(ValueError):  # a damaged note counts as none: the target is written again
                number = int(name.removeprefix("done-").removesuffix(".json"))
                done[number] = _read_note(store.objects.read_text(f"{directory}/{name}"))
    keep_tables(store, load_id, {name for finished in done.values() for name in finished.tables})
    return Ledger(store, load_id, done)
