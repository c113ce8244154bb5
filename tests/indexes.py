"""Physical indexes on the tables of a graph, built and published for tests."""

from collections.abc import Callable

import omnigraph_sql as og
from omnigraph_sql.storage.index_definitions import IndexSpec
from omnigraph_sql.writes.operation import Attempt, PreparedWrite, Provenance, StagedBefore
from omnigraph_sql.writes.protocol import publish_attempt
from tests.internals import store_of


def build_btrees(graph: og.Graph, chosen: Callable[[str], bool] = lambda _: True) -> None:
    """A BTREE on the ids and ends of the chosen tables of main that have rows, in one commit."""
    engine = store_of(graph)
    snapshot = graph.snapshot()
    keys = [key for key, entry in snapshot.entries.items() if entry.row_count and chosen(key)]
    writes = tuple(StagedBefore(key) for key in keys)
    attempt = Attempt(snapshot, PreparedWrite(writes=writes, reads=frozenset(), result=None))
    for key in keys:
        entry = snapshot.entry(key)
        handle = engine.storage.open(entry)
        columns = ("id", "src", "dst") if key.startswith("edge:") else ("id",)
        attempt.staged[key] = engine.storage.stage_create_indices(
            handle, [IndexSpec(name, "BTREE") for name in columns], "test"
        )
    if keys:
        publish_attempt(engine, "main", attempt, Provenance("EnsureIndices"))
