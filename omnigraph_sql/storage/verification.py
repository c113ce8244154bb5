"""Verification of staged files: whether they hold the rows that a staged write says.

Lance commits unchecked. A fragment with a missing file, with more rows than its file, or with other columns
makes an unreadable version, so every file is opened before a write that names it is committed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import pyarrow as pa
from lance.dataset import LanceOperation
from lance.file import LanceFileReader

from omnigraph_sql.errors import BadRequest, NotFound, Storage
from omnigraph_sql.storage.error_translation import LANCE_ERRORS, is_absence, storage_error
from omnigraph_sql.storage.handles import SnapshotHandle, StagedHandle
from omnigraph_sql.storage.integrity import new_fragments
from omnigraph_sql.storage.table_names import table_name
from omnigraph_sql.storage.tables import TableStorage
from omnigraph_sql.storage.transactions import FILE_NAME

_OPERATIONS: Final = {
    "append": (LanceOperation.Append, LanceOperation.Update),
    "merge": (LanceOperation.Update,),
    "rows": (LanceOperation.Update,),
    "overwrite": (LanceOperation.Overwrite,),
}
_THREADS: Final = 8
_HINT: Final = "stage the load again"


def own_fragments(staged: StagedHandle) -> list[Any]:
    """The fragments with the rows of a staged write, without those that others were folded into."""
    return list(new_fragments(staged._transaction.operation))[staged.folded :]


def check_staged(storage: TableStorage, handle: SnapshotHandle, staged: StagedHandle) -> None:
    """Raise unless a staged write is one that this version of a table can take."""
    transaction = staged._transaction
    base = (staged.path, staged.branch, staged.base_version, transaction.read_version)
    if base != (handle.path, handle.branch, handle.version, handle.version):
        raise _refusal(handle, f"is based on version {staged.base_version} of another lineage or version")
    if transaction.uuid != staged.transaction_uuid:
        raise _refusal(handle, "has two transactions")
    if not isinstance(transaction.operation, _OPERATIONS[staged.kind]):
        raise _refusal(handle, f"is to {staged.kind}, and does something else")
    if isinstance(transaction.operation, LanceOperation.Overwrite):
        _check_schema(storage, handle, transaction.operation)
    if isinstance(transaction.operation, LanceOperation.Update):
        _check_update(storage, handle, transaction.operation)
    check_fragments(storage, handle, new_fragments(transaction.operation))
    count = sum(fragment.num_rows for fragment in own_fragments(staged))
    if count != staged.rows:
        raise _refusal(handle, f"has {count} rows, and says {staged.rows}")


def _check_schema(storage: TableStorage, handle: SnapshotHandle, operation: Any) -> None:
    schema = operation.new_schema
    arrow = schema if isinstance(schema, pa.Schema) else schema.to_pyarrow()
    if [(field.name, field.nullable) for field in arrow] != [(f.name, f.nullable) for f in storage.schema(handle)]:
        raise _refusal(handle, "has other columns")


def _check_update(storage: TableStorage, handle: SnapshotHandle, operation: Any) -> None:
    """Check an update's changes of existing fragments."""
    fragments = {fragment.fragment_id: fragment.metadata for fragment in handle._dataset.get_fragments()}
    touched = [*operation.removed_fragment_ids, *(fragment.id for fragment in operation.updated_fragments)]
    if len(set(touched)) != len(touched) or not set(touched) <= fragments.keys():
        raise _refusal(handle, "changes fragments that the table does not have")
    for fragment in operation.updated_fragments:
        before, after = fragments[fragment.id].to_json(), fragment.to_json()
        deleted = fragment.deletion_file
        if {**before, "deletion_file": None} != {**after, "deletion_file": None} or deleted is None:
            raise _refusal(handle, "changes fragments of the table")
        name = f"{table_name(handle.path, handle.branch)}/{deleted.path(fragment.id)}"
        if deleted.read_version != handle.version:
            raise _refusal(handle, "deletes rows of another version")
        if not storage.objects.exists(name):
            raise _gone(name)


