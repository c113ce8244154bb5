"""What queries share: bounded, keyed by physical versions, and only ever about speed."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict

from omnigraph_compiler import EdgeType
from omnigraph_sql.manifest.snapshot import Snapshot
from omnigraph_sql.storage.tables import TableStorage
from omnigraph_sql.topology.adjacency import GraphIndex
from omnigraph_sql.topology.tables import TableData, TableVersion, version_of

INDEXES = 8
_BYTES = 2 << 30


class RuntimeCache:
    """Table columns and adjacency of recently used versions."""

    def __init__(self, storage: TableStorage) -> None:
        self._storage = storage
        self._tables: OrderedDict[TableVersion, TableData] = OrderedDict()
        self._indexes: OrderedDict[tuple[TableVersion, ...], GraphIndex] = OrderedDict()
        self._lock = threading.Lock()
        self._limit = int(os.environ.get("OMNIGRAPH_CACHE_BYTES", _BYTES))

    def table(self, snapshot: Snapshot, table_key: str) -> TableData:
        """The columns of a table as a snapshot shows it."""
        entry = snapshot.entry(table_key)
        key = version_of(entry)
        with self._lock:
            if key not in self._tables:
                self._tables[key] = TableData(self._storage, entry)
            self._tables.move_to_end(key)
            return self._tables[key]

    def index(self, snapshot: Snapshot, edge: EdgeType) -> GraphIndex:
        """The adjacency of an edge type as a snapshot shows it."""
        keys = (f"edge:{edge.name}", f"node:{edge.source}", f"node:{edge.target}")
        tables = [self.table(snapshot, key) for key in keys]
        place = tuple(version_of(table.entry) for table in tables)
        with self._lock:
            if place not in self._indexes:
                self._indexes[place] = GraphIndex(*tables)
            self._indexes.move_to_end(place)
            while len(self._indexes) > INDEXES:
                self._indexes.popitem(last=False)
            return self._indexes[place]

    def trim(self) -> None:
        """Forget the columns used longest ago until the rest fits."""
        with self._lock:
            held = sum(table.nbytes for table in self._tables.values())
            while held > self._limit and len(self._tables) > 1:
                _, table = self._tables.popitem(last=False)
                held -= table.nbytes

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._tables.clear()
            self._indexes.clear()
