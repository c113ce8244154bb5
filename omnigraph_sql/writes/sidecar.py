"""Sidecars: what an operation is about to do, written down before it touches the first table.

A sidecar holds the whole publish, so that whoever finds it after a crash can either finish the operation or undo it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any

from omnigraph_sql import failpoints
from omnigraph_sql.errors import NotFound, Storage
from omnigraph_sql.manifest.changes import Change, Define, Pin, RegisterTable, Tombstone
from omnigraph_sql.manifest.snapshot import Intent
from omnigraph_sql.storage.objects import ObjectStore
from omnigraph_sql.writes.owners import lease_seconds, this_process

DIRECTORY = "__recovery"
QUARANTINE = f"{DIRECTORY}/quarantine"
SCHEMA_VERSION = 1


@dataclass(frozen=True)
class SidecarTable:
    """A table whose head will move."""

    table_key: str
    table_path: str
    table_branch: str | None
    """Where the commit lands."""
    expected_version: int
    post_commit_version: int
    transaction_uuids: tuple[str, ...] = ()
    fork_from: tuple[str | None, int] | None = None
    expected_branch: str | None = None
    expected_uuid: str = ""


@dataclass(frozen=True)
class Sidecar:
    operation_id: str
    writer_kind: str
    branch: str
    actor_id: str | None
    intent: Intent
    tables: tuple[SidecarTable, ...]
    pins: Mapping[str, Pin] = field(default_factory=dict)
    """Where each table has to be that the operation changes or was validated against."""
    incarnation: str | None = None
    """Tells the branch from a later one of its name."""
    registrations: tuple[RegisterTable, ...] = ()
    tombstones: tuple[Tombstone, ...] = ()
    definitions: tuple[Define, ...] = ()
    started_at: float = field(default_factory=time.time)

    @property
    def changes(self) -> tuple[Change, ...]:
        """What is published besides the new versions of the tables."""
        return (*self.registrations, *self.tombstones, *self.definitions)

    @property
    def name(self) -> str:
        return f"{DIRECTORY}/{self.operation_id}.json"

    def to_json(self) -> str:
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
            "pointer_updates": [],
            "registrations": [asdict(each) for each in self.registrations],
            "tombstones": [asdict(each) for each in self.tombstones],
            "definitions": [asdict(each) for each in self.definitions],
        }
        return json.dumps(entry, indent=1)

    @classmethod
    def from_json(cls, text: str) -> Sidecar:
        """Read a sidecar; ValueError when it is not one this release understands."""
        entry = json.loads(text)
        if not isinstance(entry, dict) or entry.get("schema_version") != SCHEMA_VERSION:
            found = entry.get("schema_version") if isinstance(entry, dict) else None
            raise ValueError(f"sidecar format {found!r} is not {SCHEMA_VERSION}")
        try:
            tables = tuple(
                SidecarTable(
                    **{
                        **table,
                        "transaction_uuids": tuple(table["transaction_uuids"]),
                        "fork_from": tuple(table["fork_from"]) if table["fork_from"] else None,
                    }
                )
                for table in entry["tables"]
            )
            return cls(
                entry["operation_id"],
                entry["writer_kind"],
                entry["branch"],
                entry["actor_id"],
                Intent.from_json(json.dumps(entry["intent"])),
                tables,
                {each["table_key"]: _pin(each) for each in entry["expected"]},
                entry["branch_incarnation"],
                tuple(RegisterTable(**each) for each in entry["registrations"]),
                tuple(Tombstone(**each) for each in entry["tombstones"]),
                tuple(Define(**each) for each in entry["definitions"]),
                entry["started_at"],
            )
        except (KeyError, TypeError) as error:
            raise ValueError(f"the sidecar is not complete: {error}") from error


def _pin(entry: dict[str, Any]) -> Pin:
    return Pin(entry["version"], entry["branch"], entry["transaction_uuid"])


class Sidecars:
    """The recovery directory of a graph."""

    def __init__(self, objects: ObjectStore) -> None:
        self._objects = objects

    def write(self, sidecar: Sidecar) -> None:
        failpoints.hit("write.sidecar_write")
        self._objects.write_text(sidecar.name, sidecar.to_json())

    def exists(self, sidecar: Sidecar) -> bool:
        return self._objects.exists(sidecar.name)

    def remove(self, operation_id: str) -> None:
        self._objects.delete(f"{DIRECTORY}/{operation_id}.json")

    def pending(self) -> list[str]:
        """Operation ids with a sidecar, oldest first. A failure to list is an error, never "none"."""
        return [name.removesuffix(".json") for name in self._objects.list_dir(DIRECTORY) if name.endswith(".json")]

    def quarantined(self) -> list[str]:
        return self._objects.list_dir(QUARANTINE)

    def read(self, operation_id: str) -> Sidecar | None:
        """A pending sidecar; None when it is gone. One that cannot be read is moved aside, never deleted."""
        name = f"{DIRECTORY}/{operation_id}.json"
        try:
            text = self._objects.read_text(name)
        except NotFound:
            return None
        except UnicodeDecodeError:
            text = ""
        except Storage:
            if not self._objects.has_prefix(name):
                raise
            text = ""  # a directory is no sidecar of ours either
        try:
            return Sidecar.from_json(text)
        except ValueError:
            with suppress(NotFound):  # somebody else has just moved it
                self._objects.rename(name, f"{QUARANTINE}/{operation_id}.json")
            return None
