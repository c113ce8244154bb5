"""The frame of a merge: the three snapshots it is about, and what each side changed in every type."""

from __future__ import annotations

from dataclasses import dataclass, field

from omnigraph_compiler import EdgeType, NodeType
from omnigraph_sql.history.row_changes import version_changes
from omnigraph_sql.manifest.snapshot import Entry, Snapshot
from omnigraph_sql.store.graph_store import GraphStore
from omnigraph_sql.table_keys import TableKey
from omnigraph_sql.writes.merge.row_states import RowStates, row_states


@dataclass(kw_only=True)
class MergeFrame:
    """Base, target (`ours`) and source (`theirs`) of a merge. What the sides changed is looked at when it is asked for."""

    store: GraphStore
    base: Snapshot
    ours: Snapshot
    theirs: Snapshot
    states: dict[str, RowStates] = field(default_factory=dict)
    """The rows of each type that was looked at."""

    def touches(self, key: str) -> bool:
        """True if the source changed a table since the base."""
        return self._moved(self.base, self.theirs, key) and self._moved(self.ours, self.theirs, key)

    @staticmethod
    def _moved(before: Snapshot, after: Snapshot, key: str) -> bool:
        return before.entries.get(key) != after.entries.get(key)

    def types(self) -> list[NodeType | EdgeType]:
        """The types of the schema, nodes first."""
        catalog = self.store.catalog
        return [
            *(catalog.nodes[name] for name in sorted(catalog.nodes)),
            *(catalog.edges[name] for name in sorted(catalog.edges)),
        ]

    def rows(self, key: str) -> RowStates:
        """The rows of a type that either side changed."""
        if key not in self.states:
            storage = self.store.storage
            base, ours, theirs = (snapshot.entries.get(key) for snapshot in (self.base, self.ours, self.theirs))
            same = ours == theirs
            our_changes = version_changes(storage, base, ours)
            their_changes = our_changes if same else version_changes(storage, base, theirs)
            self.states[key] = row_states(our_changes, their_changes)
        return self.states[key]

    def adoptable(self, key: str) -> Entry | None:
        """The version of the source, if the target can show it as it is: both lie on one lineage, and ours did not move."""
        base, ours, theirs = (snapshot.entries.get(key) for snapshot in (self.base, self.ours, self.theirs))
        if theirs is None or ours is None or ours != base or theirs.branch != ours.branch or theirs.path != ours.path:
            return None
        return theirs if theirs.version > ours.version else None


def type_key(type_: NodeType | EdgeType) -> TableKey:
    """The key of a type's table."""
    return TableKey.of_type(type_)
