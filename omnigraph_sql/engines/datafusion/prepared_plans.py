"""Optimised plans that are pooled and run again with other rows and values, by one run at a time.

The plan does not contain the inputs of a run: its relation looks its rows up when it is scanned, and each function its
implementation when it is called. So a plan can be reused as long as the SQL text and the types stay the same.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa
from datafusion import DataFrame, ExecutionPlan, RuntimeEnvBuilder, SessionConfig, SessionContext, udf
from datafusion.plan import LogicalPlan

from omnigraph_sql.binding.context import Array, BoundFunction
from omnigraph_sql.caches import Pool
from omnigraph_sql.lazy_dataset import Batches, LazyDataset, LazyScan

_IDLE = 8
_RUNS = 100
"""The number of runs after which a physical plan is discarded."""
_STATELESS = re.compile(
    r"\s*(ProjectionExec|FilterExec|UnnestExec|CooperativeExec|DatasetExec"
    r"|SortExec: expr=\[.*\], preserve_partitioning=\[false\]"
    r"|AggregateExec: mode=Single, gby=\[[^\]]+\], aggr=\[[^\]]*\]"
    r"|AggregateExec: mode=Single, gby=\[\], aggr=\[(?!.*\b(min|max)\()[^\]]*\])(:.*)?"
)
"""Operators without state from one run to the next. A sort with a limit, and a minimum over all rows, may keep a bound
that skips rows."""
Setting: TypeAlias = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class PlanSignature:
    """The names and types that a plan was prepared for."""

    relation: str
    schema: pa.Schema
    functions: tuple[tuple[str, tuple[pa.DataType, ...], pa.DataType], ...]


def plan_signature(relation: str, schema: pa.Schema, bounds: Mapping[str, BoundFunction]) -> PlanSignature:
    """Return the signature of a query's relation and functions."""
    return PlanSignature(relation, schema, tuple((name, bound.arguments, bound.result) for name, bound in bounds.items()))


class PreparedPlan:
    """An optimised plan, with replaceable rows and functions."""

    def __init__(self, sql: str, signature: PlanSignature) -> None:
        self.signature = signature
        self._rows = _Rows(signature.schema)
        self._slots = [_Slot() for _ in signature.functions]
        context = SessionContext(SessionConfig().with_target_partitions(1))
        context.register_table(f'"{signature.relation}"', self._rows)
        for (name, arguments, result), slot in zip(signature.functions, self._slots, strict=True):
            context.register_udf(udf(slot, list(arguments), result, "immutable", name))
        self.plan: LogicalPlan = context.sql(sql).optimized_logical_plan()
        self._physical: tuple[Setting, ExecutionPlan] | None = None
        self._runs = 0

    def physical(self, frame: DataFrame, setting: Setting) -> ExecutionPlan:
        """Return the physical plan. It is cached for later runs with the same settings if all its operators are stateless.

        Each run leaves a few kilobytes of metrics in it, so it is replaced from time to time.
        """
        if self._physical is not None and self._physical[0] == setting and self._runs < _RUNS:
            self._runs += 1
            return self._physical[1]
        plan = frame.execution_plan()
        is_stateless = all(_STATELESS.fullmatch(line) for line in plan.display_indent().splitlines())
        self._physical, self._runs = (setting, plan) if is_stateless else None, 0
        return plan

    def load(self, rows: pa.RecordBatch, runs: Sequence[Callable[..., Array]]) -> None:
        """Set the rows and the functions of the next run."""
        self._rows.batch = rows
        for slot, run in zip(self._slots, runs, strict=True):
            slot.run = run

    def unload(self) -> None:
        """Release the rows and the functions of the last run."""
        self.load(self._rows.none, [_unbound] * len(self._slots))


class PlanPool:
    """Pool of idle prepared plans of one query."""

    def __init__(self) -> None:
        self._idle: deque[PreparedPlan] = deque(maxlen=_IDLE)

    def take(self, signature: PlanSignature) -> PreparedPlan | None:
        """Return an idle plan with this signature, for the caller's exclusive use; None if there is none."""
        try:
            prepared = self._idle.pop()
        except IndexError:
            return None
        return prepared if prepared.signature == signature else None

    def give(self, prepared: PreparedPlan) -> None:
        """Return a plan to the pool."""
        prepared.unload()
        self._idle.append(prepared)


class SessionPool:
    """Pool of idle sessions without tables and functions, each with its own memory pool, that run optimised plans."""

    def __init__(self) -> None:
        self._idle: Pool[tuple[int, Setting], SessionContext] = Pool(_IDLE)

    def take(self, memory: int, setting: Setting) -> SessionContext:
        """Return an idle or new session with this memory limit and these settings."""
        idle = self._idle.take((memory, setting))
        return new_session(memory, (*setting, ("datafusion.optimizer.max_passes", "0"))) if idle is None else idle

    def give(self, memory: int, setting: Setting, context: SessionContext) -> None:
        """Return a session to the pool."""
        self._idle.give((memory, setting), context)


def new_session(memory: int, setting: Setting) -> SessionContext:
    """Create a session."""
    config = SessionConfig()
    for name, value in setting:
        config = config.set(name, value)
    return SessionContext(config, RuntimeEnvBuilder().with_disk_manager_os().with_fair_spill_pool(memory))


def _unbound(*_: Array) -> Array:
    # The optimiser must not fold a call to its result in one run; it goes on if the call fails.
    raise RuntimeError("a function of a plan that is being prepared is not bound")


class _Slot:
    """A function of a plan, whose implementation is set before each run."""

    def __init__(self) -> None:
        self.run: Callable[..., Array] = _unbound

    def __call__(self, *arrays: Array) -> Array:
        return self.run(*arrays)


class _Rows(LazyDataset):
    """A relation as a dataset, whose rows are set before each run."""

    def __init__(self, schema: pa.Schema) -> None:
        super().__init__(schema)
        self.none = self.batch = pa.RecordBatch.from_pylist([], schema=schema)

    def batches(self, scan: LazyScan) -> Batches:
        rows = self.batch
        size = scan.batch_size or len(rows) + 1
        # DataFusion does not apply a filter again that it has pushed down.
        batches = [rows] if scan.filter is None else pa.table(rows).filter(scan.filter).to_batches()
        for batch in batches:
            selected = batch.select(scan.columns)
            for at in range(0, batch.num_rows, size):
                yield selected.slice(at, size)
