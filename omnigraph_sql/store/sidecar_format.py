"""Sidecars and their JSON format.

A sidecar makes another process move heads and delete table branches, so it is validated as a whole: every member
is of its kind, every path is the one that its table has, and the members agree with each other.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from omnigraph_sql.manifest.changes import Change, DefinitionChange, Pin, PointerUpdate, RegisterTable, Tombstone
from omnigraph_sql.manifest.snapshot import Intent
from omnigraph_sql.manifest.texts import readable_definition
from omnigraph_sql.storage.table_names import table_path
from omnigraph_sql.store.json_fields import (
    Fields,
    branch_name,
    distinct,
    kept_text,
    listed,
    one_of,
    optional,
    pair,
    parse,
    seconds,
    short_text,
    table_branch,
    table_key,
    text,
    ulid_text,
    whole,
)
from omnigraph_sql.store.owners import Owner, lease_seconds, this_process

DIRECTORY: Final = "__recovery"
SCHEMA_VERSION: Final = 1
_WRITERS: Final = (
    "BranchMerge",
    "CherryPick",
    "EnsureIndices",
    "Load",
    "Mutation",
    "Optimize",
    "Recovery",
    "Relational",
    "Restore",
    "Revert",
    "SchemaApply",
    "Transaction",
)
_ONE_COMMIT: Final = ("BranchMerge", "CherryPick", "Load", "Mutation", "Relational", "Restore", "Revert", "Transaction")
"""Writers that move the head of a table that is there by one version."""


@dataclass(frozen=True, kw_only=True)
class SidecarTable:
    """A table whose head will move."""

    table_key: str
    table_path: str
    table_branch: str | None
    """The table branch of the commit."""
    expected_version: int
    post_commit_version: int
    transaction_uuids: tuple[str, ...] = ()
    fork_from: tuple[str | None, int] | None = None
    expected_branch: str | None = None
    expected_uuid: str = ""


@dataclass(frozen=True, kw_only=True)
class Sidecar:
    """The whole publish of one operation."""

    operation_id: str
    writer_kind: str
    branch: str
    actor_id: str | None
    intent: Intent
    tables: tuple[SidecarTable, ...]
    pins: Mapping[str, Pin] = field(default_factory=dict)
    """The expected state of each table that the operation changes or was validated against."""
    incarnation: str | None = None
    """Distinguishes the branch from a later one of its name."""
    registrations: tuple[RegisterTable, ...] = ()
    tombstones: tuple[Tombstone, ...] = ()
    definitions: tuple[DefinitionChange, ...] = ()
    adoptions: tuple[PointerUpdate, ...] = ()
    """Versions that another branch wrote on the lineage of a table, which this branch will show."""
    started_at: float = field(default_factory=time.time)

    @property
    def changes(self) -> tuple[Change, ...]:
        """The changes that are published besides new versions of tables."""
        return (*self.registrations, *self.tombstones, *self.definitions, *self.adoptions)

    @property
    def name(self) -> str:
        """The name of the sidecar's object."""
        return f"{DIRECTORY}/{self.operation_id}.json"

    def to_json(self) -> str:
        """The text of the sidecar."""
        entry: dict[str, Any] = {
            "schema_version": SCHEMA_VERSION,
            "operation_id": self.operation_id,
            "started_at": self.started_at,
            "writer_kind": self.writer_kind,
            "branch": self.branch,
            "actor_id": self.actor_id,
            "owner": {**asdict(this_process()), "lease_expires_at": time.time() + lease_seconds()},
            "intent": json.loads(self.intent.to_json()),
            "tables": [asdict(table) for table in self.tables],
            "expected": [{"table_key": key, **asdict(pin)} for key, pin in sorted(self.pins.items())],
            "branch_incarnation": self.incarnation,
            "pointer_updates": [asdict(change) for change in self.adoptions],
            "registrations": [asdict(change) for change in self.registrations],
            "tombstones": [asdict(change) for change in self.tombstones],
            "definitions": [asdict(change) for change in self.definitions],
        }
        return json.dumps(entry, indent=1)

    @classmethod
    def from_json(cls, document: str) -> Sidecar:
        """Read a sidecar; ValueError when it is not wholly one that this release writes."""
        entry = Fields(parse(document), "the sidecar")
        entry.read("schema_version", _known_format)
        entry.read("owner", _owner)
        sidecar = cls(
            operation_id=entry.read("operation_id", ulid_text),
            writer_kind=entry.read("writer_kind", one_of(_WRITERS)),
            branch=entry.read("branch", branch_name),
            actor_id=entry.read("actor_id", optional(kept_text)),
            intent=entry.read("intent", _intent),
            tables=entry.read("tables", listed(_table)),
            pins=dict(entry.read("expected", listed(_expected))),
            incarnation=entry.read("branch_incarnation", optional(short_text)),
            registrations=entry.read("registrations", listed(_registration)),
            tombstones=entry.read("tombstones", listed(_tombstone)),
            definitions=entry.read("definitions", listed(_definition)),
            adoptions=entry.read("pointer_updates", listed(_adoption)),
            started_at=entry.read("started_at", seconds),
        )
        _check(sidecar)
        return sidecar


# Members -------------------------------------------------------------------------------------------------------------


def _known_format(value: Any) -> int:
    if whole(value) != SCHEMA_VERSION:
        raise ValueError(f"is {value}, where this release knows {SCHEMA_VERSION}")
    return SCHEMA_VERSION


def _owner(value: Any) -> Owner:
    owner = Owner.read(value)
    if owner is None:
        raise ValueError("is not complete")
    Fields(value, "the owner").read("lease_expires_at", seconds)
    return owner


