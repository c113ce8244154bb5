"""Read-only SQL statements on DuckDB."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import duckdb
import pyarrow as pa

from omnigraph_compiler.deadline import checked_by
from omnigraph_sql.caches import LruCache, Pool, SharedPools
from omnigraph_sql.engines.duckdb.connections import Connection, keyboard_interrupts
from omnigraph_sql.engines.duckdb.engine import DuckDBRows, duckdb_value
from omnigraph_sql.engines.duckdb.errors import statement_error
from omnigraph_sql.engines.duckdb.functions import CurrentResolver, create_functions
from omnigraph_sql.engines.duckdb.renamed_rows import case_safe_rows
from omnigraph_sql.engines.duckdb.statement_parser import ParsedStatement, parse_statement
from omnigraph_sql.engines.duckdb.views import INFORMATION, GraphViews
from omnigraph_sql.errors import BadRequest, OmnigraphError
from omnigraph_sql.foreign.error_attribution import attributed_error
from omnigraph_sql.foreign.registry import SCHEMA as FOREIGN
from omnigraph_sql.runtime.execution import BATCH_ROWS, Execution, RunClock, RunSettings
from omnigraph_sql.runtime.streams import BatchStream, wait_for
from omnigraph_sql.runtime.worker_threads import submit
from omnigraph_sql.sql.functions import DYNAMIC, FUNCTIONS
from omnigraph_sql.sql.information_schema import SCHEMA
from omnigraph_sql.sql.refs import CatalogPin, StateRef
from omnigraph_sql.sql.resolver import NameResolver, SqlSource, resolver_of
from omnigraph_sql.sql.statement import READ_AHEAD, SqlRequest, parameter_scalar, result_batch, result_schema
from omnigraph_sql.sqltext.identifiers import quoted
from omnigraph_sql.sqltext.parameter_limits import check_parameters
from omnigraph_sql.sqltext.text_limits import check_sql
from omnigraph_sql.sqltext.user_sql import SqlCall, SqlParameter, renamed_schema, replaced_calls

_IDLE = 4
_MOST_PARSED = 64
_RESULT = "__omnigraph_rows_"
_WIDE = ("list", "array", "struct", "map", "union", "blob", "variant")
"""DuckDB types whose values can be large."""
_LONG_BATCH_ROWS = 1 << 17
_SHORT_SECONDS = 0.01
"""Shorter statements run in the caller's thread: switching to a worker thread would take a large part of this time."""


class StatementWorker:
    """A connection with the views and functions of a graph, for one statement at a time."""

    def __init__(self, source: SqlSource, memory: int) -> None:
        self.connection = Connection(memory)
        self.current = CurrentResolver(resolver_of(source, StateRef()))
        self.tables = GraphViews(self.connection.duck, self.current.resolver.database, self.current)
        self.connection.duck.execute("SET TimeZone = 'UTC'")
        create_functions(self.connection.duck, self.current, ("",))
        self._parsed: LruCache[str, ParsedStatement] = LruCache(_MOST_PARSED)

    def cached(self, text: str) -> ParsedStatement | None:
        """Return a parsed statement from the cache."""
        return self._parsed.peek(text)

    def parsed(self, text: str) -> ParsedStatement:
        """Return the parsed statement, from the cache or new."""
        return self._parsed.get(text, lambda: parse_statement(self.connection.duck, self.current.resolver, text))

    @property
    def is_mine(self) -> bool:
        """True if this process created the connection: a forked child does not have the threads of the database."""
        return self.connection.process == os.getpid()


