"""What it takes to bind the names of a plan to one snapshot, and what a bound function is."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph_compiler import Catalog, ir
from omnigraph_sql.embeddings import Embeddings
from omnigraph_sql.manifest.snapshot import Snapshot
from omnigraph_sql.planner.logical import Direction, Vertex
from omnigraph_sql.search.columns import SearchCache
from omnigraph_sql.topology.adjacency import GraphIndex
from omnigraph_sql.topology.cache import RuntimeCache
from omnigraph_sql.topology.expander import Expander
from omnigraph_sql.topology.modes import Settings, settings
from omnigraph_sql.topology.tables import TableData
from omnigraph_sql.topology.trace import Trace

Array: TypeAlias = pa.Array


@dataclass(frozen=True)
class Bound:
    """A function an engine can register: types of its arguments and of its result, and what it does with arrays."""

    arguments: tuple[pa.DataType, ...]
    result: pa.DataType
    run: Callable[..., Array]
    destinations: Callable[..., int] | None = None
    """How many entries of eight bytes the lists of a result will have together, where that is known beforehand."""
    is_search: bool = False
    """Whether the time and size of a result depend on more than the number of rows, so that they come in pieces."""
    at_once: int | None = None
    """How many rows to give it at a time, if that matters."""
    at_hand: bool = False
    """Whether it answers from memory, and does with each row, or each destination of a row, the same few things."""
    note: str | None = None
    """How it does it, and why so, for people who want to know what a query does."""


@dataclass(frozen=True)
class Scope:
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
    given: Settings = field(default_factory=settings)
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
        found = self.opened.get(table_key)
        if found is None:
            found = self.opened[table_key] = self.cache.table(self.snapshot, table_key)
        return found

    def index(self, edge: str) -> GraphIndex:
        """The adjacency of an edge type."""
        found = self.followed.get(edge)
        if found is None:
            found = self.followed[edge] = self.cache.index(self.snapshot, self.catalog.edges[edge])
        return found

    # What the planner asks (`omnigraph_sql.planner.logical.Facts`)

    def rows(self, table_key: str) -> int:
        """How many rows a table has."""
        return self.snapshot.entry(table_key).row_count

    def is_functional(self, edge: str, direction: Direction) -> bool:
        """Whether every vertex is known to have one neighbour at most."""
        index = self.index(edge)
        return self.given.mode != "indexed" and index.is_at_hand() and index.single(direction) is not None

    def expander(self, edge: str, direction: str) -> Expander:
        """What follows an edge type in a direction."""
        return Expander(self.index(edge), direction, self.given, self.trace, edge)


def numbers(v: Array) -> npt.NDArray[np.int64]:
    """Positions as a NumPy array; -1 for none."""
    v = v.fill_null(-1) if v.null_count else v
    found: npt.NDArray[np.int64] = v.to_numpy(zero_copy_only=False)
    return found
