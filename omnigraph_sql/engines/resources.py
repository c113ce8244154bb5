"""What the engines of one graph share: tables, adjacency and search columns that queries left at hand."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import pyarrow as pa

from omnigraph_compiler import Catalog, ir
from omnigraph_sql.embeddings import Embeddings
from omnigraph_sql.engines.execution import SHORT, Clock, Execution, TooLong, TooWide
from omnigraph_sql.engines.limits import Limits
from omnigraph_sql.engines.orders import Order
from omnigraph_sql.engines.scope import Scope
from omnigraph_sql.errors import Internal
from omnigraph_sql.manifest.snapshot import Snapshot
from omnigraph_sql.planner import functions as fn
from omnigraph_sql.planner.logical import Vertex
from omnigraph_sql.search.columns import SearchCache
from omnigraph_sql.storage.columns import table_key
from omnigraph_sql.storage.indexing import declared_vectors, text_specs
from omnigraph_sql.storage.tables import TableStorage
from omnigraph_sql.topology.cache import RuntimeCache

BATCH_ROWS = 8192
T = TypeVar("T")


class Resources:
    """What queries of one graph are bound to, whichever engine runs them."""

    def __init__(self, storage: TableStorage, embeddings: Embeddings, *, saves: bool) -> None:
        self._storage = storage
        self.saves = saves
        """Whether what is derived from tables may be kept beside them."""
        self._cache = RuntimeCache(storage, saves=saves)
        self._search = SearchCache(storage, saves=saves)
        self._embeddings = embeddings

    def unsaved(self) -> Resources:
        """Others for the same graph, of which nothing outlives them."""
        return Resources(self._storage, self._embeddings, saves=False)

    @property
    def root(self) -> str:
        """The address of the graph."""
        return str(self._storage.objects.root)

    def scope(self, order: Order, allowed: Callable[[Vertex, ir.PropertyRef | None], pa.Table]) -> Scope:
        """What the names of an order's plans are bound to."""
        return Scope(order.catalog, order.snapshot, self._cache, self._search, self._embeddings, {}, order.params, allowed)

    def bare_scope(self, catalog: Catalog, snapshot: Snapshot) -> Scope:
        """What is known of a snapshot, for whoever walks through it without a query."""

        def allowed(vertex: Vertex, _: ir.PropertyRef | None) -> pa.Table:
            raise Internal(f"there is no query that says which nodes ${vertex.variable} may be")

        return Scope(catalog, snapshot, self._cache, self._search, self._embeddings, {}, {}, allowed)

    def attempt(self, limits: Limits, run: Callable[[Execution], T]) -> T:
        """Do something with a run; again, with shorter batches, if one leads to too much."""
        clock = Clock(limits.timeout)
        batch_rows, allowance = BATCH_ROWS, SHORT
        while True:
            execution = Execution(limits, clock, batch_rows, allowance)
            try:
                return run(execution)
            except TooLong:
                allowance = 0
            except TooWide as found:
                rows = execution.first_rows
                batch_rows = max(1, min(rows // 2, rows * execution.wide // found.destinations))
            finally:
                self.trim()

    def clear(self) -> None:
        """Forget what is kept about versions of tables."""
        self._cache.clear()

    def trim(self) -> None:
        """Forget what was used longest ago, until the rest fits."""
        self._cache.trim(self._search.nbytes_of, self._search.made)

    def prepare(self, catalog: Catalog, snapshot: Snapshot) -> None:
        """Make and keep what searches in the declared texts and vectors of a snapshot need."""
        for node in catalog.nodes.values():
            entry = snapshot.entries.get(table_key(node))
            if entry is None or not entry.row_count:
                continue
            for spec in text_specs(node):
                self._search.prepare_text(entry, spec.column)
            for column in declared_vectors(node):
                self._search.prepare_vectors(entry, column)

    def indexes(self, order: Order, meanings: Iterable[fn.Relation | fn.Function]) -> Iterator[str]:
        """Which indexes the tables of a query have."""
        for key in sorted({key for meaning in meanings for key in meaning.tables}):
            entry = order.snapshot.entry(key)
            handle = self._storage.open_at(entry.path, entry.branch, entry.version, entry.transaction_uuid)
            for index in self._storage.indexes(handle):
                share = "all rows" if index.covers_all else "some rows"
                yield f"{key}.{index.column}: {index.kind}, {share}"
