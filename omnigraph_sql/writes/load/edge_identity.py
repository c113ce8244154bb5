"""Identity of edges in merge loads: which edge of the graph a record without an id replaces.

A `@unique` constraint that contains both ends identifies edges. A record then replaces the edge with the same values, which
keeps its id. Without such a constraint, or with a null in it, a record is a new edge every time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_compiler import EdgeType, NodeType
from omnigraph_sql.writes.checks.findings import AT
from omnigraph_sql.writes.checks.pending_graph import EXPLICIT, PendingGraph, RowSource, TableRows, plain
from omnigraph_sql.writes.checks.validation import complete_tuples

_ENDS: Final = frozenset({"src", "dst"})


def identity(type_: NodeType | EdgeType) -> tuple[str, ...] | None:
    """The columns that identify records of an edge type: its narrowest unique tuple with both ends."""
    if not isinstance(type_, EdgeType):
        return None
    candidates = (columns for columns in type_.unique if set(columns) >= _ENDS)
    return min(candidates, key=lambda columns: (len(columns), columns), default=None)


class IdentifiedRows:
    """Rows some of which have the ids of edges that they replace."""

    def __init__(self, held: RowSource, places: pa.Array, ids: pa.Array) -> None:
        order = pc.array_sort_indices(places)
        self._held = held
        self._places: npt.NDArray[np.int64] = places.take(order).to_numpy(zero_copy_only=False)
        self._ids = ids.take(order)
        self.schema: pa.Schema = held.schema
        self.num_rows: int = held.num_rows
        self.nbytes: int = held.nbytes

    @property
    def is_spilled(self) -> bool:
        """True if they are too many to be held in memory together."""
        return self._held.is_spilled

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """The rows, or some columns of them."""
        names = self.schema.names if columns is None else list(columns)
        if "id" not in names:
            yield from self._held.batches(names)
            return
        schema = pa.schema([self.schema.field(name) for name in names])
        for batch in self._held.batches(names if AT in names else [*names, AT]):
            at = batch.column(AT).to_numpy(zero_copy_only=False)
            nearest = np.minimum(np.searchsorted(self._places, at), len(self._places) - 1)
            identified = self._ids.take(pa.array(nearest, mask=self._places[nearest] != at))
            arrays = [batch.column(name) for name in names]
            arrays[names.index("id")] = pc.coalesce(identified, batch.column("id"))
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)


@dataclass
class MergeTarget:
    """The rows of a merge with the ids of the edges that they replace, and the edge types that nothing identifies."""

    rows: dict[str, TableRows]
    new: list[str] = field(default_factory=list)
    """Edge types without an identity whose records have no ids."""
    incomplete: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The identities of edge types in which some records have a null."""

    def warnings(self) -> tuple[str, ...]:
        """At most one text about records that are new edges each time they are loaded."""
        parts = []
        if self.new:
            remedy = "declare @unique(src, dst) on the edge type, or give each record an `id`"
            parts.append(f"nothing says which edge of the graph a record of {', '.join(self.new)} is: {remedy}")
        for name, columns in self.incomplete.items():
            parts.append(f"some records of {name} have a null in @unique({', '.join(columns)}): give them an `id`")
        return (f"merge made new edges, and makes them again when it is repeated; {'; '.join(parts)}",) if parts else ()


def merge_identified(image: PendingGraph, incoming: Mapping[str, TableRows]) -> MergeTarget:
    """Find the edges that records without an id stand for. The image holds the rows as they came, and is closed."""
    target = MergeTarget(dict(incoming))
    with closing(image):
        for key, rows in incoming.items():
            type_ = image.store.type_of(key)
            if not isinstance(type_, EdgeType):
                continue
            columns = identity(type_)
            if columns is None:
                target.new += [type_.name] if any(_unidentified(rows)) else []
                continue
            places, ids, complete = _known(image, key, columns)
            if len(places):
                target.rows[key] = _with_ids(rows, places, ids)
            if complete < sum(_unidentified(rows)):
                target.incomplete[type_.name] = columns
    return target


def _unidentified(rows: TableRows) -> Iterator[int]:
    """The number of records without an id, batch by batch."""
    return (batch.num_rows - batch.column(EXPLICIT).true_count for batch in rows.batches([EXPLICIT]))


def _with_ids(rows: TableRows, places: pa.Array, ids: pa.Array) -> TableRows:
    return rows.over(lambda held: IdentifiedRows(held, places, ids))


def _known(image: PendingGraph, key: str, columns: tuple[str, ...]) -> tuple[pa.Array, pa.Array, int]:
    """Places of records and the ids of the edges they stand for; how many records without an id have a whole tuple."""
    explicit = _explicit_ids(image.deltas[key].rows)
    by = sorted(columns, key=lambda name: name not in _ENDS)
    places, ids = [pa.array([], pa.int64())], [pa.array([], pa.string())]
    complete = 0
    for number in range(image.count):
        incoming = image.part(key, [AT, EXPLICIT, *columns], by, number)
        rows = complete_tuples(incoming.filter(pc.invert(incoming.column(EXPLICIT))), columns).select([AT, *columns])
        complete += rows.num_rows
        if rows.num_rows == 0:
            continue
        committed = complete_tuples(image.committed(key, ["id", *columns], by, number, rows.column(by[0])), columns)
        both = rows.join(committed, keys=list(columns), join_type="inner")
        # An edge that a record names by its id is that record's, which may move it elsewhere.
        both = both.filter(pc.invert(pc.is_in(both.column("id"), value_set=explicit)))
        places.append(plain(both.column(AT)))
        ids.append(plain(both.column("id")))
    return pa.concat_arrays(places), pa.concat_arrays(ids), complete


def _explicit_ids(rows: TableRows) -> pa.Array:
    ids = [batch.column("id").filter(batch.column(EXPLICIT)) for batch in rows.batches(["id", EXPLICIT])]
    return pa.concat_arrays([pa.array([], pa.string()), *ids])
