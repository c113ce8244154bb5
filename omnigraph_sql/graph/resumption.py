"""Resumption of pipelines after a crash: notes of staged loads, their take-over, and removal of abandoned ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from omnigraph_sql.arguments import callback, json_value
from omnigraph_sql.graph.graph import Graph
from omnigraph_sql.manifest.coordinator import MAIN
from omnigraph_sql.manifest.journal import Commit
from omnigraph_sql.manifest.texts import check_text
from omnigraph_sql.writes.load.abandoned_loads import abandoned, discard, record
from omnigraph_sql.writes.load.abandoned_loads import take_over as claim
from omnigraph_sql.writes.load.staged_load import StagedLoad


def published_commit(graph: Graph, idempotency_key: str, branch: str = MAIN) -> Commit | None:
    """The commit of a branch that was published with an idempotency key; None if there is none."""
    key = check_text(idempotency_key, "idempotency_key")
    head = graph.snapshot(branch=branch).head
    return None if head is None else graph._store.coordinator.journal.find_key(key, head.graph_commit_id)


def note_staged(graph: Graph, staged: StagedLoad, notes: Any) -> None:
    """Store notes, which must be valid JSON, with a staged load, for the process that takes it over."""
    graph._require_writable()
    graph._store.coordinator.require_same_graph()
    record(graph._store, staged, json_value("notes", notes))


def discard_abandoned(graph: Graph, idempotency_key: str) -> int:
    """Remove the staged loads of a key whose processes have ended without publishing them; returns how many."""
    graph._require_writable()
    graph._store.coordinator.require_same_graph()
    loads = abandoned(graph._store, check_text(idempotency_key, "idempotency_key"))
    for left in loads:
        discard(graph._store, left.load)
    return len(loads)


def take_over(graph: Graph, idempotency_key: str, wanted: Callable[[Any], bool]) -> tuple[StagedLoad, Any] | None:
    """Take over a staged load of a key whose process has ended, if `wanted` accepts its notes.

    It is this process's to publish or discard then. It must stand on the present state of its branch.
    """
    graph._require_writable()
    graph._store.coordinator.require_same_graph()
    wanted = callback("wanted", wanted)
    for left in abandoned(graph._store, check_text(idempotency_key, "idempotency_key")):
        if left.notes is not None and wanted(left.notes) and claim(graph._store, left):
            return left.load, left.notes
    return None
