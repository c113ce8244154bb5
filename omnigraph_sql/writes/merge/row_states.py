"""Rows of a type on both sides of a merge: what each side has, and which side each merged row is taken from.

Only rows that at least one side changed since the base are here. Every other row is the same on both sides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_sql.history.row_changes import ABSENT, RowChanges, VersionChanges, equal_column
from omnigraph_sql.storage.handles import SnapshotHandle
from omnigraph_sql.storage.tables import TableStorage
from omnigraph_sql.storage.version_difference import Positions, carried_addresses, gathered, portions

Mask = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.int64]
OURS: Final = 0
"""The merged row is that of the target."""
THEIRS: Final = 1
"""The merged row is that of the source."""
WRITTEN: Final = 2
"""The merged row is neither; its values were put together or given."""


@dataclass(frozen=True, kw_only=True)
class Side:
    """Where the rows of one side are: in its own version if it changed them, else in that of the base."""

    changes: VersionChanges
    """What the side changed since the base."""
    old: Positions
    """Positions in the base; `ABSENT` for rows that are not there."""
    new: Positions
    """Positions in the version of the side, of the rows that it changed."""
    is_changed: Mask
    """Which rows the side changed."""

    @property
    def is_present(self) -> Mask:
        """Which rows the side has."""
        return np.asarray(np.where(self.is_changed, self.new != ABSENT, self.old != ABSENT))

    def columns(self, storage: TableStorage, names: Sequence[str], rows: Rows) -> pa.Table:
        """Columns of rows that the side has, in their order. For few rows."""
        mask = self.is_changed[rows]
        parts: list[pa.Table] = []
        order: list[Rows] = []
        for handle, positions, chosen in (
            (self.changes.after, self.new, np.flatnonzero(mask)),
            (self.changes.before, self.old, np.flatnonzero(~mask)),
        ):
            if handle is not None and (len(chosen) or not parts):
                parts.append(gathered(storage, handle, names, positions[rows[chosen]]))
                order.append(chosen)
        table = pa.concat_tables(parts, promote_options="permissive") if len(parts) > 1 else parts[0]
        inverse = np.empty(len(rows), np.int64)
        inverse[np.concatenate(order)] = np.arange(len(rows))
        return table.combine_chunks().take(pa.array(inverse))


@dataclass(kw_only=True)
class RowStates:
    """The rows of one type that a merge looks at, and the outcome of each."""

    ids: pa.Array
    ours: Side
    theirs: Side
    ours_edited: Mask
    """Which rows the target changed since the base that they are compared with."""
    theirs_edited: Mask
    """As `ours_edited`, for the source."""
    is_old: Mask
    """Which rows that base has."""
    is_crossed: Mask
    """Which rows are compared with another base than the one whose positions are known."""
    outcome: npt.NDArray[np.int8]
    """`OURS`, `THEIRS` or `WRITTEN`."""
    decided: Mask
    """Rows whose outcome somebody chose."""
    _written: list[tuple[Rows, pa.Table]] = field(default_factory=list)
    """Merged rows with values of their own; later ones replace earlier ones."""
    _places: dict[str, int] = field(default_factory=dict)

    def compare(self, rows: Mask, ours: Mask, theirs: Mask, is_old: Mask) -> None:
        """Compare rows with another base, which has those of `is_old`, and since which those of the others were changed."""
        self.is_old = np.where(rows, is_old, self.is_old)
        self.ours_edited = np.where(rows, ours, self.ours_edited)
        self.theirs_edited = np.where(rows, theirs, self.theirs_edited)
        self.is_crossed = self.is_crossed | rows
        outcome = np.where(self.theirs_edited & ~self.ours_edited, THEIRS, OURS)
        self.outcome = np.where(rows, outcome, self.outcome).astype(np.int8)

    def write(self, rows: Rows, values: pa.Table) -> None:
        """Give rows values of their own."""
        if len(rows):
            self._written.append((rows, values))
            self.outcome[rows] = WRITTEN

    def _written_images(self, names: Sequence[str], rows: Rows) -> pa.Table:
        places = np.full(len(self.ids), ABSENT, np.int64)
        start = 0
        for chosen, _ in self._written:
            places[chosen] = np.arange(start, start + len(chosen))
            start += len(chosen)
        whole = pa.concat_tables([values.select(list(names)) for _, values in self._written])
        return whole.take(pa.array(places[rows]))

    @property
    def base(self) -> SnapshotHandle | None:
        """The version of the base."""
        return self.theirs.changes.before

    @property
    def target(self) -> SnapshotHandle | None:
        """The version of the target."""
        return self.ours.changes.after

    def index(self, row_id: str) -> int | None:
        """The row with an id; None if neither side changed it."""
        if not self._places:
            self._places = {row_id: place for place, row_id in enumerate(self.ids.to_pylist())}
        return self._places.get(row_id)

    @property
    def is_merged(self) -> Mask:
        """Which rows the merged graph has."""
        present = np.where(self.outcome == THEIRS, self.theirs.is_present, self.ours.is_present)
        return np.asarray(present | (self.outcome == WRITTEN))

    @property
    def is_put(self) -> Mask:
        """Rows that have to be written to the target: they come, or change."""
        return np.asarray((self.outcome != OURS) & self.is_merged)

    @property
    def is_removed(self) -> Mask:
        """Rows that go from the target."""
        return np.asarray((self.outcome != OURS) & ~self.is_merged & self.ours.is_present)

    @property
    def is_kept(self) -> Mask:
        """Rows that stay as they are in the target."""
        return np.asarray((self.outcome == OURS) & self.ours.is_present)

    def images(self, storage: TableStorage, names: Sequence[str], rows: Rows) -> pa.Table:
        """Columns of merged rows, in the order of the rows. For few rows."""
        is_written = self.outcome[rows] == WRITTEN
        parts, order = [], []
        for side, code in ((self.theirs, THEIRS), (self.ours, OURS)):
            chosen = np.flatnonzero(self.outcome[rows] == code)
            if len(chosen):
                parts.append(side.columns(storage, names, rows[chosen]))
                order.append(chosen)
        if is_written.any():
            chosen = np.flatnonzero(is_written)
            parts.append(self._written_images(names, rows[chosen]))
            order.append(chosen)
        if not parts:
            side = self.theirs if self.theirs.changes.after is not None else self.ours
            return side.columns(storage, names, rows)
        inverse = np.empty(len(rows), np.int64)
        inverse[np.concatenate(order)] = np.arange(len(rows))
        whole = pa.concat_tables(parts, promote_options="permissive") if len(parts) > 1 else parts[0]
        return whole.combine_chunks().take(pa.array(inverse))

    def places(self, storage: TableStorage, rows: Rows) -> tuple[pa.Array, pa.Array]:
        """The row ids and addresses of rows that the target has."""
        assert self.target is not None
        row_ids = np.empty(len(rows), np.uint64)
        addresses = np.empty(len(rows), np.uint64)
        own = np.flatnonzero(self.ours.is_changed[rows])
        base = np.flatnonzero(~self.ours.is_changed[rows])
        moved = self._moved(rows[base])
        for handle, positions, chosen in (
            (self.target, self.ours.new[rows[own]], own),
            (self.target, moved[moved != ABSENT], base[moved != ABSENT]),
            (self.base, self.ours.old[rows[base[moved == ABSENT]]], base[moved == ABSENT]),
        ):
            if handle is None or len(chosen) == 0:
                continue
            for part in portions(storage, handle, ["_rowid", "_rowaddr"], len(chosen)):
                table = gathered(storage, handle, ["_rowid", "_rowaddr"], positions[part])
                row_ids[chosen[part]] = table.column("_rowid").to_numpy()
                places = table.column("_rowaddr").to_numpy()
                is_carried = handle is not self.target and self.base is not None
                addresses[chosen[part]] = carried_addresses(handle, self.target, places) if is_carried else places
        return pa.array(row_ids), pa.array(addresses)

    def _moved(self, rows: Rows) -> Positions:
        """The positions in the target of rows that it has as in the base, but written again; `ABSENT` for the others."""
        moved = self.ours.changes.moved
        out = np.full(len(rows), ABSENT, np.int64)
        if len(moved) and len(rows):
            order = np.argsort(moved.old)
            place = np.searchsorted(moved.old[order], self.ours.old[rows]).clip(max=len(moved) - 1)
            hit = moved.old[order][place] == self.ours.old[rows]
            out[hit] = moved.new[order][place][hit]
        return out


@dataclass(frozen=True, kw_only=True)
class RowConflicts:
    """Rows of a type that both sides changed, each in its way."""

    rows: Rows
    kinds: list[str]
    properties: list[tuple[str, ...]]


def row_states(ours: VersionChanges, theirs: VersionChanges) -> RowStates:
    """The rows that either side changed; each is taken from the side that changed it, or from ours if both did."""
    shared = pc.fill_null(pc.index_in(theirs.changed.ids, value_set=ours.changed.ids), ABSENT)
    places = shared.to_numpy(zero_copy_only=False).astype(np.int64)
    only_theirs = np.flatnonzero(places == ABSENT)
    both = np.flatnonzero(places != ABSENT)
    first, second = len(ours.changed), len(only_theirs)
    total = first + second
    their_side = _spread(theirs.changed, total, [(places[both], both), (np.arange(first, total), only_theirs)])
    our_side = _spread(ours.changed, total, [(np.arange(first), np.arange(first))])
    old = np.where(our_side[2], our_side[0], their_side[0])
    outcome = np.full(total, OURS, np.int8)
    outcome[first:] = THEIRS
    return RowStates(
        ids=pa.concat_arrays([ours.changed.ids, theirs.changed.ids.take(pa.array(only_theirs))]),
        ours=Side(changes=ours, old=old, new=our_side[1], is_changed=our_side[2]),
        theirs=Side(changes=theirs, old=old, new=their_side[1], is_changed=their_side[2]),
        ours_edited=our_side[2],
        theirs_edited=their_side[2],
        is_old=old != ABSENT,
        is_crossed=np.zeros(total, np.bool_),
        outcome=outcome,
        decided=np.zeros(total, np.bool_),
    )


def _spread(changed: RowChanges, total: int, places: list[tuple[Rows, Rows]]) -> tuple[Positions, Positions, Mask]:
    """The positions of changed rows, put where the rows of both sides have them."""
    old, new = np.full(total, ABSENT, np.int64), np.full(total, ABSENT, np.int64)
    mask = np.zeros(total, np.bool_)
    for at, rows in places:
        old[at], new[at], mask[at] = changed.old[rows], changed.new[rows], True
    return old, new, mask


def row_conflicts(storage: TableStorage, states: RowStates, *, by_column: bool) -> RowConflicts:
    """Rows that both sides changed in different ways. With `by_column`, edits of different properties are put together."""
    both = np.flatnonzero(states.ours_edited & states.theirs_edited)
    ours, theirs = states.ours.is_present[both], states.theirs.is_present[both]
    is_old = states.is_old[both]
    rows: list[int] = []
    kinds: list[str] = []
    properties: list[tuple[str, ...]] = []
    for row in both[ours != theirs].tolist():
        rows.append(row)
        kinds.append("DeleteVsUpdate")
        properties.append(())
    crossed = states.is_crossed[both]
    for chosen, kind, is_split in (
        (~is_old, "DivergentInsert", False),
        (is_old & crossed, "DivergentUpdate", False),
        (is_old & ~crossed, "DivergentUpdate", by_column),
    ):
        for row, names in _divergent(storage, states, both[ours & theirs & chosen], by_column=is_split):
            rows.append(row)
            kinds.append(kind)
            properties.append(names)
    return RowConflicts(rows=np.array(rows, np.int64), kinds=kinds, properties=properties)


def _divergent(
    storage: TableStorage, states: RowStates, rows: Rows, *, by_column: bool
) -> list[tuple[int, tuple[str, ...]]]:
    """Of rows that both sides have and changed, those that differ, with the properties in which they do."""
    if len(rows) == 0:
        return []
    assert states.target is not None
    names = storage.schema(states.target).names
    out: list[tuple[int, tuple[str, ...]]] = []
    for part in portions(storage, states.target, names, len(rows)):
        chosen = rows[part]
        ours, theirs = (side.columns(storage, names, chosen) for side in (states.ours, states.theirs))
        differs = {name: ~equal_column(ours, theirs, name) for name in names}
        open_ = theirs_edits = differs
        if by_column and states.base is not None:
            base = gathered(storage, states.base, names, states.ours.old[chosen])
            ours_edits = {name: ~equal_column(base, ours, name) for name in names}
            theirs_edits = {name: ~equal_column(base, theirs, name) for name in names}
            open_ = {name: differs[name] & ours_edits[name] & theirs_edits[name] for name in names}
        is_different = np.logical_or.reduce(list(differs.values()))
        is_open = np.logical_or.reduce(list(open_.values()))
        merged: list[int] = []
        for place in np.flatnonzero(is_different).tolist():
            if is_open[place]:
                out.append((int(chosen[place]), tuple(name for name in names if open_[name][place])))
                continue
            merged.append(place)
        if merged:
            places = np.array(merged, np.int64)
            from_theirs = {name: differs[name] & theirs_edits[name] for name in names}
            states.write(chosen[places], _put_together(ours, theirs, from_theirs, places))
    return out


def _put_together(ours: pa.Table, theirs: pa.Table, from_theirs: Mapping[str, Mask], rows: Rows) -> pa.Table:
    """Rows with some columns of theirs, and the others of ours."""
    columns = []
    for name in ours.column_names:
        both = pa.chunked_array([*ours.column(name).chunks, *theirs.column(name).chunks])
        columns.append(both.take(pa.array(rows + np.where(from_theirs[name][rows], ours.num_rows, 0))))
    return pa.table(columns, schema=ours.schema)
