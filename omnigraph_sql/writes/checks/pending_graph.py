"""The pending graph of an operation: committed rows with the operation's changes laid over them, table by table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_sql.manifest.snapshot import Entry, Snapshot
from omnigraph_sql.manifest.table_rules import rules_metadata
from omnigraph_sql.storage.columns import table_schema
from omnigraph_sql.storage.filters import member_filter
from omnigraph_sql.storage.handles import SnapshotHandle
from omnigraph_sql.storage.id_lookup import positions_of_ids
from omnigraph_sql.storage.tables import TableStorage
from omnigraph_sql.storage.version_difference import rows_at
from omnigraph_sql.store.graph_store import GraphStore
from omnigraph_sql.writes.checks.findings import AT
from omnigraph_sql.writes.load.spool import Spool, Workspace, divide, part_count

PROBE_KEYS = 8192
"""Keys per probe; more than a few probes' worth and one pass over the column is cheaper."""
_PROBES = 4
EXPLICIT: Final = "__explicit"
"""True if the record has an explicit id."""
_NONE: Final = pa.array([], pa.string())
_ROW_BYTES: Final = 64
"""Estimated bytes per row of the columns that checks read."""


class RowSource(Protocol):
    """Stored rows with their places, which can be read repeatedly in their order."""

    @property
    def schema(self) -> pa.Schema:
        """The columns of the table, `AT` and `EXPLICIT`."""

    @property
    def num_rows(self) -> int:
        """The number of rows."""

    @property
    def nbytes(self) -> int:
        """Their size in memory, roughly."""

    @property
    def is_spilled(self) -> bool:
        """True if they do not fit into memory together."""

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """The rows, or some columns of them."""


class TableRows:
    """Rows of one table with the places they came from. They can be read many times."""

    def __init__(self, spool: RowSource, hidden: pa.Array | None = None) -> None:
        self._spool = spool
        self._hidden = hidden
        self.num_rows: int = spool.num_rows - (0 if hidden is None else len(hidden))

    @staticmethod
    def of(rows: pa.Table) -> TableRows:
        """Rows that are in memory already, numbered from 0."""
        return TableRows.put(rows.to_reader(), Workspace(limit=1 << 62))

    @staticmethod
    def put(rows: pa.RecordBatchReader, workspace: Workspace) -> TableRows:
        """Rows spooled in a workspace, numbered from 0."""
        spool = workspace.spool(with_places(rows.schema))
        for batch in rows:
            places = pa.array(np.arange(spool.num_rows, spool.num_rows + batch.num_rows))
            explicit = pa.array(np.zeros(batch.num_rows, dtype=np.bool_))
            spool.append(pa.RecordBatch.from_arrays([*batch.columns, places, explicit], schema=spool.schema))
        return TableRows(spool)

    @property
    def untouched(self) -> RowSource | None:
        """The source of the rows, if no row is hidden."""
        return self._spool if self._hidden is None else None

    @property
    def is_large(self) -> bool:
        """True if they do not fit into memory together."""
        return self._spool.is_spilled

    @property
    def nbytes(self) -> int:
        """Their size in memory, roughly."""
        return self._spool.nbytes

    @property
    def schema(self) -> pa.Schema:
        """The columns of the table."""
        fields = [self._spool.schema.field(n) for n in range(len(self._spool.schema) - 2)]
        return pa.schema(fields, metadata=rules_metadata(self._spool.schema))

    def without(self, places: pa.Array) -> TableRows:
        """The rows but those that came from these places."""
        if len(places) == 0:
            return self
        return TableRows(self._spool, places if self._hidden is None else pa.concat_arrays([self._hidden, places]))

    def over(self, made: Callable[[RowSource], RowSource]) -> TableRows:
        """The same rows, held in another way."""
        return TableRows(made(self._spool), self._hidden)

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Some columns, also `AT` and `EXPLICIT`."""
        if self._hidden is None:
            yield from self._spool.batches(columns)
            return
        for batch in self._spool.batches([*columns, AT] if AT not in columns else columns):
            shown = pc.invert(pc.is_in(batch.column(AT), value_set=self._hidden))
            yield batch.filter(shown).select(list(columns))

    def table(self, columns: Sequence[str] | None = None) -> pa.Table:
        """All rows at once, for those known to be few."""
        names = self.schema.names if columns is None else list(columns)
        schema = pa.schema([self._spool.schema.field(name) for name in names])
        return pa.Table.from_batches(list(self.batches(names)), schema=schema)

    def reader(self) -> pa.RecordBatchReader:
        """The rows as a stream, without their places."""
        return pa.RecordBatchReader.from_batches(self.schema, self.batches(self.schema.names))


def with_places(schema: pa.Schema) -> pa.Schema:
    """The schema of a table's rows together with where they came from."""
    return schema.append(pa.field(AT, pa.int64())).append(pa.field(EXPLICIT, pa.bool_()))


