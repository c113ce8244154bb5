"""The sealed door to graph tables: reads, staged writes, commits and table branches.

No `stage_*` method moves the head of a table; `commit_staged` moves it by exactly one version and checks that it did.
"""

from __future__ import annotations

import threading
import uuid
from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final, Literal
from urllib.parse import quote

import lance
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from lance.dataset import ColumnOrdering, LanceOperation, Transaction
from lance.fragment import write_fragments
from lance.schema import LanceSchema

from omnigraph_sql.errors import Conflict, Internal, NotFound, Storage
from omnigraph_sql.storage.datasets import STORAGE_VERSION, commit_new, new_session, stage_new
from omnigraph_sql.storage.derived import DerivedFiles, derived_directory
from omnigraph_sql.storage.faults import LANCE_ERRORS, RESTORE, fault, guarded, is_absence, is_conflict
from omnigraph_sql.storage.filters import filtered
from omnigraph_sql.storage.folding import folded
from omnigraph_sql.storage.handles import (
    SnapshotHandle,
    StagedHandle,
    StagedKind,
    TableState,
    TransactionInfo,
    reading,
    reclaimed,
)
from omnigraph_sql.storage.indexing import IndexSpec, IndexState
from omnigraph_sql.storage.layout import btree_covers, fragments
from omnigraph_sql.storage.names import table_name
from omnigraph_sql.storage.objects import ObjectStore
from omnigraph_sql.storage.parts import fragments_of
from omnigraph_sql.storage.providers import make_provider
from omnigraph_sql.storage.references import branches_of
from omnigraph_sql.storage.row_stage import Rows, RowStage
from omnigraph_sql.storage.streams import stream
from omnigraph_sql.storage.wholeness import new_fragments, staged_files

