"""Differences between two states of a graph: the entities that were inserted, updated and deleted.

Rows are compared by id and value, so rewriting a table, compacting it or building its indexes is no change. Only rows that
one of the states does not share with the other are read (`storage/version_difference.py`), on whatever branches they are.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np

from omnigraph_compiler import Catalog, EdgeType, NodeType
from omnigraph_compiler.diagnostics import did_you_mean
from omnigraph_sql.errors import BadRequest
from omnigraph_sql.history.export import load_record
from omnigraph_sql.history.row_changes import ABSENT, VersionChanges, value_columns, version_changes
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
    before: dict[str, Any] | None = None
    """The entity in the earlier state, as a load record; None for an insert, and where images were not wanted."""
    after: dict[str, Any] | None = None
    """The entity in the later state, as a load record; None for a delete, and where images were not wanted."""

    @property
    def changed_properties(self) -> tuple[str, ...]:
        """The names of the properties that an update changed, sorted; `from` and `to` are the ends of an edge.

        It needs images; without them, and for inserts and deletes, there are none.

        Example:
            >>> _ = graph.load('{"type": "Port", "data": {"code": "DEDUI", "name": "Duisburg", "depth": 9}}', mode="merge")
            >>> [change.changed_properties for change in graph.diff("main@2", "main", images=True).changes]
            [('depth',)]
        """
        if self.before is None or self.after is None:
            return ()
        old, new = _values(self.before), _values(self.after)
        return tuple(sorted(name for name in {**old, **new} if _text(old.get(name)) != _text(new.get(name))))

    def to_dict(self) -> dict[str, Any]:
        """Return the members as JSON values; endpoints and images only where there are some.

        Example:
            >>> graph.commit_changes(graph.commits()[0].graph_commit_id, types=["Lane"]).changes[0].to_dict()["endpoints"]
            {'src': 'NLRTM', 'dst': 'DEDUI'}
        """
        optional = ("endpoints", "before", "after")
        members = {name: value for name, value in vars(self).items() if name not in optional or value is not None}
        return members | ({} if self.endpoints is None else {"endpoints": dict(vars(self.endpoints))})


def _values(record: Mapping[str, Any]) -> dict[str, Any]:
    """The properties of an entity, and the ends of an edge."""
    return {**{name: record[name] for name in ("from", "to") if name in record}, **record["data"]}


def _text(value: Any) -> str:
    return json.dumps(value)  # tells -0.0 from 0.0, and not NaN from itself


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
        changes = [change.to_dict() for change in self.changes]
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
        return self.allows_name(kind, type_.name)

    def allows_name(self, kind: Kind, type_name: str) -> bool:
        return (self.kinds is None or kind in self.kinds) and (self.types is None or type_name in self.types)

    @property
    def digest(self) -> str:
        """A short text that is the same for filters that select the same; tokens carry it.

        >>> ChangeFilter(kinds=["edge", "node"]).digest == ChangeFilter(kinds=["node", "edge", "node"]).digest
        True
        >>> ChangeFilter(types=[]).digest == ChangeFilter().digest
        False
        """
        members = [None if names is None else sorted(set(names)) for names in (self.kinds, self.types, self.ops)]
        return hashlib.blake2b(json.dumps(members).encode(), digest_size=8).hexdigest()


def diff(
    storage: TableStorage,
    catalog: Catalog,
    start: Snapshot,
    end: Snapshot,
    wanted: ChangeFilter,
    *,
    has_images: bool = False,
) -> ChangeSet:
    """Return the net changes from one snapshot to another, with the values before and after them if wanted."""
    wanted.check(catalog)
    changes: list[EntityChange] = []
    keys = []
    for kind, type_ in catalog_types(catalog):
        key = TableKey.of_type(type_)
        between = version_changes(storage, start.entries.get(key), end.entries.get(key))
        if len(between.changed):
            keys.append(str(key))
        if wanted.allows(kind, type_):
            listed = _entity_changes(storage, type_, between, end.manifest_version, wanted.ops)
            changes += _with_images(storage, type_, between, listed) if has_images else listed.changes
    counts = Counter(change.op for change in changes)
    affected = len({(change.kind, change.type_name) for change in changes})
    return ChangeSet(
        from_version=start.manifest_version,
        to_version=end.manifest_version,
        branch=start.branch if start.branch == end.branch else None,
        changes=tuple(changes),
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


@dataclass(frozen=True)
class _Listed:
    """Changes of a type, sorted, and the rows of the comparison that they are made of."""

    changes: list[EntityChange]
    rows: list[int]


def _entity_changes(
    storage: TableStorage,
    type_: NodeType | EdgeType,
    between: VersionChanges,
    version: int,
    ops: Collection[str] | None,
) -> _Listed:
    changed = between.changed
    kind: Kind = "edge" if isinstance(type_, EdgeType) else "node"
    endpoints = _endpoints(storage, between) if kind == "edge" else [None] * len(changed)
    inserted, deleted = changed.inserted.tolist(), changed.deleted.tolist()
    listed: list[tuple[str, int, EntityChange]] = []
    for row, (entity_id, is_new, is_gone, pair) in enumerate(
        zip(changed.ids.to_pylist(), inserted, deleted, endpoints, strict=True)
    ):
        op: Op = "insert" if is_new else "delete" if is_gone else "update"
        if ops is None or op in ops:
            change = EntityChange(kind=kind, type_name=type_.name, id=entity_id, op=op, version=version, endpoints=pair)
            listed.append((entity_id, row, change))
    listed.sort(key=lambda entry: entry[:2])
    return _Listed([change for _, _, change in listed], [row for _, row, _ in listed])


def _with_images(
    storage: TableStorage, type_: NodeType | EdgeType, between: VersionChanges, listed: _Listed
) -> list[EntityChange]:
    rows = between.changed.take(np.array(listed.rows, np.int64))
    before = _images(storage, type_, between.before, rows.old)
    after = _images(storage, type_, between.after, rows.new)
    return [replace(change, before=before.get(row), after=after.get(row)) for row, change in enumerate(listed.changes)]


def _images(
    storage: TableStorage, type_: NodeType | EdgeType, handle: SnapshotHandle | None, positions: Positions
) -> dict[int, dict[str, Any]]:
    """The records of the rows that a version has, by the places of their positions."""
    rows = np.flatnonzero(positions != ABSENT)
    images: dict[int, dict[str, Any]] = {}
    if handle is None or len(rows) == 0:
        return images
    for part in portions(storage, handle, storage.schema(handle).names, len(rows)):
        values = value_columns(storage, handle, positions[rows[part]]).to_pylist()
        images |= {row: load_record(type_, value) for row, value in zip(rows[part].tolist(), values, strict=True)}
    return images


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
