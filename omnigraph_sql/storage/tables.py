"""The sealed door to graph tables: reads, staged writes, commits and table branches.

No `stage_*` method moves the head of a table; `commit_staged` moves it by exactly one version and checks that it did.
"""

from __future__ import annotations

import threading
import uuid
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import lance
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from lance.dataset import ColumnOrdering, LanceOperation, Transaction
from lance.fragment import RowIdSequence, write_fragments

from omnigraph_sql.errors import Conflict, Internal, NotFound, VersionReclaimed
from omnigraph_sql.storage.handles import SnapshotHandle, StagedHandle, StagedKind, TableState, TransactionInfo
from omnigraph_sql.storage.objects import ObjectStore, translate

OPERATION_ID: Final = "omnigraph.operation_id"
UNDO_OF: Final = "omnigraph.undo_of"
STORAGE_VERSION: Final = "2.2"
_HANDLES: Final = 256
_SEAL: Final = object()

Rows: TypeAlias = pa.Table | pa.RecordBatchReader


def new_session() -> Any:
    """Caches that Lance shares between the datasets opened with it."""
    return lance.Session()  # type: ignore[attr-defined]


def member_filter(column: str, values: pa.Array) -> pc.Expression | str:
    """The filter for rows whose column is among the values.

    Lance takes Arrow expressions, but not over unsigned columns; for those the filter is a text of plain numbers.
    """
    if pa.types.is_unsigned_integer(values.type):
        return f"`{column}` IN ({', '.join(str(int(value)) for value in values.to_pylist())})"
    return pc.field(column).isin(values)


