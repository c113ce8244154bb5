"""Groups of table fragments that share a derived file.

A file covers rows that never change, so versions and branches share it. Every append adds a fragment; when there are too
many groups, the two adjacent ones with the fewest rows are merged. Groups depend only on the sizes of fragments, in order,
so the files of a version stay usable after an append.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from omnigraph_sql.storage.fragments import FragmentInfo

__all__ = ["MOST", "FragmentGroup", "grouped", "key_of", "positions_of"]

MOST = 8


@dataclass(frozen=True)
class FragmentGroup:
    """Adjacent fragments, and the two groups of which the group was merged."""

    fragments: tuple[FragmentInfo, ...]
    parts: tuple[FragmentGroup, ...] = ()

    @property
    def rows(self) -> int:
        """The number of stored rows, including deleted ones."""
        return sum(fragment.rows for fragment in self.fragments)


def grouped(fragments: Sequence[FragmentInfo]) -> list[FragmentGroup]:
    """Return the groups of a table's fragments, at most `MOST`, in order."""
    groups: list[FragmentGroup] = []
    sizes: list[int] = []
    for fragment in fragments:
        groups.append(FragmentGroup((fragment,)))
        sizes.append(fragment.rows)
        if len(groups) > MOST:
            smallest = min(range(MOST), key=lambda place: sizes[place] + sizes[place + 1])
            merged = FragmentGroup(
                groups[smallest].fragments + groups[smallest + 1].fragments, (groups[smallest], groups[smallest + 1])
            )
            groups[smallest : smallest + 2] = [merged]
            sizes[smallest : smallest + 2] = [sizes[smallest] + sizes[smallest + 1]]
    return groups


def key_of(group: FragmentGroup, form: str, path: str) -> str:
    """Return the key of a derived file: everything on which its content depends."""
    parts = [[fragment.id, fragment.field, fragment.rows, *fragment.files] for fragment in group.fragments]
    return json.dumps({"form": form, "table": path, "fragments": parts})


def positions_of(groups: Sequence[FragmentGroup]) -> list[npt.NDArray[np.int64]]:
    """Return the position of each row of each group in the version of the table, -1 for deleted rows."""
    positions, first = [], 0
    for group in groups:
        places = []
        for fragment in group.fragments:
            if fragment.deleted is None:
                places.append(np.arange(first, first + fragment.rows))
            else:
                live = np.ones(fragment.rows, np.bool_)
                live[fragment.deleted] = False
                places.append(np.where(live, first - 1 + np.cumsum(live), -1))
            first += fragment.live
        positions.append(np.concatenate(places))
    return positions
