"""The workloads of the query benchmark: each question in our language, in SQL and in Cypher."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

KEY_STEP = 7919
"""The distance between the keys of successive repetitions of a look-up."""


@dataclass(frozen=True, kw_only=True)
class Workload:
    """One question. All three texts return the same rows in the same order.

    In SQL the nodes are tables `person(id, number, …)`, and the edges tables `follows(src, dst, …)` that name ids.
    """

    name: str
    title: str
    gq: str
    sql: str
    cypher: str
    target: float
    """The limit of our time, as a multiple of the best peer's time, or of `milliseconds` if that is set."""
    params: Mapping[str, Any] = field(default_factory=dict)
    duckdb: str | None = None
    """SQL for DuckDB, if it is faster than the common text."""
    milliseconds: float | None = None
    """An absolute target, independent of the peers."""

    def parameters(self, repetition: int, persons: int) -> dict[str, Any]:
        """Return the parameters of a repetition, which differ in the key only."""
        if "key" in self.params:
            return {**self.params, "key": (self.params["key"] + repetition * KEY_STEP) % persons}
        return dict(self.params)
