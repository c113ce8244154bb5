"""Copying a graph to another root while others write to it."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Final, TypeVar

from omnigraph_sql.errors import Conflict, NotFound, Storage, UnsupportedFormat, VersionReclaimed
from omnigraph_sql.maintenance.copies.destination import WHOLE, check_place, destination
from omnigraph_sql.maintenance.copies.state import copy_state
from omnigraph_sql.maintenance.copies.whole import copy_everything
from omnigraph_sql.manifest.coordinator import CURRENT_STAMP, MAIN
from omnigraph_sql.manifest.snapshot import Snapshot
from omnigraph_sql.storage.object_stores import open_objects
from omnigraph_sql.storage.roots import resolve_root
from omnigraph_sql.storage.transfers import TransferStats
from omnigraph_sql.store.graph_store import GraphStore
from omnigraph_sql.store.lifecycle import open_graph
from omnigraph_sql.writes.operation import CommitSources, Provenance

_ATTEMPTS: Final = 10
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class CopyResult:
    """A copy that was made."""

    uri: str
    """Its address."""
    graph_id: str
    """Its id: a new one, or that of the original if everything was copied."""
    commit_id: str
    """The newest commit of its main branch."""
    origin_commit_id: str | None
    """The commit of the original that it shows; None if everything was copied."""
    branches: tuple[str, ...]
    """Its branches."""
    tables: int
    """The number of tables on its main branch."""
    files: int
    """The number of files that were copied."""
    bytes: int
    """Their size."""
    reused: int
    """How many of the files an interrupted copy had left."""

    def to_dict(self) -> dict[str, Any]:
        """Return the members as JSON values.

        Example:
            >>> graph.copy("elsewhere").to_dict()["branches"]
            ['main']
        """
        return asdict(self) | {"branches": list(self.branches)}


def copy_whole(store: GraphStore, uri: str | os.PathLike[str]) -> CopyResult:
    """Copy all branches with their history."""
    root, source_id = resolve_root(uri), _identified(store)
    check_place(store.root, root)
    with destination(open_objects(root), store.root, source_id, WHOLE) as target:
        stats = _repeated(store, lambda: copy_everything(store, target))
    return _result(uri, None, stats)


def copy_one(
    store: GraphStore,
    uri: str | os.PathLike[str],
    ref: str,
    state: Callable[[], Snapshot],
    actor: str | None,
    message: str | None,
) -> CopyResult:
    """Copy a state as the main branch of a new graph. `state` resolves its name."""
    root, source_id = resolve_root(uri), _identified(store)
    check_place(store.root, root)
    state()  # a name of nothing leaves nothing behind

    def attempt() -> tuple[TransferStats, str]:
        snapshot = state()
        note = f"copy of {ref} of {store.root}" if message is None else message
        sources = CommitSources(origin=snapshot.commit_id)
        stats, _ = copy_state(store, snapshot, target, Provenance("Copy", actor, note, sources=sources))
        return stats, snapshot.commit_id

    with destination(open_objects(root), store.root, source_id, ref) as target:
        stats, origin = _repeated(store, attempt)
    return _result(uri, origin, stats)


def _identified(store: GraphStore) -> str:
    store.coordinator.require_same_graph()
    graph_id = store.coordinator.table.identity.graph_id
    if graph_id is None:
        text = f"{store.root} was written by an early release and has no id yet"
        raise UnsupportedFormat(text, actual="", supported=str(CURRENT_STAMP), hint="open it for writing once, then copy it")
    return graph_id


def _repeated(store: GraphStore, attempt: Callable[[], T]) -> T:
    """Repeat what a cleanup got in the way of. What is missing twice in the same way is missing."""
    before = ""
    for _ in range(_ATTEMPTS):
        try:
            return attempt()
        except (NotFound, VersionReclaimed, Storage) as error:
            is_missing = not isinstance(error, Storage) or error.storage_class == "not_found"
            store.coordinator.require_same_graph()
            if not is_missing or error.message == before:
                raise
            before = error.message
    text = f"versions of {store.root} are removed faster than they can be copied"
    raise Conflict(text, reason="contention", hint="copy again when no cleanup runs; what was copied is not copied again")


def _result(uri: str | os.PathLike[str], origin: str | None, stats: TransferStats) -> CopyResult:
    made = open_graph(uri, read_only=True)
    head = made.coordinator.fresh(MAIN)
    return CopyResult(
        uri=str(made.root),
        graph_id=str(made.coordinator.table.identity.graph_id),
        commit_id=head.commit_id,
        origin_commit_id=origin,
        branches=tuple(made.coordinator.branches()),
        tables=len(head.entries),
        files=stats.files,
        bytes=stats.size,
        reused=stats.reused,
    )
