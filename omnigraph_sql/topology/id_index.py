"""The id index of a table version: mapped from a file, extended from an earlier version, or built."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from omnigraph_sql.storage.derived_files import DerivedFile
from omnigraph_sql.storage.handles import SnapshotHandle
from omnigraph_sql.storage.tables import TableStorage
from omnigraph_sql.topology.derived_store import DerivedStore, TableVersion, key_of
from omnigraph_udfs.ids import IdIndex

KIND = "ids"


def ids_key(version: TableVersion) -> str:
    """Return the key of the id index of a table version."""
    return key_of(*version)


def stored_ids(derived: DerivedStore, version: TableVersion) -> tuple[DerivedFile, IdIndex] | None:
    """Return the stored id index of a version, or None."""
    file = derived.get(KIND, ids_key(version))
    index = None if file is None else _index(file)
    return None if file is None or index is None else (file, index)


def build_ids(
    derived: DerivedStore, storage: TableStorage, handle: SnapshotHandle, version: TableVersion
) -> tuple[DerivedFile, IdIndex]:
    """Build the id index of a version, or extend that of an earlier one, and store it."""
    layout = storage.layout(handle)
    earlier = _best(derived, version[0], layout)
    if earlier is None:
        index = IdIndex.build(_ids(storage, handle, 0))
    else:
        added = _ids(storage, handle, len(earlier)) if len(earlier) < storage.count(handle) else None
        index = earlier if added is None else earlier.extended(added)
    facts = {"table": version[0], "layout": layout}
    file = derived.put(KIND, ids_key(version), facts, _arrays(index))
    return file, _index(file) or index


def _ids(storage: TableStorage, handle: SnapshotHandle, first_row: int) -> pa.ChunkedArray:
    return storage.scan(handle, ["id"], batch_rows=1 << 16, first_row=first_row or None).read_all().column("id")


def _best(derived: DerivedStore, table: str, layout: list[str]) -> IdIndex | None:
    """Return the longest index of an earlier version to which rows were only added."""
    fitting = [file for file in derived.earlier(KIND, table) if begins_with(layout, file.facts.get("layout"))]
    for description in sorted(fitting, key=lambda file: len(file.facts["layout"]), reverse=True):
        file = derived.get(KIND, description.key)
        index = None if file is None else _index(file)
        if index is not None:
            return index
    return None


def begins_with(layout: list[str], earlier: Any) -> bool:
    """Return True if a table has all rows of an earlier version at the same positions."""
    return isinstance(earlier, list) and layout[: len(earlier)] == earlier


def _arrays(index: IdIndex) -> dict[str, Any]:
    ids = index.ids.trimmed()
    return {"offsets": ids.offsets, "data": ids.data, "slots": index.slots}


def _index(file: DerivedFile) -> IdIndex | None:
    arrays = file.arrays
    try:
        return IdIndex.of_arrays(arrays["offsets"], arrays["data"], arrays["slots"])
    except (KeyError, ValueError):
        return None
