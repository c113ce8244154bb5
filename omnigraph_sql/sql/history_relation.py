"""The relation of `history_of`: its columns, and the dataset that engines read it from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa

from omnigraph_sql.errors import OmnigraphError
from omnigraph_sql.foreign.filter_codec import decode_filter
from omnigraph_sql.foreign.predicate_evaluation import ENGINE_FILTERS
from omnigraph_sql.lazy_dataset import Batches, LazyDataset, LazyScan, columnless_batch
from omnigraph_sql.sql.resolver import HistoryRows
from omnigraph_sql.sqltext.predicates import Both, Comparison, Predicate, PredicateColumn, PredicateValue

_INSTANT: Final = pa.timestamp("us", "UTC")
_OF_HISTORY: Final = (
    pa.field("valid_from", _INSTANT, nullable=False),
    pa.field("valid_to", _INSTANT),
    pa.field("commit", pa.string(), nullable=False),
    pa.field("actor", pa.string()),
    pa.field("operation", pa.string(), nullable=False),
    pa.field("is_exact", pa.bool_(), nullable=False),
)


def history_columns(own: pa.Schema) -> pa.Schema:
    """The columns of the history of a type: when and by whom, then those of its table.

    A column of the history gives way to a property of its name, with underscores before its own.
    """
    taken = {name.lower() for name in own.names}
    fields = []
    for field in _OF_HISTORY:
        name = field.name
        while name in taken:
            name = f"_{name}"
        taken.add(name)
        fields.append(field.with_name(name))
    return pa.schema([*fields, *own])


class HistoryDataset(LazyDataset):
    """The history of a type, or of one entity, for an engine. Only the columns that the engine asks for are read."""

    def __init__(self, rows: HistoryRows, entity_id: str | None, fail: Callable[[OmnigraphError], None]) -> None:
        super().__init__(rows.schema)
        self._rows = rows
        self._id = entity_id
        self._fail = fail

    def batches(self, scan: LazyScan) -> Batches:
        """Read the rows when the first batch is taken."""
        try:
            yield from self._read(scan)
        except OmnigraphError as error:
            self._fail(error)  # engines pass on only the text of an exception
            raise

    def _read(self, scan: LazyScan) -> Batches:
        needed = list(scan.columns)
        entity_id = self._id
        if scan.filter is not None and not isinstance(scan.filter, pa.Scalar):
            needed = list(dict.fromkeys([*needed, *ENGINE_FILTERS.columns(scan.filter)]))
            entity_id = self._id or _only_id(decode_filter(scan.filter))
        for batch in self._rows.batches(needed or self.schema.names[:1], entity_id):
            satisfying = batch if scan.filter is None else ENGINE_FILTERS.satisfying(batch, scan.filter)
            yield satisfying.select(list(scan.columns)) if scan.columns else columnless_batch(satisfying.num_rows)


def _only_id(predicate: Predicate) -> str | None:
    """The id of the only entity that can satisfy a condition; None if there may be others."""
    match predicate:
        case Both(left, right):
            return _only_id(left) or _only_id(right)
        case Comparison("=", PredicateColumn("id"), PredicateValue(scalar)):
            return _text(scalar)
        case Comparison("=", PredicateValue(scalar), PredicateColumn("id")):
            return _text(scalar)
    return None


def _text(scalar: pa.Scalar) -> str | None:
    value: Any = scalar.as_py()
    return value if isinstance(value, str) else None
