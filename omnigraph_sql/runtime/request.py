"""Requests to run a query, and the protocol of the engines that run them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from omnigraph_compiler import ir
from omnigraph_sql.manifest.snapshot import Snapshot
from omnigraph_sql.result import ResultSource
from omnigraph_sql.runtime.limits import RunLimits
from omnigraph_sql.storage.columns import arrow_type

if TYPE_CHECKING:
    from omnigraph_compiler import Catalog, Query
    from omnigraph_sql.explanation import Explanation

READ_AHEAD_ROWS = 8192
"""The rows read before the query returns: a shorter result is complete then."""
_SCHEMAS = 256


@dataclass(frozen=True)
class ReadRequest:
    """One query with its parameters, on one snapshot."""

    query: Query
    catalog: Catalog
    snapshot: Snapshot
    params: Mapping[str, Any]
    limits: RunLimits

    @cached_property
    def read(self) -> ir.ReadPlan:
        """The plan of the query, with the value of its limit."""
        assert isinstance(self.query.plan, ir.ReadPlan)
        return self.query.plan.bound(self.params)

    @cached_property
    def schema(self) -> pa.Schema:
        """The declared columns of the result."""
        return _declared(self.read.output.items)


@lru_cache(_SCHEMAS)
def _declared(items: tuple[ir.OutputItem, ...]) -> pa.Schema:
    return pa.schema([pa.field(item.name, arrow_type(item.type), item.type.nullable) for item in items])


class ReadEngine(Protocol):
    """Runs the read queries of one graph."""

    def start(self, request: ReadRequest) -> ResultSource:
        """Run a query, and return it with its first rows read."""

    def explain(self, request: ReadRequest) -> Explanation:
        """Explain how a query would run."""

    def analyze(self, request: ReadRequest) -> Explanation:
        """Run a query to its end without keeping its rows, and explain how it ran."""
