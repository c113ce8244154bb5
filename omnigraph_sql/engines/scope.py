"""What it takes to bind the names of a plan to one snapshot, and what a bound function is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph_compiler import Catalog
from omnigraph_sql.embeddings import Embeddings
from omnigraph_sql.manifest.snapshot import Snapshot
from omnigraph_sql.search.columns import SearchCache
from omnigraph_sql.topology.adjacency import GraphIndex
from omnigraph_sql.topology.cache import RuntimeCache
from omnigraph_sql.topology.tables import TableData

Array: TypeAlias = pa.Array


@dataclass(frozen=True)
class Bound:
    """A function an engine can register: types of its arguments and of its result, and what it does with arrays."""

    arguments: tuple[pa.DataType, ...]
    result: pa.DataType
    run: Callable[..., Array]
    destinations: Callable[..., int] | None = None
    """How many entries the lists of a result will have together, where that is known beforehand."""
    is_search: bool = False
    """Whether the time and size of a result depend on more than the number of rows, so that they come in pieces."""
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

    def table(self, table_key: str) -> TableData:
        """The columns of a table."""
        return self.cache.table(self.snapshot, table_key)

    def index(self, edge: str) -> GraphIndex:
        """The adjacency of an edge type."""
        return self.cache.index(self.snapshot, self.catalog.edges[edge])


def numbers(v: Array) -> npt.NDArray[np.int64]:
    """Positions as a NumPy array."""
    found: npt.NDArray[np.int64] = v.to_numpy(zero_copy_only=False)
    return found