class TableStorage:
    """Tables of one graph root. Made by `open_storage` only; counts its calls, for tests that state what something costs."""

    def __init__(self, seal: object, objects: ObjectStore) -> None:
        if seal is not _SEAL:
            raise Internal("TableStorage is made by open_storage")
        self.objects = objects
        self.calls: Counter[str] = Counter()
        self._session = new_session()
        self._handles: OrderedDict[tuple[str, str | None, int, str | None], SnapshotHandle] = OrderedDict()
        self._lock = threading.Lock()

    # Opening

    def dataset_uri(self, path: str) -> str:
        return str(self.objects.path(path))

    def create_table(self, path: str, schema: pa.Schema) -> SnapshotHandle:
        """A new, empty table. Its path must not exist."""
        self.calls["create"] += 1
        dataset = lance.write_dataset(  # inline-commit-ok: a table nobody references yet
            schema.empty_table(),
            self.dataset_uri(path),
            mode="create",
            enable_stable_row_ids=True,
            data_storage_version=STORAGE_VERSION,
            session=self._session,
        )
        return SnapshotHandle(path, None, dataset.version, dataset)

    def ensure_table(self, path: str) -> int:
        """The first version of a table that branches of the graph fork from: it has no rows. Safe to race."""
        uri = self.dataset_uri(path)
        if not self.table_exists(path):
            self.calls["create"] += 1
            empty = pa.schema([pa.field("_", pa.null())]).empty_table()
            created = write_fragments(
                empty,
                uri,
                mode="create",
                return_transaction=True,
                enable_stable_row_ids=True,
                data_storage_version=STORAGE_VERSION,
            )
            try:
                lance.LanceDataset.commit(uri, created, enable_stable_row_ids=True, max_retries=0)
            except OSError as error:
                if not self.table_exists(path):
                    raise translate(error, path) from error
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

    def open_head(self, path: str, branch: str | None) -> SnapshotHandle:
        """The newest version of a table on a branch."""
        return self._open(path, branch, None)

    def newest_version(self, handle: SnapshotHandle) -> int:
        """The head of the table that a handle belongs to, without opening it."""
        self.calls["probe"] += 1
        try:
            return int(handle._dataset.latest_version)
        except (ValueError, OSError) as error:
            raise self._missing(handle.path, handle.branch, None, error) from error

    def _open(self, path: str, branch: str | None, version: int | None) -> SnapshotHandle:
        self.calls["open"] += 1
        uri = self.dataset_uri(path) if branch is None else f"{self.dataset_uri(path)}/tree/{branch}"
        try:
            dataset = lance.dataset(uri, version=version, session=self._session)
        except (ValueError, OSError) as error:
            raise self._missing(path, branch, version, error) from error
        return SnapshotHandle(path, branch, dataset.version, dataset)

    def _missing(self, path: str, branch: str | None, version: int | None, error: Exception) -> Exception:
        if version is not None and self.objects.exists(path):
            text = f"version {version} of {path} is gone: its files were removed by a cleanup"
            return VersionReclaimed(text, version=version, hint="read a later version")
        if isinstance(error, OSError) and error.errno:
            return translate(error, path)
        where = f"{path} on branch `{branch}`" if branch else path
        hint = "the graph is damaged: restore the directory from a copy, or run repair"
        return NotFound(f"the table {where} does not exist", what="table", name=where, hint=hint)

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
    ) -> pa.RecordBatchReader:
        self.calls["scan"] += 1
        scanner = handle._dataset.scanner(
            order_by=None if order_by is None else [ColumnOrdering(order_by)],
            columns=None if columns is None else list(columns),
            filter=filter,
            limit=limit,
            batch_size=batch_rows,
            blob_handling="all_binary",
        )
        reader: pa.RecordBatchReader = scanner.to_reader()
        return pa.RecordBatchReader.from_batches(reader.schema, self._counted(reader))

    def _counted(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            self.calls["rows"] += batch.num_rows
            yield batch

    def count(self, handle: SnapshotHandle, filter: pc.Expression | str | None = None) -> int:
        self.calls["count"] += 1
        return int(handle._dataset.count_rows(filter))

    def state(self, handle: SnapshotHandle, made_by: StagedHandle | None = None) -> TableState:
        """Row count and transaction of an opened version; `made_by` is the staged write, if the caller committed it."""
        own = self.read_transaction(handle, handle.version).uuid if made_by is None else str(made_by._transaction.uuid)
        return TableState(handle.version, int(handle._dataset.count_rows()), own)

    def read_transaction(self, handle: SnapshotHandle, version: int) -> TransactionInfo:
        """Which write made a version."""
        self.calls["transaction"] += 1
        try:
            transaction = handle._dataset.read_transaction(version)
        except TypeError:
            # Lance cannot read back a compaction that moved an index; such a version names no operation of ours.
            return TransactionInfo(f"unreadable-{version}", None, None, "Rewrite")
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
        transaction = write_fragments(rows, handle._dataset, mode=mode, return_transaction=True)
        operation: Any = transaction.operation
        count = sum(fragment.num_rows for fragment in operation.fragments)
        return self._staged(handle, transaction, mode, operation_id, count)

    def stage_merge_insert(
        self, handle: SnapshotHandle, rows: Rows, operation_id: str, keys: Sequence[str] = ("id",)
    ) -> StagedHandle:
        """Upsert by the keys: whole rows are replaced, new ones inserted. Keys must be distinct."""
        self.calls["stage"] += 1
        builder = handle._dataset.merge_insert(list(keys)).when_matched_update_all().when_not_matched_insert_all()
        transaction, stats = builder.execute_uncommitted(rows)
        return self._staged(
            handle, transaction, "merge", operation_id, stats["num_inserted_rows"] + stats["num_updated_rows"]
        )

    def stage_delete(self, handle: SnapshotHandle, ids: pa.Array, operation_id: str) -> StagedHandle:
        """Remove the rows with these ids."""
        self.calls["stage"] += 1
        keys = pa.table({"id": ids.cast(pa.string())}, schema=pa.schema([self.schema(handle).field("id")]))
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
        return RowStage(
            handle._dataset, lambda change, operation_id, rows: self._staged(handle, change, "rows", operation_id, rows)
        )

    def stage_create_indices(
        self, handle: SnapshotHandle, specs: Iterable[tuple[str, str]], operation_id: str
    ) -> StagedHandle:
        """Build indexes (column, kind) in one commit."""
        self.calls["stage"] += 1
        dataset = handle._dataset
        built = []
        for column, kind in specs:
            index = dataset.create_index_uncommitted(
                column,
                kind,
                name=f"{column}_{kind.lower()}",
                fragment_ids=[each.fragment_id for each in dataset.get_fragments()],
            )
            built.append(dataset.merge_existing_index_segments([index]) if kind == "INVERTED" else index)
        transaction = Transaction(handle.version, LanceOperation.CreateIndex(built, []), uuid=str(uuid.uuid4()))
        return self._staged(handle, transaction, "indices", operation_id, 0)

    def _staged(
        self, handle: SnapshotHandle, transaction: Any, kind: StagedKind, operation_id: str, rows: int
    ) -> StagedHandle:
        transaction.transaction_properties = {OPERATION_ID: operation_id}
        return StagedHandle(
            handle.path, handle.branch, handle.version, kind, operation_id, transaction.uuid, int(rows), transaction
        )

    def attribute(self, staged: StagedHandle, operation_id: str) -> StagedHandle:
        """The same staged write, marked with the operation that is about to commit it."""
        staged._transaction.transaction_properties = {OPERATION_ID: operation_id}
        return replace(staged, operation_id=operation_id)

    def write_spool(self, name: str, rows: pa.RecordBatchReader) -> None:
        """Rows that wait outside any table, as an Arrow file."""
        self.calls["spool"] += 1
        path = self.objects.path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, rows.schema) as writer:
            for batch in rows:
                writer.write_batch(batch)

    def read_spool(self, name: str) -> pa.RecordBatchReader:
        """Rows written by `write_spool`."""
        path = self.objects.path(name)
        if not path.exists():
            raise NotFound(f"the staged rows {name} are gone", what="staged load", name=name, hint="stage the load again")
        return pa.ipc.open_stream(pa.OSFile(str(path)))

    # Committing

    def commit_staged(self, handle: SnapshotHandle, staged: StagedHandle) -> SnapshotHandle:
        """Make a staged write the head of its table. `Conflict` unless it lands exactly one version above its base."""
        if (handle.path, handle.branch, handle.version) != (staged.path, staged.branch, staged.base_version):
            raise Internal(
                f"a write staged on version {staged.base_version} of {staged.path} is committed on another handle"
            )
        self.calls["commit"] += 1
        try:
            dataset = lance.LanceDataset.commit(handle._dataset, staged._transaction, max_retries=0)
        except OSError as error:
            if "conflict" in str(error).lower() or "Incompatible transaction" in str(error):
                text = f"{staged.path} was changed by another writer"
                raise Conflict(text, reason="commit", hint="repeat the write") from error
            raise translate(error, staged.path) from error
        if dataset.version != staged.base_version + 1:
            wanted = staged.base_version + 1
            text = f"{staged.path} was changed by another writer: version {dataset.version} instead of {wanted}"
            raise Conflict(text, reason="rebased", hint="repeat the write")
        new = SnapshotHandle(staged.path, staged.branch, dataset.version, dataset)
        self._keep((new.path, new.branch, new.version, staged._transaction.uuid), new)
        return new

    # Table branches

    def fork(self, path: str, from_branch: str | None, from_version: int, to_branch: str) -> SnapshotHandle:
        """A table branch that starts at a version. The name must be new."""
        self.calls["fork"] += 1
        root = self._open(path, None, None)._dataset
        source = from_version if from_branch is None else (from_branch, from_version)
        root.create_branch(to_branch, source)
        return self._open(path, to_branch, None)

    def list_branches(self, path: str) -> list[str]:
        self.calls["branches"] += 1
        return sorted(self._open(path, None, None)._dataset.branches.list())

    def force_delete_branch(self, path: str, branch: str) -> None:
        """Remove a table branch and what an interrupted fork may have left; an absent one is success."""
        self.calls["delete_branch"] += 1
        self.calls["open"] += 1
        try:
            dataset = lance.dataset(self.dataset_uri(path), session=self._session)
        except ValueError:
            return
        if branch in dataset.branches.list():
            try:
                dataset.branches.delete(branch)
            except (OSError, ValueError):
                if branch in dataset.branches.list():  # otherwise somebody else has just removed it
                    raise
        self.objects.delete_prefix(f"{path}/tree/{branch}")

    def table_exists(self, path: str) -> bool:
        return self.objects.exists(f"{path}/_versions")


