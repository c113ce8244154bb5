"""What differs between two states of a graph: entities that were inserted, updated and deleted.

Rows are compared by id and value, so rewriting a table, compacting it or building its indexes is no change. Where one
version of a table came from the other, only the rows written since are read, and the ids.
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
from omnigraph_sql.history.equality import same
from omnigraph_sql.manifest.snapshot import Entry, Snapshot
from omnigraph_sql.storage.columns import table_key
from omnigraph_sql.storage.handles import SnapshotHandle
from omnigraph_sql.storage.tables import TableStorage
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
    """The nodes an edge joins, or joined."""

    src: str
    dst: str


@dataclass(frozen=True)
class EntityChange:
    """What became of one entity."""

    kind: Kind
    type_name: str
    id: str
    op: Op
    version: int
    """Of the manifest, at which it is so."""
    endpoints: Endpoints | None = None


@dataclass(frozen=True)
class ChangeStats:
    """How many changes there are."""

    inserts: int
    updates: int
    deletes: int
    types_affected: int


@dataclass(frozen=True)
class ChangeSet:
    """The net changes from one state to another: nodes before edges, by type, id and operation."""

    from_version: int
    to_version: int
    branch: str | None
    """Of both states, if it is the same."""
    changes: tuple[EntityChange, ...]
    tables_changed: tuple[str, ...]
    """Keys of tables, views and schemas that are not the same."""
    stats: ChangeStats

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        changes = [
            {name: value for name, value in vars(each).items() if name != "endpoints"}
            | ({} if each.endpoints is None else {"endpoints": vars(each.endpoints)})
            for each in self.changes
        ]
        return vars(self) | {"changes": changes, "tables_changed": list(self.tables_changed), "stats": vars(self.stats)}


@dataclass(frozen=True)
class Filter:
    """Which changes are wanted; None for all."""

    kinds: Collection[str] | None = None
    types: Collection[str] | None = None
    ops: Collection[str] | None = None

    def check(self, catalog: Catalog) -> None:
        """Raise for a name that nothing has."""
        _known("kind", self.kinds, _KINDS)
        _known("type", self.types, [*catalog.nodes, *catalog.edges])
        _known("operation", self.ops, _OPS)

    def allows(self, kind: Kind, type_: NodeType | EdgeType) -> bool:
        return (self.kinds is None or kind in self.kinds) and (self.types is None or type_.name in self.types)


def diff(storage: TableStorage, catalog: Catalog, start: Snapshot, end: Snapshot, wanted: Filter) -> ChangeSet:
    """The net changes from one snapshot to another."""
    wanted.check(catalog)
    found = []
    for kind, types in (("node", catalog.nodes), ("edge", catalog.edges)):
        for name in sorted(types):
            if wanted.allows(kind, types[name]):  # type: ignore[arg-type]
                found += sorted(_changes(storage, types[name], start, end), key=lambda each: (each.id, _OPS.index(each.op)))
    kept = tuple(each for each in found if wanted.ops is None or each.op in wanted.ops)
    counts = Counter(each.op for each in kept)
    affected = len({(each.kind, each.type_name) for each in kept})
    return ChangeSet(
        start.manifest_version,
        end.manifest_version,
        start.branch if start.branch == end.branch else None,
        kept,
        tuple(_keys_changed(start, end)),
        ChangeStats(counts["insert"], counts["update"], counts["delete"], affected),
    )


def _known(what: str, given: Collection[str] | None, known: Collection[str]) -> None:
    for name in given or ():
        if name not in known:
            hint = did_you_mean(name, known) or f"there are {', '.join(known)}"
            raise BadRequest(f"there is no {what} `{name}`", hint=hint)


def _keys_changed(start: Snapshot, end: Snapshot) -> Iterator[str]:
    for key in sorted({*start.entries, *end.entries}):
        if start.entries.get(key) != end.entries.get(key):
            yield key
    for key in sorted({*start.definitions, *end.definitions}):
        if start.defined(key) != end.defined(key):
            yield key


def _changes(storage: TableStorage, type_: NodeType | EdgeType, start: Snapshot, end: Snapshot) -> Iterator[EntityChange]:
    old, new = (each.entries.get(table_key(type_)) for each in (start, end))
    version = end.manifest_version
    if old == new:
        return
    if old is None or new is None:
        whole, op = (new, "insert") if old is None else (old, "delete")
        assert whole is not None
        yield from _Table(storage, type_, whole, version).all(op)  # type: ignore[arg-type]
        return
    is_turned = (old.path, old.branch) == (new.path, new.branch) and old.version > new.version
    if is_turned:
        old, new = new, old
    for change in _compared(_Table(storage, type_, old, version), _Table(storage, type_, new, version)):
        yield replace(change, op=_INVERSE[change.op]) if is_turned else change


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
        entry = self.entry
        return self.storage.open_at(entry.path, entry.branch, entry.version, entry.transaction_uuid)

    @property
    def columns(self) -> list[str]:
        return [each.name for each in self.storage.schema(self.handle)]

    def scan(self, columns: list[str], filter: str | None = None) -> pa.RecordBatchReader:
        return self.storage.scan(self.handle, columns, filter, batch_rows=_BATCH_ROWS)

    def all(self, op: Op) -> Iterator[EntityChange]:
        """Every row as a change."""
        for batch in self.scan(["id", *self.ends]):
            yield from self.told(batch.to_pydict(), op)

    def at(self, positions: Positions, op: Op) -> Iterator[EntityChange]:
        """Rows at some ascending positions as changes."""
        for start in range(0, len(positions), _BATCH_ROWS):
            some = positions[start : start + _BATCH_ROWS]
            rows = {name: self.storage.take(self.handle, name, some).to_pylist() for name in ["id", *self.ends]}
            yield from self.told(rows, op)

    def told(self, rows: dict[str, list[str]], op: Op) -> Iterator[EntityChange]:
        kind: Kind = "edge" if self.ends else "node"
        ends = zip(rows["src"], rows["dst"], strict=True) if self.ends else [None] * len(rows["id"])
        for each, pair in zip(rows["id"], ends, strict=True):
            yield EntityChange(kind, self.type.name, each, op, self._version, None if pair is None else Endpoints(*pair))


def _compared(old: _Table, new: _Table) -> Iterator[EntityChange]:
    """The changes from one version to another, which came from it or has another history."""
    known = IdIndex.build(old.scan(["id"]).read_all().column("id"))
    followed = (old.entry.path, old.entry.branch) == (new.entry.path, new.entry.branch)
    written = f"{_WRITTEN} > {old.entry.version}" if followed else None
    seen = np.zeros(len(known), np.bool_)
    inserted = 0
    for batch in new.scan(new.columns, written):
        at = known.find(batch.column("id"))
        fresh = np.flatnonzero(at < 0)
        inserted += len(fresh)
        yield from new.told(batch.select(["id", *new.ends]).take(pa.array(fresh)).to_pydict(), "insert")
        kept = np.flatnonzero(at >= 0)
        seen[at[kept]] = True
        changed = kept[_differ(old, batch.take(pa.array(kept)), at[kept])]
        yield from new.told(batch.select(["id", *new.ends]).take(pa.array(changed)).to_pydict(), "update")
    if followed and old.entry.row_count + inserted > new.entry.row_count:
        for batch in new.scan(["id"]):
            at = known.find(batch.column("id"))
            seen[at[at >= 0]] = True
    if not followed or old.entry.row_count + inserted > new.entry.row_count:
        yield from old.at(np.flatnonzero(~seen), "delete")


def _differ(old: _Table, rows: pa.RecordBatch, at: Positions) -> npt.NDArray[np.bool_]:
    """Which rows are not what they were at their positions before."""
    found = np.zeros(len(at), np.bool_)
    if not len(at):
        return found
    order = np.argsort(at)
    back = np.empty(len(at), np.int64)
    back[order] = np.arange(len(at))
    earlier = set(old.columns)
    for name in rows.schema.names:
        if name == "id":
            continue
        if name not in earlier:
            found |= rows.column(name).is_valid().to_numpy(zero_copy_only=False)
            continue
        before = old.storage.take(old.handle, name, at[order]).combine_chunks().take(pa.array(back))
        found |= ~same(rows.column(name), before)
    return found
