"""What EXPLAIN says about foreign tables in other databases: the statement that each of them is sent."""

from __future__ import annotations

import pyarrow as pa
from datafusion import DataFrame, LogicalPlan, SessionContext
from datafusion.expr import Analyze, Explain

from omnigraph_sql.engines.foreign.model import Reading
from omnigraph_sql.engines.streaming import Complete, Stream


def is_explained(frame: DataFrame) -> bool:
    """Whether a statement is an EXPLAIN."""
    return isinstance(frame.logical_plan().to_variant(), Explain | Analyze)


def inner_plan(context: SessionContext, frame: DataFrame) -> LogicalPlan:
    """The optimised plan of a statement, or of the one that it explains."""
    if is_explained(frame):
        frame = context.create_dataframe_from_logical_plan(frame.logical_plan().inputs()[0])
    return frame.optimized_logical_plan()


def explained(stream: Stream, schema: pa.Schema, reading: Reading) -> Complete:
    """The rows of an explanation, and one more for each statement that goes elsewhere."""
    batches: list[pa.RecordBatch] = []
    while (batch := stream.next()) is not None:
        batches.append(batch)
    rows = [{"plan_type": f"remote {asked.table}", "plan": asked.sql} for asked in reading.asked or ()]
    added = pa.Table.from_pylist(rows, schema=schema)
    whole = pa.concat_tables([pa.Table.from_batches(batches, schema=schema), added]).combine_chunks()
    return Complete(whole.to_batches()[0])
