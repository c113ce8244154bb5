"""Snapshots: the pure function from the rows of one manifest version to what a reader sees."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
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


def reconstruct(branch: str, manifest_version: int, rows: Iterable[Mapping[str, Any]]) -> Snapshot:
    """The snapshot of one manifest version."""
    locations: dict[str, str] = {}
    newest: dict[str, Mapping[str, Any]] = {}
    tombstones: dict[str, int] = {}
    head: Intent | None = None
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
    entries = {
        key: _entry(key, locations, row)
        for key, row in sorted(newest.items())
        if row["table_version"] > tombstones.get(key, -1)
    }
    return Snapshot(
        branch,
        manifest_version,
        MappingProxyType(entries),
        MappingProxyType(locations),
        MappingProxyType(tombstones),
        head,
        frozenset(unknown),
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
