"""Relational tables, views and schemas in a merge: as a whole from the one side that changed them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from omnigraph_sql.history.row_multisets import have_equal_rows
from omnigraph_sql.manifest.changes import DefinitionChange, Tombstone
from omnigraph_sql.manifest.snapshot import Entry, Snapshot
from omnigraph_sql.manifest.table_rules import is_same_table
from omnigraph_sql.storage.table_names import table_path
from omnigraph_sql.storage.version_difference import row_difference, rows_at
from omnigraph_sql.table_keys import TableKey
from omnigraph_sql.writes.checks.pending_graph import TableRows, plain
from omnigraph_sql.writes.load.spool import Workspace
from omnigraph_sql.writes.merge.conflicts import MergeConflict
from omnigraph_sql.writes.merge.frame import MergeFrame
from omnigraph_sql.writes.operation import CreateTable, Overwrite, RowEdits, TableWrite


@dataclass(frozen=True, kw_only=True)
class RelationMerge:
    """A table, view or schema that the source changed."""

    key: TableKey
    conflict: MergeConflict | None = None
    """What stands against taking it over."""
    along: tuple[TableKey, ...] = ()
    """Relations that have to become those of the source together with it."""


def changed_relations(frame: MergeFrame) -> Iterator[RelationMerge]:
    """The relations that the source changed since the base, and that differ from those of the target."""
    snapshots = (*frame.bases, frame.ours, frame.theirs)
    for key in sorted({key for snapshot in snapshots for key in _keys(snapshot)}):
        base, is_contested = _base_content(frame, key)
        ours, theirs = _content(frame.ours, key), _content(frame.theirs, key)
        if _is_same(frame, ours, theirs) or (not is_contested and _is_same(frame, base, theirs)):
            continue
        if is_contested or not _is_same(frame, base, ours):
            text = f"{key} was changed on both sides"
            yield RelationMerge(key=key, conflict=_divergent(key, text), along=_obstacles(frame, key))
        else:
            yield _taken_over(frame, key)


def _taken_over(frame: MergeFrame, key: TableKey) -> RelationMerge:
    """A relation that only the source changed, with what the target has in its place."""
    is_dropped = _content(frame.theirs, key) is None
    if key.kind == "schema":
        kept = _kept_relations(frame, key) if is_dropped else ()
        text = f"{key} was dropped, and the other side has changed {', '.join(kept)} in it"
        return RelationMerge(key=key, conflict=_divergent(key, text) if kept else None, along=kept)
    if is_dropped:
        return RelationMerge(key=key)
    if schema := _missing_schema(frame, key):
        text = f"the schema of {key} was dropped on the other side"
        is_new = _base_content(frame, schema[0])[0] is None  # then it comes along by itself
        return RelationMerge(key=key, conflict=None if is_new else _divergent(key, text), along=schema)
    other = _namesake(frame, key)
    text = f"{key} has the name of {other}, which the other side has"
    if other is None:
        return RelationMerge(key=key)
    return RelationMerge(key=key, conflict=_divergent(key, text), along=(other,))


def required_keys(keys: Iterable[TableKey]) -> Iterator[TableKey]:
    """The keys on which it depends whether relations can be taken over: they themselves, namesakes and schemas."""
    for key in keys:
        yield key
        if key.kind != "schema":
            yield _other_kind(key)
            yield _schema_of(key)


def _base_content(frame: MergeFrame, key: TableKey) -> tuple[object, bool]:
    """A relation in the base, and whether several bases have changed it in different ways."""
    contents = [_content(base, key) for base in frame.bases]
    if frame.crossing is None:
        return contents[0], False
    start = _content(frame.crossing.start, key)
    changed = [content for content in contents if not _is_same(frame, start, content)]
    if not changed:
        return start, False
    return changed[0], not all(_is_same(frame, changed[0], content) for content in changed[1:])


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
    return have_equal_rows(storage, (first, difference.old), (second, difference.new))


def _kept_relations(frame: MergeFrame, schema: TableKey) -> tuple[TableKey, ...]:
    """What the target created or changed in a schema that the source dropped."""
    members = (key for key in sorted({*_keys(frame.ours)}) if key.kind != "schema" and _schema_of(key) == schema)
    contents = ((key, _base_content(frame, key), _content(frame.ours, key)) for key in members)
    return tuple(
        key
        for key, (base, is_contested), ours in contents
        if ours is not None and (is_contested or not _is_same(frame, base, ours))
    )


def _obstacles(frame: MergeFrame, key: TableKey) -> tuple[TableKey, ...]:
    """What has to become as in the source before the target can have a relation of it: its schema, and a namesake."""
    if key.kind == "schema" or _content(frame.theirs, key) is None:
        return ()
    other = _other_kind(key)
    return (*_missing_schema(frame, key), *((other,) if _content(frame.ours, other) is not None else ()))


def _missing_schema(frame: MergeFrame, key: TableKey) -> tuple[TableKey, ...]:
    """The schema of a relation of the source, if the target does not have it."""
    if key.kind == "schema" or _content(frame.theirs, key) is None:
        return ()
    schema = _schema_of(key)
    is_missing = _content(frame.ours, schema) is None and _content(frame.theirs, schema) is not None
    return (schema,) if is_missing else ()


def _namesake(frame: MergeFrame, key: TableKey) -> TableKey | None:
    """A view of the name of a table, or the reverse, that the target created or changed."""
    other = _other_kind(key)
    ours = _content(frame.ours, other)
    base, is_contested = _base_content(frame, other)
    return other if ours is not None and (is_contested or not _is_same(frame, base, ours)) else None


def _schema_of(key: TableKey) -> TableKey:
    return TableKey.of("schema", key.name.partition(".")[0])


def _other_kind(key: TableKey) -> TableKey:
    return TableKey.of("view" if key.kind == "table" else "table", key.name)


def _divergent(key: TableKey, text: str) -> MergeConflict:
    return MergeConflict(table_key=key, kind="DivergentTable", id=None, message=text)


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