@dataclass(frozen=True)
class TableDelta:
    """Rows added or changed (distinct ids) and ids removed; an overwrite replaces the whole table."""

    table_key: str
    rows: TableRows
    removed: pa.Array = field(default_factory=lambda: pa.array([], pa.string()))
    overwrite: bool = False


class PendingGraph:
    """The graph as it will be: committed rows of a snapshot with deltas laid over them.

    It is looked at in `count` parts, one unless the deltas are too large for memory. Asking for the same columns divided
    `by` the same values gives matching parts of every table.
    """

    def __init__(
        self, store: GraphStore, snapshot: Snapshot, deltas: Mapping[str, TableDelta], workspace: Workspace | None = None
    ) -> None:
        self.store = store
        self.snapshot = snapshot
        self.deltas = deltas
        self.read: set[str] = set()
        """Tables whose committed rows were looked at; their versions are part of what the operation relies on."""
        self._workspace = workspace
        self.count = self._part_count()
        self._divided: dict[tuple[object, ...], list[Spool]] = {}

    def _part_count(self) -> int:
        is_large = any(delta.rows.is_large for delta in self.deltas.values())
        if self._workspace is None or not (is_large or self._workspace.has_spilled):
            return 1
        committed = [self.snapshot.entry(key).row_count for key in self.deltas if key in self.snapshot.entries]
        incoming = [delta.rows.num_rows for delta in self.deltas.values()]
        return part_count(_ROW_BYTES * (max(committed, default=0) + max(incoming, default=0)))

    def close(self) -> None:
        """Drop the divided parts."""
        for spools in self._divided.values():
            for spool in spools:
                spool.drop()
        self._divided = {}

    def entry(self, table_key: str) -> Entry | None:
        """The committed table, unless an overwrite replaces it."""
        delta = self.deltas.get(table_key)
        return None if delta is not None and delta.overwrite else self.snapshot.entries.get(table_key)

    def schema(self, table_key: str, columns: Sequence[str]) -> pa.Schema:
        """Some columns of a table, also `AT` and `EXPLICIT`."""
        schema = with_places(table_schema(self.store.type_of(table_key)))
        return pa.schema([schema.field(name) for name in columns])

    # Incoming rows

    def part(self, table_key: str, columns: Sequence[str], by: Sequence[str], number: int) -> pa.Table:
        """The incoming rows of a part; none when the operation does not touch the table."""
        delta = self.deltas.get(table_key)
        if delta is None:
            return self.schema(table_key, columns).empty_table()
        if self.count == 1:
            return delta.rows.table(columns)
        place = ("incoming", table_key, tuple(columns), tuple(by))
        if place not in self._divided:
            names = list(dict.fromkeys([*columns, *by]))
            batches = (_without_null(batch, by) for batch in delta.rows.batches(names))
            self._divided[place] = self._divide(table_key, names, by, batches)
        return self._divided[place][number].table(columns)

    def _divide(
        self, table_key: str, columns: Sequence[str], by: Sequence[str], batches: Iterable[pa.RecordBatch]
    ) -> list[Spool]:
        assert self._workspace is not None
        spools = [self._workspace.spool(self.schema(table_key, columns)) for _ in range(self.count)]
        divide(batches, by, self.count, spools)
        return spools

    # Committed rows

    def committed(
        self, table_key: str, columns: Sequence[str], by: Sequence[str], number: int, like: pa.Array | pa.ChunkedArray
    ) -> pa.Table:
        """Committed rows of a part, as they are before the operation; at least those whose first `by` is in `like`."""
        entry = self.snapshot.entries.get(table_key)
        if entry is None or (self.count == 1 and len(like) == 0):
            return self.schema(table_key, columns).empty_table()
        self.read.add(table_key)
        names = list(dict.fromkeys([*columns, *by]))
        if self.count == 1:
            batches = list(self._probe(entry, names, by[0], like)) if entry.row_count else []
            schema = self.schema(table_key, names)
            plain_batches = [pa.RecordBatch.from_arrays(batch.columns, schema=schema) for batch in batches]
            return pa.Table.from_batches(plain_batches, schema=schema).select(list(columns))
        place = ("committed", table_key, tuple(columns), tuple(by))
        if place not in self._divided:
            rows = (_without_null(batch, by) for batch in self.scan(entry, names))
            self._divided[place] = self._divide(table_key, names, by, rows)
        return self._divided[place][number].table(columns)

    def kept(
        self, table_key: str, columns: Sequence[str], by: Sequence[str], number: int, like: pa.Array | pa.ChunkedArray
    ) -> pa.Table:
        """Committed rows of a part that the operation leaves as they are; at least those whose first `by` is in `like`."""
        if self.entry(table_key) is None:
            return self.schema(table_key, columns).empty_table()
        if table_key not in self.deltas:
            return self.committed(table_key, columns, by, number, like)
        if self.count == 1:
            names = list(dict.fromkeys(["id", *columns]))
            rows = self.committed(table_key, names, by, 0, like)
            return rows.filter(pc.invert(self._changed(table_key, rows, 0))).select(list(columns))
        return self._sorted_out(table_key, columns, by, number, stays=True)

    def changed(self, table_key: str, columns: Sequence[str], by: Sequence[str], number: int) -> pa.Table:
        """Committed rows of a part that the operation replaces or removes, as they were."""
        entry, delta = self.snapshot.entries.get(table_key), self.deltas.get(table_key)
        if entry is None or delta is None:
            return self.schema(table_key, columns).empty_table()
        if delta.overwrite:
            if self.count == 1:
                return self.scan(entry, columns).read_all()
            return self.committed(table_key, columns, by, number, _NONE)
        if self.count == 1:
            ids = distinct([self.part(table_key, ["id"], ["id"], 0).column("id"), delta.removed])
            return self.committed(table_key, columns, ["id"], 0, ids)
        return self._sorted_out(table_key, columns, by, number, stays=False)

    def staying(self, table_key: str, columns: Sequence[str], by: Sequence[str]) -> Iterator[tuple[int, pa.Table]]:
        """All committed rows that stay, piece by piece with the number of the part a piece belongs to."""
        self.read.add(table_key)  # also when it is empty: that it is empty was relied on
        entry = self.entry(table_key)
        if entry is None or entry.row_count == 0:
            return
        if self.count > 1:
            for number in range(self.count):
                yield number, self.kept(table_key, columns, by, number, _NONE)
            return
        names = list(dict.fromkeys(["id", *columns]))
        for batch in self.scan(entry, names, batch_rows=1 << 18):
            rows = pa.Table.from_batches([batch])
            if table_key in self.deltas:
                rows = rows.filter(pc.invert(self._changed(table_key, rows, 0)))
            yield 0, rows.select(list(columns))

    def _sorted_out(
        self, table_key: str, columns: Sequence[str], by: Sequence[str], number: int, *, stays: bool
    ) -> pa.Table:
        place = ("kept" if stays else "changed", table_key, tuple(columns), tuple(by))
        if place not in self._divided:
            names = list(dict.fromkeys(["id", *columns, *by]))
            batches = (
                _without_null(batch, by)
                for part in range(self.count)
                for batch in self._sorted_part(table_key, names, part, stays=stays).to_batches()
            )
            self._divided[place] = self._divide(table_key, names, by, batches)
        return self._divided[place][number].table(columns)

    def _sorted_part(self, table_key: str, columns: Sequence[str], number: int, *, stays: bool) -> pa.Table:
        rows = self.committed(table_key, columns, ["id"], number, _NONE)
        changed = self._changed(table_key, rows, number)
        return rows.filter(pc.invert(changed) if stays else changed)

    def _changed(self, table_key: str, rows: pa.Table, number: int) -> pa.ChunkedArray:
        """Which committed rows of a part the operation replaces or removes."""
        replaced = plain(self.part(table_key, ["id"], ["id"], number).column("id"))
        gone = self.deltas[table_key].removed
        return pc.or_(pc.is_in(rows.column("id"), value_set=replaced), pc.is_in(rows.column("id"), value_set=gone))

    def existing(self, table_key: str, number: int, like: pa.Array | pa.ChunkedArray) -> pa.Array:
        """Ids of a part that exist after the operation; at least all of them that are in `like`."""
        self.read.add(table_key)
        incoming = plain(self.part(table_key, ["id"], ["id"], number).column("id"))
        entry = self.entry(table_key)
        committed = 0 if entry is None else entry.row_count
        if self.count == 1 and 0 < committed < len(like):
            # Many references to few rows: one look-up each in all ids is cheaper than making them distinct first.
            assert entry is not None
            ids = plain(pa.chunked_array([batch.column(0) for batch in self.scan(entry, ["id"])], pa.string()))
            delta = self.deltas.get(table_key)
            gone = None if delta is None or len(delta.removed) == 0 else pc.is_in(ids, value_set=delta.removed)
            return pa.concat_arrays([incoming, ids if gone is None else ids.filter(pc.invert(gone))])
        return pa.concat_arrays([incoming, plain(self.kept(table_key, ["id"], ["id"], number, like).column("id"))])

    def scan(self, entry: Entry, columns: Sequence[str], batch_rows: int | None = None) -> pa.RecordBatchReader:
        """Columns of a committed table."""
        self.read.add(entry.table_key)
        handle = self.store.storage.open(entry)
        return self.store.storage.scan(handle, columns, batch_rows=batch_rows)

    def _probe(
        self, entry: Entry, columns: list[str], column: str, like: pa.Array | pa.ChunkedArray
    ) -> Iterator[pa.RecordBatch]:
        handle = self.store.storage.open(entry)
        return probe(self.store.storage, handle, entry.row_count, columns, column, plain(like))


