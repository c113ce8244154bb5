"""What a pipeline on Spark has written so far, noted beside its load: if it is killed, another process can go on.

A target counts when its note is there. A write that ended before its note was made is forgotten, and done again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from omnigraph_sql import failpoints, ulid
from omnigraph_sql.errors import OmnigraphError
from omnigraph_sql.writes.engine import Engine
from omnigraph_sql.writes.owners import Owner, this_process
from omnigraph_sql.writes.remote import discard_remote, keep_tables, table_names
from omnigraph_sql.writes.staged import DIRECTORY

_RUN = "run.json"
_TAKEN = "taken-"


@dataclass(frozen=True)
class Done:
    """A target that was written."""

    seen: int
    """Rows of its source."""
    malformed: int
    mapped: int
    """Rows that its mapping gave, malformed ones included."""
    tables: tuple[str, ...]
    """What was noted of its write."""


class Ledger:
    """The notes of one run."""

    def __init__(self, engine: Engine, load_id: str, done: dict[int, Done]) -> None:
        self.load_id = load_id
        self.done = done
        self._engine = engine
        self._written = table_names(engine, load_id)

    def note(self, number: int, seen: int, malformed: int, mapped: int) -> None:
        """A target was written: whatever came to the load since the last note is its own."""
        now = table_names(self._engine, self.load_id)
        made = Done(seen, malformed, mapped, tuple(sorted(now - self._written)))
        self._written, self.done[number] = now, made
        failpoints.hit("pipeline.pre_note")
        self._engine.objects.write_text(f"{DIRECTORY}/{self.load_id}/done-{number}.json", json.dumps(asdict(made)))
        failpoints.hit("pipeline.post_target")


def open_ledger(engine: Engine, identity: list[str] | None) -> Ledger:
    """The notes of a run that was killed and had all this in common, or new ones. Those of others with its key go."""
    if identity is None:
        return Ledger(engine, ulid.new(), {})
    for load_id, entry in list(_abandoned(engine)):
        if entry["identity"] == identity and _take(engine, load_id, entry):
            return _reopened(engine, load_id)
        if entry["identity"][0] == identity[0]:
            discard_remote(engine, load_id)
    load_id = ulid.new()
    _write_run(engine, load_id, identity, 0)
    return Ledger(engine, load_id, {})


def _write_run(engine: Engine, load_id: str, identity: list[str], turn: int) -> None:
    entry = {"owner": asdict(this_process()), "identity": identity, "turn": turn}
    engine.objects.write_text(f"{DIRECTORY}/{load_id}/{_RUN}", json.dumps(entry))


def _abandoned(engine: Engine) -> Iterator[tuple[str, dict[str, Any]]]:
    """Runs whose processes have ended."""
    for load_id in sorted(engine.objects.list_dir(DIRECTORY)):
        with suppress(OmnigraphError, ValueError, KeyError, TypeError):  # no run, or one of another release
            entry = json.loads(engine.objects.read_text(f"{DIRECTORY}/{load_id}/{_RUN}"))
            owner = Owner.read(entry["owner"])
            if owner is not None and owner.is_gone and isinstance(entry["identity"], list):
                yield load_id, entry


def _take(engine: Engine, load_id: str, entry: dict[str, Any]) -> bool:
    """Make a run this process's own; False if another one was first."""
    turn = int(entry["turn"])
    if not engine.objects.write_text_if_absent(f"{DIRECTORY}/{load_id}/{_TAKEN}{turn}", ""):
        return False
    _write_run(engine, load_id, entry["identity"], turn + 1)
    return True


def _reopened(engine: Engine, load_id: str) -> Ledger:
    directory = f"{DIRECTORY}/{load_id}"
    done = {}
    for name in engine.objects.list_dir(directory):
        if name.startswith("done-"):
            entry = json.loads(engine.objects.read_text(f"{directory}/{name}"))
            number = int(name.removeprefix("done-").removesuffix(".json"))
            done[number] = Done(entry["seen"], entry["malformed"], entry["mapped"], tuple(entry["tables"]))
    keep_tables(engine, load_id, {name for each in done.values() for name in each.tables})
    return Ledger(engine, load_id, done)
