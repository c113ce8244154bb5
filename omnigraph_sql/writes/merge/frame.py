"""The frame of a merge: the three snapshots it is about, and what each side changed in every type."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_compiler import EdgeType, NodeType
from omnigraph_sql.history.row_changes import RowChanges, version_changes
from omnigraph_sql.manifest.snapshot import Entry, Snapshot
from omnigraph_sql.store.graph_store import GraphStore
from omnigraph_sql.table_keys import TableKey
from omnigraph_sql.writes.merge.row_states import Mask, RowStates, row_states


@dataclass(frozen=True, kw_only=True)
class CrossBases:
    """The nearest common ancestors besides the base, where the sides were merged crosswise.

    A row or relation is compared with the ancestor that has the newest of it: the one that changed it since all of them
    were one. Where several changed it, each in its way, it counts as changed on both sides.
    """

    start: Snapshot
    """The last state that all of them, and the base, came from."""
    others: tuple[Snapshot, ...]


@dataclass(kw_only=True)
class MergeFrame:
    """Base, target (`ours`) and source (`theirs`) of a merge. What the sides changed is looked at when it is asked for."""

    store: GraphStore
    base: Snapshot
    ours: Snapshot
    theirs: Snapshot
    crossing: CrossBases | None = None
    adopts: bool = True
    """False if the versions of the source must not be shown by the target, because the source is a transaction."""
    states: dict[str, RowStates] = field(default_factory=dict)
    """The rows of each type that was looked at."""

    @property
    def bases(self) -> tuple[Snapshot, ...]:
        """The base, and the others that it shares its place with."""
        return (self.base,) if self.crossing is None else (self.base, *self.crossing.others)

    def touches(self, key: str) -> bool:
        """True if the source changed a table since the base."""
        is_moved = any(self._moved(base, self.theirs, key) for base in self.bases)
        return is_moved and self._moved(self.ours, self.theirs, key)

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
            states = row_states(our_changes, their_changes)
            if self.crossing is not None and not same:
                self._cross(key, states, self.crossing)
            self.states[key] = states
        return self.states[key]

    def _cross(self, key: str, states: RowStates, crossing: CrossBases) -> None:
        """Compare each row with the base that has the newest of it."""

        def changed(before: Snapshot, after: Snapshot) -> RowChanges:
            return version_changes(self.store.storage, before.entries.get(key), after.entries.get(key)).changed

        def among(ids: pa.Array) -> Mask:
            return np.asarray(pc.is_in(states.ids, value_set=ids).to_numpy(zero_copy_only=False), np.bool_)

        news = [changed(crossing.start, base) for base in self.bases]
        newest = [among(rows.ids) for rows in news]
        for number, base in enumerate(self.bases[1:], 1):
            is_newest = newest[number] & ~newest[0]
            if is_newest.any():
                ours, theirs = (among(changed(base, side).ids) for side in (self.ours, self.theirs))
                states.compare(is_newest, ours, theirs, ~among(news[number].ids.filter(pa.array(news[number].deleted))))
        for first, second in combinations(range(len(self.bases)), 2):
            both = newest[first] & newest[second]
            if both.any():
                contested = both & among(changed(self.bases[first], self.bases[second]).ids)
                states.compare(
                    contested, contested, contested, ~among(news[first].ids.filter(pa.array(news[first].inserted)))
                )

    def adoptable(self, key: str) -> Entry | None:
        """The version of the source, if the target can show it as it is: both lie on one lineage, and ours did not move."""
        base, ours, theirs = (snapshot.entries.get(key) for snapshot in (self.base, self.ours, self.theirs))
        if (
            not self.adopts
            or theirs is None
            or ours is None
            or ours != base
            or theirs.branch != ours.branch
            or theirs.path != ours.path
        ):
            return None
        return theirs if theirs.version > ours.version else None


def type_key(type_: NodeType | EdgeType) -> TableKey:
    """The key of a type's table."""
    return TableKey.of_type(type_)