def check_fragments(storage: TableStorage, handle: SnapshotHandle, fragments: Iterable[Any]) -> int:
    """Raise unless new fragments are whole files of this lineage with the columns of the table; returns their bytes."""
    files = set(_files_of(handle))
    expected = _leaves(handle._dataset.lance_schema.fields())
    checked, seen = [], set[str]()
    for fragment in fragments:
        entry = fragment.to_json()
        name = _check_entry(handle, entry, expected)
        if name in files or name in seen:
            raise _refusal(handle, f"adds the file {name} a second time")
        seen.add(name)
        checked.append(entry)
    with ThreadPoolExecutor(_THREADS) as pool:
        return sum(pool.map(lambda entry: _check_file(storage, handle, entry), checked))


def _files_of(handle: SnapshotHandle) -> Iterator[str]:
    for fragment in handle._dataset.get_fragments():
        yield from (file.path for file in fragment.metadata.files)


def _check_entry(handle: SnapshotHandle, entry: Any, expected: list[int]) -> str:
    """What a fragment says of itself; the name of its file."""
    files = entry["files"]
    if len(files) != 1 or entry["deletion_file"] is not None or entry.get("overlays"):
        raise _refusal(handle, "has a fragment that is not one new file")
    file = files[0]
    if not FILE_NAME.fullmatch(file["path"]) or file["base_id"] is not None:
        raise _refusal(handle, "names a file that is not its own")
    if file["fields"] != expected or file["column_indices"] != list(range(len(expected))):
        raise _refusal(handle, "has a file with other columns")
    return str(file["path"])


def _check_file(storage: TableStorage, handle: SnapshotHandle, entry: Any) -> int:
    """Open the file of a fragment and compare; its size."""
    file = entry["files"][0]
    name = f"{table_name(handle.path, handle.branch)}/data/{file['path']}"
    try:
        reader = LanceFileReader(storage.objects.uri(name), storage.objects.root.storage_options)
        metadata: Any = reader.metadata()
    except LANCE_ERRORS as error:
        if is_absence(error) or isinstance(error, FileNotFoundError):
            raise _gone(name) from error
        cause = storage_error(error, name, _HINT)
        if isinstance(cause, Storage) and cause.storage_class in ("transient", "configuration"):
            raise cause from error
        raise _refusal(handle, f"has a file that cannot be read: {name}") from error
    version = (file["file_major_version"], file["file_minor_version"])
    if (metadata.major_version, metadata.minor_version) != version or int(reader.num_rows()) != entry["physical_rows"]:
        raise _refusal(handle, f"has {entry['physical_rows']} rows of the file {name}, which has another number")
    columns = storage.schema(handle)
    stored = list(metadata.schema)[: len(columns)]
    if [field.name for field in stored] != columns.names or not all(map(_fits, stored, columns)):
        raise _refusal(handle, f"has a file with other columns: {name}")
    return int(metadata.num_data_bytes)


def _fits(stored: pa.Field, column: pa.Field) -> bool:
    """True if a column of a file is that of the table. What a file keeps of a Blob is no Arrow type of ours."""
    return isinstance(column.type, pa.BaseExtensionType) or stored.type == column.type


def _leaves(fields: Iterable[Any]) -> list[int]:
    """The ids of the columns of a file. A Blob counts as one column, without its children."""
    leaves: list[int] = []
    for field in fields:
        children = field.children()
        is_leaf = not children or (field.metadata or {}).get("ARROW:extension:name", "").startswith("lance.blob")
        leaves += [field.id()] if is_leaf else _leaves(children)
    return leaves


def _gone(name: str) -> NotFound:
    return NotFound(f"the staged rows {name} are gone", what="staged load", name=name, hint=_HINT)


def _refusal(handle: SnapshotHandle, what: str) -> BadRequest:
    return BadRequest(f"the staged write to {handle.path} {what}", hint=_HINT)
