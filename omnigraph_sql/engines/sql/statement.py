"""SQL statements that only read, on DataFusion."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
from datafusion import DataFrame

from omnigraph_sql.engines.execution import Clock, Execution, translated
from omnigraph_sql.engines.foreign.blaming import blamed
from omnigraph_sql.engines.foreign.explaining import explained, is_explained
from omnigraph_sql.engines.resources import BATCH_ROWS
from omnigraph_sql.engines.sql.context import GraphContext
from omnigraph_sql.engines.sql.names import Ref
from omnigraph_sql.engines.sql.orders import Statement
from omnigraph_sql.engines.sql.pins import Pins, Source
from omnigraph_sql.engines.sql.refusals import failed
from omnigraph_sql.engines.streaming import Awaited, Complete, Portion, Stream
from omnigraph_sql.errors import OmnigraphError

READ_AHEAD = Portion(rows=8192)
"""What is there before anybody asks for it."""
_IDLE = 4


@dataclass(frozen=True)
class Running:
    """What DataFusion needs as long as a statement runs."""

    context: GraphContext
    frame: DataFrame
    give_back: Callable[[], None]

    def finished(self) -> None:
        """All rows were given."""
        self.give_back()


class DataFusionStatements:
    """Runs statements on sessions that are kept for the next ones."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._idle: list[tuple[tuple[Ref, int], GraphContext]] = []
        self._lock = threading.Lock()

    def start(self, statement: Statement) -> tuple[pa.Schema, Stream | Complete]:
        """Run a statement until its first rows are there."""
        execution = Execution(statement.limits, Clock(statement.limits.timeout), BATCH_ROWS)
        context = self._take(statement)
        with execution.clock.running():
            frame = context.read(statement.text, statement.params, statement.states)
            reading = context.graph.pins.reading
            reading.follow(execution)
            execution.describe = partial(_described, context.graph.pins)
            with translated(execution):
                # Only they hold the stream: a frame that an error keeps would keep the engine at work.
                rows = Awaited(frame.execute_stream())
        execution.begin()
        schema = distinct(frame.schema())
        running = Running(context, frame, lambda: self._give(statement, context))
        stream = Stream(rows, running, execution, lambda batch: plain(batch, schema))
        stream.read_ahead(READ_AHEAD)
        return schema, explained(stream, schema, reading) if reading.is_remote and is_explained(frame) else stream

    def close(self) -> None:
        """Let go of the sessions that nobody makes use of."""
        with self._lock:
            self._idle.clear()

    def _take(self, statement: Statement) -> GraphContext:
        wanted = statement.own, statement.limits.memory
        with self._lock:
            for place, (known, context) in enumerate(self._idle):
                if known == wanted:
                    del self._idle[place]
                    return context
        return GraphContext(self._source, statement.own, statement.limits.memory)

    def _give(self, statement: Statement, context: GraphContext) -> None:
        with self._lock:
            self._idle.append(((statement.own, statement.limits.memory), context))
            del self._idle[:-_IDLE]


def _described(pins: Pins, cause: BaseException) -> OmnigraphError:
    return pins.reason() or blamed(str(cause), pins.reading) or failed(str(cause))


def distinct(schema: pa.Schema) -> pa.Schema:
    """Columns as results show them: plain types, and a name of its own for each."""
    given, taken = set(schema.names), set[str]()
    fields = []
    for field in schema:
        name, number = field.name, 1
        while name in taken or (number > 1 and name in given):
            name, number = f"{field.name}_{number}", number + 1
        taken.add(name)
        fields.append(pa.field(name, _plain(field.type)))
    return pa.schema(fields)


def plain(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """A batch with the columns of a result."""
    if batch.schema.equals(schema):
        return batch
    columns = [
        column if column.type == field.type else column.cast(field.type)
        for column, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _plain(kind: pa.DataType) -> pa.DataType:
    """A type that every reader of Arrow knows."""
    if kind == pa.string_view():
        return pa.string()
    return pa.binary() if kind == pa.binary_view() else kind
