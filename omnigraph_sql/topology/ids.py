"""The id index of a table version: mapped from its file, grown from that of an earlier version, or built."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from omnigraph_sql.storage.derived import DerivedFile
from omnigraph_sql.storage.handles import SnapshotHandle
from omnigraph_sql.storage.tables import TableStorage
from omnigraph_sql.topology.shelf import Shelf, TableVersion, key_of
from omnigraph_udfs.ids import IdIndex
from omnigraph_udfs.strings import Strings

KIND = "ids"


def ids_key(version: TableVersion) -> str:
    """The key of the id index of a table version."""
    return key_of(*version)


def stored_ids(shelf: Shelf, version: TableVersion) -> tuple[DerivedFile, IdIndex] | None:
    """The id index of a version, if it is kept."""
    file = shelf.get(KIND, ids_key(version))
    index = None if file is None else _index(file)
    return None if file is None or index is None else (file, index)


def make_ids(
    shelf: Shelf, storage: TableStorage, handle: SnapshotHandle, version: TableVersion
) -> tuple[DerivedFile, IdIndex]:
    """The id index of a version that has none yet."""
    layout = storage.layout(handle)
    earlier = _best(shelf, version[0], layout)
    if earlier is None:
        made = IdIndex.build(_ids(storage, handle, 0))
    else:
        fresh = _ids(storage, handle, len(earlier)) if len(earlier) < storage.count(handle) else None
        made = earlier if fresh is None else earlier.extended(fresh)
    facts = {"table": version[0], "layout": layout}
    file = shelf.put(KIND, ids_key(version), facts, _arrays(made))
    index = _index(file)
    assert index is not None
    return file, index


def _ids(storage: TableStorage, handle: SnapshotHandle, first_row: int) -> pa.ChunkedArray:
    return storage.scan(handle, ["id"], batch_rows=1 << 16, first_row=first_row or None).read_all().column("id")


def _best(shelf: Shelf, table: str, layout: list[str]) -> IdIndex | None:
    """The longest index of a version to which rows were only added since."""
    found = [_index(each) for each in shelf.earlier(KIND, table) if begins_with(layout, each.facts.get("layout"))]
    return max((each for each in found if each is not None), key=len, default=None)


def begins_with(layout: list[str], earlier: Any) -> bool:
    """Whether a table has all rows of an earlier version at the same positions."""
    return isinstance(earlier, list) and layout[: len(earlier)] == earlier


def _arrays(index: IdIndex) -> dict[str, Any]:
    offsets, data = index.ids.offsets, index.ids.data
    first, last = int(offsets[0]), int(offsets[-1])
    return {"offsets": offsets - first if first else offsets, "data": data[first:last], "slots": index.slots}


def _index(file: DerivedFile) -> IdIndex | None:
    arrays = file.arrays
    kinds = {"offsets": np.int64, "data": np.uint8, "slots": np.uint64}
    if any(name not in arrays or arrays[name].dtype != kind for name, kind in kinds.items()):
        return None
    if int(arrays["offsets"][0]) != 0 or int(arrays["offsets"][-1]) != len(arrays["data"]):
        return None
    return IdIndex(Strings(arrays["offsets"], arrays["data"]), arrays["slots"])