def probe(
    storage: TableStorage, handle: SnapshotHandle, rows: int, columns: list[str], column: str, like: pa.Array
) -> Iterator[pa.RecordBatch]:
    """Columns of the rows of a table, which has so many, whose value in one of them is among some values."""
    values = like.unique()
    positions = positions_of_ids(storage, handle, values) if column == "id" else None
    if positions is not None:
        yield from rows_at(storage, handle, columns, positions)
        return
    if len(values) <= PROBE_KEYS * _PROBES and rows > len(values):
        for start in range(0, len(values), PROBE_KEYS):
            part = values.slice(start, PROBE_KEYS)
            yield from storage.scan(handle, columns, member_filter(column, part)).read_all().to_batches()
        return
    # Every batch builds the set of values anew, so batches are as large as the set.
    for batch in storage.scan(handle, columns, batch_rows=min(max(len(values), 8192), 1 << 20)):
        yield batch.filter(pc.is_in(batch.column(batch.schema.names.index(column)), value_set=values))


def _without_null(batch: pa.RecordBatch, by: Sequence[str]) -> pa.RecordBatch:
    for name in by:
        if batch.column(name).null_count:
            batch = batch.filter(pc.is_valid(batch.column(name)))
    return batch


def plain(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """A column as one array."""
    if not isinstance(values, pa.ChunkedArray):
        return values
    array = values.combine_chunks()
    return array if not isinstance(array, pa.ChunkedArray) else pa.concat_arrays(array.chunks)


def distinct(values: Iterable[pa.Array | pa.ChunkedArray]) -> pa.Array:
    parts = [plain(column) for column in values]
    return pa.concat_arrays(parts).unique() if parts else pa.array([], pa.string())
