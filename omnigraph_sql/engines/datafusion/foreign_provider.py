"""Datasets of Python as tables of DataFusion.

DataFusion combines the conditions of a scan with Python's `&`. A condition that it has folded to false or null is a bare
scalar without that operator: if it comes first, the statement fails with a `TypeError`. So each scan starts with a condition
that is always true, which is removed again before the dataset sees the filter.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import cache
from typing import Any

import pyarrow as pa
from datafusion import SessionContext, col

from omnigraph_sql.engines.datafusion.off_thread import run_off_thread
from omnigraph_sql.errors import Internal
from omnigraph_sql.foreign.filter_codec import decode_filter, encode_filter
from omnigraph_sql.lazy_dataset import Batches, LazyDataset, LazyScan
from omnigraph_sql.sqltext.identifiers import quoted
from omnigraph_sql.sqltext.predicates import Both, Comparison, Either, IsNull, Predicate, PredicateColumn, PredicateValue

_lock = threading.Lock()


def as_provider(dataset: LazyDataset, name: str) -> Any:
    """Return the DataFusion table provider of a dataset: a view of it with a first condition that is always true."""
    first = next((field.name for field in dataset.schema if not pa.types.is_nested(field.type)), None)
    return dataset if first is None else run_off_thread(lambda: _view(dataset, name, first))


def _view(dataset: LazyDataset, name: str, first: str) -> Any:
    context, table, column = _context(), quoted(name), col(quoted(first))
    with _lock:  # two statements may create a table of this name at once
        context.register_table(table, _Begun(dataset, first))
        frame = context.table(table)
        context.deregister_table(table)
    # Not `IS NULL OR IS NOT NULL`: the optimiser folds that for a column without nulls.
    frame = frame.filter((column <= col(quoted(first))) | column.is_null())
    # The optimised plan has it as a condition of the scan; DataFusion appends further ones.
    return context.create_dataframe_from_logical_plan(frame.optimized_logical_plan()).into_view()


@cache
def _context() -> SessionContext:
    """A session for planning only, shared because creating one takes longer than a plan."""
    return SessionContext()


class _Begun(LazyDataset):
    """A dataset whose filters begin with a condition that is always true."""

    def __init__(self, dataset: LazyDataset, first: str) -> None:
        super().__init__(dataset.schema)
        self._dataset = dataset
        self._first = Comparison("<=", PredicateColumn(first), PredicateColumn(first))

    def on_planned(self, scan: LazyScan) -> None:
        inner = self._inner(scan)
        if inner is not None:
            self._dataset.on_planned(inner)

    def batches(self, scan: LazyScan) -> Batches:
        inner = self._inner(scan)
        return iter(()) if inner is None else self._dataset.batches(inner)

    def _inner(self, scan: LazyScan) -> LazyScan | None:
        """Return the scan with the filter without its first condition; None if no row can satisfy it."""
        remaining = self._remaining(scan.filter)
        if isinstance(remaining, pa.Scalar):
            return None
        return LazyScan(self._dataset, scan.columns, remaining, scan.batch_size)

    def _remaining(self, filter: Any) -> Any:
        if filter is None:
            return None
        try:
            parts = list(_conjuncts(decode_filter(filter)))
        except Internal:
            return filter  # the dataset decodes it again, and reports the error
        if parts and self._is_first(parts[0]):
            del parts[0]
        for part in parts:
            if isinstance(part, PredicateValue) and part.scalar.as_py() is not True:
                return part.scalar
        return encode_filter(parts)

    def _is_first(self, part: Predicate) -> bool:
        return part in (self._first, Either(self._first, IsNull(self._first.left)))


def _conjuncts(predicate: Predicate) -> Iterator[Predicate]:
    match predicate:
        case Both(left, right):
            yield from _conjuncts(left)
            yield from _conjuncts(right)
        case _:
            yield predicate
