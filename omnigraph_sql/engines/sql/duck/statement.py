"""SQL statements that only read, on DuckDB."""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import duckdb
import pyarrow as pa

from omnigraph_sql.engines.duckdb import Fetching, duck_value
from omnigraph_sql.engines.duckdb_connections import Connection, heeding_keyboard
from omnigraph_sql.engines.execution import Clock, Execution
from omnigraph_sql.engines.foreign.blaming import blamed
from omnigraph_sql.engines.foreign.registry import SCHEMA as FOREIGN
from omnigraph_sql.engines.resources import BATCH_ROWS
from omnigraph_sql.engines.sql.context import CATALOG, scalar
from omnigraph_sql.engines.sql.duck.functions import Current, create_functions
from omnigraph_sql.engines.sql.duck.naming import quoted
from omnigraph_sql.engines.sql.duck.parsing import Parsed, parsed
from omnigraph_sql.engines.sql.duck.refusals import refused
from omnigraph_sql.engines.sql.duck.tables import INFORMATION, Tables
from omnigraph_sql.engines.sql.functions import FUNCTIONS
from omnigraph_sql.engines.sql.information import SCHEMA
from omnigraph_sql.engines.sql.names import Ref
from omnigraph_sql.engines.sql.orders import Statement
from omnigraph_sql.engines.sql.pins import Pins, Source
from omnigraph_sql.engines.sql.statement import READ_AHEAD, distinct, plain
from omnigraph_sql.engines.streaming import Stream, awaited
from omnigraph_sql.engines.threads import in_thread
from omnigraph_sql.errors import BadRequest, OmnigraphError
from omnigraph_sql.planner.statements import Call, Parameter, renamed_schema, replaced_calls

_IDLE = 4
_KEPT = 64
_RESULT = "__omnigraph_gq_"
_WIDE = ("list", "array", "struct", "map", "union", "blob", "variant")
"""Kinds of values that may be long."""
_LONG_BATCH_ROWS = 1 << 17
_SHORT_SECONDS = 0.01
"""Statements that take no longer are run in the thread that asks: to wait for another is a good part of that."""


class Worker:
    """A connection with a graph, for one statement at a time."""

    def __init__(self, source: Source, memory: int) -> None:
        self.connection = Connection(memory)
        self.current = Current(Pins(source, Ref()))
        self.tables = Tables(self.connection.duck, CATALOG)
        self.connection.duck.execute("SET TimeZone = 'UTC'")
        create_functions(self.connection.duck, self.current, ("",))
        self._parsed: OrderedDict[str, Parsed] = OrderedDict()

    def known(self, text: str) -> Parsed | None:
        """What a statement is that was run before."""
        return self._parsed.get(text)

    def parsed(self, text: str) -> Parsed:
        """What a statement is; the same ones come again and again."""
        if text not in self._parsed:
            self._parsed[text] = parsed(self.connection.duck, self.current.pins, text)
        self._parsed.move_to_end(text)
        while len(self._parsed) > _KEPT:
            self._parsed.popitem(last=False)
        return self._parsed[text]

    @property
    def is_mine(self) -> bool:
        """Whether this process made it: threads of a database stay behind when a process forks."""
        return self.connection.process == os.getpid()


