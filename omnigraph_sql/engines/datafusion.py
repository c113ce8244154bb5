"""Read queries on DataFusion."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from datafusion import DataFrame, ExecutionPlan, SessionContext, udf

from omnigraph_compiler import Catalog, Query, ir
from omnigraph_sql.embeddings import Embeddings
from omnigraph_sql.engines.binding import bind_function, bind_relation
from omnigraph_sql.engines.execution import SHORT, Clock, Execution, TooLong, TooWide, guarded, translated
from omnigraph_sql.engines.kept import Kept
from omnigraph_sql.engines.limits import Limits
from omnigraph_sql.engines.prepared import Contexts, Prepared, Setting, Shelf, asked, context_of
from omnigraph_sql.engines.scope import Bound, Scope
from omnigraph_sql.engines.streaming import Complete, Stream
from omnigraph_sql.engines.totals import counted
from omnigraph_sql.manifest.snapshot import Snapshot
from omnigraph_sql.planner import functions as fn
from omnigraph_sql.planner.build import build, build_positions
from omnigraph_sql.planner.dialects import render
from omnigraph_sql.planner.logical import Direction, Facts, Vertex
from omnigraph_sql.planner.plan import SqlPlan
from omnigraph_sql.planner.values import bind, python_value
from omnigraph_sql.search.columns import SearchCache
from omnigraph_sql.storage.columns import arrow_type, table_key
from omnigraph_sql.storage.indexing import declared_vectors, text_specs
from omnigraph_sql.storage.tables import TableStorage
from omnigraph_sql.topology.cache import RuntimeCache
from omnigraph_sql.topology.trace import Trace

BATCH_ROWS = 8192
LONG_BATCH_ROWS = 65_536
MANY_ROWS = 500_000
READ_AHEAD_ROWS = 8192
"""A result of fewer rows is complete when the query returns."""
_PLANS = 256
T = TypeVar("T")


@dataclass(frozen=True)
class Planned:
    """A query as SQL: what is the same whenever it runs on tables of which the same is known."""

    plan: SqlPlan
    sql: str
    stages: tuple[tuple[str, str], ...] = ()
    """Names of tables, each with the SQL that makes it."""
    facts: tuple[tuple[tuple[str, Direction], bool], ...] = ()
    """What the planner asked about the data, besides sizes, and was told."""
    shelf: Shelf = field(default_factory=Shelf)


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


@lru_cache(_PLANS)
def _declared(items: tuple[ir.OutputItem, ...]) -> pa.Schema:
    return pa.schema([pa.field(item.name, arrow_type(item.type), item.type.nullable) for item in items])


@dataclass(frozen=True)
class Binding:
    """What the names in the SQL of a query stand for in one run."""

    relations: dict[str, pa.RecordBatch]
    functions: dict[str, Bound]
    values: dict[str, pa.Scalar]


@dataclass(frozen=True)
class Running:
    """A query in the hands of DataFusion. A frame must not outlive its context."""

    context: SessionContext
    frame: DataFrame
    give_back: Callable[[], None]
    """Called when it has come to its end, so that others make use of what is left."""
    make: Callable[[], ExecutionPlan]
    """Makes what DataFusion runs, or takes what it ran before."""


@dataclass(frozen=True)
class Session:
    """A query that DataFusion knows everything about."""

    planned: Planned
    binding: Binding
    running: Running
    trace: Trace
    is_short: bool
    """Whether the number of its rows bounds its time."""

    @cached_property
    def physical(self) -> ExecutionPlan:
        """What DataFusion runs."""
        return self.running.make()

    @property
    def notes(self) -> dict[str, str]:
        """How functions do what they do, as far as they say."""
        return {name: bound.note for name, bound in self.binding.functions.items() if bound.note is not None}

    def finished(self) -> None:
        """All rows were given."""
        self.running.give_back()

    def stream(self, execution: Execution, schema: pa.Schema) -> Stream:
        """Begin to run the query, for rows with the columns of a schema."""
        with execution.clock.running(), translated(execution):
            one = execution.left is not None and self.physical.partition_count == 1
            source = self.running.context.execute(self.physical, 0) if one else self.running.frame.execute_stream()
        execution.begin()

        def fit(batch: pa.RecordBatch) -> pa.RecordBatch:
            execution.afford(null_bytes(batch, schema))
            return fitted(batch, schema)

        return Stream(source, self, execution, fit)


class QueryEngine:
    """Runs read queries of one graph; keeps what they share."""

    def __init__(self, storage: TableStorage, embeddings: Embeddings, *, saves: bool) -> None:
        self._storage = storage
        self._cache = RuntimeCache(storage, saves=saves)
        self._search = SearchCache(storage, saves=saves)
        self._embeddings = embeddings
        self._plans: Kept[Hashable, Planned] = Kept(_PLANS)
        self._contexts = Contexts()

    def scope(self, order: Order, execution: Execution) -> Scope:
        """What the names of an order's plans are bound to."""

        def allowed(vertex: Vertex, value: ir.PropertyRef | None) -> pa.Table:
            planned = self._kept(
                order, (vertex, value), scope, lambda facts: build_positions(vertex, value, scope.catalog, facts)
            )
            session = self._session(planned, replace(scope, memo={}), execution)
            with translated(execution):
                found = session.running.frame.to_arrow_table()
            session.finished()
            return found

        scope = Scope(order.catalog, order.snapshot, self._cache, self._search, self._embeddings, {}, order.params, allowed)
        return scope

    def planned(self, order: Order, scope: Scope) -> Planned:
        """The SQL of a query."""
        return self._kept(order, order.query.ir_hash, scope, lambda facts: build(order.read, order.catalog, facts))

    def _kept(self, order: Order, what: Hashable, scope: Scope, make: Callable[[Facts], SqlPlan]) -> Planned:
        """A plan that was made before, as long as what it was made on is still true; else a new one."""
        snapshot = order.snapshot
        key = (order.catalog.schema_hash, snapshot.branch, snapshot.incarnation, snapshot.manifest_version, what)
        kept = self._plans.peek(key)
        if kept is not None and all(scope.is_functional(*asked) == known for asked, known in kept.facts):
            return kept
        asked = AskedFacts(scope)
        plan = make(asked)
        stages = tuple((name, render(tree)) for name, tree in plan.stages)
        return self._plans.put(key, Planned(plan, render(plan.tree), stages, tuple(asked.answers.items())))

    def start(self, order: Order) -> Stream | Complete:
        """Run a query until its first rows are there."""

        def run(execution: Execution) -> Stream | Complete:
            with execution.clock.running():
                scope = self.scope(order, execution)
                planned = self.planned(order, scope)
                if planned.plan.total is not None and scope.given.mode is None:
                    number = pa.array([counted(scope, planned.plan.total)], pa.int64())
                    execution.clock.check()
                    return Complete(pa.RecordBatch.from_arrays([number] * len(order.schema), schema=order.schema))
                session = self._bound(planned, scope, execution)
            stream = session.stream(execution, order.schema)
            stream.read_ahead(READ_AHEAD_ROWS)
            return stream

        return self.attempt(order.limits, run)

    def attempt(self, limits: Limits, run: Callable[[Execution], T]) -> T:
        """Do something with a run; again, with shorter batches, if one leads to too much."""
        clock = Clock(limits.timeout)
        batch_rows, allowance = BATCH_ROWS, SHORT
        while True:
            execution = Execution(limits, clock, batch_rows, allowance)
            try:
                return run(execution)
            except TooLong:
                allowance = 0
            except TooWide as found:
                rows = execution.first_rows
                batch_rows = max(1, min(rows // 2, rows * execution.wide // found.destinations))
            finally:
                self._cache.trim(self._search.nbytes_of, self._search.made)

    def prepare(self, catalog: Catalog, snapshot: Snapshot) -> None:
        """Make and keep what searches in the declared texts and vectors of a snapshot need."""
        for node in catalog.nodes.values():
            entry = snapshot.entries.get(table_key(node))
            if entry is None or not entry.row_count:
                continue
            for spec in text_specs(node):
                self._search.prepare_text(entry, spec.column)
            for column in declared_vectors(node):
                self._search.prepare_vectors(entry, column)

    def indexes(self, order: Order, meanings: Iterable[fn.Relation | fn.Function]) -> Iterator[str]:
        """Which indexes the tables of a query have."""
        for key in sorted({key for meaning in meanings for key in meaning.tables}):
            entry = order.snapshot.entry(key)
            handle = self._storage.open_at(entry.path, entry.branch, entry.version, entry.transaction_uuid)
            for index in self._storage.indexes(handle):
                share = "all rows" if index.covers_all else "some rows"
                yield f"{key}.{index.column}: {index.kind}, {share}"

    def session(self, order: Order, execution: Execution) -> Session:
        """Plan a query, and bind everything that its SQL names to the data of its snapshot."""
        scope = self.scope(order, execution)
        return self._bound(self.planned(order, scope), scope, execution)

    def _bound(self, planned: Planned, scope: Scope, execution: Execution) -> Session:
        found = self._session(planned, scope, execution)
        if found.is_short and execution.allowance > max(map(len, found.binding.relations.values())):
            execution.left = execution.allowance
        return found

    def _session(self, planned: Planned, scope: Scope, execution: Execution) -> Session:
        plan = planned.plan
        values = {name: python_value(given, scope.params) for name, given in plan.inputs.items()}
        scope = replace(scope, values=values)
        relations = {name: bind_relation(scope, relation) for name, relation in plan.relations.items()}
        longest = max((batch.num_rows for batch in relations.values()), default=0)
        execution.first_rows = min(execution.batch_rows, longest)
        bounds = {}
        for name, function in plan.functions.items():
            execution.clock.check()
            bounds[name] = bind_function(scope, function)
        scalars = {name: bind(value, scope.params) for name, value in plan.values.items()}
        binding = Binding(relations, bounds, scalars)
        partitions = _partitions(plan, longest)
        is_straight = plan.is_straight and partitions == 1
        with translated(execution):
            make = self._prepared if is_straight and not scalars else _fresh
            running = make(planned, binding, execution, _setting(execution, plan, partitions))
        is_short = is_straight and all(bound.at_hand for bound in bounds.values())
        return Session(planned, binding, running, scope.trace, is_short)

    def _prepared(self, planned: Planned, binding: Binding, execution: Execution, setting: Setting) -> Running:
        """A query of one relation, and without values in its text, on a plan that may have been made before."""
        ((name, batch),) = binding.relations.items()
        wanted = asked(name, batch.schema, binding.functions)
        prepared = planned.shelf.take(wanted) or Prepared(planned.sql, wanted)
        prepared.load(batch, [guarded(execution, bound) for bound in binding.functions.values()])
        memory = execution.limits.memory
        context = self._contexts.take(memory, setting)

        def give_back() -> None:
            planned.shelf.give(prepared)
            self._contexts.give(memory, setting, context)

        frame = context.create_dataframe_from_logical_plan(prepared.plan)
        # What is measured of a run is added to what was measured before.
        make = frame.execution_plan if execution.is_measured else partial(prepared.physical, frame, setting)
        return Running(context, frame, give_back, make)


class AskedFacts:
    """Facts that remember what was asked."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self.answers: dict[tuple[str, Direction], bool] = {}

    def rows(self, table_key: str) -> int:
        """How many rows a table has."""
        return self._scope.rows(table_key)

    def is_functional(self, edge: str, direction: Direction) -> bool:
        """Whether every vertex is known to have one neighbour at most."""
        found = self.answers[edge, direction] = self._scope.is_functional(edge, direction)
        return found


def _settled(
    context: SessionContext, sql: str, scalars: Mapping[str, pa.Scalar], execution: Execution
) -> list[pa.RecordBatch]:
    """The rows of a query that others start from, in batches with memory of their own.

    The engine would cut a long batch, and count all of it as the memory of each piece.
    """
    used = {name: value for name, value in scalars.items() if re.search(rf"\${name}\b", sql)}
    frame = context.sql(sql, param_values=used)
    batches = [pa.RecordBatch.from_pylist([], schema=frame.schema())]
    for found in frame.execute_stream():
        batch = found.to_pyarrow()
        execution.keep(batch.nbytes)
        for start in range(0, batch.num_rows, execution.batch_rows):
            end = min(start + execution.batch_rows, batch.num_rows)
            batches.append(batch.take(pa.array(np.arange(start, end))))
    return batches


def _partitions(plan: SqlPlan, rows: int) -> int:
    # Where nothing is done with the neighbours of each row, and for few rows, dividing the work costs more than it brings.
    visits = _unfolds(plan) or any(isinstance(function, fn.CommonWeight) for function in plan.functions.values())
    return os.cpu_count() or 1 if rows > (BATCH_ROWS if visits else MANY_ROWS) else 1


def _unfolds(plan: SqlPlan) -> bool:
    return any(isinstance(function, fn.Hop | fn.Reach | fn.Common) for function in plan.functions.values())


def _setting(execution: Execution, plan: SqlPlan, partitions: int) -> Setting:
    # Lists multiply the rows of a batch, so these are short, and shorter where a run had to begin again.
    is_short = _unfolds(plan) or execution.batch_rows < BATCH_ROWS
    batch_rows = execution.batch_rows if is_short else LONG_BATCH_ROWS
    return (
        ("datafusion.execution.batch_size", str(batch_rows)),
        ("datafusion.execution.target_partitions", str(partitions)),
        # What a sort keeps back for merging what it has put aside.
        ("datafusion.execution.sort_spill_reservation_bytes", str(min(10 << 20, execution.limits.memory // 16))),
    )


def _fresh(planned: Planned, binding: Binding, execution: Execution, setting: Setting) -> Running:
    """A query planned for this run alone."""
    context = context_of(execution.limits.memory, setting)
    for number, (name, batch) in enumerate(binding.relations.items()):
        _register(context, name, [batch], number)
    for name, bound in binding.functions.items():
        run = guarded(execution, bound)
        context.register_udf(udf(run, list(bound.arguments), bound.result, "immutable", name))
    for number, (name, sql) in enumerate(planned.stages, len(binding.relations)):
        _register(context, name, _settled(context, sql, binding.values, execution), number)
    frame = context.sql(planned.sql, param_values=binding.values)
    return Running(context, frame, lambda: None, frame.execution_plan)


def _register(context: SessionContext, name: str, batches: list[pa.RecordBatch], number: int) -> None:
    # A physical plan shows how many batches a relation has, not its name: the empty ones tell them apart.
    context.register_record_batches(f'"{name}"', [[*batches, *[batches[0].slice(0, 0)] * (number + 1 - len(batches))]])


def fitted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """A batch with exactly the declared columns."""
    columns = [_cast(column, field.type) for column, field in zip(batch.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def null_bytes(batch: pa.RecordBatch, schema: pa.Schema) -> int:
    """What columns that are nothing but null take once they have their types: vectors take room for their numbers."""
    types = [field.type for column, field in zip(batch.columns, schema, strict=True) if pa.types.is_null(column.type)]
    rows: int = batch.num_rows
    width: int = sum(4 * type_.list_size for type_ in types if pa.types.is_fixed_size_list(type_))
    return rows * width


def _cast(column: pa.Array, type_: pa.DataType) -> pa.Array:
    if column.type == type_:
        return column
    return pa.nulls(len(column), type_) if pa.types.is_null(column.type) else column.cast(type_)
