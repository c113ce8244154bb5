"""Changes of one publish, and their rows in the manifest."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from omnigraph_sql.errors import Conflict, Internal
from omnigraph_sql.manifest.snapshot import GRAPH_HEAD, Intent, Pin, Snapshot
from omnigraph_sql.manifest.tags import TAG, Tag, object_id, tag_metadata
from omnigraph_sql.table_keys import TableKey

__all__ = [
    "Change",
    "DefinitionChange",
    "Pin",
    "PointerUpdate",
    "RegisterTable",
    "Tombstone",
    "check_batch",
    "manifest_rows",
    "tag_rows",
]


@dataclass(frozen=True)
class RegisterTable:
    table_key: str
    path: str


@dataclass(frozen=True)
class PointerUpdate:
    """Make a table version visible."""

    table_key: str
    version: int
    branch: str | None
    row_count: int
    transaction_uuid: str


@dataclass(frozen=True)
class Tombstone:
    table_key: str
    version: int


@dataclass(frozen=True)
class DefinitionChange:
    """Give a view or schema a definition; none drops it."""

    table_key: str
    revision: int
    definition: Mapping[str, Any] | None


Change: TypeAlias = RegisterTable | PointerUpdate | Tombstone | DefinitionChange


def check_batch(snapshot: Snapshot, changes: Iterable[Change]) -> None:
    """Refuse changes that the manifest's rules do not allow."""
    registered = set(snapshot.locations)
    seen: set[tuple[str, int]] = set()
    for change in changes:
        if isinstance(change, RegisterTable):
            if snapshot.locations.get(change.table_key, change.path) != change.path:
                raise Conflict(f"{change.table_key} is registered under another path", reason="registration")
            registered.add(change.table_key)
            continue
        if isinstance(change, DefinitionChange):
            _check_definition(snapshot, change)
            continue
        key = (change.table_key, change.version)
        if change.table_key not in registered:
            raise Conflict(f"{change.table_key} is not registered", reason="unknown table")
        if key in seen:
            raise Conflict(f"{change.table_key} is published twice at version {change.version}", reason="duplicate version")
        seen.add(key)
        if isinstance(change, PointerUpdate):
            _check_update(snapshot, change)


def _check_definition(snapshot: Snapshot, change: DefinitionChange) -> None:
    if change.revision != snapshot.pin(change.table_key) + 1:
        text = f"{change.table_key} is at revision {snapshot.pin(change.table_key)} already"
        raise Conflict(text, reason="existing version", hint="read again and repeat the change")


def _check_update(snapshot: Snapshot, change: PointerUpdate) -> None:
    entry = snapshot.entries.get(change.table_key)
    if entry is None:
        if change.version <= snapshot.tombstones.get(change.table_key, 0):
            raise Internal(f"{change.table_key} comes back below the version at which it was dropped")
        return
    if change.version < entry.version:
        raise Internal(f"the visible version of {change.table_key} would go back from {entry.version} to {change.version}")
    handed_over = change.branch != entry.branch and change.row_count == entry.row_count
    if change.version == entry.version and not handed_over:
        raise Conflict(f"{change.table_key} is published at version {change.version} already", reason="existing version")


def manifest_rows(changes: Iterable[Change], intent: Intent) -> list[dict[str, Any]]:
    """The rows of a publish; the head row is always among them, so that any two publishes meet there."""
    rows = [_row(change) for change in changes]
    head = _blank(GRAPH_HEAD, GRAPH_HEAD, "") | {"metadata": intent.to_json()}
    return [*rows, head]


def tag_rows(name: str, tag: Tag | None, head: Intent | None) -> list[dict[str, Any]]:
    """The rows that make or delete a tag. The head is written again as it is, so that publishes and tags meet there."""
    row = _blank(object_id(name), TAG, "") | {"metadata": None if tag is None else tag_metadata(tag)}
    unchanged = [] if head is None else [_blank(GRAPH_HEAD, GRAPH_HEAD, "") | {"metadata": head.to_json()}]
    return [row, *unchanged]


def _row(change: Change) -> dict[str, Any]:
    match change:
        case RegisterTable():
            return _blank(change.table_key, "table", change.table_key) | {"location": change.path}
        case PointerUpdate():
            return _blank(f"{change.table_key}${change.version:020d}", "table_version", change.table_key) | {
                "metadata": json.dumps({"transaction_uuid": change.transaction_uuid}),
                "table_version": change.version,
                "table_branch": change.branch,
                "row_count": change.row_count,
            }
        case Tombstone():
            object_id = f"{change.table_key}$tombstone${change.version:020d}"
            return _blank(object_id, "table_tombstone", change.table_key) | {"table_version": change.version}
        case DefinitionChange():
            text = None if change.definition is None else json.dumps(change.definition, sort_keys=True)
            kind = TableKey(change.table_key).kind
            return _blank(change.table_key, kind, change.table_key) | {"metadata": text, "table_version": change.revision}


def _blank(object_id: str, object_type: str, table_key: str) -> dict[str, Any]:
    return {
        "object_id": object_id,
        "object_type": object_type,
        "location": None,
        "metadata": None,
        "base_objects": None,
        "table_key": table_key,
        "table_version": None,
        "table_branch": None,
        "row_count": None,
    }
