"""The context in which the names of a plan are bound to one snapshot, and bound functions."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph_compiler import Catalog, ir
from omnigraph_sql.embeddings import Embeddings
from omnigraph_sql.manifest.snapshot import Snapshot
from omnigraph_sql.planner.logical import Direction, Vertex
from omnigraph_sql.search.search_columns import SearchCache
from omnigraph_sql.topology.adjacency import GraphIndex
from omnigraph_sql.topology.cache import RuntimeCache
from omnigraph_sql.topology.cost_model import TraversalSettings, traversal_settings
from omnigraph_sql.topology.expander import Expander
from omnigraph_sql.topology.table_columns import TableData
from omnigraph_sql.topology.trace import Trace

Array: TypeAlias = pa.Array


@dataclass(frozen=True)
class BoundFunction:
    """A function an engine can register: types of its arguments and of its result, and what it does with arrays."""

    arguments: tuple[pa.DataType, ...]
    result: pa.DataType
    run: Callable[..., Array]
    _: KW_ONLY
    destinations: Callable[..., int] | None = None
    """How many entries of eight bytes the lists of a result will have together, where that is known beforehand."""
    is_search: bool = False
    """True if time and size of a result depend on more than the number of rows, so that it comes in pieces."""
    portion_rows: int | None = None
    """The number of rows per call, if that matters."""
    is_cached: bool = False
    """True if it reads only cached data, at constant cost per row or neighbour."""
    note: str | None = None
    """How it works and why, for `explain`."""


@dataclass(frozen=True, kw_only=True)
class BindContext:
    """One snapshot, what is kept about its tables, and the values given to the functions of one plan."""

    catalog: Catalog
    snapshot: Snapshot
    cache: RuntimeCache
    search: SearchCache
    embeddings: Embeddings
    values: Mapping[str, Any]
    """What is bound to the inputs of the plan."""
    params: Mapping[str, Any]
    """What the caller gave."""
    allowed: Callable[[Vertex, ir.PropertyRef | None], pa.Table]
    """The nodes that a vertex allows: positions `v` and, if asked for, a property as a number `x`."""
    traversal: TraversalSettings = field(default_factory=traversal_settings)
    trace: Trace = field(default_factory=Trace)
    memo: dict[Hashable, Any] = field(default_factory=dict)
    """What the functions of one plan share."""
    opened: dict[str, TableData] = field(default_factory=dict)
    """Tables that were asked for."""
    followed: dict[str, GraphIndex] = field(default_factory=dict)
    """Adjacencies that were asked for."""
    lock: threading.RLock = field(default_factory=threading.RLock)
    """Held by whoever adds to it while the plan runs."""

    def table(self, table_key: str) -> TableData:
        """The columns of a table."""
        table = self.opened.get(table_key)
        if table is None:
            table = self.opened[table_key] = self.cache.table(self.snapshot, table_key)
        return table

    def index(self, edge: str) -> GraphIndex:
        """The adjacency of an edge type."""
        index = self.followed.get(edge)
        if index is None:
            index = self.followed[edge] = self.cache.index(self.snapshot, self.catalog.edges[edge])
        return index

    # What the planner asks (`omnigraph_sql.planner.logical.Facts`)

    def rows(self, table_key: str) -> int:
        """The number of rows of a table."""
        self.cache.require(self.snapshot, table_key)
        return self.snapshot.entry(table_key).row_count

    def is_functional(self, edge: str, direction: Direction) -> bool:
        """True if every vertex is known to have one neighbour at most."""
        index = self.index(edge)
        return self.traversal.mode != "indexed" and index.is_cached() and index.single(direction) is not None

    def expander(self, edge: str, direction: str) -> Expander:
        """What follows an edge type in a direction."""
        return Expander(self.index(edge), direction, self.traversal, self.trace, edge)


def numbers(v: Array) -> npt.NDArray[np.int64]:
    """Positions as a NumPy array; -1 for none."""
    v = v.fill_null(-1) if v.null_count else v
    positions: npt.NDArray[np.int64] = v.to_numpy(zero_copy_only=False)
    return positions
