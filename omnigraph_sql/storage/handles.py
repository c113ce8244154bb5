"""What storage hands out: opaque handles to table snapshots and staged writes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from omnigraph_sql.storage import transactions

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
        return cls(**{name: value for name, value in entry.items() if name != "transaction"}, _transaction=transaction)


@dataclass(frozen=True)
class TransactionInfo:
    """What a committed version says about the write that made it."""

    uuid: str
    operation_id: str | None
    undo_of: str | None
    operation: str
