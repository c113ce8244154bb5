"""Read queries on DataFusion."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
from datafusion import DataFrame, SessionConfig, SessionContext, udf

from omnigraph_compiler import Catalog, Query, ir
from omnigraph_sql.embeddings import Embeddings
from omnigraph_sql.engines.binding import bind_function, bind_relation
from omnigraph_sql.engines.scope import Scope
from omnigraph_sql.explanation import Explanation
from omnigraph_sql.manifest.snapshot import Snapshot
from omnigraph_sql.planner.build import build
from omnigraph_sql.planner.dialects import render
from omnigraph_sql.planner.plan import SqlPlan
from omnigraph_sql.planner.values import bind, python_value
from omnigraph_sql.search.columns import SearchCache
from omnigraph_sql.storage.columns import arrow_type
from omnigraph_sql.storage.tables import TableStorage
from omnigraph_sql.topology.cache import RuntimeCache

BATCH_ROWS = 8192


class QueryEngine:
    """Runs read queries of one graph; keeps what they share."""

    def __init__(self, storage: TableStorage, embeddings: Embeddings, *, saves: bool) -> None:
        self._cache = RuntimeCache(storage)
        self._search = SearchCache(storage, saves=saves)
        self._embeddings = embeddings

    def run(self, query: Query, catalog: Catalog, snapshot: Snapshot, params: Mapping[str, Any]) -> pa.Table:
        """All rows of a query."""
        assert isinstance(query.plan, ir.ReadPlan)
        scope = self._scope(catalog, snapshot, params)
        plan = build(query.plan, catalog, scope)
        schema = result_schema(plan)
        batches = [_fitted(batch, schema) for batch in self._frame(scope, plan).collect()]
        self._cache.trim()
        return pa.Table.from_batches(batches, schema=schema)

    def explain(
        self, query: Query, catalog: Catalog, snapshot: Snapshot, params: Mapping[str, Any], *, analyze: bool
    ) -> Explanation:
        """How a query runs; with `analyze`, after running it."""
        assert isinstance(query.plan, ir.ReadPlan)
        started = time.perf_counter()
        scope = self._scope(catalog, snapshot, params)
        plan = build(query.plan, catalog, scope)
        scalars = {name: bind(value, params) for name, value in plan.values.items()}
        frame = self._frame(scope, plan)
        found = Explanation(
            query.name,
            ir.plan_json(query.plan),
            render(plan.tree, pretty=True),
            {name: str(meaning) for name, meaning in {**plan.relations, **plan.functions}.items()},
            {f"${name}": scalar.as_py() for name, scalar in scalars.items()},
            frame.optimized_logical_plan().display_indent(),
            frame.execution_plan().display_indent(),
        )
        if not analyze:
            return found
        planned = time.perf_counter()
        rows = sum(batch.num_rows for batch in frame.collect())
        seconds = {"planning": planned - started, "running": time.perf_counter() - planned}
        return replace(found, rows=rows, seconds=seconds)

    def _scope(self, catalog: Catalog, snapshot: Snapshot, params: Mapping[str, Any]) -> Scope:
        def positions(plan: SqlPlan) -> pa.Table:
            return self._frame(scope, plan).to_arrow_table()

        scope = Scope(catalog, snapshot, self._cache, self._search, self._embeddings, {}, params, positions)
        return scope

    def _frame(self, scope: Scope, plan: SqlPlan) -> DataFrame:
        """A plan, ready to be run."""
        values = {name: python_value(given, scope.params) for name, given in plan.inputs.items()}
        scalars = {name: bind(value, scope.params) for name, value in plan.values.items()}
        context = self._session(plan, replace(scope, values=values))
        return context.sql(render(plan.tree), param_values=scalars)

    def _session(self, plan: SqlPlan, scope: Scope) -> SessionContext:
        context = SessionContext(SessionConfig().with_batch_size(BATCH_ROWS).with_target_partitions(1))
        for name, relation in plan.relations.items():
            context.register_record_batches(f'"{name}"', [[bind_relation(scope, relation)]])
        for name, function in plan.functions.items():
            bound = bind_function(scope, function)
            context.register_udf(udf(bound.run, list(bound.arguments), bound.result, "immutable", name))
        return context


def result_schema(plan: SqlPlan) -> pa.Schema:
    """The declared columns of a result."""
    return pa.schema([pa.field(item.name, arrow_type(item.type), item.type.nullable) for item in plan.columns])


def _fitted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    columns = [_cast(column, field.type) for column, field in zip(batch.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _cast(column: pa.Array, type_: pa.DataType) -> pa.Array:
    if column.type == type_:
        return column
    return pa.nulls(len(column), type_) if pa.types.is_null(column.type) else column.cast(type_)
