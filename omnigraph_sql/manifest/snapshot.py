"""Snapshots: the pure function from the rows of one manifest version to what a reader sees."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from omnigraph_sql.errors import Internal, NotFound
from omnigraph_sql.manifest.tags import TAG, Tag, name_of, read_tag
from omnigraph_sql.manifest.texts import readable_commit, readable_definition, readable_evidence
from omnigraph_sql.storage.manifest_table import LANDED, ManifestPlace, VersionMark

GRAPH_HEAD = "graph_head"
KNOWN_TYPES = frozenset({"table", "table_version", "table_tombstone", "view", "schema", TAG, GRAPH_HEAD})
_MAIN = "main"


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One table in a snapshot: its path, and its visible version."""

    table_key: str
    """The key of the table."""
    path: str
    """Its dataset, relative to the root of the graph."""
    version: int
    """The visible version of the dataset."""
    branch: str | None
    """The table branch; None for the table's main lineage."""
    row_count: int
    """Rows of that version."""
    transaction_uuid: str
    """The transaction that made the version."""


@dataclass(frozen=True)
class Pin:
    """The state of a table that a write expects: the version, the table branch and the transaction that made it."""

    version: int
    """The version."""
    branch: str | None = None
    """The table branch; None for the table's main lineage."""
    transaction_uuid: str = ""
    """The transaction that made the version."""


@dataclass(frozen=True)
class Definition:
    """A view or schema of a snapshot; without metadata it was dropped, and only its revision is left."""

    table_key: str
    """The key: `view:SCHEMA.NAME` or `schema:NAME`."""
    revision: int
    """The number of times that it was defined or dropped."""
    metadata: Mapping[str, Any] | None
    """Its definition."""


@dataclass(frozen=True, kw_only=True)
class Intent:
    """The commit of a publish, as it is stored in the head row of the manifest."""

    graph_commit_id: str
    parent_commit_id: str | None
    created_at: int
    writer_kind: str
    merged_parent_commit_id: str | None = None
    actor_id: str | None = None
    operation_id: str | None = None
    message: str | None = None
    idempotency_key: str | None = None
    graph_id: str | None = None
    """The graph that it was published in."""
    origin_commit_id: str | None = None
    """The commit that was reverted, restored or picked."""

    def to_json(self) -> str:
        return json.dumps({name: value for name, value in vars(self).items() if value is not None}, sort_keys=True)

    @classmethod
    def from_json(cls, text: str | None) -> Intent:
        """The intent in a head row. Texts of earlier releases that cannot be stored are made readable."""
        return cls(**readable_commit(text))


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """An immutable map from table to version. Everything that reads gets one."""

    branch: str
    """The branch."""
    manifest_version: int
    """The version of the manifest."""
    entries: Mapping[str, Entry]
    """Tables by key: `node:TYPE`, `edge:TYPE`, `table:SCHEMA.NAME`."""
    locations: Mapping[str, str]
    """Paths of all tables that ever existed, by key."""
    tombstones: Mapping[str, int]
    """Versions at which tables were dropped, by key."""
    head: Intent | None
    """The members of the newest commit of the branch; None before the first."""
    unknown_types: frozenset[str]
    """Kinds of manifest rows that this release does not know."""
    stamp: int = 1
    """The format of the manifest."""
    incarnation: str = field(default="", repr=False, compare=False)
    """Distinguishes a branch from an earlier one of its name, and main from that of another graph."""
    lineage: str | None = field(default=None, repr=False, compare=False)
    """The lineage of the branch in the manifest."""
    mark: VersionMark = field(default=VersionMark(""), repr=False, compare=False)
    """Distinguishes this version of the manifest from another one of its number."""
    definitions: Mapping[str, Definition] = field(default_factory=lambda: MappingProxyType({}))
    """Views and schemas by key, also those that were dropped."""
    dropped: Mapping[str, Entry] = field(default_factory=lambda: MappingProxyType({}))
    """The last versions of tables that were dropped."""
    tags: Mapping[str, Tag] = field(default_factory=lambda: MappingProxyType({}), repr=False)
    """The tags of the graph by name, if the branch is `main`; those that another branch inherited do not count."""

    is_past: bool = field(default=False, compare=False)
    """True if it was asked for by a version or commit: a cleanup may have removed rows of it."""

    head_version: int = field(default=0, compare=False)
    """The version at which the head was published; upkeep may have added versions since."""

    def entry(self, table_key: str) -> Entry:
        """The visible version of a table.

        Args:
            table_key: the table, as `node:TYPE`, `edge:TYPE` or `table:SCHEMA.NAME`.

        Returns:
            Its path, version and row count.

        Raises:
            NotFound: the snapshot has no such table.

        Example:
            >>> graph.snapshot().entry("node:Port").row_count
            2
        """
        entry = self.entries.get(table_key)
        if entry is None:
            raise NotFound(f"there is no table {table_key} in this snapshot", what="type", name=table_key)
        return entry

    @property
    def commit_id(self) -> str:
        """The id of the commit that it shows.

        Example:
            >>> graph.snapshot().commit_id == graph.commits()[0].graph_commit_id
            True
        """
        return self.head.graph_commit_id if self.head else f"manifest:{self.branch}:v{self.manifest_version}"

    def pin(self, table_key: str) -> int:
        """The visible version of a table, or the revision of a view or schema.

        Args:
            table_key: the table, view or schema.

        Returns:
            The version; the newest tombstone of a table that was dropped; 0 for a key that never existed.

        Example:
            >>> graph.snapshot().pin("table:main.fees")
            0
        """
        defined = self.definitions.get(table_key)
        if defined is not None:
            return defined.revision
        entry = self.entries.get(table_key)
        return entry.version if entry else self.tombstones.get(table_key, 0)

    def expectation(self, table_key: str) -> Pin:
        """Return the state that a write expects of a table when it is published.

        Args:
            table_key: the table, view or schema.

        Returns:
            The version, the table branch and the transaction.

        Example:
            >>> graph.snapshot().expectation("table:main.fees").version
            0
        """
        entry = self.entries.get(table_key)
        return Pin(entry.version, entry.branch, entry.transaction_uuid) if entry else Pin(self.pin(table_key))

    def defined(self, table_key: str) -> Definition | None:
        """The definition of a view or schema that exists.

        Args:
            table_key: its key, as `view:SCHEMA.NAME` or `schema:NAME`.

        Returns:
            The definition; None if there is no such view or schema.

        Example:
            >>> graph.snapshot().defined("view:main.dear") is None
            True
        """
        definition = self.definitions.get(table_key)
        return definition if definition is not None and definition.metadata is not None else None

    def state(self, table_key: str) -> tuple[Entry | None, int]:
        """Everything about a key that a write may rely on.

        Args:
            table_key: the table, view or schema.

        Returns:
            Its entry, if it is a table that exists, and its version or revision.

        Example:
            >>> graph.snapshot().state("table:main.fees")
            (None, 0)
        """
        return self.entries.get(table_key), self.pin(table_key)


