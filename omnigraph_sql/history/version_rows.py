"""The history of a type as a relation: its versions in time, with the columns of their rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from omnigraph_compiler import EdgeType, NodeType
from omnigraph_sql.history.commits import history
from omnigraph_sql.history.row_versions import OPERATIONS, Numbers, RowVersions, row_versions
from omnigraph_sql.history.table_differences import EntityDifferences, TypeDifferences
from omnigraph_sql.history.table_history import TableHistory
from omnigraph_sql.manifest.coordinator import ManifestCoordinator, lineage
from omnigraph_sql.manifest.journal import Commit
from omnigraph_sql.manifest.snapshot import Snapshot
from omnigraph_sql.storage.tables import TableStorage
from omnigraph_sql.storage.version_difference import gathered
from omnigraph_sql.table_keys import TableKey

_ROWS: Final = 1 << 14
_BYTES: Final = 32 << 20
_LONG: Final = 1 << 16
"""Bytes that a Blob is taken to have."""


class TypeHistory:
    """The versions of the rows of a type, or of one of them, that led to a state. They are looked for when they are read."""

    def __init__(
        self,
        coordinator: ManifestCoordinator,
        storage: TableStorage,
        type_: NodeType | EdgeType,
        snapshot: Snapshot,
        columns: pa.Schema,
    ) -> None:
        """`columns` are those of the history, then those of the type: see `history_columns`."""
        self.schema = columns
        self._coordinator = coordinator
        self._storage = storage
        self._snapshot = snapshot
        self._key = TableKey.of_type(type_)
        self._of_history = len(columns) - len(type_.properties) - (3 if isinstance(type_, EdgeType) else 1)

    def batches(self, columns: Sequence[str], entity_id: str | None = None) -> Iterator[pa.RecordBatch]:
        """Yield columns of the versions, by id and time; with `entity_id`, of that row alone."""
        versions = self._versions(entity_id)
        wide = sum(_width(self.schema.field(name).type) for name in columns)
        most = max(1, min(_ROWS, _BYTES // max(wide, 1)))
        for start in range(0, len(versions), most):
            yield self._batch(versions, np.arange(start, min(start + most, len(versions))), columns)

    def table(self, entity_id: str | None = None) -> pa.Table:
        """Return all columns and rows."""
        return pa.Table.from_batches(self.batches(self.schema.names, entity_id), self.schema)

    def _versions(self, entity_id: str | None) -> RowVersions:
        changes = TypeDifferences(self._storage) if entity_id is None else EntityDifferences(self._storage, entity_id)
        commits = history(self._coordinator, self._snapshot) or [_unrecorded(self._snapshot)]
        by_id = {commit.graph_commit_id: commit for commit in commits}
        return row_versions(
            TableHistory(self._coordinator, self._snapshot, by_id, self._key, changes), self._snapshot.commit_id
        )

    def _batch(self, versions: RowVersions, rows: Numbers, columns: Sequence[str]) -> pa.RecordBatch:
        own = self.schema.names[: self._of_history]
        values = _history_values(versions, rows)
        stored = [name for name in columns if name not in own]
        table = self._stored(versions, rows, stored)
        arrays = [values[own.index(name)] if name in own else table[name] for name in columns]
        fields = [self.schema.field(name) for name in columns]
        cast = [
            array if array.type == field.type else array.cast(field.type)
            for array, field in zip(arrays, fields, strict=True)
        ]
        return pa.RecordBatch.from_arrays(cast, schema=pa.schema(fields))

    def _stored(self, versions: RowVersions, rows: Numbers, columns: Sequence[str]) -> dict[str, pa.Array]:
        """Columns of the rows, each read from the table version that it is in."""
        if not columns:
            return {}
        if list(columns) == ["id"]:
            return {"id": versions.ids.take(pa.array(rows))}
        parts: list[pa.Table] = []
        places: list[Numbers] = []
        for number in np.unique(versions.entry[rows]).tolist():
            chosen = np.flatnonzero(versions.entry[rows] == number)
            handle = self._storage.open(versions.entries[number])
            known = self._storage.schema(handle).names
            # A row is there twice if it was deleted as it was.
            positions, inverse = np.unique(versions.position[rows[chosen]], return_inverse=True)
            part = gathered(self._storage, handle, [name for name in columns if name in known], positions)
            part = _fitting(part, pa.schema([self.schema.field(name) for name in columns]))
            parts.append(part.take(pa.array(inverse)))
            places.append(chosen)
        inverse = np.empty(len(rows), np.int64)
        inverse[np.concatenate(places)] = np.arange(len(rows))
        whole = pa.concat_tables(parts).combine_chunks().take(pa.array(inverse)).combine_chunks()
        return {name: _array(whole.column(name)) for name in columns}


def _array(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _fitting(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows of an earlier version with the columns of the type; those that it did not have yet are null."""
    arrays = [
        rows.column(field.name).cast(field.type) if field.name in rows.column_names else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    return pa.table(arrays, schema=pa.schema([field.with_nullable(True) for field in schema]))


def _history_values(versions: RowVersions, rows: Numbers) -> list[pa.Array]:
    """The columns of the history, in their order."""
    commits = pa.array(versions.commit[rows])
    instants = pa.timestamp("us", "UTC")
    return [
        pa.array(versions.valid_from[rows]).cast(instants),
        pa.array(versions.valid_to[rows], mask=versions.is_current[rows]).cast(instants),
        pa.array([commit.graph_commit_id for commit in versions.commits], pa.string()).take(commits),
        pa.array([commit.actor_id for commit in versions.commits], pa.string()).take(commits),
        pa.array(OPERATIONS).take(pa.array(versions.operation[rows])),
        pa.array(versions.is_exact[rows]),
    ]


def _width(kind: pa.DataType) -> int:
    """About how many bytes a value takes."""
    if pa.types.is_fixed_size_list(kind):
        return 4 * int(kind.list_size)
    return _LONG if pa.types.is_large_binary(kind) else 64


def _unrecorded(snapshot: Snapshot) -> Commit:
    """Stands for the commits of a state of an early release, which has none."""
    return Commit(
        graph_commit_id=snapshot.commit_id,
        manifest_branch=lineage(snapshot.branch),
        manifest_version=snapshot.manifest_version,
        parent_commit_id="",
        merged_parent_commit_id=None,
        actor_id=None,
        created_at=0,
        message=None,
        idempotency_key=None,
    )
