"""Opaque handles to table versions and staged writes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from omnigraph_sql.errors import Storage, VersionReclaimed
from omnigraph_sql.storage import transactions
from omnigraph_sql.storage.error_translation import LANCE_ERRORS, RESTORE, translated_errors

StagedKind = Literal["append", "merge", "overwrite", "delete", "rows", "schema", "indices"]


class TableEntry(Protocol):
    """The version of a table that a snapshot shows, and its place."""

    @property
    def path(self) -> str: ...

    @property
    def branch(self) -> str | None: ...

    @property
    def version(self) -> int: ...

    @property
    def transaction_uuid(self) -> str: ...


@dataclass(frozen=True)
class TableState:
    """Version, live rows and the transaction that made the version."""

    version: int
    row_count: int
    transaction_uuid: str


@dataclass(frozen=True)
class SnapshotHandle:
    """One version of one table. Its private members belong to storage."""

    path: str
    branch: str | None
    version: int
    _dataset: Any = field(repr=False, compare=False)
    _made: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)
    """Values computed from the version, by name."""


@dataclass(frozen=True, kw_only=True)
class StagedHandle:
    """A write whose files exist and which no version shows. It can cross processes as JSON."""

    path: str
    branch: str | None
    base_version: int
    kind: StagedKind
    operation_id: str
    transaction_uuid: str
    rows: int
    _transaction: Any = field(repr=False, compare=False)
    folded: int = 0
    """The number of leading new fragments that have rows of replaced fragments."""
    waited: bool = field(default=False, compare=False)
    """True if its files were written earlier, so that a cleanup may have removed them as leftovers."""

    def to_dict(self) -> dict[str, Any]:
        return {
            "path": self.path,
            "branch": self.branch,
            "base_version": self.base_version,
            "kind": self.kind,
            "operation_id": self.operation_id,
            "transaction_uuid": self.transaction_uuid,
            "rows": self.rows,
            "folded": self.folded,
            "transaction": transactions.to_json(self._transaction),
        }

    @classmethod
    def from_dict(cls, entry: dict[str, Any]) -> StagedHandle:
        transaction = transactions.from_json(entry["transaction"])
        fields = {name: value for name, value in entry.items() if name != "transaction"}
        return cls(**fields, _transaction=transaction, waited=True)


@dataclass(frozen=True)
class TransactionInfo:
    """Return the write of a committed version, from its transaction."""

    uuid: str
    operation_id: str | None
    undo_of: str | None
    operation: str


@contextmanager
def reading(handle: SnapshotHandle) -> Iterator[None]:
    """Translates errors of reading a version: one that a cleanup has removed since raises `VersionReclaimed`, not damage."""
    try:
        with translated_errors(handle.path):
            yield
    except Storage as error:
        if error.storage_class == "not_found" and _is_reclaimed(handle):
            raise reclaimed(handle.path, handle.branch, handle.version) from error
        raise


def _is_reclaimed(handle: SnapshotHandle) -> bool:
    """True if a version is gone. Its own file goes before any that it names."""
    try:
        return all(reference["version"] != handle.version for reference in handle._dataset.version_refs())
    except LANCE_ERRORS:
        return False


def reclaimed(path: str, branch: str | None, version: int) -> VersionReclaimed:
    """Return the error for a removed version."""
    where = f"{path} on branch `{branch}`" if branch else path
    text = f"version {version} of {where} is gone: its files were removed"
    return VersionReclaimed(text, version=version, hint=f"read a later version; if there is none, {RESTORE}")
