"""The cost model of traversals: whether to read the tables by key or to build an adjacency. It reads no data."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass
from typing import Literal, get_args

Mode = Literal["indexed", "csr"]

CSR_BUILD_FACTOR = 1.5
"""The cost of building the adjacency per edge, relative to reading the edge once."""
REQUEST = 1 << 14
"""The minimum cost of one request to a table, in sequentially read rows."""
SCATTERED = 64
"""The cost of one row read by its position, in sequentially read rows."""
FEW = 1024
"""The maximum number of rows that are read by position."""


@dataclass(frozen=True)
class TraversalSettings:
    """The settings of traversals from the environment."""

    mode: Mode | None = None
    """The mode of all traversals; None to choose by cost."""
    max_frontier: int = 1024
    max_hops: int = 6


def traversal_settings() -> TraversalSettings:
    """Read the settings from the environment. An invalid value is ignored with a warning."""
    return TraversalSettings(
        _mode(),
        positive("OMNIGRAPH_EXPAND_INDEXED_MAX_FRONTIER", TraversalSettings.max_frontier),
        positive("OMNIGRAPH_EXPAND_INDEXED_MAX_HOPS", TraversalSettings.max_hops),
    )


@dataclass(frozen=True)
class ExpandCost:
    """The size of an expansion: its start vertices, its hops, and the tables that it reads."""

    frontier: int
    edges: int
    keyed: int
    """The number of rows of the node type at the near end."""
    hops: int

    def indexed_cost(self, *, covered: bool) -> float:
        """Return the number of edges that scans by key read: all edges at each hop, unless an index covers the table."""
        if not covered:
            return self.hops * self.edges
        return self.hops * self.frontier * self.edges / max(self.keyed, 1)

    def csr_cost(self, *, cached: bool) -> float:
        """Return the cost of building the adjacency."""
        return 0.0 if cached else CSR_BUILD_FACTOR * self.edges


def choose(expand: ExpandCost, settings: TraversalSettings, *, covered: bool, cached: bool) -> Mode:
    """Return the cheaper mode; both return the same rows."""
    if settings.mode is not None:
        return settings.mode
    if expand.hops > settings.max_hops or expand.frontier > settings.max_frontier:
        return "csr"
    return "indexed" if expand.indexed_cost(covered=covered) < expand.csr_cost(cached=cached) else "csr"


class Meter:
    """The cost so far of requests to a table.

    When it reaches the cost of building the structure that makes requests unnecessary, the structure is built. The total
    cost is therefore at most twice the minimum.
    """

    def __init__(self) -> None:
        self.spent = 0.0

    def try_spend(self, cost: float, limit: float) -> bool:
        """Add the cost of a request and return True, unless the total would reach `limit`."""
        if self.spent + cost >= limit:
            return False
        self.spent += cost
        return True


def _mode() -> Mode | None:
    value = os.environ.get("OMNIGRAPH_TRAVERSAL_MODE", "").strip().lower()
    if not value:
        return None
    for mode in get_args(Mode):
        if value == mode:
            return mode  # type: ignore[no-any-return]
    _warn_ignored("OMNIGRAPH_TRAVERSAL_MODE", value, "`indexed` or `csr`")
    return None


def positive(name: str, default: int) -> int:
    """Read a positive number from the environment."""
    value = os.environ.get(name, "").strip()
    if not value:
        return default
    if value.isascii() and value.isdigit() and int(value) > 0:
        return int(value)
    _warn_ignored(name, value, "a positive number")
    return default


def _warn_ignored(name: str, value: str, expected: str) -> None:
    warnings.warn(f"{name}={value} is ignored: {expected} is expected", stacklevel=4)
