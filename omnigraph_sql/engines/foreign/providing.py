"""Datasets of Python as tables of DataFusion.

DataFusion puts the conditions of a scan together with the operator `&` of Python. A condition that it found to be false, or
unknown, is a bare value then, which has no such operator: the statement fails with a `TypeError` if it comes first. So a
condition that every row satisfies is given to each scan beforehand, and taken away again before the dataset sees it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import pyarrow as pa
import pyarrow.dataset as pads
from datafusion import SessionContext, col

from omnigraph_sql.engines.apart import apart
from omnigraph_sql.engines.foreign.decoding import decoded, encoded
from omnigraph_sql.errors import Internal
from omnigraph_sql.planner.predicates import Both, Column, Compare, Either, IsNull, Predicate, Value
from omnigraph_sql.planner.remote import quoted

_lock = threading.Lock()


def provided(dataset: pads.Dataset, name: str) -> Any:
    """What a schema of DataFusion returns for a dataset: a view of it with a first condition."""
    first = next((field.name for field in dataset.schema if not pa.types.is_nested(field.type)), None)
    return dataset if first is None else apart(lambda: _view(dataset, name, first))


def _view(dataset: pads.Dataset, name: str, first: str) -> Any:
    context, table, column = _context(), quoted(name), col(quoted(first))
    with _lock:  # a table of this name may be made by two statements at once
        context.register_table(table, _Begun(dataset, first))
        frame = context.table(table)
        context.deregister_table(table)
    # Not `IS NULL OR IS NOT NULL`: of a column without nulls, the optimiser knows that.
    frame = frame.filter((column <= col(quoted(first))) | column.is_null())
    # In the optimised plan, it is a condition of the scan, to which others are added at the end.
    return context.create_dataframe_from_logical_plan(frame.optimized_logical_plan()).into_view()


@cache
def _context() -> SessionContext:
    """A session that only makes plans; to make one takes longer than a plan."""
    return SessionContext()


class _Begun(pads.Dataset):  # type: ignore[misc]
    """A dataset whose filters begin with a condition that every row satisfies."""

    def __init__(self, dataset: pads.Dataset, first: str) -> None:
        self._dataset = dataset
        self._first = Compare("<=", Column(first), Column(first))

    @property
    def schema(self) -> pa.Schema:
        return self._dataset.schema

    def scanner(self, columns: Sequence[str] | None = None, filter: Any = None, **options: Any) -> Any:
        return self.scan(self._dataset.scanner, columns, filter, options)

    def get_fragments(self, filter: Any = None) -> list[_Fragment]:  # noqa: ARG002 (the signature is the engine's)
        return [_Fragment(self, fragment) for fragment in self._dataset.get_fragments()]

    def scan(self, scanner: Any, columns: Sequence[str] | None, filter: Any, options: dict[str, Any]) -> Any:
        """A scan of the dataset with what is left of a filter; none at all if no row can satisfy it."""
        left = self._left(filter)
        if isinstance(left, pa.Scalar):
            names = self.schema.names if columns is None else columns
            return _Nothing(pa.schema([self.schema.field(name) for name in names]))
        return scanner(columns=columns, filter=left, **options)

    def _left(self, filter: Any) -> Any:
        if filter is None:
            return None
        try:
            parts = list(_conjuncts(decoded(filter)))
        except Internal:
            return filter  # whoever reads it says what is not understood
        if parts and self._is_first(parts[0]):
            del parts[0]
        for part in parts:
            if isinstance(part, Value) and part.scalar.as_py() is not True:
                return part.scalar
        return encoded(parts)

    def _is_first(self, part: Predicate) -> bool:
        return part in (self._first, Either(self._first, IsNull(self._first.left)))


class _Fragment:
    def __init__(self, begun: _Begun, fragment: Any) -> None:
        self._begun = begun
        self._fragment = fragment

    def scanner(self, schema: pa.Schema, *, columns: Sequence[str] | None = None, filter: Any = None, **options: Any) -> Any:
        return self._begun.scan(lambda **given: self._fragment.scanner(schema, **given), columns, filter, options)


class _Nothing:
    """A scan of no rows."""

    def __init__(self, schema: pa.Schema) -> None:
        self.projected_schema = schema

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        return iter(())


def _conjuncts(predicate: Predicate) -> Iterator[Predicate]:
    match predicate:
        case Both(left, right):
            yield from _conjuncts(left)
            yield from _conjuncts(right)
        case _:
            yield predicate
