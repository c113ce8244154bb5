"""Plans that are optimised once and run again, with other rows and other values, by one run at a time.

What is given anew for each run is no part of such a plan: its relation is asked for rows when it is read, and each of its
functions for what it does when it is called. So it can be kept as long as the text of the query and the types stay the same.
"""

from __future__ import annotations

import re
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.dataset as pads
from datafusion import DataFrame, ExecutionPlan, RuntimeEnvBuilder, SessionConfig, SessionContext, udf
from datafusion.plan import LogicalPlan

from omnigraph_sql.engines.scope import Array, Bound

_IDLE = 8
_RUNS = 100
"""How often a physical plan is run."""
_STATELESS = re.compile(
    r"\s*(ProjectionExec|FilterExec|UnnestExec|CooperativeExec|DatasetExec"
    r"|SortExec: expr=\[.*\], preserve_partitioning=\[false\]"
    r"|AggregateExec: mode=Single, gby=\[[^\]]+\], aggr=\[[^\]]*\]"
    r"|AggregateExec: mode=Single, gby=\[\], aggr=\[(?!.*\b(min|max)\()[^\]]*\])(:.*)?"
)
"""Operators that remember nothing of a run. A sort with a limit keeps what it knows of the best rows, to skip others,
and so may a minimum of all rows."""
Setting: TypeAlias = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Asked:
    """What a plan was prepared for."""

    relation: str
    schema: pa.Schema
    functions: tuple[tuple[str, tuple[pa.DataType, ...], pa.DataType], ...]


def asked(relation: str, schema: pa.Schema, bounds: Mapping[str, Bound]) -> Asked:
    """What the relation and the functions of a query are, apart from what they hold and do."""
    return Asked(relation, schema, tuple((name, bound.arguments, bound.result) for name, bound in bounds.items()))


class Prepared:
    """An optimised plan, the rows of its relation, and what its functions do."""

    def __init__(self, sql: str, asked: Asked) -> None:
        self.asked = asked
        self._rows = _Rows(asked.schema)
        self._slots = [_Slot() for _ in asked.functions]
        context = SessionContext(SessionConfig().with_target_partitions(1))
        context.register_table(f'"{asked.relation}"', self._rows)
        for (name, arguments, result), slot in zip(asked.functions, self._slots, strict=True):
            context.register_udf(udf(slot, list(arguments), result, "immutable", name))
        self.plan: LogicalPlan = context.sql(sql).optimized_logical_plan()
        self._physical: tuple[Setting, ExecutionPlan] | None = None
        self._runs = 0

    def physical(self, frame: DataFrame, setting: Setting) -> ExecutionPlan:
        """What DataFusion runs. It is kept for the next runs with the same settings, if nothing of a run stays in it.

        What is measured of a run does stay, a few kilobytes: so it is made anew from time to time.
        """
        if self._physical is not None and self._physical[0] == setting and self._runs < _RUNS:
            self._runs += 1
            return self._physical[1]
        made = frame.execution_plan()
        is_stateless = all(_STATELESS.fullmatch(line) for line in made.display_indent().splitlines())
        self._physical, self._runs = (setting, made) if is_stateless else None, 0
        return made

    def load(self, rows: pa.RecordBatch, runs: Sequence[Callable[..., Array]]) -> None:
        """Say what the next run is about."""
        self._rows.given = rows
        for slot, run in zip(self._slots, runs, strict=True):
            slot.run = run

    def unload(self) -> None:
        """Hold on to nothing of the run before."""
        self.load(self._rows.none, [_nothing] * len(self._slots))


class Shelf:
    """Prepared plans of one query, of which nobody makes use at the moment."""

    def __init__(self) -> None:
        self._idle: deque[Prepared] = deque(maxlen=_IDLE)

    def take(self, asked: Asked) -> Prepared | None:
        """A plan that fits, which is the caller's alone from now on."""
        try:
            found = self._idle.pop()
        except IndexError:
            return None
        return found if found.asked == asked else None

    def give(self, prepared: Prepared) -> None:
        """Let others make use of a plan."""
        prepared.unload()
        self._idle.append(prepared)


class Contexts:
    """Sessions without tables and functions, each with memory of its own, for plans that were optimised before."""

    def __init__(self) -> None:
        self._idle: list[tuple[int, Setting, SessionContext]] = []
        self._lock = threading.Lock()

    def take(self, memory: int, setting: Setting) -> SessionContext:
        """A session that may use so much memory."""
        with self._lock:
            for place, (limit, known, found) in enumerate(self._idle):
                if (limit, known) == (memory, setting):
                    del self._idle[place]
                    return found
        return context_of(memory, (*setting, ("datafusion.optimizer.max_passes", "0")))

    def give(self, memory: int, setting: Setting, context: SessionContext) -> None:
        """Let others make use of a session."""
        with self._lock:
            self._idle.append((memory, setting, context))
            del self._idle[:-_IDLE]


def context_of(memory: int, setting: Setting) -> SessionContext:
    """A new session."""
    config = SessionConfig()
    for name, value in setting:
        config = config.set(name, value)
    return SessionContext(config, RuntimeEnvBuilder().with_disk_manager_os().with_fair_spill_pool(memory))


def _nothing(*_: Array) -> Array:
    # An optimiser that tries a function out must not learn what it says in one run: it goes on without an answer.
    raise RuntimeError("a function of a plan that is being prepared has no answer yet")


class _Slot:
    """A function of a plan. What it does is said before each run."""

    def __init__(self) -> None:
        self.run: Callable[..., Array] = _nothing

    def __call__(self, *arrays: Array) -> Array:
        return self.run(*arrays)


class _Rows(pads.Dataset):  # type: ignore[misc]
    """A relation as DataFusion reads data sets. Its rows are given before each run."""

    def __init__(self, schema: pa.Schema) -> None:
        self._columns = schema
        self.none = self.given = pa.RecordBatch.from_pylist([], schema=schema)

    @property
    def schema(self) -> pa.Schema:
        return self._columns

    def scanner(self, columns: list[str] | None = None, filter: Any = None, **_: Any) -> _Scan:
        return _Scan(self, self._columns.names if columns is None else columns, filter, len(self.given) + 1)

    def get_fragments(self, _: Any = None) -> list[_Fragment]:
        return [_Fragment(self)]


@dataclass(frozen=True)
class _Fragment:
    rows: _Rows

    def scanner(self, _: Any, *, columns: list[str] | None = None, filter: Any = None, batch_size: int) -> _Scan:
        return _Scan(self.rows, self.rows.schema.names if columns is None else columns, filter, batch_size)


@dataclass(frozen=True)
class _Scan:
    rows: _Rows
    columns: list[str]
    filter: Any
    batch_size: int

    @property
    def projected_schema(self) -> pa.Schema:
        return pa.schema([self.rows.schema.field(name) for name in self.columns])

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        given = self.rows.given
        # Whoever passes a condition on does not look at the rows again.
        found = [given] if self.filter is None else pa.table(given).filter(self.filter).to_batches()
        for batch in found:
            wanted = batch.select(self.columns)
            for at in range(0, batch.num_rows, self.batch_size):
                yield wanted.slice(at, self.batch_size)
