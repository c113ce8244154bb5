"""The records of branches: each says which lineage of the manifest a branch is. They decide which branches there are.

A lineage is a branch of the manifest dataset with a name that is never used again, so a late write to a branch
that was deleted lands where no reader looks. The record is what is created once and removed once.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final
from urllib.parse import quote, unquote

from omnigraph_sql import ulid
from omnigraph_sql.errors import NotFound, Storage
from omnigraph_sql.storage.branch_refs import is_time
from omnigraph_sql.storage.objects import ObjectStore

_DIRECTORY: Final = "_branches"
_SUFFIX: Final = ".json"
_UNIQUE: Final = 10
"""The length of the random suffix in the name of a lineage."""
_LINEAGE: Final = re.compile(rf"(?P<branch>.+)\.[0-9A-Z]{{{_UNIQUE}}}")
_CACHED: Final = 256
_MAIN: Final = "main"


@dataclass(frozen=True, kw_only=True)
class BranchRecord:
    """A branch: its lineage in the manifest, and where it came from."""

    name: str
    lineage: str
    base: str | None
    manifest_version: int
    created_at: float
    """Seconds since 1970."""
    graph_commit_id: str | None = None
    actor: str | None = None
    reads: tuple[str, ...] = ()
    """The tables that a transaction had read when it was kept as this branch."""
    incarnation: str = ""
    """Distinguishes the branch from an earlier or later one of its name."""
    text: str = field(default="", repr=False, compare=False)
    """The stored text of a record that was read."""

    def to_json(self) -> str:
        entry = {
            "name": self.name,
            "lineage": self.lineage,
            "from": self.base,
            "manifest_version": self.manifest_version,
            "created_at": self.created_at,
            "graph_commit_id": self.graph_commit_id,
            "actor": self.actor,
        } | ({"reads": list(self.reads)} if self.reads else {})
        return json.dumps(entry, indent=1)


def new_lineage(branch: str) -> str:
    """Return a unique name for the lineage of a new branch."""
    return f"{branch}.{ulid.new()[-_UNIQUE:]}"


def is_lineage(name: str) -> bool:
    """True if a branch of the manifest has a name that this release makes."""
    return _LINEAGE.fullmatch(name) is not None


def branch_of_lineage(lineage: str) -> str:
    """Return the branch that a lineage was created for."""
    match = _LINEAGE.fullmatch(lineage)
    return lineage if match is None else match["branch"]


class BranchRecords:
    """The records of one manifest."""

    def __init__(self, objects: ObjectStore, manifest: str) -> None:
        self._objects = objects
        self._directory = f"{manifest}/{_DIRECTORY}"

    def object_name(self, branch: str) -> str:
        return f"{self._directory}/{quote(branch, safe='')}{_SUFFIX}"

    def names(self) -> list[str]:
        """Return the branches besides main, those with a damaged record included."""
        names = (_branch_of(entry) for entry in self._objects.list_entries(self._directory))
        return sorted(name for name in names if name is not None)

    def exists(self, branch: str) -> bool:
        """True if a branch exists. Costs the same with any number of branches."""
        return self._objects.has_entry(self.object_name(branch))

    def read(self, branch: str) -> BranchRecord:
        """The record of a branch; `NotFound` when there is none, `Storage` when it is damaged."""
        name = self.object_name(branch)
        try:
            text = self._objects.read_text(name)
            record = _parse(branch, text)
        except UnicodeDecodeError:
            text, record = "", None
        except Storage as error:
            if error.storage_class != "permanent":
                raise
            text, record = "", None  # it is no file
        if record is None and not self._objects.has_entry(name) and not self._objects.has_prefix(name):
            raise NotFound(f"there is no branch `{branch}`", what="branch", name=branch)
        if record is None:
            text = f"{self._objects.uri(name)}, the record of the branch `{branch}`, is damaged"
            hint = f"restore the file from a copy of the graph, or delete the branch `{branch}`"
            raise Storage(text, storage_class="permanent", hint=hint)
        return record

    def create(self, record: BranchRecord) -> bool:
        """Create a record; return False if the branch exists already."""
        return self._objects.create_entry(self.object_name(record.name), record.to_json())

    def delete(self, branch: str, record: BranchRecord | None) -> None:
        """Make a branch not exist any more, unless it is a later one than that of the record; an absent one is success.

        Without a record, because it is damaged, whichever there is.
        """
        name = self.object_name(branch)
        if record is None and self._objects.has_prefix(name):
            self._objects.delete_prefix(name)
        else:
            self._objects.delete_entry(name, None if record is None else record.text or record.to_json())


def _branch_of(entry: str) -> str | None:
    """Return the branch whose record a file is, by its name; None for other files."""
    name = unquote(entry.removesuffix(_SUFFIX))
    try:
        is_record = entry == f"{quote(name, safe='')}{_SUFFIX}"
    except UnicodeEncodeError:
        return None
    return name if is_record and name.isprintable() and name.strip() == name and name not in ("", _MAIN) else None


@lru_cache(_CACHED)
def _parse(branch: str, text: str) -> BranchRecord | None:
    try:
        entry: dict[str, Any] = json.loads(text)
        is_typed = _has_right_types(entry)
        record = BranchRecord(
            name=entry["name"],
            lineage=entry["lineage"],
            base=entry["from"],
            manifest_version=entry["manifest_version"],
            created_at=entry["created_at"],
            graph_commit_id=entry.get("graph_commit_id"),
            actor=entry.get("actor"),
            reads=tuple(entry.get("reads", ())),
            incarnation=hashlib.blake2b(text.encode(), digest_size=8).hexdigest(),
            text=text,
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return (
        record
        if is_typed and branch == record.name and branch in (record.lineage, branch_of_lineage(record.lineage))
        else None
    )


def _has_right_types(entry: dict[str, Any]) -> bool:
    texts = all(isinstance(entry[name], str) for name in ("name", "lineage"))
    optional = all(isinstance(entry.get(name), str | None) for name in ("from", "graph_commit_id", "actor"))
    reads = entry.get("reads", [])
    optional = optional and isinstance(reads, list) and all(isinstance(key, str) for key in reads)
    return texts and optional and isinstance(entry["manifest_version"], int) and is_time(entry["created_at"])