class RowStage:
    """A write in the making that takes rows in pieces. Changed rows keep their identity."""

    def __init__(self, dataset: Any, finish: Callable[[Transaction, str, int], StagedHandle]) -> None:
        self._dataset = dataset
        self._finish = finish
        self._new: list[Any] = []
        self._rows = 0
        self._gone = {each.fragment_id: np.zeros(each.physical_rows, np.bool_) for each in dataset.get_fragments()}

    def add(self, rows: Rows) -> None:
        """New rows."""
        if isinstance(rows, pa.Table) and rows.num_rows == 0:
            return
        fragments = [each for each in write_fragments(rows, self._dataset, mode="append") if each.num_rows]
        self._new += fragments
        self._rows += sum(each.num_rows for each in fragments)

    def change(self, rows: pa.Table, row_ids: pa.Array, addresses: pa.Array) -> None:
        """Rows that replace those with these row ids, which are at these addresses."""
        if rows.num_rows == 0:
            return
        fragments = write_fragments(rows, self._dataset, mode="append")
        start = 0
        for fragment in fragments:
            ids = row_ids.slice(start, fragment.num_rows).to_pylist()
            fragment.row_id_meta = RowIdSequence(ids).to_inline_metadata()
            start += fragment.num_rows
        self._new += fragments
        self._rows += rows.num_rows
        self.remove(addresses)

    def remove(self, addresses: pa.Array) -> None:
        """Take away the rows at these addresses."""
        places = addresses.to_numpy(zero_copy_only=False).astype(np.uint64)
        numbers, offsets = places >> np.uint64(32), (places & np.uint64(0xFFFFFFFF)).astype(np.int64)
        for number in np.unique(numbers).tolist():
            self._gone[number][offsets[numbers == number]] = True

    def finish(self, operation_id: str) -> StagedHandle:
        """The whole as one staged write."""
        updated, emptied = [], []
        for fragment in self._dataset.get_fragments():
            gone = self._gone[fragment.fragment_id]
            if not gone.any():
                continue
            after = fragment.delete(_addresses_filter(fragment.fragment_id, gone))
            if after is None:
                emptied.append(fragment.fragment_id)
            else:
                updated.append(after)
        operation = LanceOperation.Update(
            removed_fragment_ids=emptied,
            updated_fragments=updated,
            new_fragments=self._new,
            fields_modified=[],
            update_mode="rewrite_rows",
        )
        transaction = Transaction(self._dataset.version, operation, uuid=str(uuid.uuid4()))
        return self._finish(transaction, operation_id, self._rows)


