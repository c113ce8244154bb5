"""Differences between two states of a graph: the entities that were inserted, updated and deleted.

Rows are compared by id and value, so rewriting a table, compacting it or building its indexes is no change. Where one
version of a table descends from the other, only the ids and the rows written since are read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph_compiler import Catalog, EdgeType, NodeType
from omnigraph_compiler.diagnostics import did_you_mean
from omnigraph_sql.errors import BadRequest
from omnigraph_sql.history.equality import equal_values
from omnigraph_sql.manifest.snapshot import Entry, Snapshot
from omnigraph_sql.storage.handles import SnapshotHandle
from omnigraph_sql.storage.tables import TableStorage
from omnigraph_sql.table_keys import TableKey
from omnigraph_udfs.ids import IdIndex

Kind: TypeAlias = Literal["node", "edge"]
Op: TypeAlias = Literal["insert", "update", "delete"]
_OPS: tuple[Op, ...] = ("insert", "update", "delete")
_KINDS = ("node", "edge")
_INVERSE: dict[Op, Op] = {"insert": "delete", "update": "update", "delete": "insert"}
_WRITTEN = "_row_last_updated_at_version"
_BATCH_ROWS = 1 << 16
Positions = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Endpoints:
    """The ids of the nodes that an edge joins, or joined before it was deleted."""

    src: str
    dst: str


@dataclass(frozen=True, kw_only=True)
class EntityChange:
    """The change of one entity: inserted, updated or deleted."""

    kind: Kind
    """`node` or `edge`."""
    type_name: str
    """The type of the entity."""
    id: str
    """Its id."""
    op: Op
    """`insert`, `update` or `delete`."""
    version: int
    """The manifest version of the later state."""
    endpoints: Endpoints | None = None
    """The ids of the nodes that an edge joins, or joined; None for a node."""


@dataclass(frozen=True)
class ChangeStats:
    """The number of changes by operation, and the number of changed types."""

    inserts: int
    """Entities that exist only in the later state."""
    updates: int
    """Entities with changed values."""
    deletes: int
    """Entities that exist only in the earlier state."""
    types_affected: int
    """Types with at least one change."""


@dataclass(frozen=True, kw_only=True)
class ChangeSet:
    """The net changes from one state to another: nodes before edges, by type, id and operation."""

    from_version: int
    """The manifest version of the earlier state."""
    to_version: int
    """The manifest version of the later state."""
    branch: str | None
    """The branch of both states; None if they are of different branches."""
    changes: tuple[EntityChange, ...]
    """One entry per entity."""
    tables_changed: tuple[str, ...]
    """Keys of the tables, views and schemas that differ."""
    stats: ChangeStats
    """Counts of the changes."""

    def to_dict(self) -> dict[str, Any]:
        """Return the members as JSON values.

        Example:
            >>> graph.diff("main", "main").to_dict()["stats"]
            {'inserts': 0, 'updates': 0, 'deletes': 0, 'types_affected': 0}
        """
        changes = [
            {name: value for name, value in vars(change).items() if name != "endpoints"}
            | ({} if change.endpoints is None else {"endpoints": vars(change.endpoints)})
            for change in self.changes
        ]
        return vars(self) | {"changes": changes, "tables_changed": list(self.tables_changed), "stats": vars(self.stats)}


@dataclass(frozen=True)
class ChangeFilter:
    """Selects changes by kind, type and operation; None selects all."""

    kinds: Collection[str] | None = None
    types: Collection[str] | None = None
    ops: Collection[str] | None = None

    def check(self, catalog: Catalog) -> None:
        """Raise `BadRequest` for an unknown kind, type or operation."""
        _check_names("kind", self.kinds, _KINDS)
        _check_names("type", self.types, [*catalog.nodes, *catalog.edges])
        _check_names("operation", self.ops, _OPS)

    def allows(self, kind: Kind, type_: NodeType | EdgeType) -> bool:
        return (self.kinds is None or kind in self.kinds) and (self.types is None or type_.name in self.types)


def diff(storage: TableStorage, catalog: Catalog, start: Snapshot, end: Snapshot, wanted: ChangeFilter) -> ChangeSet:
    """Return the net changes from one snapshot to another."""
    wanted.check(catalog)
    changes = []
    for kind, types in (("node", catalog.nodes), ("edge", catalog.edges)):
        for name in sorted(types):
            if wanted.allows(kind, types[name]):  # type: ignore[arg-type]
                of_type = _changes(storage, types[name], start, end)
                changes += sorted(of_type, key=lambda change: (change.id, _OPS.index(change.op)))
    selected = tuple(change for change in changes if wanted.ops is None or change.op in wanted.ops)
    counts = Counter(change.op for change in selected)
    affected = len({(change.kind, change.type_name) for change in selected})
    return ChangeSet(
        from_version=start.manifest_version,
        to_version=end.manifest_version,
        branch=start.branch if start.branch == end.branch else None,
        changes=selected,
        tables_changed=tuple(_keys_changed(start, end)),
        stats=ChangeStats(counts["insert"], counts["update"], counts["delete"], affected),
    )


def _check_names(what: str, names: Collection[str] | None, allowed: Collection[str]) -> None:
    for name in names or ():
        if name not in allowed:
            hint = did_you_mean(name, allowed) or f"there are {', '.join(allowed)}"
            raise BadRequest(f"there is no {what} `{name}`", hint=hint)


def _keys_changed(start: Snapshot, end: Snapshot) -> Iterator[str]:
    for key in sorted({*start.entries, *end.entries}):
        if start.entries.get(key) != end.entries.get(key):
            yield key
    for key in sorted({*start.definitions, *end.definitions}):
        if start.defined(key) != end.defined(key):
            yield key


def _changes(storage: TableStorage, type_: NodeType | EdgeType, start: Snapshot, end: Snapshot) -> Iterator[EntityChange]:
    old, new = (snapshot.entries.get(TableKey.of_type(type_)) for snapshot in (start, end))
    version = end.manifest_version
    if old == new:
        return
    if old is None or new is None:
        whole, op = (new, "insert") if old is None else (old, "delete")
        assert whole is not None
        yield from _Table(storage, type_, whole, version).all_changes(op)  # type: ignore[arg-type]
        return
    is_reversed = (old.path, old.branch) == (new.path, new.branch) and old.version > new.version
    if is_reversed:
        old, new = new, old
    for change in _compare(_Table(storage, type_, old, version), _Table(storage, type_, new, version)):
        yield replace(change, op=_INVERSE[change.op]) if is_reversed else change


class _Table:
    """A version of the table of a type."""

    def __init__(self, storage: TableStorage, type_: NodeType | EdgeType, entry: Entry, version: int) -> None:
        self._version = version
        self.storage = storage
        self.type = type_
        self.entry = entry
        self.ends = ["src", "dst"] if isinstance(type_, EdgeType) else []

    @property
    def handle(self) -> SnapshotHandle:
        return self.storage.open(self.entry)

    @property
    def columns(self) -> list[str]:
        return [field.name for field in self.storage.schema(self.handle)]

    def scan(self, columns: list[str], filter: str | None = None) -> pa.RecordBatchReader:
        return self.storage.scan(self.handle, columns, filter, batch_rows=_BATCH_ROWS)

    def all_changes(self, op: Op) -> Iterator[EntityChange]:
        """Yield a change for every row."""
        for batch in self.scan(["id", *self.ends]):
            yield from self.changes(batch.to_pydict(), op)

    def changes_at(self, positions: Positions, op: Op) -> Iterator[EntityChange]:
        """Yield a change for each row at the positions, which ascend."""
        for start in range(0, len(positions), _BATCH_ROWS):
            chunk = positions[start : start + _BATCH_ROWS]
            rows = {name: self.storage.take(self.handle, name, chunk).to_pylist() for name in ["id", *self.ends]}
            yield from self.changes(rows, op)

    def changes(self, rows: dict[str, list[str]], op: Op) -> Iterator[EntityChange]:
        """Yield a change for each row; `rows` has its columns."""
        kind: Kind = "edge" if self.ends else "node"
        ends = zip(rows["src"], rows["dst"], strict=True) if self.ends else [None] * len(rows["id"])
        for entity_id, pair in zip(rows["id"], ends, strict=True):
            yield EntityChange(
                kind=kind,
                type_name=self.type.name,
                id=entity_id,
                op=op,
                version=self._version,
                endpoints=None if pair is None else Endpoints(*pair),
            )


def _compare(old: _Table, new: _Table) -> Iterator[EntityChange]:
    """Yield the changes from one version to another, whether or not that descends from it."""
    old_ids = IdIndex.build(old.scan(["id"]).read_all().column("id"))
    is_descendant = (old.entry.path, old.entry.branch) == (new.entry.path, new.entry.branch)
    written = f"{_WRITTEN} > {old.entry.version}" if is_descendant else None
    seen = np.zeros(len(old_ids), np.bool_)
    inserted = 0
    for batch in new.scan(new.columns, written):
        positions = old_ids.find(batch.column("id"))
        fresh = np.flatnonzero(positions < 0)
        inserted += len(fresh)
        yield from new.changes(batch.select(["id", *new.ends]).take(pa.array(fresh)).to_pydict(), "insert")
        common = np.flatnonzero(positions >= 0)
        seen[positions[common]] = True
        changed = common[_differ(old, batch.take(pa.array(common)), positions[common])]
        yield from new.changes(batch.select(["id", *new.ends]).take(pa.array(changed)).to_pydict(), "update")
    if is_descendant and old.entry.row_count + inserted > new.entry.row_count:
        for batch in new.scan(["id"]):
            positions = old_ids.find(batch.column("id"))
            seen[positions[positions >= 0]] = True
    if not is_descendant or old.entry.row_count + inserted > new.entry.row_count:
        yield from old.changes_at(np.flatnonzero(~seen), "delete")


def _differ(old: _Table, rows: pa.RecordBatch, positions: Positions) -> npt.NDArray[np.bool_]:
    """Return a mask of the rows that differ from the old rows at their positions."""
    differs = np.zeros(len(positions), np.bool_)
    if not len(positions):
        return differs
    order = np.argsort(positions)
    inverse = np.empty(len(positions), np.int64)
    inverse[order] = np.arange(len(positions))
    old_columns = set(old.columns)
    for name in rows.schema.names:
        if name == "id":
            continue
        if name not in old_columns:
            differs |= rows.column(name).is_valid().to_numpy(zero_copy_only=False)
            continue
        before = old.storage.take(old.handle, name, positions[order]).combine_chunks().take(pa.array(inverse))
        differs |= ~equal_values(rows.column(name), before)
    return differs
