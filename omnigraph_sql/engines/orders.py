"""What an engine is asked to run, and what it must be able to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Protocol

import pyarrow as pa

from omnigraph_compiler import Catalog, Query, ir
from omnigraph_sql.engines.limits import Limits
from omnigraph_sql.explanation import Explanation
from omnigraph_sql.manifest.snapshot import Snapshot
from omnigraph_sql.result import Source
from omnigraph_sql.storage.columns import arrow_type

READ_AHEAD_ROWS = 8192
"""A result of fewer rows is complete when the query returns."""
_SCHEMAS = 256


@dataclass(frozen=True)
class Order:
    """One query with its parameters, on one snapshot."""

    query: Query
    catalog: Catalog
    snapshot: Snapshot
    params: Mapping[str, Any]
    limits: Limits

    @property
    def read(self) -> ir.ReadPlan:
        assert isinstance(self.query.plan, ir.ReadPlan)
        return self.query.plan

    @cached_property
    def schema(self) -> pa.Schema:
        """The declared columns of the result."""
        return _declared(self.read.output.items)


@lru_cache(_SCHEMAS)
def _declared(items: tuple[ir.OutputItem, ...]) -> pa.Schema:
    return pa.schema([pa.field(item.name, arrow_type(item.type), item.type.nullable) for item in items])


class ReadEngine(Protocol):
    """Runs the read queries of one graph."""

    def start(self, order: Order) -> Source:
        """Run a query until its first rows are there."""

    def explain(self, order: Order) -> Explanation:
        """How a query would run."""

    def analyze(self, order: Order) -> Explanation:
        """How a query ran: it is run to its end, and its rows are counted and dropped."""
