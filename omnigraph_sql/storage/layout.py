"""How the rows of a table version lie in its fragments, and what its indexes know of them."""

from __future__ import annotations

import hashlib
import json
from typing import Any


def fragments(dataset: Any) -> list[str]:
    """A mark for what each fragment holds, in table order."""
    return [_mark(each.metadata.to_json()) for each in dataset.get_fragments()]


def btree_covers(dataset: Any, column: str) -> bool:
    """Whether a BTREE on the column knows the rows of all fragments."""
    covered: set[int] = set()
    for index in dataset.describe_indices():
        if index.field_names == [column] and index.type_url.endswith("BTreeIndexDetails"):
            covered.update(number for segment in index.segments for number in segment.fragment_ids)
    return covered.issuperset(each.fragment_id for each in dataset.get_fragments())


def _mark(fragment: dict[str, Any]) -> str:
    """Files have names of their own, and a list of deleted rows has a number; both are the same on every branch."""
    gone = fragment["deletion_file"]
    parts = [
        fragment["id"],
        fragment["physical_rows"],
        [file["path"] for file in fragment["files"]],
        fragment.get("overlays"),
        None if gone is None else [gone["read_version"], gone["id"], gone["num_deleted_rows"]],
    ]
    return hashlib.blake2b(json.dumps(parts).encode(), digest_size=8).hexdigest()
