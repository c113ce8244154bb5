"""Transactions: writes of one caller that are staged one after another, seen by nobody else, and published as one commit.

Every write is prepared on the snapshot that the transaction shows, staged, and committed to a working version of its table
(`storage/working_versions.py`). Publishing stages what became of each table as one write on the version that the
transaction began on. If others have changed a table that it wrote or read, it is refused; other tables may have moved.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

import pyarrow as pa

from omnigraph_sql import ulid
from omnigraph_sql.errors import BadRequest, Conflict, ExpectedVersionMismatch, OmnigraphError
from omnigraph_sql.manifest.changes import DefinitionChange, PointerUpdate, Tombstone
from omnigraph_sql.manifest.journal import Commit
from omnigraph_sql.manifest.snapshot import Definition, Entry, Snapshot
from omnigraph_sql.storage.handles import SnapshotHandle, StagedHandle
from omnigraph_sql.storage.preview_versions import commit_view, drop_view
from omnigraph_sql.storage.working_versions import collapse, next_row
from omnigraph_sql.store.graph_store import GraphStore
from omnigraph_sql.store.recovery import sweep
from omnigraph_sql.store.sidecar_format import SidecarTable
from omnigraph_sql.writes.checks.pending_graph import TableRows
from omnigraph_sql.writes.effects import fork_name, new_table
from omnigraph_sql.writes.operation import (
    Append,
    Attempt,
    CreateTable,
    Overwrite,
    PreparedWrite,
    Provenance,
    StagedBefore,
    T,
    TableWrite,
)
from omnigraph_sql.writes.protocol import Review, publish_attempt, refuse_schema_apply
from omnigraph_sql.writes.stage import needs_fork, stage_write

_HINT: Final = "begin another one"
_MOST_PENDING: Final = 4096
"""So many small inserts are staged together."""


@dataclass(frozen=True)
class _Savepoint:
    """What a transaction has written at a moment."""

    tables: Mapping[str, tuple[SnapshotHandle, StagedHandle | None, int | None, bool]]
    definitions: Mapping[str, Definition]
    temporary: frozenset[str]
    pending: Mapping[str, tuple[pa.RecordBatch, ...]]


@dataclass(kw_only=True)
class _WorkingTable:
    """A table that a transaction writes to."""

    key: str
    base: SnapshotHandle
    """The version that the write will be committed on."""
    last: SnapshotHandle
    entry: Entry | None = None
    """What shows `last`, or an earlier version."""
    staged: StagedHandle | None = None
    """A write on `last` that no version shows yet."""
    place: SidecarTable | None = None
    """The fork that the transaction made, if the table is not one of its branch yet."""
    fresh: int | None = 0
    """The first row id that new rows get; None once the whole table was replaced."""
    views: list[SnapshotHandle] = field(default_factory=list)
    is_dropped: bool = False


class WriteTransaction:
    """A transaction on one branch. Threads may share it; their writes take effect one after another."""

    def __init__(self, store: GraphStore, branch: str, provenance: Provenance, base: Snapshot | None = None) -> None:
        """Begin on the head of a branch, or on an earlier state of it."""
        self.store = store
        self.branch = store.coordinator.require(branch)
        self.provenance = provenance
        refuse_schema_apply(store)
        sweep(store, full=False)
        self.base = store.coordinator.fresh(self.branch) if base is None else base
        self.id = ulid.new()
        self.version = 0
        """Grows with every write: what was read before it may be out of date."""
        self._lock = threading.RLock()
        self._tables: dict[str, _WorkingTable] = {}
        self._definitions: dict[str, Definition] = {}
        self._temporary: set[str] = set()
        self._pending: dict[str, list[pa.RecordBatch]] = {}
        """Rows that are still to be added to tables, so that many small inserts are staged together."""
        self._changes_of: Counter[str] = Counter()
        self._reads: set[str] = set()
        self._state = "open"

    # Reading

    @property
    def is_open(self) -> bool:
        """True until it is committed or rolled back."""
        return self._state == "open"

    def require_open(self) -> None:
        """Raise unless the transaction may still be used."""
        if not self.is_open:
            raise Conflict(f"the transaction was {self._state} before", reason="closed", hint=_HINT)

    def snapshot(self, *, temporary: bool = True) -> Snapshot:
        """The graph as the transaction sees it: its base, with its own writes, of which temporary ones may be left out."""
        with self._lock:
            self.flush()
            entries = dict(self.base.entries)
            hidden = frozenset() if temporary else self._temporary
            for key, table in self._tables.items():
                if table.is_dropped or key in hidden:
                    entries.pop(key, None)
                else:
                    self._show(table)
                    entries[key] = self._entry(table)
            definitions = dict(self.base.definitions)
            definitions |= {key: change for key, change in self._definitions.items() if key not in hidden}
            return replace(
                self.base,
                entries=MappingProxyType(dict(sorted(entries.items()))),
                definitions=MappingProxyType(definitions),
                is_past=False,
            )

    def _entry(self, table: _WorkingTable) -> Entry:
        last = table.last
        if table.entry is not None and table.entry.version == last.version:
            return table.entry
        table.entry = Entry(
            table_key=table.key,
            path=last.path,
            version=last.version,
            branch=last.branch,
            row_count=self.store.storage.count(last),
            transaction_uuid=f"{self.id}-{last.version}",
        )
        return table.entry

    def note_reads(self, keys: Iterable[str]) -> None:
        """Note tables that the transaction has read: its writes rest on them."""
        with self._lock:
            self._reads.update(keys)

    @property
    def reads(self) -> frozenset[str]:
        """The tables that it has read, temporary ones left out."""
        with self._lock:
            return frozenset(self._reads - self._temporary)

    # Temporary tables and views

    def is_temporary(self, key: str) -> bool:
        """True for a table or view that ends with the transaction."""
        return key in self._temporary

    def make_temporary(self, key: str) -> None:
        """Let a table or view that the transaction has made end with it."""
        with self._lock:
            self._temporary.add(key)

    # Writing

    @contextmanager
    def statement(self) -> Iterator[None]:
        """Let nobody else use the transaction, and undo what the block wrote if it fails."""
        with self._lock:
            self.require_open()
            before = self._savepoint()
            try:
                yield
            except BaseException:
                self._back_to(before)
                self.version += 1
                raise

    def apply(self, prepare: Callable[[Snapshot], PreparedWrite[T]]) -> T:
        """Prepare a write on what the transaction sees, and stage it. One that fails leaves everything as it was."""
        with self._lock:
            self.require_open()
            prepared = prepare(self.snapshot())
            self._reads |= prepared.reads
            before = self._savepoint()
            try:
                for write in prepared.writes:
                    self._write(write)
                for change in prepared.changes:
                    self._change(change)
            except BaseException:
                self._back_to(before)
                raise
            self.version += 1
            return prepared.result

    def append_later(self, key: str, rows: pa.RecordBatch) -> None:
        """Add rows to a table that the transaction sees. They are staged before anything is read, or when they are many."""
        with self._lock:
            self.require_open()
            pending = self._pending.setdefault(key, [])
            pending.append(rows)
            if len(pending) >= _MOST_PENDING:
                self.flush()

    def flush(self) -> None:
        """Stage the rows that are still to be added."""
        with self._lock:
            while self._pending:
                key, batches = next(iter(self._pending.items()))
                self._write(Append(key, TableRows.of(pa.Table.from_batches(batches))))
                self._changes_of[key] -= 1  # these rows were counted when they came
                del self._pending[key]
                self.version += 1

    def changes_of(self, key: str) -> int:
        """A number that grows when a table changes, except by rows that are added later."""
        return self._changes_of[key]

    def _savepoint(self) -> _Savepoint:
        tables = {key: (table.last, table.staged, table.fresh, table.is_dropped) for key, table in self._tables.items()}
        pending = {key: tuple(batches) for key, batches in self._pending.items()}
        return _Savepoint(tables, dict(self._definitions), frozenset(self._temporary), pending)

    def _back_to(self, before: _Savepoint) -> None:
        """Undo the writes of a statement that failed in the middle."""
        self._definitions, self._temporary = dict(before.definitions), set(before.temporary)
        self._pending = {key: list(batches) for key, batches in before.pending.items()}
        for key, table in list(self._tables.items()):
            self._changes_of[key] += 1
            if key in before.tables:
                table.last, table.staged, table.fresh, table.is_dropped = before.tables[key]
            else:
                table.last, table.staged, table.is_dropped = table.base, None, key not in self.base.entries

    def _write(self, write: TableWrite) -> None:
        table = self._tables.get(write.table_key) or self._begin(write)
        if table.is_dropped:
            assert isinstance(write, CreateTable)
            table.is_dropped = False
        self._show(table)
        self._changes_of[write.table_key] += 1
        table.staged = stage_write(self.store, table.last, write, self.id)
        if isinstance(write, Overwrite | CreateTable):
            table.fresh = None

    def _show(self, table: _WorkingTable) -> None:
        """Make a version of what was staged last. A transaction that reads nothing after its only write needs none."""
        if table.staged is not None:
            table.last = commit_view(self.store.storage, table.last, table.staged, self.id, owns_files=False)
            table.views.append(table.last)
            table.staged = None

    def _begin(self, write: TableWrite) -> _WorkingTable:
        storage = self.store.storage
        key = write.table_key
        entry = self.base.entries.get(key)
        if entry is not None and not needs_fork(self.base, entry):
            base, place = storage.open(entry), None
        else:
            place = self._place(write, entry)
            base = self._fork(place)
        self._tables[key] = table = _WorkingTable(key=key, base=base, last=base, place=place, fresh=next_row(base))
        return table

    def _place(self, write: TableWrite, entry: Entry | None) -> SidecarTable:
        fork = fork_name(self.branch, self.id)
        if entry is None:
            return new_table(self.store, self.base, write, fork)
        return SidecarTable(
            table_key=write.table_key,
            table_path=entry.path,
            table_branch=fork,
            expected_version=entry.version,
            post_commit_version=entry.version + 1,
            fork_from=(entry.branch, entry.version),
            expected_branch=entry.branch,
            expected_uuid=entry.transaction_uuid,
        )

    def _fork(self, place: SidecarTable) -> SnapshotHandle:
        """The transaction's own branch of a table. Nothing names it before the publish; a cleanup finds it."""
        storage = self.store.storage
        assert place.fork_from is not None
        assert place.table_branch is not None
        handle = storage.fork(place.table_path, *place.fork_from, place.table_branch)
        while handle.version + 1 < place.post_commit_version:
            bump = storage.stage_rewrite(handle, None, None, self.id)
            handle = storage.commit_staged(handle, bump)
        return handle

    def _change(self, change: Tombstone | DefinitionChange | PointerUpdate) -> None:
        match change:
            case DefinitionChange():
                self._definitions[change.table_key] = Definition(change.table_key, change.revision, change.definition)
                if change.definition is None:
                    self._temporary.discard(change.table_key)
            case Tombstone():
                table = self._tables.get(change.table_key)
                if table is None:
                    entry = self.base.entry(change.table_key)
                    handle = self.store.storage.open(entry)
                    self._tables[change.table_key] = table = _WorkingTable(
                        key=change.table_key, base=handle, last=handle, fresh=next_row(handle)
                    )
                table.is_dropped = True
                self._changes_of[change.table_key] += 1
                self._temporary.discard(change.table_key)
            case PointerUpdate():
                text = f"{change.table_key} cannot be taken over from another branch inside a transaction"
                raise BadRequest(text, hint="merge outside of the transaction")

    # The end

    def commit(self, provenance: Provenance | None = None, review: Review = None) -> Commit | None:
        """Publish everything as one commit; None if nothing changed. Closes the transaction, also by a failure."""
        with self._lock:
            self.require_open()
            try:
                self.flush()
                if review is not None:
                    review(self.snapshot(temporary=False))
                attempt = self._attempt()
                if attempt.prepared.is_empty:
                    commit = None
                else:
                    outcome = publish_attempt(self.store, self.branch, attempt, provenance or self.provenance)
                    commit = outcome.commit
            except BaseException as error:
                self.rollback()
                if isinstance(error, ExpectedVersionMismatch):
                    raise self._conflict(error) from None
                raise
            self._state = "committed"
            self._drop_views()
            self._drop_forks(only=self._temporary)
            return commit

    @contextmanager
    def closing(self, state: str) -> Iterator[None]:
        """Close the transaction once the block has done something else with what it wrote; nothing is left of it here."""
        with self._lock:
            self.require_open()
            yield
            self.rollback()
            self._state = state

    def _conflict(self, error: ExpectedVersionMismatch) -> Conflict:
        verb = "wrote" if error.table_key in self._tables else "read"
        text = f"{error.table_key}, which the transaction {verb}, was changed by others since it began: {error.message}"
        return Conflict(text, reason="table changed", hint="run the transaction again")

    def rollback(self) -> None:
        """Drop everything. Nothing was visible, and nothing is left."""
        with self._lock:
            if not self.is_open:
                return
            self._state = "rolled back"
            self._pending.clear()
            self._drop_views()
            self._drop_forks(only=self._tables.keys())

    def _drop_forks(self, only: Collection[str]) -> None:
        for key in only:
            table = self._tables.get(key)
            if table is not None and table.place is not None and table.place.table_branch is not None:
                with suppress(OmnigraphError):  # what is left is found by a cleanup
                    self.store.storage.force_delete_branch(table.place.table_path, table.place.table_branch)

    def _drop_views(self) -> None:
        for table in self._tables.values():
            for view in table.views:
                with suppress(OmnigraphError):
                    drop_view(self.store.storage, view)
            table.views = []

    def _attempt(self) -> Attempt[None]:
        staged: dict[str, StagedHandle] = {}
        places: dict[str, SidecarTable] = {}
        heads: dict[str, SnapshotHandle] = {}
        changes: list[Tombstone | DefinitionChange] = list(self._definition_changes())
        for key, table in sorted(self._tables.items()):
            if key in self._temporary:
                continue
            if table.is_dropped:
                if key in self.base.entries:
                    changes.append(Tombstone(key, self.base.pin(key) + 1))
                continue
            write = self._collapsed(table)
            if write is None:
                continue
            staged[key] = write
            if table.place is not None:
                places[key], heads[key] = table.place, table.base
        reads = self.reads - staged.keys()
        prepared: PreparedWrite[None] = PreparedWrite(
            writes=tuple(StagedBefore(key) for key in staged), reads=reads, result=None, changes=tuple(changes)
        )
        return Attempt(self.base, prepared, staged, operation_id=self.id, places=places, heads=heads)

    def _collapsed(self, table: _WorkingTable) -> StagedHandle | None:
        """Everything that the transaction wrote to a table as one write; None if it comes to nothing."""
        if table.staged is not None and table.last is table.base:
            return replace(table.staged, waited=True)
        self._show(table)
        return collapse(self.store.storage, table.base, table.last, self.id, fresh=table.fresh)

    def _definition_changes(self) -> Iterator[DefinitionChange]:
        for key, definition in sorted(self._definitions.items()):
            if key in self._temporary:
                continue
            before = self.base.defined(key)
            if (None if before is None else before.metadata) != definition.metadata:
                yield DefinitionChange(key, self.base.pin(key) + 1, definition.metadata)
