"""Leftovers beside the tables: abandoned staged loads, and derived files that no branch needs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omnigraph_sql.errors import NotFound
from omnigraph_sql.maintenance.retention import LiveVersions
from omnigraph_sql.search.search_forms import TEXT, VECTOR
from omnigraph_sql.store.graph_store import STAGED, GraphStore
from omnigraph_sql.topology import edge_topology, id_index
from omnigraph_sql.topology.derived_store import version_of


@dataclass(frozen=True)
class StagedLoadUse:
    """The use of storage by staged loads."""

    outdated: tuple[str, ...]
    """The ids of abandoned loads."""
    size: int
    """The bytes of abandoned loads."""
    files: int
    """The number of their files."""
    protected: frozenset[str]
    """The data files that the other loads will publish."""


def staged_loads(store: GraphStore, before: float) -> StagedLoadUse:
    """Survey the staged loads. A load to which nothing was written since `before` is abandoned."""
    sizes: dict[str, list[int]] = {}
    newest: dict[str, float] = {}
    notes: dict[str, list[str]] = {}
    for file in store.objects.walk(STAGED):
        load_id, _, name = file.name.removeprefix(f"{STAGED}/").partition("/")
        sizes.setdefault(load_id, []).append(file.size)
        newest[load_id] = max(newest.get(load_id, 0.0), file.modified)
        if name.startswith("attempt-"):
            notes.setdefault(load_id, []).append(file.name)
    old = sorted(load_id for load_id, modified in newest.items() if modified < before)
    live_notes = [name for load_id, names in notes.items() if load_id not in old for name in names]
    return StagedLoadUse(
        tuple(old),
        sum(sum(sizes[load_id]) for load_id in old),
        sum(len(sizes[load_id]) for load_id in old),
        frozenset(path for name in live_notes for path in _noted_files(store, name)),
    )


def _noted_files(store: GraphStore, name: str) -> list[str]:
    """Return the files that a task of a load has noted. In a long job the first of them are older than the grace period."""
    try:
        return [str(path) for path in json.loads(store.objects.read_text(name))["files"]]
    except (NotFound, ValueError, KeyError, TypeError, RecursionError):
        return []


def discard_staged(store: GraphStore, use: StagedLoadUse) -> None:
    """Remove the directories of abandoned loads."""
    for load_id in use.outdated:
        store.objects.delete_prefix(f"{STAGED}/{load_id}")


def unneeded_files(store: GraphStore, live: LiveVersions, retained: Mapping[str, Set[str]]) -> list[tuple[Path, int]]:
    """Return the derived files that no branch needs, with their sizes.

    The file of a table version is needed while a branch shows the version; the file of fragments while their data files
    stay. `retained` has these data files by the path of their table; the files of a table that it lacks are all needed.
    """
    shown = {version_of(entry) for entry in live.entries}

    def is_needed(kind: str, key: str) -> bool:
        try:
            return _is_needed(kind, json.loads(key), shown, retained)
        except (ValueError, KeyError, TypeError, IndexError, RecursionError):
            return False  # no read looks up such a key

    return store.storage.derived.unneeded(is_needed)


def _is_needed(kind: str, key: Any, shown: Set[Any], retained: Mapping[str, Set[str]]) -> bool:
    if kind == id_index.KIND:
        return tuple(key) in shown
    if kind == edge_topology.KIND:
        return all(tuple(version) in shown for _, *version in key)
    if kind in (TEXT.kind, VECTOR.kind):
        files = retained.get(key["table"])
        return files is None or all(file in files for _, _, _, *names in key["fragments"] for file in names)
    return True
