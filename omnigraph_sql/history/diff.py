"""Differences between two states of a graph: the entities that were inserted, updated and deleted.

Rows are compared by id and value, so rewriting a table, compacting it or building its indexes is no change. Only rows that
one of the states does not share with the other are read (`storage/version_difference.py`), on whatever branches they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from omnigraph_compiler import Catalog, EdgeType, NodeType
from omnigraph_compiler.diagnostics import did_you_mean
from omnigraph_sql.errors import BadRequest
from omnigraph_sql.history.row_changes import VersionChanges, version_changes
from omnigraph_sql.manifest.snapshot import Snapshot
from omnigraph_sql.storage.handles import SnapshotHandle
from omnigraph_sql.storage.tables import TableStorage
from omnigraph_sql.storage.version_difference import Positions, gathered, portions, row_difference
from omnigraph_sql.table_keys import TableKey

Kind: TypeAlias = Literal["node", "edge"]
Op: TypeAlias = Literal["insert", "update", "delete"]
_OPS: tuple[Op, ...] = ("insert", "update", "delete")
_KINDS = ("node", "edge")


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
    """Keys of the tables whose rows differ, and of the views and schemas that do."""
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
    changes: list[EntityChange] = []
    keys = []
    for kind, type_ in catalog_types(catalog):
        key = TableKey.of_type(type_)
        between = version_changes(storage, start.entries.get(key), end.entries.get(key))
        if len(between.changed):
            keys.append(str(key))
        if wanted.allows(kind, type_):
            changes += _entity_changes(storage, type_, between, end.manifest_version)
    selected = tuple(change for change in changes if wanted.ops is None or change.op in wanted.ops)
    counts = Counter(change.op for change in selected)
    affected = len({(change.kind, change.type_name) for change in selected})
    return ChangeSet(
        from_version=start.manifest_version,
        to_version=end.manifest_version,
        branch=start.branch if start.branch == end.branch else None,
        changes=selected,
        tables_changed=tuple(sorted([*keys, *_relations_changed(storage, start, end)])),
        stats=ChangeStats(counts["insert"], counts["update"], counts["delete"], affected),
    )


def catalog_types(catalog: Catalog) -> Iterator[tuple[Kind, NodeType | EdgeType]]:
    """The types of a schema in the order of changes: nodes before edges, by name."""
    yield from (("node", catalog.nodes[name]) for name in sorted(catalog.nodes))
    yield from (("edge", catalog.edges[name]) for name in sorted(catalog.edges))


def _check_names(what: str, names: Collection[str] | None, allowed: Collection[str]) -> None:
    for name in names or ():
        if name not in allowed:
            hint = did_you_mean(name, allowed) or f"there are {', '.join(allowed)}"
            raise BadRequest(f"there is no {what} `{name}`", hint=hint)


def _relations_changed(storage: TableStorage, start: Snapshot, end: Snapshot) -> Iterator[str]:
    """Keys of the relational tables with other rows or columns, and of the views and schemas that differ."""
    for key in sorted({*start.entries, *end.entries}):
        old, new = start.entries.get(key), end.entries.get(key)
        if TableKey(key).kind != "table" or old == new:
            continue
        if old is None or new is None:
            yield key
            continue
        before, after = storage.open(old), storage.open(new)
        rows = row_difference(storage, before, after)
        if len(rows.old) or len(rows.new) or not storage.schema(before).equals(storage.schema(after)):
            yield key
    for key in sorted({*start.definitions, *end.definitions}):
        if start.defined(key) != end.defined(key):
            yield key


def _entity_changes(
    storage: TableStorage, type_: NodeType | EdgeType, between: VersionChanges, version: int
) -> list[EntityChange]:
    changed = between.changed
    kind: Kind = "edge" if isinstance(type_, EdgeType) else "node"
    endpoints = _endpoints(storage, between) if kind == "edge" else [None] * len(changed)
    inserted, deleted = changed.inserted.tolist(), changed.deleted.tolist()
    changes = [
        EntityChange(
            kind=kind,
            type_name=type_.name,
            id=entity_id,
            op="insert" if is_new else "delete" if is_gone else "update",
            version=version,
            endpoints=pair,
        )
        for entity_id, is_new, is_gone, pair in zip(changed.ids.to_pylist(), inserted, deleted, endpoints, strict=True)
    ]
    return sorted(changes, key=lambda change: (change.id, _OPS.index(change.op)))


def _endpoints(storage: TableStorage, between: VersionChanges) -> list[Endpoints | None]:
    """The nodes that each changed edge joins; those of a deleted one are what they were."""
    changed = between.changed
    pairs: list[Endpoints | None] = [None] * len(changed)
    for handle, positions, mask in (
        (between.before, changed.old, changed.deleted),
        (between.after, changed.new, ~changed.deleted),
    ):
        rows = np.flatnonzero(mask)
        if handle is None or len(rows) == 0:
            continue
        for part in portions(storage, handle, ["src", "dst"], len(rows)):
            for row, pair in zip(rows[part].tolist(), _pairs(storage, handle, positions[rows[part]]), strict=True):
                pairs[row] = pair
    return pairs


def _pairs(storage: TableStorage, handle: SnapshotHandle, positions: Positions) -> Iterator[Endpoints]:
    ends = gathered(storage, handle, ["src", "dst"], positions)
    yield from map(Endpoints, ends.column("src").to_pylist(), ends.column("dst").to_pylist())
