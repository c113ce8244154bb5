"""An operation on its way through the write protocol: what it wants to do, and what it is based on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, TypeVar

import pyarrow as pa

from omnigraph_sql.manifest.changes import Define, Pin, Tombstone
from omnigraph_sql.manifest.journal import Commit
from omnigraph_sql.manifest.snapshot import Snapshot
from omnigraph_sql.storage.handles import StagedHandle
from omnigraph_sql.storage.indexing import IndexSpec
from omnigraph_sql.writes.delta import TableRows

T = TypeVar("T")


@dataclass(frozen=True)
class TableWrite:
    """What happens to one table.

    `rows` for append, merge, overwrite, upsert (by `keys`), rewrite and create; `ids` for delete; a rewrite removes the rows
    that satisfy `condition` and adds `rows`; `indexes` for indices. A table that does not exist yet is created at `path`.
    """

    table_key: str
    kind: str
    rows: TableRows | None = None
    ids: pa.Array | None = None
    keys: tuple[str, ...] = ()
    condition: str | None = None
    path: str | None = None
    indexes: tuple[IndexSpec, ...] = ()

    @property
    def strict(self) -> bool:
        """Whether the write depends on the exact content it was prepared on."""
        return self.kind in ("overwrite", "delete")


@dataclass(frozen=True)
class Prepared(Generic[T]):
    """A validated operation: its writes, the tables it was validated against, and what to tell the caller."""

    writes: tuple[TableWrite, ...]
    reads: frozenset[str]
    result: T
    strict: bool = False
    changes: tuple[Tombstone | Define, ...] = ()
    """What is published besides new versions of tables."""

    @property
    def is_empty(self) -> bool:
        return not self.writes and not self.changes

    @property
    def keys(self) -> set[str]:
        """Everything the operation changes."""
        return {write.table_key for write in self.writes} | {change.table_key for change in self.changes}


@dataclass(frozen=True)
class Provenance:
    writer_kind: str
    actor: str | None = None
    message: str | None = None
    idempotency_key: str | None = None


@dataclass(frozen=True)
class Outcome(Generic[T]):
    commit: Commit | None
    result: T
    replayed: bool = False


@dataclass
class Attempt(Generic[T]):
    """State of one pass through the phases."""

    snapshot: Snapshot
    prepared: Prepared[T]
    staged: dict[str, StagedHandle] = field(default_factory=dict)


def is_strict(prepared: Prepared[T]) -> bool:
    """Whether an operation depends on the exact content it was prepared on."""
    return prepared.strict or any(write.strict for write in prepared.writes)


def touched(attempt: Attempt[T]) -> set[str]:
    """What an attempt changes or was validated against."""
    return attempt.prepared.keys | attempt.prepared.reads


def has_moved(attempt: Attempt[T], fresh: Snapshot) -> bool:
    """Whether anything an attempt relies on is no longer as it was."""
    replaced = attempt.snapshot.incarnation != fresh.incarnation
    return replaced or any(attempt.snapshot.state(key) != fresh.state(key) for key in touched(attempt))


def expected_pins(attempt: Attempt[T]) -> dict[str, Pin]:
    """Where everything has to be that an attempt relies on."""
    return {key: attempt.snapshot.expectation(key) for key in touched(attempt)}
