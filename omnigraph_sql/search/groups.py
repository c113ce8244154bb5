"""Which fragments of a table share a derived file.

A file covers rows that never change, so versions and branches share it. Every append adds a fragment; with too many of them
the two neighbours that are smallest together are put into one. That is worked out from the sizes alone, one fragment after
the other, so the files of a version are still of use after an append.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from omnigraph_sql.storage.fragments import FragmentInfo

__all__ = ["MOST", "Group", "grouped", "key_of", "positions_of"]

MOST = 8


@dataclass(frozen=True)
class Group:
    """Neighbouring fragments, and the two groups it came from."""

    fragments: tuple[FragmentInfo, ...]
    parts: tuple[Group, ...] = ()

    @property
    def rows(self) -> int:
        """How many rows the files hold."""
        return sum(each.rows for each in self.fragments)


def grouped(fragments: Sequence[FragmentInfo]) -> list[Group]:
    """The groups of a table's fragments, at most `MOST`, in their order."""
    found: list[Group] = []
    sizes: list[int] = []
    for fragment in fragments:
        found.append(Group((fragment,)))
        sizes.append(fragment.rows)
        if len(found) > MOST:
            at = min(range(MOST), key=lambda place: sizes[place] + sizes[place + 1])
            joined = Group(found[at].fragments + found[at + 1].fragments, (found[at], found[at + 1]))
            found[at : at + 2] = [joined]
            sizes[at : at + 2] = [sizes[at] + sizes[at + 1]]
    return found


def key_of(group: Group, form: str, path: str) -> str:
    """What a derived file was made from: everything that its content depends on."""
    parts = [[each.id, each.field, each.rows, *each.files] for each in group.fragments]
    return json.dumps({"form": form, "table": path, "fragments": parts})


def positions_of(groups: Sequence[Group]) -> list[npt.NDArray[np.int64]]:
    """For each row of each group its position in the version of the table, -1 where it is deleted."""
    found, first = [], 0
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
        found.append(np.concatenate(places))
    return found
