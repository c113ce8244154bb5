"""Building the indexes that a schema declares."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass

from omnigraph_compiler import EdgeType, NodeType
from omnigraph_sql.manifest.snapshot import Entry, Snapshot
from omnigraph_sql.storage.columns import table_key
from omnigraph_sql.storage.indexing import LEAST_VECTORS, IndexSpec, index_specs, text_specs
from omnigraph_sql.writes.engine import Engine
from omnigraph_sql.writes.operation import Prepared, Provenance, TableWrite
from omnigraph_sql.writes.protocol import execute


@dataclass(frozen=True)
class PendingIndex:
    """A declared index that cannot be built yet. Queries answer without it, from the column itself."""

    table_key: str
    property: str
    reason: str

    def to_dict(self) -> dict[str, str]:
        """The members as JSON values."""
        return asdict(self)


def ensure_indices(engine: Engine, branch: str, actor: str | None, *, lance_text: bool) -> list[PendingIndex]:
    """Build every declared index that is missing, in one commit; none if nothing is missing."""

    def prepare(snapshot: Snapshot) -> Prepared[list[PendingIndex]]:
        pending: list[PendingIndex] = []
        writes = []
        for type_, entry in _filled_tables(engine, snapshot):
            texts = text_specs(type_) if lance_text else ()
            specs = _missing(engine, entry, (*index_specs(type_, entry.row_count), *texts))
            ready = [spec for spec in specs if not _is_pending(engine, entry, spec, pending)]
            if ready:
                writes.append(TableWrite(entry.table_key, "indices", indexes=tuple(ready)))
        return Prepared(tuple(writes), frozenset(), pending)

    return execute(engine, branch, prepare, Provenance("EnsureIndices", actor)).result


def _filled_tables(engine: Engine, snapshot: Snapshot) -> Iterator[tuple[NodeType | EdgeType, Entry]]:
    types: list[NodeType | EdgeType] = [*engine.catalog.nodes.values(), *engine.catalog.edges.values()]
    for type_ in types:
        entry = snapshot.entries.get(table_key(type_))
        if entry is not None and entry.row_count:
            yield type_, entry


def _missing(engine: Engine, entry: Entry, wanted: tuple[IndexSpec, ...]) -> list[IndexSpec]:
    """Those that the table does not have; one that covers no row any more counts as none."""
    handle = engine.storage.open_at(entry.path, entry.branch, entry.version, entry.transaction_uuid)
    there = {index.name for index in engine.storage.indexes(handle) if index.fragments}
    return [spec for spec in wanted if spec.name not in there]


def _is_pending(engine: Engine, entry: Entry, spec: IndexSpec, pending: list[PendingIndex]) -> bool:
    """Whether there is too little to learn an index of vectors from; then it is noted as pending."""
    if spec.metric is None:
        return False
    handle = engine.storage.open_at(entry.path, entry.branch, entry.version, entry.transaction_uuid)
    found = engine.storage.count(handle, f"`{spec.column}` IS NOT NULL")
    if found >= LEAST_VECTORS:
        return False
    reason = "no row has a vector" if found == 0 else f"{found} rows have a vector, and {LEAST_VECTORS} are needed"
    pending.append(PendingIndex(entry.table_key, spec.column, reason))
    return True
