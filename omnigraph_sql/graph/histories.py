"""Histories of types and entities, as results."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from omnigraph_sql.history.version_rows import TypeHistory
from omnigraph_sql.manifest.snapshot import Snapshot
from omnigraph_sql.result import Result
from omnigraph_sql.sql.functions import history_type
from omnigraph_sql.sql.history_relation import history_columns
from omnigraph_sql.sql.resolver import type_columns
from omnigraph_sql.store.graph_store import GraphStore


class HistoryBatches:
    """The versions of rows, in batches that are read one after the other."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches: Iterator[pa.RecordBatch] = batches
        self._next = next(self._batches, None)

    @property
    def is_done(self) -> bool:
        """True if there is no batch left."""
        return self._next is None

    def next(self) -> pa.RecordBatch | None:
        """Return the next batch; None after the last."""
        batch = self._next
        self._next = None if batch is None else next(self._batches, None)
        return batch

    def cancel(self) -> None:
        """Read no further batch."""
        self._batches = iter(())

    def close(self) -> None:
        """Release the rows."""
        self._batches, self._next = iter(()), None


def history_result(store: GraphStore, type_name: str, entity_id: str | None, snapshot: Snapshot) -> Result:
    """The versions of the rows of a type, or of one of them."""
    type_ = history_type(store.catalog, type_name)
    rows = TypeHistory(store.coordinator, store.storage, type_, snapshot, history_columns(type_columns(type_)))
    return Result(
        rows.schema,
        lambda: HistoryBatches(rows.batches(rows.schema.names, entity_id)),
        graph_commit_id=snapshot.commit_id,
        query_name="history_of" if entity_id is None else "entity_history",
        target=snapshot.branch,
    )
