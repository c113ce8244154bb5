"""Plans of statements over foreign tables: LIMIT push-down, and the remote statements that EXPLAIN shows."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from datafusion import DataFrame, LogicalPlan, SessionContext
from datafusion.expr import Analyze, Explain, TableScan

from omnigraph_sql.foreign.model import ForeignRead
from omnigraph_sql.foreign.registry import ForeignTables
from omnigraph_sql.runtime.streams import BatchStream, CompleteRows


def is_explained(frame: DataFrame) -> bool:
    """True if a statement is an EXPLAIN."""
    return isinstance(frame.logical_plan().to_variant(), Explain | Analyze)


def inner_plan(context: SessionContext, frame: DataFrame) -> LogicalPlan:
    """Return the optimised plan of a statement, or of the statement that it explains."""
    if is_explained(frame):
        frame = context.create_dataframe_from_logical_plan(frame.logical_plan().inputs()[0])
    return frame.optimized_logical_plan()


def with_remote_sql(stream: BatchStream, schema: pa.Schema, reading: ForeignRead) -> CompleteRows:
    """Return the rows of an EXPLAIN, with one more for each statement that a foreign database gets."""
    batches: list[pa.RecordBatch] = []
    while (batch := stream.next()) is not None:
        batches.append(batch)
    remote = [{"plan_type": f"remote {statement.table}", "plan": statement.sql} for statement in reading.statements or ()]
    tables = [pa.Table.from_batches(batches, schema=schema), pa.Table.from_pylist(remote, schema=schema)]
    return CompleteRows(pa.concat_tables(tables).combine_chunks().to_batches()[0])


def scan_limits(plan: LogicalPlan, foreign: ForeignTables) -> dict[str, int]:
    """Return the limits of foreign tables: the largest limit of a table's scans, if each of them has one.

    The engine applies its own limit above the scan, so more rows do no harm.
    """
    scans = list(_scans(plan))
    # Scans in subqueries that the optimiser left as they are can be counted only.
    if plan.display_indent().count("TableScan:") != len(scans):
        return {}
    scan_fetches: dict[str, list[int | None]] = {}
    for scan in scans:
        table = foreign.get(scan.fqn()[-1])
        if table is not None:
            scan_fetches.setdefault(table.name, []).append(scan.fetch())
    limits = {name: [fetch for fetch in fetches if fetch is not None] for name, fetches in scan_fetches.items()}
    return {name: max(fetches) for name, fetches in limits.items() if len(fetches) == len(scan_fetches[name])}


def _scans(plan: LogicalPlan) -> Iterator[TableScan]:
    operator = plan.to_variant()
    if isinstance(operator, TableScan):
        yield operator
    for child in plan.inputs():
        yield from _scans(child)
