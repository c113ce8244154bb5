"""Relational tables, views and schemas in a merge: as a whole from the one side that changed them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from omnigraph_sql.history.row_changes import equal_rows
from omnigraph_sql.manifest.changes import DefinitionChange, Tombstone
from omnigraph_sql.manifest.snapshot import Entry, Snapshot
from omnigraph_sql.manifest.table_rules import is_same_table
from omnigraph_sql.storage.table_names import table_path
from omnigraph_sql.storage.version_difference import gathered, portions, row_difference, rows_at
from omnigraph_sql.table_keys import TableKey
from omnigraph_sql.writes.checks.pending_graph import TableRows, plain
from omnigraph_sql.writes.load.spool import Workspace
from omnigraph_sql.writes.merge.conflicts import MergeConflict
from omnigraph_sql.writes.merge.frame import MergeFrame
from omnigraph_sql.writes.operation import CreateTable, Overwrite, RowEdits, TableWrite


@dataclass(frozen=True)
class RelationMerge:
    """A table, view or schema that the source changed."""

    key: TableKey
    conflict: MergeConflict | None = None
    """What stands against taking it over."""


def changed_relations(frame: MergeFrame) -> Iterator[RelationMerge]:
    """The relations that the source changed since the base, and that differ from those of the target."""
    keys = {key for snapshot in (frame.base, frame.ours, frame.theirs) for key in _keys(snapshot)}
    for key in sorted(keys):
        base, ours, theirs = (_content(snapshot, key) for snapshot in (frame.base, frame.ours, frame.theirs))
        if _is_same(frame, base, theirs) or _is_same(frame, ours, theirs):
            continue
        conflict = None
        if not _is_same(frame, base, ours):
            conflict = _divergent(key, f"{key} was changed on both sides")
        elif key.kind == "schema" and theirs is None and (kept := _kept_relation(frame, key)) is not None:
            conflict = _divergent(key, f"{key} was dropped, and the other side has {kept} in it")
        elif key.kind != "schema" and theirs is not None and _schema_is_dropped(frame, key):
            conflict = _divergent(key, f"the schema of {key} was dropped on the other side")
        elif theirs is not None and (other := _namesake(frame, key)) is not None:
            conflict = _divergent(key, f"{key} has the name of {other}, which the other side has")
        yield RelationMerge(key, conflict)


def _keys(snapshot: Snapshot) -> Iterator[TableKey]:
    yield from (TableKey(key) for key in snapshot.entries if TableKey(key).kind == "table")
    yield from (TableKey(key) for key in snapshot.definitions)


def _content(snapshot: Snapshot, key: TableKey) -> object:
    """What makes a relation equal to another one; None if it is not there."""
    if key.kind == "table":
        return snapshot.entries.get(key)
    definition = snapshot.defined(key)
    return None if definition is None or definition.metadata is None else dict(definition.metadata)


def _is_same(frame: MergeFrame, one: object, other: object) -> bool:
    """True if a relation is the same in two snapshots: a table with the same columns and rows, whatever its versions are."""
    if one == other or not isinstance(one, Entry) or not isinstance(other, Entry):
        return one == other
    storage = frame.store.storage
    first, second = storage.open(one), storage.open(other)
    schema = storage.schema(first)
    if not is_same_table(schema, storage.schema(second)):
        return False
    difference = row_difference(storage, first, second)
    if len(difference.old) != len(difference.new):
        return False
    # A merge writes rows in their order, so what it has copied is equal place by place.
    for part in portions(storage, first, schema.names, len(difference.old)):
        rows = (
            gathered(storage, handle, schema.names, positions[part])
            for handle, positions in ((first, difference.old), (second, difference.new))
        )
        if not equal_rows(*rows).all():
            return False
    return True


def _kept_relation(frame: MergeFrame, key: TableKey) -> str | None:
    """A relation of the target in a schema that the source dropped."""
    return next((member for member in _keys(frame.ours) if _is_in(member, key) and _content(frame.ours, member)), None)


def _schema_is_dropped(frame: MergeFrame, key: TableKey) -> bool:
    """True if the target dropped the schema of a relation since the base."""
    schema = TableKey.of("schema", key.name.partition(".")[0])
    return frame.base.defined(schema) is not None and frame.ours.defined(schema) is None


def _is_in(member: TableKey, schema: TableKey) -> bool:
    return member.kind != "schema" and member.name.partition(".")[0] == schema.name


def _namesake(frame: MergeFrame, key: TableKey) -> str | None:
    """A view of the name of a table, or the reverse, in the target, unless the source has dropped it."""
    other = TableKey.of("view" if key.kind == "table" else "table", key.name)
    if key.kind == "schema" or _content(frame.ours, other) is None:
        return None
    return None if _content(frame.theirs, other) is None else str(other)


def _divergent(key: TableKey, text: str) -> MergeConflict:
    return MergeConflict(table_key=key, kind="DivergentTable", id=None, message=text, members=((str(key), ""),))


def definition_change(frame: MergeFrame, key: TableKey) -> DefinitionChange | Tombstone | None:
    """The change of a view or schema, or the drop of a table; None where rows have to be written."""
    if key.kind != "table":
        defined = frame.theirs.defined(key)
        metadata = None if defined is None else defined.metadata
        return DefinitionChange(key, frame.ours.pin(key) + 1, metadata)
    if frame.theirs.entries.get(key) is None:
        return Tombstone(key, frame.ours.pin(key) + 1)
    return None


def table_write(frame: MergeFrame, key: TableKey, workspace: Workspace) -> TableWrite | None:
    """The write that makes a relational table of the target that of the source; None if the rows are the same."""
    storage = frame.store.storage
    theirs = storage.open(frame.theirs.entry(key))
    schema = storage.schema(theirs)
    entry = frame.ours.entries.get(key)
    if entry is None:
        rows = TableRows.put(storage.scan(theirs), workspace)
        return CreateTable(key, rows, table_path(key))
    ours = storage.open(entry)
    if not is_same_table(storage.schema(ours), schema):
        return Overwrite(key, TableRows.put(storage.scan(theirs), workspace))
    difference = row_difference(storage, ours, theirs)
    if not len(difference.old) and not len(difference.new):
        return None
    added = pa.RecordBatchReader.from_batches(schema, rows_at(storage, theirs, schema.names, difference.new))
    gone = [batch.column(0) for batch in rows_at(storage, ours, ["_rowaddr"], difference.old)]
    nothing = pa.array(np.empty(0, np.uint64))
    return RowEdits(
        table_key=key,
        rows=TableRows.put(added, workspace),
        row_ids=nothing,
        addresses=nothing,
        removed=plain(pa.chunked_array(gone, pa.uint64())),
    )
