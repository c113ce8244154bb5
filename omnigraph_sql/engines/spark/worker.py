"""The worker side of a query on Spark: binds the functions of a task payload to tables that the worker opens itself."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b

from omnigraph_sql.binding.binder import bind_function
from omnigraph_sql.binding.context import Array, BindContext, BoundFunction
from omnigraph_sql.caches import LruCache
from omnigraph_sql.embeddings import Embeddings
from omnigraph_sql.engines.datafusion.engine import DataFusionEngine
from omnigraph_sql.engines.spark.errors import reported_failures
from omnigraph_sql.engines.spark.task_payload import TaskPayload
from omnigraph_sql.engines.spark.types import restored, widened
from omnigraph_sql.planner.values import python_value
from omnigraph_sql.runtime.execution import Execution, RunClock, RunSettings, guarded_function
from omnigraph_sql.runtime.resources import Resources
from omnigraph_sql.storage.inline_commits import open_storage
from omnigraph_sql.storage.roots import resolve_root

_RUNS = 8
_GRAPHS = 4


@dataclass
class _Run:
    """One run in this process."""

    payload: TaskPayload
    scope: BindContext
    execution: Execution
    bound: dict[str, tuple[BoundFunction, Callable[..., Array]]]

    def function(self, name: str) -> tuple[BoundFunction, Callable[..., Array]]:
        if name not in self.bound:
            bound = bind_function(self.scope, self.payload.functions[name])
            self.bound[name] = bound, guarded_function(self.execution, bound)
        return self.bound[name]


_lock = threading.RLock()
_graphs: LruCache[tuple[str, bool], DataFusionEngine] = LruCache(_GRAPHS)
_runs: LruCache[bytes, _Run] = LruCache(_RUNS)


def call_function(payload: bytes, name: str, columns: Sequence[Array]) -> Array:
    """Call a function of a run with a batch of arguments."""
    key = blake2b(payload).digest()
    with reported_failures():
        try:
            with _lock:
                run = _runs.get(key, lambda: _start(TaskPayload.from_bytes(payload)))
                bound, call = run.function(name)
            run.execution.expect_first_rows(len(columns[0]))
            return widened(call(*(restored(column, kind) for column, kind in zip(columns, bound.arguments, strict=True))))
        except Exception:
            # Spark may retry the task in this worker, and a failed run cannot continue.
            _runs.remove(lambda run_key: run_key == key)
            raise


def _start(payload: TaskPayload) -> _Run:
    settings = RunSettings(limits=payload.request.limits, batch_rows=payload.batch_rows, widest=payload.max_destinations)
    execution = Execution(settings, RunClock(None))  # the driver enforces the timeout
    execution.begin()
    scope = _engine(payload).scope(payload.request, execution)
    values = {name: python_value(value, scope.params) for name, value in payload.inputs.items()}
    return _Run(payload, replace(scope, values=values, traversal=payload.traversal), execution, {})


def _engine(payload: TaskPayload) -> DataFusionEngine:
    """Return the engine of a graph, which this process caches with its resources from one run to the next."""
    engine = _graphs.get((payload.root, payload.saves), lambda: _open(payload))
    engine.resources.trim()
    return engine


def _open(payload: TaskPayload) -> DataFusionEngine:
    storage, _ = open_storage(resolve_root(payload.root))
    return DataFusionEngine(Resources(storage, Embeddings(), saves=payload.saves))