@dataclass(kw_only=True)
class RunningDuckDBStatement:
    """A statement on its connection."""

    worker: StatementWorker
    statement: SqlRequest
    give_back: Callable[[StatementWorker], None]
    results: list[str] = field(default_factory=list)
    schema: pa.Schema | None = None
    parsed: ParsedStatement | None = None
    batch_rows: int = BATCH_ROWS
    _since: float = 0.0

    @property
    def connection(self) -> Connection:
        return self.worker.connection

    def is_short(self) -> bool:
        """True if the last run was short and read the same table versions."""
        parsed = None if self.statement.params else self.worker.cached(self.statement.text)
        if parsed is None or parsed.short_run_tables is None:
            return False
        # Reset until this run has proved to be short as well.
        versions, parsed.short_run_tables = parsed.short_run_tables, None
        return versions == self.worker.tables.versions_read(self.worker.current.resolver, parsed)

    def begin(self, _: Execution) -> pa.RecordBatchReader:
        """Resolve the names of the statement, and run it."""
        self._since = time.monotonic()
        parsed = self._resolve()
        params = self.statement.params
        # Only those that remain in the text: DuckDB rejects others.
        names = [name for name in params if name in parsed.statement.named_parameters]
        values = {name: duckdb_value(parameter_scalar(name, params[name])) for name in names}
        reader = self._reader(self.connection.duck, parsed, values)
        self.schema = result_schema(reader.schema)
        return reader

    def _resolve(self) -> ParsedStatement:
        text = self.statement.text
        for name in DYNAMIC:
            text = replaced_calls(text, name, partial(self._result, name))
        text = renamed_schema(text, SCHEMA, quoted(INFORMATION))
        text = renamed_schema(text, FOREIGN, quoted(FOREIGN))  # a keyword of DuckDB unless it is quoted
        self.parsed = self.worker.parsed(text)
        self.worker.tables.create_for(self.worker.current.resolver, self.parsed)
        return self.parsed

    def _reader(
        self, duck: duckdb.DuckDBPyConnection, parsed: ParsedStatement, values: dict[str, object]
    ) -> pa.RecordBatchReader:
        if parsed.batch_rows is not None and not values and hasattr(duck, "_submit"):
            # The same as reading a relation without binding its columns first, which would plan the statement twice.
            self.batch_rows = parsed.batch_rows
            return duck._submit(parsed.statement.query, None, "stream", self.batch_rows).arrow_reader()
        relation = duck.sql(parsed.statement, params=values or None)
        self.batch_rows = BATCH_ROWS if any(kind.id in _WIDE for kind in relation.types) else _LONG_BATCH_ROWS
        if parsed.statement.type == duckdb.StatementType.SELECT:
            parsed.batch_rows = self.batch_rows
        return relation.to_arrow_reader(self.batch_rows)

    def _result(self, function: str, call: SqlCall) -> str:
        """Run a call of a function, register its rows as a table, and return the name of the table."""
        resolver = self.worker.current.resolver
        values = [_value(resolver, argument) for argument in call.arguments]
        self.results.append(f"{_RESULT}{len(self.results)}")
        self.connection.duck.register(self.results[-1], case_safe_rows(FUNCTIONS[function].rows(resolver, values)))
        return quoted("temp", "main", self.results[-1])

    def error_for(self, cause: BaseException) -> OmnigraphError:
        """Return the error for an exception of the run."""
        resolver = self.worker.current.resolver
        return (
            resolver.reason()
            or attributed_error(str(cause), resolver.reading)
            or statement_error(str(cause), self._columns, self.statement.text)
        )

    def _columns(self) -> list[str]:
        """The columns of the tables that the statement names."""
        return [] if self.parsed is None else self.worker.tables.columns(self.worker.current.resolver, self.parsed)

    def finished(self) -> None:
        """Remember whether the run was short, and return the connection to the pool."""
        if self.parsed is not None and self.parsed.is_deterministic and time.monotonic() - self._since < _SHORT_SECONDS:
            self.parsed.short_run_tables = self.worker.tables.versions_read(self.worker.current.resolver, self.parsed)
        with keyboard_interrupts():
            for name in self.results:
                self.connection.duck.unregister(name)
            self.worker.tables.release()
        self.give_back(self.worker)


class DuckDBStatements:
    """Runs statements on pooled connections."""

    def __init__(self, source: SqlSource, pools: SharedPools) -> None:
        self._source = source
        self._idle: Pool[tuple[CatalogPin | None, int], StatementWorker] = pools.of(
            "duckdb", lambda: Pool(_IDLE, lambda worker: worker.connection.close())
        )
        """Workers by their catalog and memory limit."""

    def start(self, statement: SqlRequest) -> tuple[pa.Schema, BatchStream]:
        """Run a statement, and return it with its first rows read."""
        clock = RunClock(statement.limits.timeout, statement.spent)
        execution = Execution(RunSettings(limits=statement.limits), clock)
        execution.begin()
        with execution.clock.running():
            with checked_by(execution.clock.check):
                check_sql(statement.text)
                check_parameters(statement.params)
            worker = self._take(statement.limits.memory, execution)
        worker.current.resolver = resolver = resolver_of(
            self._source, statement.default_state, statement.params, statement.states
        )
        resolver.reading.follow(execution)
        resolver.execution = execution
        running = RunningDuckDBStatement(worker=worker, statement=statement, give_back=self._give)
        execution.describe_failures(running.error_for)

        def cast(batch: pa.RecordBatch) -> pa.RecordBatch:
            assert running.schema is not None
            return result_batch(batch, running.schema)

        stream = BatchStream(DuckDBRows(running, execution), running, execution, cast)
        stream.read_ahead(READ_AHEAD)
        assert running.schema is not None
        return running.schema, stream

    def _take(self, memory: int, execution: Execution) -> StatementWorker:
        worker = self._idle.take((self._source.pin, memory), lambda idle: idle.is_mine)
        if worker is not None:
            return worker
        # In a worker thread, which an interrupt does not hit: setting a connection up takes a while.
        return wait_for(submit(lambda: StatementWorker(self._source, memory), lambda: None), execution)

    def _give(self, worker: StatementWorker) -> None:
        self._idle.give((self._source.pin, worker.connection.memory), worker)


def _value(resolver: NameResolver, argument: Any) -> Any:
    if not isinstance(argument, SqlParameter):
        return argument
    if argument.name not in resolver.params:
        raise BadRequest(f"there is no value for the parameter `${argument.name}`", hint="give one for every $name")
    return resolver.params[argument.name]
