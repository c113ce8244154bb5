"""Changes from one state to the next with the values before and after them, a page at a time.

A page reads the values of its own rows only. Rows that were written again with the values they had are left out, so these
are read on the way, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_compiler import Catalog, EdgeType, NodeType
from omnigraph_sql.caches import LruCache
from omnigraph_sql.errors import SchemaBoundary
from omnigraph_sql.history.change_tokens import ChangePlace, rejected
from omnigraph_sql.history.diff import ChangeFilter, Endpoints, EntityChange, Kind, Op
from omnigraph_sql.history.export import load_record
from omnigraph_sql.history.row_changes import (
    ABSENT,
    RowChanges,
    WrittenRows,
    equal_rows,
    is_same_version,
    value_columns,
    written_rows,
)
from omnigraph_sql.manifest.snapshot import Entry, Snapshot
from omnigraph_sql.storage.handles import SnapshotHandle
from omnigraph_sql.storage.tables import TableStorage
from omnigraph_sql.storage.version_difference import portions
from omnigraph_sql.table_keys import TableKey

_KEPT_ROWS: Final = 1 << 22
"""Rows whose ids are kept for the next page."""


@dataclass(frozen=True)
class CommitStates:
    """The states before and after a commit; None before the first."""

    commit_id: str
    before: Snapshot | None
    after: Snapshot


@dataclass(frozen=True)
class ChangePage:
    """Some of the changes of a commit."""

    changes: tuple[EntityChange, ...]
    next_place: ChangePlace | None
    """The place of the change after them; None after the last."""


@dataclass(frozen=True)
class _Touched:
    """A type whose table a commit has written."""

    kind: Kind
    type_: NodeType | EdgeType
    old: Entry | None
    new: Entry | None

    @property
    def order(self) -> tuple[bool, str]:
        return self.kind == "edge", self.type_.name

    @property
    def key(self) -> tuple[Entry | None, Entry | None]:
        return self.old, self.new


class ChangePages:
    """Pages of the changes of commits."""

    def __init__(self, storage: TableStorage) -> None:
        self._storage = storage
        self._written: LruCache[tuple[Entry | None, Entry | None], WrittenRows] = LruCache(
            _KEPT_ROWS, cost=lambda written: len(written.rows)
        )

    def read(
        self, catalog: Catalog, states: CommitStates, wanted: ChangeFilter, place: ChangePlace | None, limit: int | None
    ) -> ChangePage:
        """The changes from a place on, at most `limit`."""
        touched = self._touched(catalog, states, wanted)
        if place is not None:
            touched = _from_place(touched, place)
        changes: list[EntityChange] = []
        for table in touched:
            written = self._written.peek(table.key) or _by_id(written_rows(self._storage, table.old, table.new))
            rows = _selected(written.rows, wanted)
            row = place.row if place is not None and table is touched[0] else 0
            while row < len(rows) and (limit is None or len(changes) < limit):
                part = self._part(written, row, len(rows), None if limit is None else limit - len(changes))
                changes += self._changes(table, written, rows.take(part), states.after.manifest_version)
                row = int(part[-1]) + 1
            if row < len(rows):
                self._written.put(table.key, written)
                return ChangePage(tuple(changes), ChangePlace(str(TableKey.of_type(table.type_)), row))
        return ChangePage(tuple(changes), None)

    def _touched(self, catalog: Catalog, states: CommitStates, wanted: ChangeFilter) -> list[_Touched]:
        """The selected types whose tables the commit has written, in the order of changes."""
        touched = []
        old_entries = {} if states.before is None else states.before.entries
        for key in {**old_entries, **states.after.entries}:
            table_key, old, new = TableKey(key), old_entries.get(key), states.after.entries.get(key)
            if not (table_key.is_node or table_key.is_edge) or _is_untouched(old, new):
                continue
            kind: Kind = "edge" if table_key.is_edge else "node"
            type_ = (catalog.edges if table_key.is_edge else catalog.nodes).get(table_key.name)
            if type_ is None:
                if wanted.allows_name(kind, table_key.name):
                    raise _boundary(states.commit_id, table_key.name, "is not in the schema any more")
            elif wanted.allows(kind, type_):
                touched.append(_Touched(kind, type_, old, new))
        for table in touched:
            self._check_columns(states.commit_id, table)
        return sorted(touched, key=lambda table: table.order)

    def _check_columns(self, commit_id: str, table: _Touched) -> None:
        if table.old is None or table.new is None:
            return
        before, after = self._storage.open(table.old), self._storage.open(table.new)
        if not self._storage.schema(before).equals(self._storage.schema(after)):
            raise _boundary(commit_id, table.type_.name, "has other properties since this commit")

    def _part(self, written: WrittenRows, row: int, count: int, room: int | None) -> npt.NDArray[np.int64]:
        """The rows to read next: not more than the page has room for, nor than fit into memory."""
        handle = written.after or written.before
        assert handle is not None  # there is a row
        end = count if room is None else min(count, row + room)
        names = self._storage.schema(handle).names
        first = next(portions(self._storage, handle, names, end - row))
        return np.arange(row, row + first.stop)

    def _changes(self, table: _Touched, written: WrittenRows, rows: RowChanges, version: int) -> Iterator[EntityChange]:
        """The changes of some rows; none for a row that has the values it had."""
        in_old, in_new = np.flatnonzero(~rows.inserted), np.flatnonzero(~rows.deleted)
        old = self._values(written.before, rows.old[in_old])
        new = self._values(written.after, rows.new[in_new])
        is_changed = np.ones(len(rows), np.bool_)
        in_both = np.flatnonzero(~rows.inserted & ~rows.deleted)
        if old is not None and new is not None and len(in_both):
            left = old.take(pa.array(np.flatnonzero(~rows.deleted[in_old])))
            right = new.take(pa.array(np.flatnonzero(~rows.inserted[in_new])))
            is_changed[in_both] = ~equal_rows(left, right)
        before = _images(table.type_, old, in_old, is_changed)
        after = _images(table.type_, new, in_new, is_changed)
        ids = rows.ids.to_pylist()
        for row in np.flatnonzero(is_changed).tolist():
            yield entity_change(table.kind, table.type_, ids[row], before.get(row), after.get(row), version)

    def _values(self, handle: SnapshotHandle | None, positions: npt.NDArray[np.int64]) -> pa.Table | None:
        return None if handle is None or len(positions) == 0 else value_columns(self._storage, handle, positions)


def entity_change(
    kind: Kind,
    type_: NodeType | EdgeType,
    entity_id: str,
    before: dict[str, Any] | None,
    after: dict[str, Any] | None,
    version: int,
) -> EntityChange:
    """The change from one image of an entity to another one."""
    op: Op = "insert" if before is None else "delete" if after is None else "update"
    image = after or before or {}
    return EntityChange(
        kind=kind,
        type_name=type_.name,
        id=entity_id,
        op=op,
        version=version,
        endpoints=Endpoints(image["from"], image["to"]) if kind == "edge" else None,
        before=before,
        after=after,
    )


def _images(
    type_: NodeType | EdgeType, values: pa.Table | None, rows: npt.NDArray[np.int64], is_changed: npt.NDArray[np.bool_]
) -> dict[int, dict[str, Any]]:
    """The records of changed rows, by row."""
    if values is None:
        return {}
    chosen = np.flatnonzero(is_changed[rows])
    records = values.take(pa.array(chosen)).to_pylist()
    return {row: load_record(type_, record) for row, record in zip(rows[chosen].tolist(), records, strict=True)}


def _is_untouched(old: Entry | None, new: Entry | None) -> bool:
    if old is not None and new is not None:
        return is_same_version(old, new)
    only = old or new
    return only is None or only.row_count == 0


def _by_id(written: WrittenRows) -> WrittenRows:
    """The same rows in the order of their ids."""
    order = pc.sort_indices(written.rows.ids).to_numpy().astype(np.int64)
    return WrittenRows(before=written.before, after=written.after, rows=written.rows.take(order))


def _selected(rows: RowChanges, wanted: ChangeFilter) -> RowChanges:
    """The rows of the selected operations."""
    if wanted.ops is None:
        return rows
    masks = {"insert": rows.inserted, "delete": rows.deleted, "update": (rows.old != ABSENT) & (rows.new != ABSENT)}
    chosen = np.zeros(len(rows), np.bool_)
    for op in wanted.ops:
        chosen |= masks[op]
    return rows.take(np.flatnonzero(chosen))


def _from_place(touched: list[_Touched], place: ChangePlace) -> list[_Touched]:
    for at, table in enumerate(touched):
        if str(TableKey.of_type(table.type_)) == place.table_key:
            return touched[at:]
    raise rejected("the page token names a place that the commit does not have", "malformed")


def _boundary(commit_id: str, type_name: str, what: str) -> SchemaBoundary:
    text = f"the changes of the commit `{commit_id}` cannot be told: the type `{type_name}` {what}"
    hint = "leave the type out by a filter, or go on from the state after the commit: export it, or take a baseline"
    return SchemaBoundary(text, commit_id=commit_id, type_name=type_name, hint=hint)
