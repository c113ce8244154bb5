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
    """A function that an engine can register: the types of its arguments and result, and its implementation over arrays."""

    arguments: tuple[pa.DataType, ...]
    result: pa.DataType
    run: Callable[..., Array]
    _: KW_ONLY
    destinations: Callable[..., int] | None = None
    """Returns the number of list entries of eight bytes in a result, if it can be predicted."""
    is_search: bool = False
    """True if time and size of a result depend on more than the number of rows: it is computed in pieces."""
    portion_rows: int | None = None
    """The number of rows per call, if that matters."""
    is_cached: bool = False
    """True if it reads only cached data, at constant cost per row or neighbour."""
    note: str | None = None
    """A note on how it works, for `explain`."""


@dataclass(frozen=True, kw_only=True)
class BindContext:
    """One snapshot, the caches of its tables, and the parameters of one plan."""

    catalog: Catalog
    snapshot: Snapshot
    cache: RuntimeCache
    search: SearchCache
    embeddings: Embeddings
    values: Mapping[str, Any]
    """The values of the plan's inputs."""
    params: Mapping[str, Any]
    """The parameters of the query."""
    allowed: Callable[[Vertex, ir.PropertyRef | None], pa.Table]
    """The nodes that satisfy the conditions of a vertex: positions `v` and, optionally, a property as a number `x`."""
    traversal: TraversalSettings = field(default_factory=traversal_settings)
    trace: Trace = field(default_factory=Trace)
    memo: dict[Hashable, Any] = field(default_factory=dict)
    """State that the functions of one plan share."""
    opened: dict[str, TableData] = field(default_factory=dict)
    """The tables that were used."""
    followed: dict[str, GraphIndex] = field(default_factory=dict)
    """The adjacencies that were used."""
    lock: threading.RLock = field(default_factory=threading.RLock)
    """Guards additions while the plan runs."""

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

    # The facts of the planner (`omnigraph_sql.planner.logical.Facts`)

    def rows(self, table_key: str) -> int:
        """The number of rows of a table."""
        self.cache.require(self.snapshot, table_key)
        return self.snapshot.entry(table_key).row_count

    def is_functional(self, edge: str, direction: Direction) -> bool:
        """True if every vertex is known to have at most one neighbour."""
        index = self.index(edge)
        return self.traversal.mode != "indexed" and index.is_cached() and index.single(direction) is not None

    def expander(self, edge: str, direction: str) -> Expander:
        """Return the expander of an edge type in a direction."""
        return Expander(self.index(edge), direction, self.traversal, self.trace, edge)


def numbers(v: Array) -> npt.NDArray[np.int64]:
    """Positions as a NumPy array; -1 for none."""
    v = v.fill_null(-1) if v.null_count else v
    positions: npt.NDArray[np.int64] = v.to_numpy(zero_copy_only=False)
    return positions