def reconstruct(
    branch: str,
    manifest_version: int,
    rows: Iterable[Mapping[str, Any]],
    *,
    stamp: int = 1,
    place: ManifestPlace | None = None,
    mark: VersionMark | None = None,
) -> Snapshot:
    """The snapshot of one manifest version, from all of its rows."""
    nothing: Mapping[str, Any] = MappingProxyType({})
    where = place or ManifestPlace(None, "")
    empty = Snapshot(
        branch=branch,
        manifest_version=0,
        entries=nothing,
        locations=nothing,
        tombstones=nothing,
        head=None,
        unknown_types=frozenset(),
        stamp=stamp,
        incarnation=where.incarnation,
        lineage=where.lineage,
    )
    return advance(empty, manifest_version, rows, stamp=stamp, mark=mark)


def advance(
    base: Snapshot,
    manifest_version: int,
    rows: Iterable[Mapping[str, Any]],
    *,
    stamp: int,
    mark: VersionMark | None = None,
) -> Snapshot:
    """The snapshot of a later version, from an earlier one and the rows that were added or replaced since.

    Rows are never removed, and a table that a tombstone hides comes back with a later version only.
    """
    locations = dict(base.locations)
    tombstones = dict(base.tombstones)
    newest: dict[str, Mapping[str, Any]] = {}
    definitions, tags = dict(base.definitions), dict(base.tags)
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
            definitions[key] = Definition(key, row["table_version"], readable_definition(kind, row["metadata"]))
        elif kind == GRAPH_HEAD:
            intent = Intent.from_json(row["metadata"])
            if head is None or intent.graph_commit_id != head.graph_commit_id:  # a tag writes the head again as it is
                head_version = int(row.get(LANDED, manifest_version))
            head = intent
        elif kind == TAG:
            unknown |= _advance_tag(tags, row) if base.branch == _MAIN else set()
        elif kind not in KNOWN_TYPES:
            unknown.add(kind)
    entries = {**base.dropped, **base.entries}
    for key, row in newest.items():
        if key not in entries or row["table_version"] >= entries[key].version:
            entries[key] = table_entry(key, _location(locations, key), row)
    visible = {key: entries[key] for key in sorted(entries) if entries[key].version > tombstones.get(key, -1)}
    dropped = {key: entry for key, entry in entries.items() if key not in visible}
    return Snapshot(
        branch=base.branch,
        manifest_version=manifest_version,
        entries=MappingProxyType(visible),
        locations=MappingProxyType(locations),
        tombstones=MappingProxyType(tombstones),
        head=head,
        unknown_types=base.unknown_types | unknown,
        stamp=stamp,
        incarnation=base.incarnation,
        lineage=base.lineage,
        mark=mark or VersionMark(""),
        definitions=MappingProxyType(definitions),
        dropped=MappingProxyType(dropped),
        tags=MappingProxyType(dict(sorted(tags.items()))),
        head_version=head_version,
    )


def _location(locations: Mapping[str, str], key: str) -> str:
    if key not in locations:
        raise Internal(f"the manifest shows a version of {key} but not where it is")
    return locations[key]


def _advance_tag(tags: dict[str, Tag], row: Mapping[str, Any]) -> set[str]:
    """Add or remove the tag of a row. Returns the type of the row if this release cannot read it."""
    name = name_of(row["object_id"])
    tags.pop(name, None)
    if row["metadata"] is None:
        return set()
    tag = read_tag(row["object_id"], row["metadata"])
    if tag is None:
        return {TAG}
    tags[name] = tag
    return set()


def table_entry(key: str, path: str, row: Mapping[str, Any]) -> Entry:
    """The version of a table that a row of the manifest describes."""
    return Entry(
        table_key=key,
        path=path,
        version=row["table_version"],
        branch=row["table_branch"],
        row_count=row["row_count"],
        transaction_uuid=readable_evidence(row["metadata"]),
    )
