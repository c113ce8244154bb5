"""The functions of a query in a worker of Spark: what a parcel says, bound to the tables that the worker opens itself."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any

from omnigraph_sql.embeddings import Embeddings
from omnigraph_sql.engines.binding import bind_function
from omnigraph_sql.engines.datafusion import QueryEngine
from omnigraph_sql.engines.execution import Clock, Execution, guarded
from omnigraph_sql.engines.resources import Resources
from omnigraph_sql.engines.scope import Array, Bound, Scope
from omnigraph_sql.engines.spark.parcels import Parcel
from omnigraph_sql.engines.spark.reports import reporting
from omnigraph_sql.engines.spark.types import restored, widened
from omnigraph_sql.planner.values import python_value
from omnigraph_sql.storage.residual import open_storage
from omnigraph_sql.storage.roots import resolve_root

_RUNS = 8
_GRAPHS = 4


@dataclass
class _Run:
    """One run, in this process."""

    parcel: Parcel
    scope: Scope
    execution: Execution
    bound: dict[str, tuple[Bound, Callable[..., Array]]]

    def function(self, name: str) -> tuple[Bound, Callable[..., Array]]:
        if name not in self.bound:
            found = bind_function(self.scope, self.parcel.functions[name])
            self.bound[name] = found, guarded(self.execution, found)
        return self.bound[name]


_lock = threading.RLock()
_graphs: OrderedDict[tuple[str, bool], QueryEngine] = OrderedDict()
_runs: OrderedDict[bytes, _Run] = OrderedDict()


def answer(sent: bytes, name: str, columns: Sequence[Array]) -> Array:
    """What a function of a run gives for a batch."""
    key = blake2b(sent).digest()
    with reporting(len(columns[0])):
        try:
            with _lock:
                run = _run(key, sent)
                bound, call = run.function(name)
            run.execution.first_rows = len(columns[0])
            return widened(call(*(restored(column, kind) for column, kind in zip(columns, bound.arguments, strict=True))))
        except Exception:
            # Spark may try again here, and a run that failed is over.
            _runs.pop(key, None)
            raise


def _run(key: bytes, sent: bytes) -> _Run:
    found = _runs.get(key)
    if found is None:
        found = _runs[key] = _begun(Parcel.from_bytes(sent))
        _bound(_runs, _RUNS)
    return found


def _begun(parcel: Parcel) -> _Run:
    # How long a run may take is seen to by the process that asked for it.
    execution = Execution(parcel.order.limits, Clock(None), parcel.batch_rows)
    execution.wide = parcel.wide
    execution.begin()
    scope = _engine(parcel).scope(parcel.order, execution)
    values = {name: python_value(given, scope.params) for name, given in parcel.inputs.items()}
    return _Run(parcel, replace(scope, values=values, given=parcel.given), execution, {})


def _engine(parcel: Parcel) -> QueryEngine:
    """What is at hand of a graph in this process, from one run to the next."""
    key = parcel.root, parcel.saves
    if key not in _graphs:
        storage, _ = open_storage(resolve_root(parcel.root))
        _graphs[key] = QueryEngine(Resources(storage, Embeddings(), saves=parcel.saves))
    _graphs.move_to_end(key)
    _bound(_graphs, _GRAPHS)
    _graphs[key].resources.trim()
    return _graphs[key]


def _bound(kept: OrderedDict[Any, Any], most: int) -> None:
    while len(kept) > most:
        kept.popitem(last=False)