def _addresses_filter(fragment_id: int, gone: npt.NDArray[np.bool_]) -> str:
    """The filter for rows of a fragment, as the shorter of two lists."""
    if gone.all():
        return "true"
    listed = gone if gone.sum() * 2 <= len(gone) else ~gone
    addresses = np.flatnonzero(listed).astype(np.uint64) + (np.uint64(fragment_id) << np.uint64(32))
    word = "IN" if listed is gone else "NOT IN"
    return f"_rowaddr {word} ({', '.join(map(str, addresses.tolist()))})"


class InlineCommitResidual:
    """Operations whose bindings commit at once and cannot be staged. Each says why it is allowed to."""

    def __init__(self, storage: TableStorage) -> None:
        self._storage = storage

    def restore(self, handle: SnapshotHandle, undo_of: str) -> SnapshotHandle:
        """Append a version equal to this one. Recovery only: it also fences off a writer that died in the middle."""
        head = self._storage.open_head(handle.path, handle.branch)
        transaction = Transaction(head.version, LanceOperation.Restore(handle.version), uuid=str(uuid.uuid4()))
        transaction.transaction_properties = {UNDO_OF: undo_of}
        self._storage.calls["restore"] += 1
        dataset = lance.LanceDataset.commit(head._dataset, transaction)
        return SnapshotHandle(handle.path, handle.branch, dataset.version, dataset)


def open_storage(root: Path) -> tuple[TableStorage, InlineCommitResidual]:
    """The storage of a graph root, and the accessor of what cannot be staged."""
    storage = TableStorage(_SEAL, ObjectStore(root))
    return storage, InlineCommitResidual(storage)
