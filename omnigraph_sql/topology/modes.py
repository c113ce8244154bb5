"""When to ask the tables and when to build what answers at once: a choice by cost, without looking at any data."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass
from typing import Literal, get_args

Mode = Literal["indexed", "csr"]

CSR_BUILD_FACTOR = 1.5
"""What building the adjacency costs for each edge, compared with reading the edge once."""
REQUEST = 1 << 14
"""What one question to a table costs at least, in rows read one after the other."""
SCATTERED = 64
"""What one row read by its position costs, in rows read one after the other."""
FEW = 1024
"""More rows than this are not read one by one."""


@dataclass(frozen=True)
class Settings:
    """What the environment says about traversals."""

    mode: Mode | None = None
    """One way for everything, instead of the choice by cost."""
    max_frontier: int = 1024
    max_hops: int = 6


def settings() -> Settings:
    """The settings of the environment. A value that is none counts as not given, with a warning."""
    return Settings(
        _mode(),
        positive("OMNIGRAPH_EXPAND_INDEXED_MAX_FRONTIER", Settings.max_frontier),
        positive("OMNIGRAPH_EXPAND_INDEXED_MAX_HOPS", Settings.max_hops),
    )


@dataclass(frozen=True)
class Expand:
    """An expansion to be done: how many vertices it starts from, and how large what it goes through is."""

    frontier: int
    edges: int
    keyed: int
    """Rows of the node type at the near end."""
    hops: int

    def indexed_cost(self, *, covered: bool) -> float:
        """The edges that scans by key read; all of them at each hop unless an index covers the table."""
        if not covered:
            return self.hops * self.edges
        return self.hops * self.frontier * self.edges / max(self.keyed, 1)

    def csr_cost(self, *, cached: bool) -> float:
        """What it takes to have the adjacency."""
        return 0.0 if cached else CSR_BUILD_FACTOR * self.edges


def choose(expand: Expand, given: Settings, *, covered: bool, cached: bool) -> Mode:
    """The cheaper way; both give the same rows."""
    if given.mode is not None:
        return given.mode
    if expand.hops > given.max_hops or expand.frontier > given.max_frontier:
        return "csr"
    return "indexed" if expand.indexed_cost(covered=covered) < expand.csr_cost(cached=cached) else "csr"


class Meter:
    """What was spent on asking a table.

    Once that is what having everything at hand costs, asking on is waste: so all in all no more than twice the least is
    spent, whatever comes.
    """

    def __init__(self) -> None:
        self.spent = 0.0

    def affords(self, cost: float, price: float) -> bool:
        """Whether to ask once more, for this cost, where having everything at hand costs this price."""
        if self.spent + cost >= price:
            return False
        self.spent += cost
        return True


def _mode() -> Mode | None:
    given = os.environ.get("OMNIGRAPH_TRAVERSAL_MODE", "").strip().lower()
    if not given:
        return None
    for mode in get_args(Mode):
        if given == mode:
            return mode  # type: ignore[no-any-return]
    _ignored("OMNIGRAPH_TRAVERSAL_MODE", given, "`indexed` or `csr`")
    return None


def positive(name: str, default: int) -> int:
    """A positive number from the environment."""
    given = os.environ.get(name, "").strip()
    if not given:
        return default
    if given.isascii() and given.isdigit() and int(given) > 0:
        return int(given)
    _ignored(name, given, "a positive number")
    return default


def _ignored(name: str, given: str, expected: str) -> None:
    warnings.warn(f"{name}={given} is ignored: {expected} is expected", stacklevel=4)
