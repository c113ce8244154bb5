"""The identity of a graph: an id that is made with it and distinguishes it from a later graph in its place."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from typing import Any, Final

from omnigraph_sql import ulid
from omnigraph_sql.errors import NotFound
from omnigraph_sql.storage.objects import ObjectStore

STATE: Final = "__schema_state.json"
"""The object that contains the identity and the state of the schema."""
MANIFEST: Final = "__manifest"
"""The directory of manifests. Each graph has its own manifest and logs: a late write for another graph cannot reach them."""
_ID: Final = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}")


@dataclass(frozen=True)
class Identity:
    """The id of a graph and the dataset that is its manifest. Early releases made graphs without an id."""

    graph_id: str | None
    manifest: str = MANIFEST

    @classmethod
    def new(cls) -> Identity:
        graph_id = ulid.new()
        return cls(graph_id, f"{MANIFEST}/{graph_id}")

    def log(self, name: str) -> str:
        """The dataset that is a log of the graph."""
        return name if self.manifest == MANIFEST else f"{name}/{self.graph_id}"

    def to_dict(self) -> dict[str, str]:
        """The members of the state that carry the identity."""
        return {} if self.graph_id is None else {"graph_id": self.graph_id, "manifest": self.manifest}

    @classmethod
    def from_dict(cls, entry: dict[str, Any]) -> Identity:
        """The identity that a state carries; ValueError if it is not one."""
        graph_id = entry.get("graph_id")
        if graph_id is None:
            return cls(None)
        manifest = entry.get("manifest")
        if not isinstance(graph_id, str) or not _ID.fullmatch(graph_id):
            raise ValueError("graph_id is not an id")
        if manifest not in (MANIFEST, f"{MANIFEST}/{graph_id}"):
            raise ValueError("manifest does not belong to graph_id")
        return cls(graph_id, manifest)


def read_identity(objects: ObjectStore) -> Identity | None:
    """The identity of the graph that is at a root now; None when it cannot be read."""
    try:
        entry = json.loads(objects.read_text(STATE))
        return Identity.from_dict(entry) if isinstance(entry, dict) else None
    except (NotFound, ValueError, RecursionError):
        return None


def write_identity(objects: ObjectStore, identity: Identity) -> None:
    """Add the identity to the state of a graph that was made without one."""
    entry = json.loads(objects.read_text(STATE))
    objects.write_text(STATE, json.dumps(entry | identity.to_dict()))


def derived_identity(evidence: str) -> Identity:
    """The identity of a graph that was made without one. Every process derives the same."""
    return Identity(ulid.from_bytes(hashlib.blake2b(evidence.encode(), digest_size=16).digest()))


def stored_manifests(objects: ObjectStore) -> list[str]:
    """The manifests at a root: one, where there is a graph."""
    if objects.has_version(MANIFEST):
        return [MANIFEST]
    names = (f"{MANIFEST}/{name}" for name in objects.list_dir(MANIFEST) if _ID.fullmatch(name))
    return [name for name in names if objects.has_version(name)]


def identity_of_manifest(name: str) -> Identity:
    """The identity of the graph that a manifest belongs to, from the manifest's name."""
    return Identity(None) if name == MANIFEST else Identity(name.rpartition("/")[2], name)
