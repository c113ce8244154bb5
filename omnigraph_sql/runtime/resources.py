"""Resources that the engines of one graph share: caches of tables, adjacency and search columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TypeVar

import pyarrow as pa

from omnigraph_compiler import Catalog, ir
from omnigraph_compiler.deadline import checked_by
from omnigraph_sql.binding.context import BindContext
from omnigraph_sql.embeddings import Embeddings
from omnigraph_sql.errors import Internal
from omnigraph_sql.manifest.snapshot import Snapshot
from omnigraph_sql.planner import plan_functions as fn
from omnigraph_sql.planner.logical import Vertex
from omnigraph_sql.runtime.execution import BatchTooWide, Execution, RunClock, RunSettings, RunTooLong
from omnigraph_sql.runtime.request import ReadRequest
from omnigraph_sql.search.search_columns import SearchCache
from omnigraph_sql.storage.index_definitions import declared_vectors, text_specs
from omnigraph_sql.storage.tables import TableStorage
from omnigraph_sql.table_keys import TableKey
from omnigraph_sql.topology.cache import RuntimeCache

T = TypeVar("T")


class Resources:
    """The tables and caches that the queries of one graph are bound to."""

    def __init__(self, storage: TableStorage, embeddings: Embeddings, *, saves: bool) -> None:
        self._storage = storage
        self.saves = saves
        """True if structures derived from tables may be written beside them."""
        self._cache = RuntimeCache(storage, saves=saves)
        self._search = SearchCache(storage, saves=saves)
        self._embeddings = embeddings

    def unsaved(self) -> Resources:
        """Return resources of the same graph that write nothing to the disk."""
        return Resources(self._storage, self._embeddings, saves=False)

    @property
    def embedder(self) -> str | None:
        """The name of the embedder; None if the environment decides."""
        return self._embeddings.name

    @property
    def root(self) -> str:
        """The address of the graph."""
        return str(self._storage.objects.root)

    def scope(self, request: ReadRequest, allowed: Callable[[Vertex, ir.PropertyRef | None], pa.Table]) -> BindContext:
        """Return the binding context of a request."""
        return BindContext(
            catalog=request.catalog,
            snapshot=request.snapshot,
            cache=self._cache,
            search=self._search,
            embeddings=self._embeddings,
            values={},
            params=request.params,
            allowed=allowed,
        )

    def bare_scope(self, catalog: Catalog, snapshot: Snapshot) -> BindContext:
        """Return a binding context of a snapshot without a query, for traversals."""

        def allowed(vertex: Vertex, _: ir.PropertyRef | None) -> pa.Table:
            raise Internal(f"there is no query that says which nodes ${vertex.variable} may be")

        return BindContext(
            catalog=catalog,
            snapshot=snapshot,
            cache=self._cache,
            search=self._search,
            embeddings=self._embeddings,
            values={},
            params={},
            allowed=allowed,
        )

    def attempt(self, settings: RunSettings, run: Callable[[Execution], T]) -> T:
        """Call `run` with a new execution; on `RunTooLong` and `BatchTooWide`, restart it with adapted settings."""
        clock = RunClock(settings.limits.timeout, settings.limits.spent)
        while True:
            execution = Execution(settings, clock)
            try:
                with checked_by(clock.check):
                    return run(execution)
            except RunTooLong:
                settings = replace(settings, allowance=0)
            except BatchTooWide as too_wide:
                settings = replace(settings, batch_rows=too_wide.shorter_batch())
            finally:
                self.trim()

    def clear(self) -> None:
        """Drop everything cached about table versions."""
        self._cache.clear()

    def trim(self) -> None:
        """Evict the least recently used entries until the cache fits its budget."""
        self._cache.trim(self._search.nbytes_of, self._search.made)

    def prepare(self, catalog: Catalog, snapshot: Snapshot) -> None:
        """Build the search columns of all texts and vectors of a snapshot that the schema declares as indexed."""
        for node in catalog.nodes.values():
            entry = snapshot.entries.get(TableKey.of_type(node))
            if entry is None or not entry.row_count:
                continue
            for spec in text_specs(node):
                self._search.prepare_text(entry, spec.column)
            for column in declared_vectors(node):
                self._search.prepare_vectors(entry, column)

    def indexes(self, request: ReadRequest, meanings: Iterable[fn.Relation | fn.Function]) -> Iterator[str]:
        """Describe the indexes of the tables that a query reads."""
        for key in sorted({key for meaning in meanings for key in meaning.tables}):
            entry = request.snapshot.entry(key)
            handle = self._storage.open(entry)
            for index in self._storage.indexes(handle):
                share = "all rows" if index.covers_all else "some rows"
                yield f"{key}.{index.column}: {index.kind}, {share}"
