"""What every operation on an open graph shares."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import pyarrow as pa

from omnigraph_compiler import Catalog, EdgeType, NodeType
from omnigraph_sql.errors import NotFound
from omnigraph_sql.manifest.coordinator import ManifestCoordinator
from omnigraph_sql.manifest.journal import CommitGraph
from omnigraph_sql.manifest.publisher import ManifestBatchPublisher
from omnigraph_sql.storage.catalogue import ManifestTable
from omnigraph_sql.storage.columns import PRIMARY_KEY
from omnigraph_sql.storage.logs import AppendLog
from omnigraph_sql.storage.objects import ObjectStore
from omnigraph_sql.storage.residual import InlineCommitResidual, open_storage
from omnigraph_sql.storage.roots import Root
from omnigraph_sql.storage.tables import TableStorage
from omnigraph_sql.writes.locks import WriteQueueManager, open_locks
from omnigraph_sql.writes.sidecar import Sidecars

AUDIT = "_graph_commit_recoveries.lance"
_AUDIT_SCHEMA = pa.schema(
    [
        pa.field("graph_commit_id", pa.string()),
        pa.field("recovery_kind", pa.string(), nullable=False),
        pa.field("recovery_for_actor", pa.string()),
        pa.field("operation_id", pa.string(), nullable=False, metadata=PRIMARY_KEY),
        pa.field("sidecar_writer_kind", pa.string(), nullable=False),
        pa.field("per_table_outcomes", pa.string(), nullable=False),
        pa.field("created_at", pa.int64(), nullable=False),
    ]
)


@dataclass
class Engine:
    """One graph root and the parts that work on it."""

    root: Root
    objects: ObjectStore
    storage: TableStorage
    storage_inline: InlineCommitResidual
    coordinator: ManifestCoordinator
    publisher: ManifestBatchPublisher
    locks: WriteQueueManager
    sidecars: Sidecars
    audit: AppendLog
    catalog: Catalog

    @property
    def calls(self) -> dict[str, Counter[str]]:
        """How often each part of the store was used, for tests that state what an operation costs."""
        return {
            "tables": self.storage.calls,
            "derived": self.storage.derived.calls,
            "manifest": self.coordinator.table.calls,
            **self.coordinator.journal.calls,
            "audit": self.audit.calls,
            "objects": self.objects.calls,
        }

    def type_of(self, table_key: str) -> NodeType | EdgeType:
        kind, _, name = table_key.partition(":")
        types = self.catalog.nodes if kind == "node" else self.catalog.edges
        if name not in types:
            raise NotFound(f"there is no {kind} type `{name}`", what="type", name=name)
        return types[name]


def assemble(root: Root, catalog: Catalog) -> Engine:
    """The engine of a root; opens nothing yet."""
    storage, inline = open_storage(root)
    objects = storage.objects
    coordinator = ManifestCoordinator(ManifestTable(objects), CommitGraph(objects))
    return Engine(
        root,
        objects,
        storage,
        inline,
        coordinator,
        ManifestBatchPublisher(coordinator),
        open_locks(objects),
        Sidecars(objects),
        AppendLog(objects, AUDIT, _AUDIT_SCHEMA),
        catalog,
    )
