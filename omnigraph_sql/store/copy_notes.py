"""The note at a root that is being copied to. Without the state of the schema beside it, the copy is incomplete."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Final

from omnigraph_sql.errors import NotFound, Storage
from omnigraph_sql.storage.objects import ObjectStore
from omnigraph_sql.store.json_fields import Fields, parse, ulid_text

NOTE: Final = "__copy.json"


@dataclass(frozen=True)
class CopyNote:
    """A copy that is under way, or was interrupted."""

    source: str
    """The address of the original."""
    source_id: str
    """Its id."""
    state: str
    """The state that is copied; `*` for all branches with their history."""
    graph_id: str
    """The id of the copy."""


def write_note(objects: ObjectStore, note: CopyNote) -> None:
    """Say that a copy begins, before the first of its files is written."""
    objects.write_text(NOTE, json.dumps(asdict(note)))


def read_note(objects: ObjectStore) -> CopyNote | None:
    """The note at a root; None when there is none."""
    try:
        entry = Fields(parse(objects.read_text(NOTE)), "the note")
        source, source_id, state = (entry.read(name, _text) for name in ("source", "source_id", "state"))
        return CopyNote(source, source_id, state, entry.read("graph_id", ulid_text))
    except NotFound:
        return None
    except ValueError as error:
        text = f"{objects.uri(NOTE)} cannot be read: {error}"
        raise Storage(text, storage_class="permanent", hint=f"remove what is in {objects.root} and copy again") from error


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("is no text")
    return value


def remove_note(objects: ObjectStore) -> None:
    """Say that a copy is complete."""
    objects.delete(NOTE)


def is_incomplete(objects: ObjectStore) -> bool:
    """True if a copy to a root was begun, and no graph is there yet."""
    return objects.exists(NOTE)
