"""What queries share: bounded, keyed by physical versions, and only ever about speed."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable

from omnigraph_compiler import EdgeType
from omnigraph_sql.manifest.snapshot import Entry, Snapshot
from omnigraph_sql.storage.tables import TableStorage
from omnigraph_sql.topology.adjacency import GraphIndex
from omnigraph_sql.topology.kept import Kept
from omnigraph_sql.topology.modes import positive
from omnigraph_sql.topology.shelf import Shelf, TableVersion, version_of
from omnigraph_sql.topology.tables import TableData

INDEXES = 8
_BYTES = 2 << 30


class RuntimeCache:
    """Table columns and adjacency of recently used versions."""

    def __init__(self, storage: TableStorage, *, saves: bool) -> None:
        self._storage = storage
        self._shelf = Shelf(storage.derived, saves=saves)
        self._tables: OrderedDict[TableVersion, TableData] = OrderedDict()
        self._indexes: OrderedDict[tuple[TableVersion, ...], GraphIndex] = OrderedDict()
        self._lock = threading.Lock()
        self._limit = positive("OMNIGRAPH_CACHE_BYTES", _BYTES)
        self._trimmed: tuple[int, ...] = ()

    def table(self, snapshot: Snapshot, table_key: str) -> TableData:
        """The columns of a table as a snapshot shows it."""
        with self._lock:
            return self._table(snapshot.entry(table_key))

    def index(self, snapshot: Snapshot, edge: EdgeType) -> GraphIndex:
        """The adjacency of an edge type as a snapshot shows it."""
        keys = (f"edge:{edge.name}", f"node:{edge.source}", f"node:{edge.target}")
        entries = [snapshot.entry(key) for key in keys]
        place = tuple([version_of(entry) for entry in entries])
        with self._lock:
            tables = [self._table(entry) for entry in entries]
            found = self._indexes.get(place)
            if found is None:
                found = self._indexes[place] = GraphIndex(*tables)
            self._indexes.move_to_end(place)
            while len(self._indexes) > INDEXES:
                self._indexes.popitem(last=False)
            return found

    def _table(self, entry: Entry) -> TableData:
        """The columns of a version of a table, which is now the one used last."""
        key = version_of(entry)
        found = self._tables.get(key)
        if found is None:
            found = self._tables[key] = TableData(self._storage, entry, self._shelf)
        self._tables.move_to_end(key)
        return found

    def indexes(self) -> list[GraphIndex]:
        """The adjacencies that are kept, the one used last at the end."""
        with self._lock:
            return list(self._indexes.values())

    def trim(self, also: Callable[[TableData], int], changes: int = 0) -> None:
        """Forget the tables used longest ago, with all that belongs to them, until the rest fits.

        `also` says what others keep in memory for a table; they let go of it with the table. `changes` says how often that
        has become more: only if anything has, there is something to do.
        """
        state = Kept.made, changes, len(self._tables)
        if state == self._trimmed:
            return
        with self._lock:
            self._trimmed = state
            sizes = {key: table.nbytes + also(table) for key, table in self._tables.items()}
            held = sum(sizes.values()) + sum(index.nbytes for index in self._indexes.values())
            while held > self._limit and len(self._tables) > 1:
                key, _ = self._tables.popitem(last=False)
                held -= sizes[key]
                for place in [place for place in self._indexes if key in place]:
                    held -= self._indexes.pop(place).nbytes

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._tables.clear()
            self._indexes.clear()
