"""What the query benchmark asks: each question in our language, in SQL and in Cypher."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

KEY_STEP = 7919
"""Repetitions of a look-up by key ask for different keys, this far apart."""


@dataclass(frozen=True)
class Workload:
    """One question. All three texts give the same rows in the same order.

    In SQL the nodes are tables `person(id, number, …)`, and the edges tables `follows(src, dst, …)` that name ids.
    """

    name: str
    title: str
    gq: str
    sql: str
    cypher: str
    target: float
    """What we may take at most, as a multiple of the best peer's time; where `milliseconds` is given, of that."""
    params: Mapping[str, Any] = field(default_factory=dict)
    duckdb: str | None = None
    """SQL for DuckDB where it has a better way than the common text."""
    milliseconds: float | None = None
    """The target is this time, whatever the peers take."""

    def parameters(self, repetition: int, persons: int) -> dict[str, Any]:
        """The values of a repetition: the same each time, except for a key."""
        if "key" in self.params:
            return {**self.params, "key": (self.params["key"] + repetition * KEY_STEP) % persons}
        return dict(self.params)
