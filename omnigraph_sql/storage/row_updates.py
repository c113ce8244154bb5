"""The operation of Lance that replaces, adds and removes rows at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lance.dataset import LanceOperation


def row_update(removed: Sequence[int], updated: Sequence[Any], new: Sequence[Any]) -> Any:
    """Remove fragments, replace others by ones with more deletions, and add new ones.

    Lance extends an index of vectors to new fragments unless their fields are listed as written. The index would not know
    their rows, and no search would find them.
    """
    fields = sorted({number for fragment in new for file in fragment.files for number in file.fields if number >= 0})
    return LanceOperation.Update(
        removed_fragment_ids=list(removed),
        updated_fragments=list(updated),
        new_fragments=list(new),
        fields_modified=[],
        fields_for_preserving_frag_bitmap=fields,
        update_mode="rewrite_rows",
    )
