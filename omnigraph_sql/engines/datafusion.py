"""Read queries on DataFusion."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import pyarrow as pa
from datafusion import DataFrame, RuntimeEnvBuilder, SessionConfig, SessionContext, udf

from omnigraph_compiler import Catalog, Query, ir
from omnigraph_sql.embeddings import Embeddings
from omnigraph_sql.engines.binding import bind_function
from omnigraph_sql.engines.execution import Clock, Execution, TooWide, guarded, translated
from omnigraph_sql.engines.kept import Kept
from omnigraph_sql.engines.limits import Limits
from omnigraph_sql.engines.scope import Scope
from omnigraph_sql.engines.streaming import Stream
from omnigraph_sql.engines.traversal import relation as bind_relation
from omnigraph_sql.manifest.snapshot import Snapshot
from omnigraph_sql.planner import functions as fn
from omnigraph_sql.planner.build import build
from omnigraph_sql.planner.dialects import render
from omnigraph_sql.planner.plan import SqlPlan
from omnigraph_sql.planner.values import bind, python_value
from omnigraph_sql.search.columns import SearchCache
from omnigraph_sql.storage.columns import arrow_type
from omnigraph_sql.storage.tables import TableStorage
from omnigraph_sql.topology.cache import RuntimeCache

BATCH_ROWS = 8192
READ_AHEAD_ROWS = 8192
"""A result of fewer rows is complete when the query returns."""
_PLANS = 256
T = TypeVar("T")


@dataclass(frozen=True)
class Planned:
    """A query as SQL: what is the same whenever it runs on tables of which the same is known."""

    plan: SqlPlan
    sql: str

    @cached_property
    def schema(self) -> pa.Schema:
        """The declared columns of a result."""
        fields = [pa.field(item.name, arrow_type(item.type), item.type.nullable) for item in self.plan.columns]
        return pa.schema(fields)


@dataclass(frozen=True)
class Order:
    """One query with its parameters, on one snapshot."""

    query: Query
    catalog: Catalog
    snapshot: Snapshot
    params: Mapping[str, Any]
    limits: Limits


@dataclass(frozen=True)
class Session:
    """A query that DataFusion knows everything about. A frame must not outlive its context."""

    planned: Planned
    context: SessionContext
    frame: DataFrame
    values: dict[str, pa.Scalar]
    relations: dict[str, int]
    """How many rows each relation has."""
    notes: dict[str, str]
    """How functions do what they do, as far as they say."""

    def stream(self, execution: Execution) -> Stream:
        """Begin to run the query."""
        with execution.clock.running(), translated(execution):
            source = self.frame.execute_stream()
        execution.begin()
        return Stream(source, (self,), execution, lambda batch: fitted(batch, self.planned.schema))


class QueryEngine:
    """Runs read queries of one graph; keeps what they share."""

    def __init__(self, storage: TableStorage, embeddings: Embeddings) -> None:
        self._storage = storage
        self._cache = RuntimeCache(storage)
        self._search = SearchCache()
        self._embeddings = embeddings
        self._plans: Kept[tuple[str, str, Hashable], Planned] = Kept(_PLANS)

    def planned(self, query: Query, catalog: Catalog, facts: Hashable = None) -> Planned:
        """The SQL of a query. `facts` is what the planner was told about the tables besides their schema."""
        read = query.plan
        assert isinstance(read, ir.ReadPlan)

        def make() -> Planned:
            plan = build(read, catalog)
            return Planned(plan, render(plan.tree))

        return self._plans.get((catalog.schema_hash, query.ir_hash, facts), make)

    def start(self, order: Order) -> Stream:
        """Run a query until its first rows are there."""

        def run(execution: Execution) -> Stream:
            planned = self.planned(order.query, order.catalog)
            with execution.clock.running():
                session = self.session(planned, order, execution)
            stream = session.stream(execution)
            stream.read_ahead(READ_AHEAD_ROWS)
            return stream

        return self.attempt(order.limits, run)

    def attempt(self, limits: Limits, run: Callable[[Execution], T]) -> T:
        """Do something with a run; again, with shorter batches, if one leads to too much."""
        clock = Clock(limits.timeout)
        batch_rows = BATCH_ROWS
        while True:
            execution = Execution(limits, clock, batch_rows)
            try:
                return run(execution)
            except TooWide as found:
                rows = execution.first_rows
                batch_rows = max(1, min(rows // 2, rows * execution.wide // found.destinations))
            finally:
                self._cache.trim()

    def indexes(self, order: Order, meanings: Iterable[fn.Relation | fn.Function]) -> Iterator[str]:
        """Which indexes the tables of a query have."""
        for key in sorted({key for meaning in meanings for key in tables_of(meaning)}):
            entry = order.snapshot.entry(key)
            handle = self._storage.open_at(entry.path, entry.branch, entry.version, entry.transaction_uuid)
            for index in self._storage.indexes(handle):
                share = "all rows" if index.covers_all else "some rows"
                yield f"{key}.{index.column}: {index.kind}, {share}"

    def session(self, planned: Planned, order: Order, execution: Execution) -> Session:
        """Bind everything that the SQL of a query names to the data of its snapshot."""
        plan = planned.plan
        values = {name: python_value(given, order.params) for name, given in plan.inputs.items()}
        scope = Scope(order.catalog, order.snapshot, self._cache, self._search, self._embeddings, values)
        relations = {name: bind_relation(scope, relation) for name, relation in plan.relations.items()}
        longest = max((len(rows) for rows in relations.values()), default=0)
        execution.first_rows = min(execution.batch_rows, longest)
        context = _context(execution, longest)
        for number, (name, positions) in enumerate(relations.items()):
            batch = pa.record_batch([pa.array(positions, pa.int64())], names=["v"])
            # A physical plan shows how many batches a relation has, not its name: the empty ones tell them apart.
            context.register_record_batches(f'"{name}"', [[batch, *[batch.slice(0, 0)] * number]])
        notes: dict[str, str] = {}
        for name, function in plan.functions.items():
            execution.clock.check()
            bound = bind_function(scope, function)
            if bound.note is not None:
                notes[name] = bound.note
            run = guarded(execution, bound)
            context.register_udf(udf(run, list(bound.arguments), bound.result, "immutable", name))
        scalars = {name: bind(value, order.params) for name, value in plan.values.items()}
        with translated(execution):
            frame = context.sql(planned.sql, param_values=scalars)
        sizes = {name: len(positions) for name, positions in relations.items()}
        return Session(planned, context, frame, scalars, sizes, notes)


def tables_of(meaning: fn.Relation | fn.Function) -> tuple[str, ...]:
    """The tables that a name of a plan is about."""
    match meaning:
        case fn.Nodes() | fn.Lookup():
            return (f"node:{meaning.type}",)
        case fn.Hop() | fn.Reach() | fn.HasAny():
            return (f"edge:{meaning.edge}",)
        case fn.Exact():
            return ()
    return (meaning.table_key,)


def _context(execution: Execution, rows: int) -> SessionContext:
    # A query that starts from one batch has nothing to divide among several partitions.
    partitions = 1 if rows <= BATCH_ROWS else os.cpu_count() or 1
    config = SessionConfig().with_batch_size(execution.batch_rows).with_target_partitions(partitions)
    # What a sort keeps back for merging what it has put aside.
    config = config.set(
        "datafusion.execution.sort_spill_reservation_bytes", str(min(10 << 20, execution.limits.memory // 16))
    )
    runtime = RuntimeEnvBuilder().with_disk_manager_os().with_fair_spill_pool(execution.limits.memory)
    return SessionContext(config, runtime)


def fitted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """A batch with exactly the declared columns."""
    columns = [_cast(column, field.type) for column, field in zip(batch.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _cast(column: pa.Array, type_: pa.DataType) -> pa.Array:
    if column.type == type_:
        return column
    return pa.nulls(len(column), type_) if pa.types.is_null(column.type) else column.cast(type_)