OPERATION_ID: Final = "omnigraph.operation_id"
UNDO_OF: Final = "omnigraph.undo_of"
_HANDLES: Final = 256
_SEAL: Final = object()
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
        self._handles: OrderedDict[tuple[str, str | None, int, str | None], SnapshotHandle] = OrderedDict()
        self._lock = threading.Lock()

    # Opening

    def dataset_uri(self, path: str) -> str:
        return self.objects.uri(path)

    def create_table(self, path: str, schema: pa.Schema) -> SnapshotHandle:
        """A new, empty table. Its path must not exist."""
        self.calls["create"] += 1
        with guarded(path):
            dataset = lance.write_dataset(  # inline-commit-ok: a table nobody references yet
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
                    raise fault(error, path) from error
        return 1

    def open_at(self, path: str, branch: str | None, version: int, transaction_uuid: str | None = None) -> SnapshotHandle:
        """A version of a table. Handles are kept, so a repeated open costs nothing."""
        key = (path, branch, version, transaction_uuid)
        with self._lock:
            handle = self._handles.get(key)
            if handle is not None:
                self._handles.move_to_end(key)
                return handle
        handle = self._open(path, branch, version)
        self._keep(key, handle)
        return handle

    def _keep(self, key: tuple[str, str | None, int, str | None], handle: SnapshotHandle) -> None:
        with self._lock:
            self._handles[key] = handle
            if len(self._handles) > _HANDLES:
                self._handles.popitem(last=False)

    def forget(self, path: str, branch: str | None, version: int) -> None:
        """Let go of the handles to a version, which is about to go away."""
        with self._lock:
            for key in [each for each in self._handles if each[:3] == (path, branch, version)]:
                del self._handles[key]

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
        uri = self.objects.uri(table_name(path, branch))
        settings: dict[str, Any] = {"session": self._session, "storage_options": self._options, "block_size": block_size}
        try:
            dataset = lance.dataset(uri, version=version, **settings)
        except LANCE_ERRORS as error:
            raise self._missing(path, branch, version, error) from error
        return SnapshotHandle(path, branch, dataset.version, dataset)

    def _missing(self, path: str, branch: str | None, version: int | None, error: Exception) -> Exception:
        if not is_absence(error):
            return fault(error, path)
        where = f"{path} on branch `{branch}`" if branch else path
        if version is not None and self.table_exists(path):
            return reclaimed(path, branch, version)
        text = f"the table {where} does not exist"
        return NotFound(text, what="table", name=where, hint=f"the graph is damaged: {RESTORE}")

    def _durable(self, handle: SnapshotHandle, *others: str) -> SnapshotHandle:
        """The same handle, its new files and other named ones on disk if that is asked for."""
        with guarded(handle.path):
            self.objects.files.flush_version(table_name(handle.path, handle.branch), handle._dataset, self.calls)
        self.objects.files.flush_objects((f"{handle.path}/{each}" for each in others), self.calls)
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
            if any(_is_wide(each.type) for each in self.schema(handle)) and handle._dataset.count_rows() == 0:
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

            with guarded(handle.path):
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
        """What each fragment holds, in table order. If one layout begins with another, rows were only added since."""
        return fragments(handle._dataset)

    def index_coverage(self, handle: SnapshotHandle, column: str) -> bool:
        """Whether a BTREE on the column knows all rows."""
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
            raise fault(error, handle.path) from error
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
            transaction = write_fragments(rows, handle._dataset, mode=mode, return_transaction=True)
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
        staged = self._staged(handle, transaction, mode, operation_id, sum(each.num_rows for each in fragments))
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

    def stage_rows(self, handle: SnapshotHandle) -> RowStage:
        """Changed, new and removed rows of one write, given piece by piece."""
        self.calls["stage"] += 1
        return RowStage(handle, lambda change, operation_id, rows: self._staged(handle, change, "rows", operation_id, rows))

    def stage_create_indices(self, handle: SnapshotHandle, specs: Iterable[IndexSpec], operation_id: str) -> StagedHandle:
        """Build indexes over all rows, in one commit. One that exists gets another segment."""
        self.calls["stage"] += 1
        dataset = handle._dataset
        fragments = [each.fragment_id for each in dataset.get_fragments()]
        built = []
        for spec in specs:
            settings = _settings(spec, dataset)
            with reading(handle):
                index = dataset.create_index_uncommitted(
                    spec.column, spec.kind, name=spec.name, fragment_ids=fragments, replace=True, **settings
                )
                built.append(dataset.merge_existing_index_segments([index]) if spec.kind == "INVERTED" else index)
        transaction = Transaction(handle.version, LanceOperation.CreateIndex(built, []), uuid=str(uuid.uuid4()))
        return self._staged(handle, transaction, "indices", operation_id, 0)

    def indexes(self, handle: SnapshotHandle) -> list[IndexState]:
        """The indexes of a version, by name."""
        self.calls["indexes"] += 1
        dataset = handle._dataset
        present = {each.fragment_id for each in dataset.get_fragments()}
        found = []
        for index in dataset.describe_indices():
            covered = frozenset(int(each) for segment in index.segments for each in segment.fragment_ids) & present
            kind = index.index_type.upper()
            found.append(IndexState(index.name, index.field_names[0], kind, covered, covered == present))
        return sorted(found, key=lambda each: each.name)

    def _staged(
        self, handle: SnapshotHandle, transaction: Any, kind: StagedKind, operation_id: str, rows: int
    ) -> StagedHandle:
        self.objects.files.require_whole(table_name(handle.path, handle.branch), new_fragments(transaction.operation))
        if kind in ("append", "merge", "rows"):
            transaction.operation = self._folded(handle, transaction.operation) or transaction.operation
        transaction.transaction_properties = {OPERATION_ID: operation_id}
        return StagedHandle(
            handle.path, handle.branch, handle.version, kind, operation_id, transaction.uuid, int(rows), transaction
        )

    def _folded(self, handle: SnapshotHandle, operation: Any) -> Any | None:
        """A write that folds small fragments as well, if it can. One that cannot, leaves them and goes on."""
        try:
            found = folded(handle._dataset, operation)
            if found is not None:
                self.objects.files.require_whole(table_name(handle.path, handle.branch), new_fragments(found))
        except (*LANCE_ERRORS, Storage):
            return None
        return found

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
            with guarded(name, hint):
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
            raise fault(error, staged.path) from error
        if dataset.version != staged.base_version + 1:
            wanted = staged.base_version + 1
            text = f"{staged.path} was changed by another writer: version {dataset.version} instead of {wanted}"
            raise Conflict(text, reason="rebased", hint="repeat the write")
        new = self._durable(SnapshotHandle(staged.path, staged.branch, dataset.version, dataset))
        self._keep((new.path, new.branch, new.version, staged._transaction.uuid), new)
        return new

    # Table branches

    def fork(self, path: str, from_branch: str | None, from_version: int, to_branch: str) -> SnapshotHandle:
        """A table branch that starts at a version. The name must be new."""
        self.calls["fork"] += 1
        root = self._open(path, None, None)._dataset
        source = from_version if from_branch is None else (from_branch, from_version)
        with guarded(path):
            root.create_branch(to_branch, source)
        return self._durable(self._open(path, to_branch, None), f"_refs/branches/{quote(to_branch, safe='')}.json")

    def list_branches(self, path: str) -> list[str]:
        self.calls["branches"] += 1
        dataset = self._open(path, None, None)._dataset
        with guarded(path):
            return sorted(branches_of(dataset))

    def force_delete_branch(self, path: str, branch: str) -> None:
        """Remove a table branch and what an interrupted fork may have left; an absent one is success."""
        self.calls["delete_branch"] += 1
        self.calls["open"] += 1
        try:
            dataset = lance.dataset(self.dataset_uri(path), session=self._session, storage_options=self._options)
        except LANCE_ERRORS as error:
            if is_absence(error):
                return
            raise fault(error, path) from error
        with guarded(path):
            if branch in branches_of(dataset):
                _delete_branch(dataset, branch)
        self.objects.delete_prefix(f"{path}/tree/{branch}")

    def table_exists(self, path: str) -> bool:
        return self.objects.has_version(path)


def _is_wide(type_: pa.DataType) -> bool:
    return bool(pa.types.is_fixed_size_list(type_) and type_.list_size > _WIDE)


def _no_rows(schema: pa.Schema, columns: Sequence[str] | None) -> pa.RecordBatchReader:
    """What a scan of no rows gives: to find that out Lance makes room for one, however much it takes."""
    names = schema.names if columns is None else columns
    known = {each.name: each for each in schema}
    fields = [known.get(name, pa.field(name, pa.uint64())) for name in names]  # positions and row ids are no columns
    plain = [
        pa.field(each.name, pa.large_binary()) if isinstance(each.type, pa.BaseExtensionType) else each for each in fields
    ]
    return pa.RecordBatchReader.from_batches(pa.schema(plain), [])


def _settings(spec: IndexSpec, dataset: Any) -> dict[str, Any]:
    """What Lance wants to know about an index of vectors: short codes, and parts that it can learn from samples."""
    if spec.metric is None:
        return {}
    width = next(size for size in (4, 2, 1) if spec.dimension % size == 0)
    vectors = dataset.count_rows(f"`{spec.column}` IS NOT NULL")
    parts = max(1, min(round(vectors**0.5), vectors // 256))
    return {"metric": spec.metric, "num_partitions": parts, "num_sub_vectors": spec.dimension // width}


def _delete_branch(dataset: Any, branch: str) -> None:
    try:
        dataset.branches.delete(branch)
    except LANCE_ERRORS:
        if branch in branches_of(dataset):  # otherwise somebody else has just removed it
            raise