def _intent(value: Any) -> Intent:
    entry = Fields(value, "the intent")
    return Intent(
        graph_commit_id=entry.read("graph_commit_id", ulid_text),
        parent_commit_id=entry.get("parent_commit_id", optional(kept_text), None),
        created_at=entry.read("created_at", whole),
        writer_kind=entry.read("writer_kind", one_of(_WRITERS)),
        merged_parent_commit_id=entry.get("merged_parent_commit_id", optional(kept_text), None),
        actor_id=entry.get("actor_id", optional(kept_text), None),
        operation_id=entry.read("operation_id", ulid_text),
        message=entry.get("message", optional(kept_text), None),
        idempotency_key=entry.get("idempotency_key", optional(kept_text), None),
        origin_commit_id=entry.get("origin_commit_id", optional(ulid_text), None),
    )


def _table(value: Any) -> SidecarTable:
    entry = Fields(value, "a table")
    table = SidecarTable(
        table_key=entry.read("table_key", table_key),
        table_path=entry.read("table_path", text),
        table_branch=entry.read("table_branch", optional(table_branch)),
        expected_version=entry.read("expected_version", whole),
        post_commit_version=entry.read("post_commit_version", whole),
        transaction_uuids=entry.read("transaction_uuids", listed(short_text)),
        fork_from=entry.read("fork_from", optional(pair(optional(table_branch), whole))),
        expected_branch=entry.read("expected_branch", optional(table_branch)),
        expected_uuid=entry.read("expected_uuid", short_text),
    )
    _check_path(table.table_key, table.table_path)
    return table


def _expected(value: Any) -> tuple[str, Pin]:
    entry = Fields(value, "an expectation")
    pin = Pin(
        version=entry.read("version", whole),
        branch=entry.read("branch", optional(table_branch)),
        transaction_uuid=entry.read("transaction_uuid", short_text),
    )
    return entry.read("table_key", table_key), pin


def _registration(value: Any) -> RegisterTable:
    entry = Fields(value, "a registration")
    change = RegisterTable(entry.read("table_key", table_key), entry.read("path", text))
    _check_path(change.table_key, change.path)
    return change


def _tombstone(value: Any) -> Tombstone:
    entry = Fields(value, "a tombstone")
    return Tombstone(entry.read("table_key", table_key), entry.read("version", whole))


def _adoption(value: Any) -> PointerUpdate:
    entry = Fields(value, "a pointer update")
    return PointerUpdate(
        table_key=entry.read("table_key", table_key),
        version=entry.read("version", whole),
        branch=entry.read("branch", optional(table_branch)),
        row_count=entry.read("row_count", whole),
        transaction_uuid=entry.read("transaction_uuid", short_text),
    )


def _definition(value: Any) -> DefinitionChange:
    entry = Fields(value, "a definition")
    key = entry.read("table_key", table_key)
    if key.kind not in ("view", "schema"):
        raise ValueError(f"is of {key}, which has no definition")

    def definition(value: Any) -> dict[str, Any] | None:
        if value is not None and not isinstance(value, dict):
            raise ValueError("is no object")
        return readable_definition(key.kind, None if value is None else json.dumps(value))

    return DefinitionChange(key, entry.read("revision", whole), entry.read("definition", definition))


# What the members say together ---------------------------------------------------------------------------------------


def _check_path(key: str, path: str) -> None:
    if path != table_path(key):
        raise ValueError(f"says that {key} is at {path!r}")


def _check(sidecar: Sidecar) -> None:
    distinct([table.table_key for table in sidecar.tables], "tables")
    if not sidecar.tables:
        raise ValueError("the sidecar names no table")
    if sidecar.intent.operation_id != sidecar.operation_id:
        raise ValueError("the intent is that of another operation")
    if sidecar.intent.writer_kind not in (sidecar.writer_kind, "Recovery"):
        raise ValueError("the intent is that of another writer")
    for table in sidecar.tables:
        _check_table(sidecar, table)
    keys = [table.table_key for table in sidecar.tables] + [change.table_key for change in sidecar.adoptions]
    distinct(keys, "tables and pointer updates")
    for adoption in sidecar.adoptions:
        pin = sidecar.pins.get(adoption.table_key)
        if pin is None or adoption.branch != pin.branch or adoption.version <= pin.version:
            raise ValueError(f"{adoption.table_key} would be shown at a version that does not follow the one it has")
    numbers = [(change.table_key, change.version) for change in sidecar.tombstones]
    numbers += [(change.table_key, change.revision) for change in sidecar.definitions]
    for key, number in numbers:
        if key not in sidecar.pins or number != sidecar.pins[key].version + 1:
            raise ValueError(f"{key} is dropped or defined at {number}, which does not follow its version")


def _check_table(sidecar: Sidecar, table: SidecarTable) -> None:
    key = table.table_key
    if sidecar.pins.get(key) != Pin(table.expected_version, table.expected_branch, table.expected_uuid):
        raise ValueError(f"it is not clear where {key} is expected")
    fork = f"{sidecar.branch}.{sidecar.operation_id[-10:]}"
    if table.table_branch != (table.expected_branch if table.fork_from is None else fork):
        raise ValueError(f"{key} lands on {table.table_branch!r}, which is not this operation's to write to")
    if (
        table.fork_from is not None
        and table.expected_uuid
        and table.fork_from
        != (
            table.expected_branch,
            table.expected_version,
        )
    ):
        raise ValueError(f"{key} is forked from what it was not expected to be")
    base = max(table.expected_version, 0 if table.fork_from is None else table.fork_from[1])
    is_exact = sidecar.writer_kind in _ONE_COMMIT and sidecar.intent.writer_kind != "Recovery"
    if table.post_commit_version <= base or (is_exact and table.post_commit_version != base + 1):
        raise ValueError(f"{key} lands on version {table.post_commit_version}, where {base + 1} is next")
