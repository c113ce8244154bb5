"""Snapshots: the pure function from the rows of one manifest version to what a reader sees."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from omnigraph_sql.errors import Internal, NotFound

GRAPH_HEAD = "graph_head"
KNOWN_TYPES = frozenset({"table", "table_version", "table_tombstone", "view", "schema", GRAPH_HEAD})


@dataclass(frozen=True)
class Entry:
    """One table in a snapshot: where it is, and which version of it is visible."""

    table_key: str
    path: str
    version: int
    branch: str | None
    """The table branch; None for the table's main lineage."""
    row_count: int
    transaction_uuid: str


@dataclass(frozen=True)
class Intent:
    """What a publish says about its commit; kept in the head row of the manifest."""

    graph_commit_id: str
    parent_commit_id: str | None
    created_at: int
    writer_kind: str
    merged_parent_commit_id: str | None = None
    actor_id: str | None = None
    operation_id: str | None = None
    message: str | None = None
    idempotency_key: str | None = None

    def to_json(self) -> str:
        return json.dumps({name: value for name, value in vars(self).items() if value is not None}, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Intent:
        fields = json.loads(text)
        return cls(**({"parent_commit_id": None} | fields))


@dataclass(frozen=True)
class Snapshot:
    """An immutable map from table to version. Everything that reads gets one."""

    branch: str
    manifest_version: int
    entries: Mapping[str, Entry]
    locations: Mapping[str, str]
    tombstones: Mapping[str, int]
    head: Intent | None
    unknown_types: frozenset[str]
    stamp: int = 1
    """The format of the manifest."""
    incarnation: str = field(default="", repr=False, compare=False)
    """Tells a branch from an earlier one of its name."""

    def entry(self, table_key: str) -> Entry:
        found = self.entries.get(table_key)
        if found is None:
            raise NotFound(f"there is no table {table_key} in this snapshot", what="type", name=table_key)
        return found

    @property
    def commit_id(self) -> str:
        return self.head.graph_commit_id if self.head else f"manifest:{self.branch}:v{self.manifest_version}"

    def pin(self, table_key: str) -> int:
        """The visible version; 0 for an unknown table, the greatest tombstone where only tombstones remain."""
        found = self.entries.get(table_key)
        return found.version if found else self.tombstones.get(table_key, 0)


def reconstruct(
    branch: str, manifest_version: int, rows: Iterable[Mapping[str, Any]], *, stamp: int = 1, incarnation: str = ""
) -> Snapshot:
    """The snapshot of one manifest version, from all of its rows."""
    nothing: Mapping[str, Any] = MappingProxyType({})
    empty = Snapshot(branch, 0, nothing, nothing, nothing, None, frozenset(), stamp, incarnation)
    return advance(empty, manifest_version, rows, stamp=stamp)


def advance(base: Snapshot, manifest_version: int, rows: Iterable[Mapping[str, Any]], *, stamp: int) -> Snapshot:
    """The snapshot of a later version, from an earlier one and the rows that were added or replaced since.

    Rows are never removed, and a table that a tombstone hides comes back with a later version only, so nothing that the
    earlier snapshot left out can matter again.
    """
    locations = dict(base.locations)
    tombstones = dict(base.tombstones)
    newest: dict[str, Mapping[str, Any]] = {}
    head = base.head
    unknown: set[str] = set()
    for row in rows:
        kind, key = row["object_type"], row["table_key"]
        if kind == "table":
            locations[key] = row["location"]
        elif kind == "table_version":
            if key not in newest or row["table_version"] > newest[key]["table_version"]:
                newest[key] = row
        elif kind == "table_tombstone":
            tombstones[key] = max(tombstones.get(key, 0), row["table_version"])
        elif kind == GRAPH_HEAD:
            head = Intent.from_json(row["metadata"])
        elif kind not in KNOWN_TYPES:
            unknown.add(kind)
    entries = dict(base.entries)
    for key, row in newest.items():
        if key not in entries or row["table_version"] >= entries[key].version:
            entries[key] = _entry(key, locations, row)
    visible = {key: entries[key] for key in sorted(entries) if entries[key].version > tombstones.get(key, -1)}
    return Snapshot(
        base.branch,
        manifest_version,
        MappingProxyType(visible),
        MappingProxyType(locations),
        MappingProxyType(tombstones),
        head,
        base.unknown_types | unknown,
        stamp,
        base.incarnation,
    )


def _entry(key: str, locations: Mapping[str, str], row: Mapping[str, Any]) -> Entry:
    if key not in locations:
        raise Internal(f"the manifest shows a version of {key} but not where it is")
    evidence = json.loads(row["metadata"] or "{}")
    return Entry(
        key,
        locations[key],
        row["table_version"],
        row["table_branch"],
        row["row_count"],
        evidence.get("transaction_uuid", ""),
    )
