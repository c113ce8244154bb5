"""The sealed door to graph tables: reads, staged writes, commits and table branches.

No `stage_*` method moves the head of a table; `commit_staged` moves it by exactly one version and checks that it did.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final, Literal

import lance
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from lance.dataset import ColumnOrdering, LanceOperation, Transaction
from lance.fragment import write_fragments
from lance.schema import LanceSchema

from omnigraph_sql.caches import LruCache
from omnigraph_sql.errors import Conflict, Internal, NotFound, Storage
from omnigraph_sql.storage.arrow_streams import stream
from omnigraph_sql.storage.branch_refs import (
    branch_names,
    damaged,
    delete_branch,
    dependants_of,
    read_references,
    reference_name,
)
from omnigraph_sql.storage.datasets import STORAGE_VERSION, commit_new, new_session, open_dataset, stage_new
from omnigraph_sql.storage.derived_files import DerivedFiles, derived_directory
from omnigraph_sql.storage.error_translation import (
    LANCE_ERRORS,
    RESTORE,
    is_absence,
    is_conflict,
    storage_error,
    translated_errors,
)
from omnigraph_sql.storage.ffi_provider import make_provider
from omnigraph_sql.storage.filters import filtered
from omnigraph_sql.storage.fold import fold_fragments
from omnigraph_sql.storage.fragments import btree_covers, fragment_marks
from omnigraph_sql.storage.handles import (
    SnapshotHandle,
    StagedHandle,
    StagedKind,
    TableEntry,
    TableState,
    TransactionInfo,
    reading,
    reclaimed,
)
from omnigraph_sql.storage.index_definitions import IndexSpec, IndexState, build_indexes
from omnigraph_sql.storage.integrity import new_fragments, staged_files
from omnigraph_sql.storage.objects import ObjectStore
from omnigraph_sql.storage.row_stage import FRAGMENT_ROWS, Rows, RowStage
from omnigraph_sql.storage.table_names import table_name
from omnigraph_sql.storage.table_parts import fragments_of
from omnigraph_udfs.ids import IdIndex

OPERATION_ID: Final = "omnigraph.operation_id"
UNDO_OF: Final = "omnigraph.undo_of"
_HANDLES: Final = 256
_LOOKED_UP: Final = 1 << 14
_SEAL: Final = object()
_CACHED_DELETIONS: Final = 64 << 20
_CACHED_IDS: Final = 256 << 20
_WIDE: Final = 1 << 23
"""Numbers of a vector that no row can have: they take more than the vectors of a row may."""


class TableStorage:
    """Tables of one graph root. Made by `open_storage` only; counts its calls, for tests that state what something costs."""

    def __init__(self, seal: object, objects: ObjectStore) -> None:
        if seal is not _SEAL:
            raise Internal("TableStorage is made by open_storage")
        self.objects = objects
        self.derived = DerivedFiles(derived_directory(str(objects.root)))
        self.calls: Counter[str] = Counter()
        self._session = new_session()
        self._options = objects.root.storage_options
        self._handles: LruCache[tuple[str, str | None, int, str | None], SnapshotHandle] = LruCache(_HANDLES)
        self.deletions: LruCache[object, npt.NDArray[np.int64]] = LruCache(_CACHED_DELETIONS, lambda rows: rows.nbytes)
        """Offsets of deleted rows, by the files of a fragment and its list of deletions."""
        self.fragment_ids: LruCache[tuple[str, ...], IdIndex] = LruCache(_CACHED_IDS, lambda index: index.nbytes)
        """Ids of fragments, by their files."""
        self.lookups: LruCache[tuple[str, ...], int] = LruCache(_LOOKED_UP)
        """The number of times that ids were looked up in fragments that have no index yet."""

    def reset(self) -> None:
        """Forget what was read: the files were replaced by others of their names."""
        self._handles.clear()
        self.deletions.clear()
        self.fragment_ids.clear()
        self.lookups.clear()
        self._session = new_session()

    # Opening

    def dataset_uri(self, path: str) -> str:
        return self.objects.uri(path)

    def create_table(self, path: str, schema: pa.Schema) -> SnapshotHandle:
        """A new, empty table. Its path must not exist."""
        self.calls["create"] += 1
        with translated_errors(path):
            dataset = lance.write_dataset(  # inline-commit-ok: nothing references the table yet
                schema.empty_table(),
                self.dataset_uri(path),
                mode="create",
                enable_stable_row_ids=True,
                data_storage_version=STORAGE_VERSION,
                session=self._session,
                storage_options=self._options,
            )
        return self._durable(SnapshotHandle(path, None, dataset.version, dataset))

    def ensure_table(self, path: str) -> int:
        """The first version of a table that branches of the graph fork from: it has no rows. Safe to race."""
        if not self.table_exists(path):
            self.calls["create"] += 1
            empty = pa.schema([pa.field("_", pa.null())]).empty_table()
            try:
                commit_new(self.objects, path, stage_new(self.objects, path, empty))
            except LANCE_ERRORS as error:
                if not self.table_exists(path):
                    raise storage_error(error, path) from error
        return 1

    def open(self, entry: TableEntry) -> SnapshotHandle:
        """The version of a table that an entry of a snapshot shows."""
        return self.open_at(entry.path, entry.branch, entry.version, entry.transaction_uuid)

    def open_at(self, path: str, branch: str | None, version: int, transaction_uuid: str | None = None) -> SnapshotHandle:
        """A version of a table. Handles are cached, so a repeated open costs nothing."""
        key = (path, branch, version, transaction_uuid)
        return self._handles.peek(key) or self._handles.put(key, self._open(path, branch, version))

    def forget(self, path: str, branch: str | None, version: int) -> None:
        """Drop the handles to a version that is about to be deleted."""
        self._handles.remove(lambda key: key[:3] == (path, branch, version))

    def open_head(self, path: str, branch: str | None) -> SnapshotHandle:
        """The newest version of a table on a branch."""
        return self._open(path, branch, None)

    def newest_version(self, handle: SnapshotHandle) -> int:
        """The head of the table that a handle belongs to, without opening it."""
        self.calls["probe"] += 1
        try:
            return int(handle._dataset.latest_version)
        except LANCE_ERRORS as error:
            raise self._missing(handle.path, handle.branch, None, error) from error

    def _open(self, path: str, branch: str | None, version: int | None, block_size: int | None = None) -> SnapshotHandle:
        self.calls["open"] += 1
        try:
            dataset = open_dataset(self.objects, path, branch, version, session=self._session, block_size=block_size)
        except LANCE_ERRORS as error:
            raise self._missing(path, branch, version, error) from error
        return SnapshotHandle(path, branch, dataset.version, dataset)

    def _missing(self, path: str, branch: str | None, version: int | None, error: Exception) -> Exception:
        if not is_absence(error):
            return storage_error(error, path)
        where = f"{path} on branch `{branch}`" if branch else path
        if version is not None and self.table_exists(path):
            return reclaimed(path, branch, version)
        text = f"the table {where} does not exist"
        return NotFound(text, what="table", name=where, hint=f"the graph is damaged: {RESTORE}")

    def _durable(self, handle: SnapshotHandle, *others: str) -> SnapshotHandle:
        """The same handle, its new files and other named ones on disk if that is asked for."""
        with translated_errors(handle.path):
            self.objects.files.flush_version(table_name(handle.path, handle.branch), handle._dataset, self.calls)
        self.objects.files.flush_objects((f"{handle.path}/{name}" for name in others), self.calls)
        return handle

    # Reading

    def schema(self, handle: SnapshotHandle) -> pa.Schema:
        schema: pa.Schema = handle._dataset.schema
        return schema

    def scan(
        self,
        handle: SnapshotHandle,
        columns: Sequence[str] | None = None,
        filter: pc.Expression | str | None = None,
        limit: int | None = None,
        batch_rows: int | None = None,
        order_by: str | None = None,
        first_row: int | None = None,
    ) -> pa.RecordBatchReader:
        """Rows in table order. The column `_rowoffset` is the position of a row in that order."""
        self.calls["scan"] += 1
        with reading(handle):
            if any(_is_wide(field.type) for field in self.schema(handle)) and handle._dataset.count_rows() == 0:
                return _no_rows(self.schema(handle), columns)
            scanner = filtered(
                handle._dataset,
                filter,
                order_by=None if order_by is None else [ColumnOrdering(order_by)],
                columns=None if columns is None else list(columns),
                limit=limit,
                offset=first_row,
                batch_size=batch_rows,
                blob_handling="all_binary",
            )
            reader: pa.RecordBatchReader = scanner.to_reader()
        return pa.RecordBatchReader.from_batches(reader.schema, self._counted(reader, handle))

    def _counted(self, batches: Iterable[pa.RecordBatch], handle: SnapshotHandle) -> Iterator[pa.RecordBatch]:
        waiting = iter(batches)
        while True:
            with reading(handle):
                batch = next(waiting, None)
            if batch is None:
                return
            self.calls["rows"] += batch.num_rows
            yield batch

    def provider(self, handle: SnapshotHandle) -> Any:
        """A version of a table as DataFusion reads it: projections, filters and limits reach the table and its indexes."""
        if "provider" not in handle._made:

            def reopen(block_size: int) -> Any:
                return self._open(handle.path, handle.branch, handle.version, block_size)._dataset

            with translated_errors(handle.path):
                handle._made["provider"] = make_provider(handle._dataset, reopen)
        return handle._made["provider"]

    def take(self, handle: SnapshotHandle, column: str, positions: npt.NDArray[np.int64]) -> pa.ChunkedArray:
        """The values of a column at positions in table order; these must be ascending and different."""
        self.calls["take"] += 1
        self.calls["rows"] += len(positions)
        if isinstance(self.schema(handle).field(column).type, pa.BaseExtensionType):
            # A blob: `take` would give where its bytes are.
            rows = f"_rowoffset IN ({', '.join(map(str, positions.tolist()))})"
            with reading(handle):
                return handle._dataset.to_table([column], filter=rows, blob_handling="all_binary").column(0)
        with reading(handle):
            return handle._dataset.take(positions, [column]).column(0)

    def layout(self, handle: SnapshotHandle) -> list[str]:
        """A mark of the content of each fragment, in table order. A layout that extends another one has only added rows."""
        return fragment_marks(handle._dataset)

    def index_coverage(self, handle: SnapshotHandle, column: str) -> bool:
        """True if a BTREE on the column knows all rows."""
        return btree_covers(handle._dataset, column)

    def count(self, handle: SnapshotHandle, filter: pc.Expression | str | None = None) -> int:
        self.calls["count"] += 1
        with reading(handle):
            return int(handle._dataset.count_rows(filter))

    def state(self, handle: SnapshotHandle, made_by: StagedHandle | None = None) -> TableState:
        """Row count and transaction of an opened version; `made_by` is the staged write, if the caller committed it."""
        own = self.read_transaction(handle, handle.version).uuid if made_by is None else str(made_by._transaction.uuid)
        with reading(handle):
            return TableState(handle.version, int(handle._dataset.count_rows()), own)

    def read_transaction(self, handle: SnapshotHandle, version: int) -> TransactionInfo:
        """Which write made a version."""
        self.calls["transaction"] += 1
        try:
            transaction = handle._dataset.read_transaction(version)
        except TypeError:
            # Lance cannot read back a compaction that moved an index; such a version names no operation of ours.
            return TransactionInfo(f"unreadable-{version}", None, None, "Rewrite")
        except LANCE_ERRORS as error:
            raise storage_error(error, handle.path) from error
        properties = transaction.transaction_properties or {}
        return TransactionInfo(
            transaction.uuid, properties.get(OPERATION_ID), properties.get(UNDO_OF), type(transaction.operation).__name__
        )

    # Staging

    def stage_append(self, handle: SnapshotHandle, rows: Rows, operation_id: str) -> StagedHandle:
        return self._stage_fragments(handle, rows, "append", operation_id)

    def stage_overwrite(self, handle: SnapshotHandle, rows: Rows, operation_id: str) -> StagedHandle:
        """The table becomes exactly these rows, possibly none."""
        return self._stage_fragments(handle, rows, "overwrite", operation_id)

    def _stage_fragments(
        self, handle: SnapshotHandle, rows: Rows, mode: Literal["append", "overwrite"], operation_id: str
    ) -> StagedHandle:
        self.calls["stage"] += 1
        with reading(handle):
            transaction = write_fragments(
                rows, handle._dataset, mode=mode, max_rows_per_file=FRAGMENT_ROWS, return_transaction=True
            )
        operation: Any = transaction.operation
        count = sum(fragment.num_rows for fragment in operation.fragments)
        return self._staged(handle, transaction, mode, operation_id, count)

    def stage_parts(
        self, handle: SnapshotHandle, entries: Iterable[Any], mode: Literal["append", "overwrite"], operation_id: str
    ) -> StagedHandle:
        """Fragments that others wrote on this lineage, as one write."""
        self.calls["stage"] += 1
        fragments = fragments_of(entries)
        is_append = mode == "append"
        schema = LanceSchema.from_pyarrow(self.schema(handle))
        operation = LanceOperation.Append(fragments) if is_append else LanceOperation.Overwrite(schema, fragments)
        transaction = Transaction(handle.version, operation, uuid=str(uuid.uuid4()))
        staged = self._staged(handle, transaction, mode, operation_id, sum(fragment.num_rows for fragment in fragments))
        return replace(staged, waited=True)

    def stage_merge_insert(
        self, handle: SnapshotHandle, rows: Rows, operation_id: str, keys: Sequence[str] = ("id",)
    ) -> StagedHandle:
        """Upsert by the keys: whole rows are replaced, new ones inserted. Keys must be distinct."""
        self.calls["stage"] += 1
        builder = handle._dataset.merge_insert(list(keys)).when_matched_update_all().when_not_matched_insert_all()
        with reading(handle):
            transaction, stats = builder.execute_uncommitted(rows)
        return self._staged(
            handle, transaction, "merge", operation_id, stats["num_inserted_rows"] + stats["num_updated_rows"]
        )

    def stage_delete(self, handle: SnapshotHandle, ids: pa.Array, operation_id: str) -> StagedHandle:
        """Remove the rows with these ids."""
        self.calls["stage"] += 1
        keys = pa.table({"id": ids.cast(pa.string())}, schema=pa.schema([self.schema(handle).field("id")]))
        with reading(handle):
            transaction, stats = handle._dataset.merge_insert("id").when_matched_delete().execute_uncommitted(keys)
        return self._staged(handle, transaction, "delete", operation_id, stats["num_deleted_rows"])

    def stage_rewrite(
        self, handle: SnapshotHandle, condition: str | None, rows: Rows | None, operation_id: str
    ) -> StagedHandle:
        """Remove the rows that satisfy a condition (none without one) and add others."""
        stage = self.stage_rows(handle)
        if condition is not None:
            for batch in self.scan(handle, ["_rowaddr"], condition):
                stage.remove(batch.column(0))
        if rows is not None:
            stage.add(rows)
        return stage.finish(operation_id)

    def stage_rows(self, handle: SnapshotHandle, *, folds: bool = True) -> RowStage:
        """Changed, new and removed rows of one write, given piece by piece."""
        self.calls["stage"] += 1

        def finish(change: Transaction, operation_id: str, rows: int) -> StagedHandle:
            return self._staged(handle, change, "rows", operation_id, rows, folds=folds)

        return RowStage(handle, finish)

    def stage_create_indices(self, handle: SnapshotHandle, specs: Iterable[IndexSpec], operation_id: str) -> StagedHandle:
        """Build indexes over all rows, in one commit. One that exists gets another segment."""
        self.calls["stage"] += 1
        # Lance takes the dataset for itself meanwhile, and readers on other threads share that of the handle.
        own = self._open(handle.path, handle.branch, handle.version)._dataset
        with reading(handle):
            built = build_indexes(own, specs)
        transaction = Transaction(handle.version, LanceOperation.CreateIndex(built, []), uuid=str(uuid.uuid4()))
        return self._staged(handle, transaction, "indices", operation_id, 0)

    def indexes(self, handle: SnapshotHandle) -> list[IndexState]:
        """The indexes of a version, by name."""
        self.calls["indexes"] += 1
        dataset = handle._dataset
        present = {fragment.fragment_id for fragment in dataset.get_fragments()}
        states = []
        for index in dataset.describe_indices():
            covered = frozenset(int(number) for segment in index.segments for number in segment.fragment_ids) & present
            kind = index.index_type.upper()
            states.append(IndexState(index.name, index.field_names[0], kind, covered, covered == present))
        return sorted(states, key=lambda state: state.name)

    def _staged(
        self,
        handle: SnapshotHandle,
        transaction: Any,
        kind: StagedKind,
        operation_id: str,
        rows: int,
        *,
        folds: bool = True,
    ) -> StagedHandle:
        self.objects.files.require_whole(table_name(handle.path, handle.branch), new_fragments(transaction.operation))
        folded = 0
        if folds and kind in ("append", "merge", "rows"):
            operation = self._folded(handle, transaction.operation) or transaction.operation
            folded = len(list(new_fragments(operation))) - len(list(new_fragments(transaction.operation)))
            transaction.operation = operation
        transaction.transaction_properties = {OPERATION_ID: operation_id}
        return StagedHandle(
            path=handle.path,
            branch=handle.branch,
            base_version=handle.version,
            kind=kind,
            operation_id=operation_id,
            transaction_uuid=transaction.uuid,
            rows=int(rows),
            _transaction=transaction,
            folded=folded,
        )

    def _folded(self, handle: SnapshotHandle, operation: Any) -> Any | None:
        """A write that folds small fragments as well, if it can. One that cannot, leaves them and goes on."""
        try:
            folded = fold_fragments(handle._dataset, operation)
            if folded is not None:
                self.objects.files.require_whole(table_name(handle.path, handle.branch), new_fragments(folded))
        except (*LANCE_ERRORS, Storage):
            return None
        return folded

    def attribute(self, staged: StagedHandle, operation_id: str) -> StagedHandle:
        """The same staged write, marked with the operation that is about to commit it."""
        staged._transaction.transaction_properties = {OPERATION_ID: operation_id}
        return replace(staged, operation_id=operation_id)

    def require_files(self, staged: StagedHandle) -> None:
        """Raise if files of a staged write are gone: a version that names them could never be read."""
        for name in staged_files(staged._transaction, table_name(staged.path, staged.branch)):
            if not self.objects.exists(name):
                text = f"the staged rows {name} are gone"
                raise NotFound(text, what="staged load", name=name, hint="stage the load again")

    def write_spool(self, name: str, rows: pa.RecordBatchReader) -> None:
        """Rows that wait outside any table, as an Arrow file."""
        self.calls["spool"] += 1
        self.objects.write_chunks(name, stream(rows))

    def read_spool(self, name: str) -> pa.RecordBatchReader:
        """Rows written by `write_spool`."""
        hint = "stage the load again"
        try:
            with translated_errors(name, hint):
                reader: pa.RecordBatchReader = pa.ipc.open_stream(self.objects.open(name))
        except NotFound:
            raise NotFound(f"the staged rows {name} are gone", what="staged load", name=name, hint=hint) from None
        return reader

    # Committing

    def commit_staged(self, handle: SnapshotHandle, staged: StagedHandle) -> SnapshotHandle:
        """Make a staged write the head of its table. `Conflict` unless it lands exactly one version above its base."""
        if (handle.path, handle.branch, handle.version) != (staged.path, staged.branch, staged.base_version):
            raise Internal(
                f"a write staged on version {staged.base_version} of {staged.path} is committed on another handle"
            )
        self.calls["commit"] += 1
        try:
            dataset = lance.LanceDataset.commit(
                handle._dataset, staged._transaction, max_retries=0, storage_options=self._options
            )
        except LANCE_ERRORS as error:
            if is_conflict(error):
                text = f"{staged.path} was changed by another writer"
                raise Conflict(text, reason="commit", hint="repeat the write") from error
            raise storage_error(error, staged.path) from error
        if dataset.version != staged.base_version + 1:
            wanted = staged.base_version + 1
            text = f"{staged.path} was changed by another writer: version {dataset.version} instead of {wanted}"
            raise Conflict(text, reason="rebased", hint="repeat the write")
        new = self._durable(SnapshotHandle(staged.path, staged.branch, dataset.version, dataset))
        self._handles.put((new.path, new.branch, new.version, staged._transaction.uuid), new)
        return new

    # Table branches

    def fork(self, path: str, from_branch: str | None, from_version: int, to_branch: str) -> SnapshotHandle:
        """A table branch that starts at a version. The name must be new."""
        self.calls["fork"] += 1
        root = self._open(path, None, None)._dataset
        source = from_version if from_branch is None else (from_branch, from_version)
        with translated_errors(path):
            root.create_branch(to_branch, source)
        reference = reference_name(path, to_branch).removeprefix(f"{path}/")
        return self._durable(self._open(path, to_branch, None), reference)

    def list_branches(self, path: str) -> list[str]:
        self.calls["branches"] += 1
        return branch_names(self.objects, path)

    def force_delete_branch(self, path: str, branch: str) -> None:
        """Remove a table branch and what an interrupted fork may have left; an absent one is success.

        One that others were forked from stays, and so does one for which that is unknown.
        """
        self.calls["delete_branch"] += 1
        references = read_references(self.objects, path)
        others = dependants_of(references, branch)
        if others:
            text = f"{path} on branch `{branch}` cannot be deleted: `{others[0]}` depends on it"
            raise Conflict(text, reason="descendants", hint=f"delete `{others[0]}` first")
        unreadable = damaged(path, [name for name, entry in references.items() if entry is None and name != branch])
        if unreadable is not None:
            raise unreadable
        delete_branch(self.objects, path, branch)

    def table_exists(self, path: str) -> bool:
        return self.objects.has_version(path)


def _is_wide(type_: pa.DataType) -> bool:
    return bool(pa.types.is_fixed_size_list(type_) and type_.list_size > _WIDE)


def _no_rows(schema: pa.Schema, columns: Sequence[str] | None) -> pa.RecordBatchReader:
    """The result of a scan of no rows, for tables where Lance would allocate a huge row to find it out."""
    names = schema.names if columns is None else columns
    by_name = {field.name: field for field in schema}
    fields = [by_name.get(name, pa.field(name, pa.uint64())) for name in names]  # positions and row ids are no columns
    plain = [
        pa.field(field.name, pa.large_binary()) if isinstance(field.type, pa.BaseExtensionType) else field
        for field in fields
    ]
    return pa.RecordBatchReader.from_batches(pa.schema(plain), [])
