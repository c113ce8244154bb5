"""What is no table and may go: staged loads that nobody publishes any more, and derived files that nobody asks for."""

from __future__ import annotations

import json
from collections.abc import Mapping, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omnigraph_sql.errors import NotFound
from omnigraph_sql.maintenance.retention import Live
from omnigraph_sql.search.forms import TEXT, VECTOR
from omnigraph_sql.topology import building, ids
from omnigraph_sql.topology.shelf import version_of
from omnigraph_sql.writes.engine import Engine
from omnigraph_sql.writes.staged import DIRECTORY as STAGED


@dataclass(frozen=True)
class StagedLoads:
    """The directories of staged loads: those that are too old, with their size, and the files that the others wait for."""

    outdated: tuple[str, ...]
    size: int
    files: int
    protected: frozenset[str]


def staged_loads(engine: Engine, before: float) -> StagedLoads:
    """Look at the staged loads. One in which anything was written since `before` is somebody's."""
    sizes: dict[str, list[int]] = {}
    newest: dict[str, float] = {}
    notes: dict[str, list[str]] = {}
    for each in engine.objects.walk(STAGED):
        load_id, _, name = each.name.removeprefix(f"{STAGED}/").partition("/")
        sizes.setdefault(load_id, []).append(each.size)
        newest[load_id] = max(newest.get(load_id, 0.0), each.modified)
        if name.startswith("attempt-"):
            notes.setdefault(load_id, []).append(each.name)
    old = sorted(load_id for load_id, modified in newest.items() if modified < before)
    kept = [name for load_id, names in notes.items() if load_id not in old for name in names]
    return StagedLoads(
        tuple(old),
        sum(sum(sizes[load_id]) for load_id in old),
        sum(len(sizes[load_id]) for load_id in old),
        frozenset(file for name in kept for file in _noted_files(engine, name)),
    )


def _noted_files(engine: Engine, name: str) -> list[str]:
    """The files that a task of a load says it wrote. A long job goes on with them after the grace of the first is over."""
    try:
        return [str(each) for each in json.loads(engine.objects.read_text(name))["files"]]
    except (NotFound, ValueError, KeyError, TypeError):
        return []


def discard_staged(engine: Engine, found: StagedLoads) -> None:
    """Remove the directories of loads that are too old."""
    for load_id in found.outdated:
        engine.objects.delete_prefix(f"{STAGED}/{load_id}")


def unneeded_files(engine: Engine, live: Live, kept: Mapping[str, Set[str]]) -> list[tuple[Path, int]]:
    """Derived files, with their sizes, that no branch needs.

    What belongs to a version of a table goes unless a branch shows it; what belongs to fragments goes with their files.
    `kept` are the data files that stay, by path; a table that is missing there keeps everything.
    """
    shown = {version_of(entry) for entry in live.entries}

    def is_needed(kind: str, key: str) -> bool:
        try:
            return _is_needed(kind, json.loads(key), shown, kept)
        except (ValueError, KeyError, TypeError, IndexError):
            return False  # nobody asks for such a key

    return engine.storage.derived.unneeded(is_needed)


def _is_needed(kind: str, key: Any, shown: Set[Any], kept: Mapping[str, Set[str]]) -> bool:
    if kind == ids.KIND:
        return tuple(key) in shown
    if kind == building.KIND:
        return all(tuple(version) in shown for _, *version in key)
    if kind in (TEXT.kind, VECTOR.kind):
        files = kept.get(key["table"])
        return files is None or all(file in files for _, _, _, *names in key["fragments"] for file in names)
    return True
