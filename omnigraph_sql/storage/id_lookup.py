"""Positions of rows by their ids, at a cost that follows the number of ids.

Data files never change, so an index of the ids in the files of a fragment serves every version and branch that has it. It is
built when ids were looked for in the fragment a few times: a process that writes once is quicker with a scan.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from omnigraph_sql.storage.fragments import stored_values
from omnigraph_sql.storage.handles import SnapshotHandle
from omnigraph_sql.storage.tables import TableStorage
from omnigraph_sql.storage.version_difference import (
    FragmentPlace,
    Positions,
    deleted_offsets,
    fragment_places,
    live_positions,
)
from omnigraph_udfs.ids import IdIndex

_SCANS: Final = 3
"""After so many scans the fragments of a table get an index."""
_SMALL: Final = 1 << 12
"""Rows of a fragment whose index costs nothing."""
_MOST_FRAGMENTS: Final = 256
MOST_IDS: Final = 8192
"""More ids are looked for with a scan."""


def positions_of_ids(storage: TableStorage, handle: SnapshotHandle, ids: pa.Array) -> Positions | None:
    """The ascending positions of the rows that have one of the ids; None if a scan is the quicker way."""
    places = list(fragment_places(handle).values())
    if len(ids) > MOST_IDS or len(places) > _MOST_FRAGMENTS:
        return None
    indexes = _indexes(storage, handle, places)
    if indexes is None:
        return None
    storage.calls["ids"] += 1
    parts = [np.empty(0, np.int64)]
    for place, index in zip(places, indexes, strict=True):
        offsets = index.find(ids)
        offsets = np.unique(offsets[offsets >= 0])
        if len(offsets):
            deleted = deleted_offsets(storage, handle, place)
            live = np.setdiff1d(offsets, deleted, assume_unique=True)
            parts.append(live_positions(place, deleted, live))
    return np.sort(np.concatenate(parts))


def _indexes(storage: TableStorage, handle: SnapshotHandle, places: list[FragmentPlace]) -> list[IdIndex] | None:
    """The index of each fragment; None while it does not pay to build those that are missing."""
    indexes = {place.files: storage.fragment_ids.peek(place.files) for place in places}
    missing = [place for place in places if indexes[place.files] is None]
    waits = False
    for place in missing:
        if place.physical_rows <= _SMALL:
            continue
        scans = storage.lookups.peek(place.files) or 0
        storage.lookups.put(place.files, scans + 1)
        waits = waits or scans < _SCANS
    if waits:
        return None
    for place in missing:
        built = _built(storage, handle, place)
        if built is None:
            return None
        indexes[place.files] = storage.fragment_ids.put(place.files, built)
    return [index for index in indexes.values() if index is not None]


def _built(storage: TableStorage, handle: SnapshotHandle, place: FragmentPlace) -> IdIndex | None:
    """The index of the ids in the files of a fragment; None if an id is in them twice."""
    storage.calls["id_indexes"] += 1
    chunks = list(stored_values(handle, "id", [place.number]))
    try:
        return IdIndex.build(pa.chunked_array(chunks, pa.string()))
    except ValueError:
        return None
