"""The cache that queries share, bounded and keyed by physical table versions. It affects only speed."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable

from omnigraph_compiler import EdgeType
from omnigraph_sql.caches import OnceMap
from omnigraph_sql.manifest.snapshot import Entry, Snapshot
from omnigraph_sql.storage.tables import TableStorage
from omnigraph_sql.table_keys import TableKey
from omnigraph_sql.topology.adjacency import GraphIndex
from omnigraph_sql.topology.cost_model import positive
from omnigraph_sql.topology.derived_store import DerivedStore, TableVersion, version_of
from omnigraph_sql.topology.table_columns import TableData

INDEXES = 8
_BYTES = 2 << 30


class RuntimeCache:
    """Table columns and adjacency of recently used versions."""

    def __init__(self, storage: TableStorage, *, saves: bool) -> None:
        self._storage = storage
        self._derived = DerivedStore(storage.derived, saves=saves)
        self._tables: OrderedDict[TableVersion, TableData] = OrderedDict()
        self._indexes: OrderedDict[tuple[TableVersion, ...], GraphIndex] = OrderedDict()
        self._lock = threading.Lock()
        self._limit = positive("OMNIGRAPH_CACHE_BYTES", _BYTES)
        self._trimmed: tuple[int, ...] = ()

    def table(self, snapshot: Snapshot, table_key: str) -> TableData:
        """Return the columns of a table in a snapshot."""
        self.require(snapshot, table_key)
        with self._lock:
            return self._table(snapshot.entry(table_key))

    def index(self, snapshot: Snapshot, edge: EdgeType) -> GraphIndex:
        """Return the adjacency of an edge type in a snapshot."""
        keys = (TableKey.of_edge(edge.name), TableKey.of_node(edge.source), TableKey.of_node(edge.target))
        entries = [snapshot.entry(key) for key in keys]
        for key in keys:
            self.require(snapshot, key)
        versions = tuple([version_of(entry) for entry in entries])
        with self._lock:
            tables = [self._table(entry) for entry in entries]
            index = self._indexes.get(versions)
            if index is None:
                index = self._indexes[versions] = GraphIndex(*tables)
            self._indexes.move_to_end(versions)
            while len(self._indexes) > INDEXES:
                self._indexes.popitem(last=False)
            return index

    def require(self, snapshot: Snapshot, table_key: str) -> None:
        """Raise if a cleanup has removed the rows of a table. Each version is checked once per handle."""
        if snapshot.is_past:
            entry = snapshot.entry(table_key)
            self._storage.open(entry)

    def _table(self, entry: Entry) -> TableData:
        """Return the columns of a table version, and mark it as the most recently used."""
        key = version_of(entry)
        table = self._tables.get(key)
        if table is None:
            table = self._tables[key] = TableData(self._storage, entry, self._derived)
        self._tables.move_to_end(key)
        return table

    def indexes(self) -> list[GraphIndex]:
        """Return the cached adjacencies, the most recently used last."""
        with self._lock:
            return list(self._indexes.values())

    def trim(self, also: Callable[[TableData], int], changes: int = 0) -> None:
        """Evict the least recently used tables, with their adjacencies, until the rest fits into the limit.

        `also` returns the memory that other caches use for a table; they evict it together with the table. `changes` is the
        number of additions to those caches: without new additions there is nothing to do.
        """
        state = OnceMap.made, changes, len(self._tables)
        if state == self._trimmed:
            return
        with self._lock:
            self._trimmed = state
            sizes = {key: table.nbytes + also(table) for key, table in self._tables.items()}
            used = sum(sizes.values()) + sum(index.nbytes for index in self._indexes.values())
            while used > self._limit and len(self._tables) > 1:
                key, _ = self._tables.popitem(last=False)
                used -= sizes[key]
                for place in [place for place in self._indexes if key in place]:
                    used -= self._indexes.pop(place).nbytes

    def clear(self) -> None:
        """Evict everything."""
        with self._lock:
            self._tables.clear()
            self._indexes.clear()
