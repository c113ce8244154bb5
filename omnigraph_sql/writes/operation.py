"""Operations of the write protocol: the writes to tables, and the snapshot they are based on."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import Generic, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_sql.errors import BadRequest
from omnigraph_sql.manifest.changes import DefinitionChange, Pin, PointerUpdate, Tombstone
from omnigraph_sql.manifest.journal import Commit
from omnigraph_sql.manifest.snapshot import Snapshot
from omnigraph_sql.manifest.texts import check_actor, check_optional
from omnigraph_sql.storage.handles import SnapshotHandle, StagedHandle
from omnigraph_sql.storage.index_definitions import IndexSpec
from omnigraph_sql.store.sidecar_format import SidecarTable
from omnigraph_sql.writes.checks.pending_graph import TableRows

T = TypeVar("T")


@dataclass(frozen=True)
class Append:
    """Add rows to a table."""

    table_key: str
    rows: TableRows


@dataclass(frozen=True)
class Merge:
    """Replace the rows of a type that have the same ids, and add the others."""

    table_key: str
    rows: TableRows


@dataclass(frozen=True)
class Upsert:
    """Replace the rows of a relational table that have the same values in `keys`, and add the others."""

    table_key: str
    rows: TableRows
    keys: tuple[str, ...]


@dataclass(frozen=True)
class Overwrite:
    """Replace all rows of a table. The write depends on the exact content of the table."""

    table_key: str
    rows: TableRows


@dataclass(frozen=True)
class CreateTable:
    """Create a table at `path` with these rows."""

    table_key: str
    rows: TableRows
    path: str


@dataclass(frozen=True)
class Delete:
    """Remove the rows with these ids."""

    table_key: str
    ids: pa.Array


@dataclass(frozen=True)
class Rewrite:
    """Remove the rows that satisfy an SQL condition, and add others."""

    table_key: str
    rows: TableRows
    condition: str


@dataclass(frozen=True, kw_only=True)
class RowEdits:
    """Replace, add and remove rows whose places in the table are known."""

    table_key: str
    rows: TableRows
    """First those that replace others, in the order of `row_ids`; then those that are added."""
    row_ids: pa.Array
    """The row ids of the rows that are replaced."""
    addresses: pa.Array
    """Their addresses."""
    removed: pa.Array
    """The addresses of the rows that go."""


@dataclass(frozen=True)
class BuildIndexes:
    """Build indexes over all rows of a table."""

    table_key: str
    indexes: tuple[IndexSpec, ...]


@dataclass(frozen=True)
class StagedBefore:
    """Commit the files of a staged load; the attempt has their handle from the beginning."""

    table_key: str


TableWrite = Append | Merge | Upsert | Overwrite | CreateTable | Delete | Rewrite | RowEdits | BuildIndexes | StagedBefore
"""The write of an operation to one table."""


@dataclass(frozen=True)
class Selection:
    """Rows of a table that a statement chose by its condition. They must be unchanged when the write is published."""

    table_key: str
    condition: pc.Expression | str
    ids: pa.Array


@dataclass(frozen=True, kw_only=True)
class PreparedWrite(Generic[T]):
    """A validated operation: its writes, the tables it was validated against, and the result for the caller."""

    writes: tuple[TableWrite, ...]
    reads: frozenset[str]
    result: T
    selections: tuple[Selection, ...] = ()
    """Decisions that rest on committed rows."""
    changes: tuple[Tombstone | DefinitionChange | PointerUpdate, ...] = ()
    """Changes of the manifest besides new versions of tables."""
    head: str | None = None
    """The commit that the branch must still be at; None if only its tables matter."""
    is_commit: bool = False
    """True if it is published although it changes nothing."""

    @property
    def is_empty(self) -> bool:
        return not self.writes and not self.changes and not self.is_commit

    @property
    def keys(self) -> set[str]:
        """The keys that the operation changes."""
        return {write.table_key for write in self.writes} | {change.table_key for change in self.changes}


@dataclass(frozen=True)
class CommitSources:
    """The commits that a commit takes its changes from, besides its parent."""

    merged_parent: str | None = None
    """The head of the branch that is merged."""
    origin: str | None = None
    """The commit that is reverted, restored or picked."""


@dataclass(frozen=True)
class Provenance:
    """Writer, message and idempotency key of a commit. `BadRequest` for a text that cannot be stored."""

    writer_kind: str
    actor: str | None = None
    message: str | None = None
    idempotency_key: str | None = None
    sources: CommitSources | None = None
    """The commits that a merge takes its changes from."""

    def __post_init__(self) -> None:
        check_actor(self.actor)
        check_optional(self.message, "message")
        check_optional(self.idempotency_key, "idempotency_key")
        if self.idempotency_key == "":
            raise BadRequest("`idempotency_key` is empty", hint="give a key that names the write, or none")


@dataclass(frozen=True)
class WriteOutcome(Generic[T]):
    commit: Commit | None
    result: T
    replayed: bool = False


@dataclass
class Attempt(Generic[T]):
    """State of one pass through the phases."""

    snapshot: Snapshot
    prepared: PreparedWrite[T]
    staged: dict[str, StagedHandle] = field(default_factory=dict)
    _: KW_ONLY
    operation_id: str | None = None
    """The id of the operation, if it was chosen before it is committed."""
    places: dict[str, SidecarTable] = field(default_factory=dict)
    """Tables whose forks were made before, with the heads that their staged writes are based on."""
    heads: dict[str, SnapshotHandle] = field(default_factory=dict)


def touched(attempt: Attempt[T]) -> set[str]:
    """The keys that an attempt changes or was validated against."""
    return attempt.prepared.keys | attempt.prepared.reads


def has_moved(attempt: Attempt[T], fresh: Snapshot) -> bool:
    """True if a table that an attempt relies on has moved."""
    replaced = attempt.snapshot.incarnation != fresh.incarnation
    passed = attempt.prepared.head not in (None, fresh.commit_id)
    return replaced or passed or any(attempt.snapshot.state(key) != fresh.state(key) for key in touched(attempt))


def expected_pins(attempt: Attempt[T]) -> dict[str, Pin]:
    """The expected state of every table that an attempt relies on."""
    return {key: attempt.snapshot.expectation(key) for key in touched(attempt)}
