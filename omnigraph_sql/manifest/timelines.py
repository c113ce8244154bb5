"""The versions of one table that a branch has shown, from the rows that the manifest keeps about it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from typing import Any

from omnigraph_sql.manifest.snapshot import Entry, table_entry
from omnigraph_sql.storage.manifest_table import LANDED


class TableTimeline:
    """A table by version of the manifest. Rows of the manifest are never removed, so the last version has all earlier ones.

    A branch has the rows of the branch that it was created from, with the versions at which they landed there.
    """

    def __init__(self, table_key: str, rows: Iterable[Mapping[str, Any]]) -> None:
        path: str | None = None
        landed: list[tuple[int, int, Entry | None]] = []
        listed = list(rows)
        for row in listed:
            if row["object_type"] == "table":
                path = row["location"]
        for row in listed:
            version = row["table_version"]
            if row["object_type"] == "table_version" and path is not None:
                landed.append((row[LANDED], version, table_entry(table_key, path, row)))
            elif row["object_type"] == "table_tombstone":
                landed.append((row[LANDED], version, None))
        # Versions only grow within a lineage, so what landed last is what is shown.
        landed.sort(key=lambda item: item[:2])
        self._landed = [item[0] for item in landed]
        self._entries = [item[2] for item in landed]

    def at(self, manifest_version: int) -> Entry | None:
        """The version of the table that was shown; None if there was no such table."""
        place = bisect_right(self._landed, manifest_version)
        return self._entries[place - 1] if place else None
