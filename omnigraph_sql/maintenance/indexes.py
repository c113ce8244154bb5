"""Building the indexes that a schema declares."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass

from omnigraph_compiler import EdgeType, NodeType
from omnigraph_sql.manifest.snapshot import Entry, Snapshot
from omnigraph_sql.storage.index_definitions import LEAST_VECTORS, IndexSpec, index_specs, text_specs
from omnigraph_sql.store.graph_store import GraphStore
from omnigraph_sql.table_keys import TableKey
from omnigraph_sql.writes.operation import BuildIndexes, PreparedWrite, Provenance
from omnigraph_sql.writes.protocol import execute


@dataclass(frozen=True)
class PendingIndex:
    """A declared index that cannot be built yet. Queries answer without it, from the column itself."""

    table_key: str
    """The table, as `node:TYPE` or `edge:TYPE`."""
    property: str
    """The property to be indexed."""
    reason: str
    """Why the index cannot be built yet."""

    def to_dict(self) -> dict[str, str]:
        """Return the members as JSON values.

        Example:
            >>> from omnigraph_sql import PendingIndex
            >>> PendingIndex("node:Port", "chart", "too few rows").to_dict()["reason"]
            'too few rows'
        """
        return asdict(self)


def ensure_indices(store: GraphStore, branch: str, actor: str | None, *, lance_text: bool) -> list[PendingIndex]:
    """Build all missing declared indexes in one commit; without any, make no commit."""

    def prepare(snapshot: Snapshot) -> PreparedWrite[list[PendingIndex]]:
        pending: list[PendingIndex] = []
        writes = []
        for type_, entry in _filled_tables(store, snapshot):
            texts = text_specs(type_) if lance_text else ()
            specs = _missing(store, entry, (*index_specs(type_, entry.row_count), *texts))
            ready = [spec for spec in specs if not _is_pending(store, entry, spec, pending)]
            if ready:
                writes.append(BuildIndexes(entry.table_key, tuple(ready)))
        return PreparedWrite(writes=tuple(writes), reads=frozenset(), result=pending)

    return execute(store, branch, prepare, Provenance("EnsureIndices", actor)).result


def _filled_tables(store: GraphStore, snapshot: Snapshot) -> Iterator[tuple[NodeType | EdgeType, Entry]]:
    types: list[NodeType | EdgeType] = [*store.catalog.nodes.values(), *store.catalog.edges.values()]
    for type_ in types:
        entry = snapshot.entries.get(TableKey.of_type(type_))
        if entry is not None and entry.row_count:
            yield type_, entry


def _missing(store: GraphStore, entry: Entry, wanted: tuple[IndexSpec, ...]) -> list[IndexSpec]:
    """Return the wanted indexes that the table lacks; an index that covers no row any more counts as missing."""
    handle = store.storage.open(entry)
    existing = {index.name for index in store.storage.indexes(handle) if index.fragments}
    return [spec for spec in wanted if spec.name not in existing]


def _is_pending(store: GraphStore, entry: Entry, spec: IndexSpec, pending: list[PendingIndex]) -> bool:
    """True if there are too few vectors to train an index on; then it is added to `pending`."""
    if spec.metric is None:
        return False
    handle = store.storage.open(entry)
    vectors = store.storage.count(handle, f"`{spec.column}` IS NOT NULL")
    if vectors >= LEAST_VECTORS:
        return False
    reason = "no row has a vector" if vectors == 0 else f"{vectors} rows have a vector, and {LEAST_VECTORS} are needed"
    pending.append(PendingIndex(entry.table_key, spec.column, reason))
    return True
