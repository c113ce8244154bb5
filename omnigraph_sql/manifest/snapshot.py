"""Snapshots: the pure function from the rows of one manifest version to what a reader sees."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from omnigraph_sql.errors import Internal, NotFound
from omnigraph_sql.storage.catalogue import LANDED

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
class Pin:
    """What a write expects of a table: the version, the table branch and the transaction that made it."""

    version: int
    branch: str | None = None
    transaction_uuid: str = ""


@dataclass(frozen=True)
class Definition:
    """A view or schema of a snapshot; without metadata it was dropped, and only its revision is left."""

    table_key: str
    revision: int
    metadata: Mapping[str, Any] | None


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
    definitions: Mapping[str, Definition] = field(default_factory=lambda: MappingProxyType({}))
    """Views and schemas by key, also those that were dropped."""
    dropped: Mapping[str, Entry] = field(default_factory=lambda: MappingProxyType({}))
    """The last versions of tables that were dropped."""

    head_version: int = field(default=0, compare=False)
    """The version at which the head was published; upkeep may have added versions since."""

    def entry(self, table_key: str) -> Entry:
        found = self.entries.get(table_key)
        if found is None:
            raise NotFound(f"there is no table {table_key} in this snapshot", what="type", name=table_key)
        return found

    @property
    def commit_id(self) -> str:
        return self.head.graph_commit_id if self.head else f"manifest:{self.branch}:v{self.manifest_version}"

    def pin(self, table_key: str) -> int:
        """The visible version; 0 for an unknown table, the greatest tombstone where only tombstones remain.

        Of a view or schema it is the revision.
        """
        defined = self.definitions.get(table_key)
        if defined is not None:
            return defined.revision
        found = self.entries.get(table_key)
        return found.version if found else self.tombstones.get(table_key, 0)

    def expectation(self, table_key: str) -> Pin:
        """What a write that relies on a key as it is here expects."""
        entry = self.entries.get(table_key)
        return Pin(entry.version, entry.branch, entry.transaction_uuid) if entry else Pin(self.pin(table_key))

    def defined(self, table_key: str) -> Definition | None:
        """A view or schema that exists."""
        found = self.definitions.get(table_key)
        return found if found is not None and found.metadata is not None else None

    def state(self, table_key: str) -> tuple[Entry | None, int]:
        """Everything about a key that a write may rely on."""
        return self.entries.get(table_key), self.pin(table_key)


def reconstruct(
    branch: str, manifest_version: int, rows: Iterable[Mapping[str, Any]], *, stamp: int = 1, incarnation: str = ""
) -> Snapshot:
    """The snapshot of one manifest version, from all of its rows."""
    nothing: Mapping[str, Any] = MappingProxyType({})
    empty = Snapshot(branch, 0, nothing, nothing, nothing, None, frozenset(), stamp, incarnation)
    return advance(empty, manifest_version, rows, stamp=stamp)


def advance(base: Snapshot, manifest_version: int, rows: Iterable[Mapping[str, Any]], *, stamp: int) -> Snapshot:
    """The snapshot of a later version, from an earlier one and the rows that were added or replaced since.

    Rows are never removed, and a table that a tombstone hides comes back with a later version only.
    """
    locations = dict(base.locations)
    tombstones = dict(base.tombstones)
    newest: dict[str, Mapping[str, Any]] = {}
    definitions = dict(base.definitions)
    head, head_version = base.head, base.head_version
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
        elif kind in ("view", "schema"):
            text = row["metadata"]
            definitions[key] = Definition(key, row["table_version"], None if text is None else json.loads(text))
        elif kind == GRAPH_HEAD:
            head = Intent.from_json(row["metadata"])
            head_version = int(row.get(LANDED, manifest_version))
        elif kind not in KNOWN_TYPES:
            unknown.add(kind)
    entries = {**base.dropped, **base.entries}
    for key, row in newest.items():
        if key not in entries or row["table_version"] >= entries[key].version:
            entries[key] = _entry(key, locations, row)
    visible = {key: entries[key] for key in sorted(entries) if entries[key].version > tombstones.get(key, -1)}
    dropped = {key: entry for key, entry in entries.items() if key not in visible}
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
        MappingProxyType(definitions),
        MappingProxyType(dropped),
        head_version,
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
