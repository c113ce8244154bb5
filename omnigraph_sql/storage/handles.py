"""What storage hands out: opaque handles to table snapshots and staged writes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from omnigraph_sql.errors import Storage, VersionReclaimed
from omnigraph_sql.storage import transactions
from omnigraph_sql.storage.faults import LANCE_ERRORS, RESTORE, guarded

StagedKind = Literal["append", "merge", "overwrite", "delete", "rows", "schema", "indices"]


@dataclass(frozen=True)
class TableState:
    """Version, live rows and the transaction that made the version."""

    version: int
    row_count: int
    transaction_uuid: str


@dataclass(frozen=True)
class SnapshotHandle:
    """One version of one table. What is inside belongs to storage."""

    path: str
    branch: str | None
    version: int
    _dataset: Any = field(repr=False, compare=False)
    _made: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)
    """What was made of it before."""


@dataclass(frozen=True)
class StagedHandle:
    """A write whose files exist but which nobody sees. It can cross processes as JSON."""

    path: str
    branch: str | None
    base_version: int
    kind: StagedKind
    operation_id: str
    transaction_uuid: str
    rows: int
    _transaction: Any = field(repr=False, compare=False)
    waited: bool = field(default=False, compare=False)
    """Whether its files were written at another time, so that a cleanup may have taken them for left over since."""

    def to_dict(self) -> dict[str, Any]:
        return {
            "path": self.path,
            "branch": self.branch,
            "base_version": self.base_version,
            "kind": self.kind,
            "operation_id": self.operation_id,
            "transaction_uuid": self.transaction_uuid,
            "rows": self.rows,
            "transaction": transactions.to_json(self._transaction),
        }

    @classmethod
    def from_dict(cls, entry: dict[str, Any]) -> StagedHandle:
        transaction = transactions.from_json(entry["transaction"])
        given = {name: value for name, value in entry.items() if name != "transaction"}
        return cls(**given, _transaction=transaction, waited=True)


@dataclass(frozen=True)
class TransactionInfo:
    """What a committed version says about the write that made it."""

    uuid: str
    operation_id: str | None
    undo_of: str | None
    operation: str


@contextmanager
def reading(handle: SnapshotHandle) -> Iterator[None]:
    """As `guarded`, for the reading of a version. That a cleanup removed it since it was opened is told from damage."""
    try:
        with guarded(handle.path):
            yield
    except Storage as error:
        if error.storage_class == "not_found" and _is_reclaimed(handle):
            raise reclaimed(handle.path, handle.branch, handle.version) from error
        raise


def _is_reclaimed(handle: SnapshotHandle) -> bool:
    """Whether a version is gone. Its own file goes before any that it names."""
    try:
        return all(each["version"] != handle.version for each in handle._dataset.version_refs())
    except LANCE_ERRORS:
        return False


def reclaimed(path: str, branch: str | None, version: int) -> VersionReclaimed:
    """The error for a version that is not there any more."""
    where = f"{path} on branch `{branch}`" if branch else path
    text = f"version {version} of {where} is gone: its files were removed"
    return VersionReclaimed(text, version=version, hint=f"read a later version; if there is none, {RESTORE}")
