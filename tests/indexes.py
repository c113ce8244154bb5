"""Physical indexes on the tables of a graph, built and published for tests."""

from collections.abc import Callable

import omnigraph_sql as og
from omnigraph_sql.storage.indexing import IndexSpec
from omnigraph_sql.writes.operation import Attempt, Prepared, Provenance, TableWrite
from omnigraph_sql.writes.protocol import publish_attempt


def build_btrees(graph: og.Graph, chosen: Callable[[str], bool] = lambda _: True) -> None:
    """A BTREE on the ids and ends of the chosen tables of main that have rows, in one commit."""
    engine = graph._engine
    snapshot = graph.snapshot()
    keys = [key for key, entry in snapshot.entries.items() if entry.row_count and chosen(key)]
    writes = tuple(TableWrite(key, "indices") for key in keys)
    attempt = Attempt(snapshot, Prepared(writes, frozenset(), None))
    for key in keys:
        entry = snapshot.entry(key)
        handle = engine.storage.open_at(entry.path, entry.branch, entry.version, entry.transaction_uuid)
        columns = ("id", "src", "dst") if key.startswith("edge:") else ("id",)
        attempt.staged[key] = engine.storage.stage_create_indices(
            handle, [IndexSpec(name, "BTREE") for name in columns], "test"
        )
    if keys:
        publish_attempt(engine, "main", attempt, Provenance("EnsureIndices"))
