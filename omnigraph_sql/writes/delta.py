"""What an operation does to the graph, table by table, and probes of what is committed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_sql.manifest.snapshot import Snapshot
from omnigraph_sql.storage.tables import member_filter
from omnigraph_sql.writes.engine import Engine

PROBE_KEYS = 8192
"""Keys per probe; more than a few probes' worth and one pass over the column is cheaper."""
_PROBES = 4


@dataclass(frozen=True)
class TableDelta:
    """Rows added or changed (distinct ids) and ids removed; an overwrite replaces the whole table."""

    table_key: str
    rows: pa.Table
    removed: pa.Array = field(default_factory=lambda: pa.array([], pa.string()))
    overwrite: bool = False

    @property
    def ids(self) -> pa.ChunkedArray:
        return self.rows.column("id")


class Image:
    """The graph as it will be: committed rows of a snapshot with deltas laid over them."""

    def __init__(self, engine: Engine, snapshot: Snapshot, deltas: Mapping[str, TableDelta]) -> None:
        self.engine = engine
        self.snapshot = snapshot
        self.deltas = deltas
        self.read: set[str] = set()
        """Tables whose committed rows were looked at; their versions are part of what the operation relies on."""

    def committed(self, table_key: str, columns: list[str], column: str, values: pa.Array) -> pa.Table:
        """Committed rows that stay as they are and whose `column` is among the values."""
        delta = self.deltas.get(table_key)
        entry = self.snapshot.entries.get(table_key)
        if entry is None or (delta is not None and delta.overwrite) or len(values) == 0:
            return self._empty(table_key, columns)
        self.read.add(table_key)
        wanted = list(dict.fromkeys(["id", *columns]))
        found = pa.Table.from_batches(
            list(self._probe(table_key, wanted, column, values)), schema=self._empty(table_key, wanted).schema
        )
        if delta is not None:
            replaced = pc.is_in(found.column("id"), value_set=_plain(delta.ids))
            gone = pc.is_in(found.column("id"), value_set=_plain(delta.removed))
            found = found.filter(pc.invert(pc.or_(replaced, gone)))
        return found.select(columns)

    def _empty(self, table_key: str, columns: list[str]) -> pa.Table:
        from omnigraph_sql.storage.columns import table_schema

        schema = table_schema(self.engine.type_of(table_key))
        return pa.schema([schema.field(name) for name in columns]).empty_table()

    def _probe(self, table_key: str, columns: list[str], column: str, values: pa.Array) -> Iterator[pa.RecordBatch]:
        entry = self.snapshot.entry(table_key)
        handle = self.engine.storage.open_at(entry.path, entry.branch, entry.version, entry.transaction_uuid)
        values = _plain(values).unique()
        if len(values) <= PROBE_KEYS * _PROBES and entry.row_count > len(values):
            for start in range(0, len(values), PROBE_KEYS):
                part = values.slice(start, PROBE_KEYS)
                yield from self.engine.storage.scan(handle, columns, member_filter(column, part)).read_all().to_batches()
            return
        for batch in self.engine.storage.scan(handle, columns):
            yield batch.filter(pc.is_in(batch.column(batch.schema.names.index(column)), value_set=values))

    def existing(self, table_key: str, ids: pa.Array) -> pa.Array:
        """Which of these ids exist after the operation."""
        ids = _plain(ids).unique()
        delta = self.deltas.get(table_key)
        present = _plain(self.committed(table_key, ["id"], "id", ids).column("id"))
        if delta is not None:
            present = pa.concat_arrays([present, _plain(delta.ids)])
        return ids.filter(pc.is_in(ids, value_set=present))

    def absent(self, table_key: str, ids: pa.ChunkedArray) -> str | None:
        """The first of these ids that will not exist after the operation."""
        if len(ids) > self._size(table_key):
            # Many references to few rows: one look-up each in all ids is cheaper than making them distinct first.
            missing = pc.invert(pc.is_in(ids, value_set=self._all_ids(table_key)))
            if not pc.any(missing).as_py():
                return None
            return str(ids.filter(missing)[0].as_py())
        wanted = _plain(ids).unique()
        present = self.existing(table_key, wanted)
        if len(present) == len(wanted):
            return None
        return str(wanted.filter(pc.invert(pc.is_in(wanted, value_set=present)))[0].as_py())

    def _size(self, table_key: str) -> int:
        entry, delta = self.snapshot.entries.get(table_key), self.deltas.get(table_key)
        committed = 0 if entry is None or (delta is not None and delta.overwrite) else entry.row_count
        return committed + (0 if delta is None else delta.rows.num_rows)

    def _all_ids(self, table_key: str) -> pa.Array:
        entry, delta = self.snapshot.entries.get(table_key), self.deltas.get(table_key)
        parts = [] if delta is None else [_plain(delta.ids)]
        if entry is not None and entry.row_count and not (delta is not None and delta.overwrite):
            self.read.add(table_key)
            handle = self.engine.storage.open_at(entry.path, entry.branch, entry.version, entry.transaction_uuid)
            ids = _plain(self.engine.storage.scan(handle, ["id"]).read_all().column("id"))
            gone = None if delta is None else pc.is_in(ids, value_set=_plain(delta.removed))
            parts.append(ids if gone is None else ids.filter(pc.invert(gone)))
        return pa.concat_arrays(parts) if parts else pa.array([], pa.string())


def _plain(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def plain(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """A column as one array."""
    found = _plain(values)
    return found if not isinstance(found, pa.ChunkedArray) else pa.concat_arrays(found.chunks)


def distinct(values: Iterable[pa.Array]) -> pa.Array:
    parts = [plain(each) for each in values]
    return pa.concat_arrays(parts).unique() if parts else pa.array([], pa.string())
