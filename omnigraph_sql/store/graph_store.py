"""The open graph: what its operations share."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import pyarrow as pa

from omnigraph_compiler import Catalog, EdgeType, NodeType
from omnigraph_sql.errors import NotFound
from omnigraph_sql.manifest.coordinator import ManifestCoordinator
from omnigraph_sql.manifest.journal import CommitGraph
from omnigraph_sql.manifest.publisher import ManifestBatchPublisher
from omnigraph_sql.storage.columns import PRIMARY_KEY
from omnigraph_sql.storage.identity import Identity
from omnigraph_sql.storage.inline_commits import InlineCommitResidual, open_storage
from omnigraph_sql.storage.logs import AppendLog
from omnigraph_sql.storage.manifest_table import ManifestTable
from omnigraph_sql.storage.objects import ObjectStore
from omnigraph_sql.storage.roots import Root
from omnigraph_sql.storage.tables import TableStorage
from omnigraph_sql.store.locks.manager import WriteQueueManager, open_locks
from omnigraph_sql.store.sidecars import Sidecars
from omnigraph_sql.table_keys import TableKey

AUDIT = "_graph_commit_recoveries.lance"
STAGED = "_staged"
"""The directory of staged loads that wait to be published."""
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


@dataclass(kw_only=True)
class GraphStore:
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
        """The number of times each part of the store was used, for tests that state what an operation costs."""
        return {
            "tables": self.storage.calls,
            "derived": self.storage.derived.calls,
            "manifest": self.coordinator.table.calls,
            **self.coordinator.journal.calls,
            "audit": self.audit.calls,
            "objects": self.objects.calls,
        }

    def type_of(self, table_key: str) -> NodeType | EdgeType:
        key = TableKey(table_key)
        name, types = key.name, self.catalog.nodes if key.is_node else self.catalog.edges
        if name not in types:
            raise NotFound(f"there is no {key.kind} type `{name}`", what="type", name=name)
        return types[name]


def assemble_store(root: Root, catalog: Catalog, identity: Identity) -> GraphStore:
    """The engine of a root; opens nothing yet."""
    storage, inline = open_storage(root)
    objects = storage.objects
    journal = CommitGraph(objects, identity)
    coordinator = ManifestCoordinator(ManifestTable(objects, identity), journal)
    coordinator.on_reset += [storage.reset, journal.reset]
    return GraphStore(
        root=root,
        objects=objects,
        storage=storage,
        storage_inline=inline,
        coordinator=coordinator,
        publisher=ManifestBatchPublisher(coordinator),
        locks=open_locks(objects),
        sidecars=Sidecars(objects),
        audit=AppendLog(objects, identity.log(AUDIT), _AUDIT_SCHEMA),
        catalog=catalog,
    )