@dataclass
class Running:
    """A statement on its connection."""

    worker: Worker
    statement: Statement
    give_back: Callable[[Worker], None]
    results: list[str] = field(default_factory=list)
    schema: pa.Schema | None = None
    parsed: Parsed | None = None
    batch_rows: int = BATCH_ROWS
    _since: float = 0.0

    @property
    def connection(self) -> Connection:
        return self.worker.connection

    def is_short(self) -> bool:
        """Whether it took but a moment when it was last run, and reads the same tables now."""
        known = None if self.statement.params else self.worker.known(self.statement.text)
        if known is None or known.short is None:
            return False
        short, known.short = known.short, None  # it must prove it each time
        return short == self.worker.tables.read_by(self.worker.current.pins, known)

    def begin(self, _: Execution) -> pa.RecordBatchReader:
        """Look up what the statement names, and run it."""
        self._since = time.monotonic()
        known = self._look_up()
        given = self.statement.params
        # Only those that are left in the text: DuckDB refuses others.
        wanted = [name for name in given if name in known.statement.named_parameters]
        values = {name: duck_value(scalar(name, given[name])) for name in wanted}
        reader = self._reader(self.connection.duck, known, values)
        self.schema = distinct(reader.schema)
        return reader

    def _look_up(self) -> Parsed:
        text = replaced_calls(self.statement.text, "gq", self._result)
        text = renamed_schema(text, SCHEMA, quoted(INFORMATION))
        text = renamed_schema(text, FOREIGN, quoted(FOREIGN))  # a word of DuckDB's own unless it is quoted
        self.parsed = self.worker.parsed(text)
        self.worker.tables.needed(self.worker.current.pins, self.parsed)
        return self.parsed

    def _reader(self, duck: duckdb.DuckDBPyConnection, known: Parsed, values: dict[str, object]) -> pa.RecordBatchReader:
        if known.batch_rows is not None and not values and hasattr(duck, "_submit"):
            # What a relation does that is read, but for asking first which columns it has: that plans the statement twice.
            self.batch_rows = known.batch_rows
            return duck._submit(known.statement.query, None, "stream", self.batch_rows).arrow_reader()
        found = duck.sql(known.statement, params=values or None)
        self.batch_rows = BATCH_ROWS if any(each.id in _WIDE for each in found.types) else _LONG_BATCH_ROWS
        if known.statement.type == duckdb.StatementType.SELECT:
            known.batch_rows = self.batch_rows
        return found.to_arrow_reader(self.batch_rows)

    def _result(self, call: Call) -> str:
        """The name of a table with the rows of a query."""
        pins = self.worker.current.pins
        values = [_given(pins, each) for each in call.arguments]
        self.results.append(f"{_RESULT}{len(self.results)}")
        self.connection.duck.register(self.results[-1], FUNCTIONS["gq"].rows(pins, values))
        return quoted("temp", "main", self.results[-1])

    def described(self, cause: BaseException) -> OmnigraphError:
        """Why it failed."""
        pins = self.worker.current.pins
        return pins.reason() or blamed(str(cause), pins.reading) or refused(str(cause), self._columns)

    def _columns(self) -> list[str]:
        """The columns of the tables that it names."""
        return [] if self.parsed is None else self.worker.tables.columns(self.worker.current.pins, self.parsed)

    def finished(self) -> None:
        """All rows were given."""
        if self.parsed is not None and self.parsed.is_steady and time.monotonic() - self._since < _SHORT_SECONDS:
            self.parsed.short = self.worker.tables.read_by(self.worker.current.pins, self.parsed)
        with heeding_keyboard():
            for name in self.results:
                self.connection.duck.unregister(name)
            self.worker.tables.release()
        self.give_back(self.worker)


class DuckDBStatements:
    """Runs statements on connections that are kept for the next ones."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._idle: list[Worker] = []
        self._lock = threading.Lock()

    def start(self, statement: Statement) -> tuple[pa.Schema, Stream]:
        """Run a statement until its first rows are there."""
        execution = Execution(statement.limits, Clock(statement.limits.timeout), BATCH_ROWS)
        execution.begin()
        with execution.clock.running():
            worker = self._take(statement.limits.memory, execution)
        worker.current.pins = pins = Pins(self._source, statement.own, statement.params, statement.states)
        pins.reading.follow(execution)
        running = Running(worker, statement, self._give)
        execution.describe = running.described

        def fit(batch: pa.RecordBatch) -> pa.RecordBatch:
            assert running.schema is not None
            return plain(batch, running.schema)

        stream = Stream(Fetching(running, execution), running, execution, fit)
        stream.read_ahead(READ_AHEAD)
        assert running.schema is not None
        return running.schema, stream

    def close(self) -> None:
        """Let go of the connections that nobody makes use of."""
        with self._lock:
            idle, self._idle = self._idle, []
        for worker in idle:
            worker.connection.close()

    def _take(self, memory: int, execution: Execution) -> Worker:
        with self._lock:
            for place, worker in enumerate(self._idle):
                if worker.connection.memory == memory and worker.is_mine:
                    del self._idle[place]
                    return worker
        # In a thread that is not interrupted: what DuckDB is told first takes a while.
        return awaited(in_thread(lambda: Worker(self._source, memory), lambda: None), execution)

    def _give(self, worker: Worker) -> None:
        with self._lock:
            self._idle.append(worker)
            over = self._idle[:-_IDLE]
            del self._idle[:-_IDLE]
        for each in over:
            each.connection.close()


def _given(pins: Pins, argument: Any) -> Any:
    if not isinstance(argument, Parameter):
        return argument
    if argument.name not in pins.params:
        raise BadRequest(f"there is no value for the parameter `${argument.name}`", hint="give one for every $name")
    return pins.params[argument.name]
