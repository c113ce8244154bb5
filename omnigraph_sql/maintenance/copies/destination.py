"""The destination of a copy: claimed, incomplete until the last file is there, and repeatable until then."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from omnigraph_sql import failpoints, ulid
from omnigraph_sql.errors import AlreadyInitialized, BadRequest
from omnigraph_sql.storage.copied_files import CopiedFile
from omnigraph_sql.storage.identity import MANIFEST, STATE, Identity, stored_manifests
from omnigraph_sql.storage.objects import ObjectStore, Standing
from omnigraph_sql.storage.roots import LocalRoot, Root, S3Root
from omnigraph_sql.storage.transfers import TransferStats, transfer
from omnigraph_sql.store import claims
from omnigraph_sql.store.copy_notes import NOTE, CopyNote, read_note, remove_note, write_note
from omnigraph_sql.store.locks.base import DIRECTORY as LOCKS

WHOLE: Final = "*"
"""What a note has in the place of a state if everything is copied."""
_DATASETS: Final = ("nodes", "edges", "tables", MANIFEST, "_graph_commits.lance", "_graph_commit_actors.lance")
_AUDIT: Final = "_graph_commit_recoveries.lance"


@dataclass(frozen=True)
class CopyDestination:
    """A root that is being copied to."""

    objects: ObjectStore
    note: CopyNote

    @property
    def identity(self) -> Identity:
        """The identity of the copy."""
        return Identity(self.note.graph_id, f"{MANIFEST}/{self.note.graph_id}")

    def write(self, source: ObjectStore, files: list[CopiedFile]) -> TransferStats:
        """Write the files of the copy, and remove those that an earlier attempt wrote and that are none of them."""
        present = {stored.name: stored.size for name in (*_DATASETS, _AUDIT) for stored in self.objects.walk(name)}
        failpoints.hit("copy.before_files")
        stats = transfer(source, self.objects, files, present)
        wanted = {file.name for file in files}
        self.objects.delete_all(sorted(name for name in present if name not in wanted))
        failpoints.hit("copy.after_files")
        return stats

    def complete(self, state: str) -> None:
        """Make the copy a graph: with the state of the schema it can be opened."""
        failpoints.hit("copy.before_state")
        self.objects.write_text(STATE, state)
        failpoints.hit("copy.after_state")
        remove_note(self.objects)


def check_place(source: Root, target: Root) -> None:
    """Raise if the destination is the original, or lies in it."""
    if source == target:
        raise BadRequest(f"{target} is the graph itself", hint="choose another place for the copy")
    if _is_inside(target, source):
        raise BadRequest(f"{target} lies in the graph {source}", hint="choose a place outside the graph for the copy")


def _is_inside(root: Root, other: Root) -> bool:
    if isinstance(root, LocalRoot) and isinstance(other, LocalRoot):
        return root.path.is_relative_to(other.path)
    if isinstance(root, S3Root) and isinstance(other, S3Root):
        is_same_bucket = (root.bucket, root.settings.endpoint) == (other.bucket, other.settings.endpoint)
        return is_same_bucket and (f"{root.prefix}/".startswith(f"{other.prefix}/") or not other.prefix)
    return False


@contextmanager
def destination(objects: ObjectStore, source: Root, source_id: str, state: str) -> Iterator[CopyDestination]:
    """Hold a destination that is empty, or that an interrupted copy of the same state was written to."""
    _require_free(objects, source, state)
    with claims.claimed(objects) as held:
        try:
            note = _require_free(objects, source, state)
            if note is None or note.source_id != source_id:
                graph_id = source_id if state == WHOLE else ulid.new()
                note = CopyNote(str(source), source_id, state, graph_id)
            objects.verify(LOCKS)
            write_note(objects, note)
            failpoints.hit("copy.after_claim")
            yield CopyDestination(objects, note)
        finally:
            held.release()


def _require_free(objects: ObjectStore, source: Root, state: str) -> CopyNote | None:
    """The note of an interrupted copy that can be repeated; None if there is nothing. Anything else raises."""
    root, standing = objects.root, objects.standing()
    if standing is Standing.NOTHING:
        return None
    if standing is Standing.FILE:
        raise BadRequest(f"{root} is a file, not a directory", hint="choose another place for the copy")
    if objects.exists(STATE) or (not objects.exists(NOTE) and stored_manifests(objects)):
        hint = "choose another place for the copy"
        raise AlreadyInitialized(f"{root} holds a graph already", uri=str(root), hint=hint)
    note = read_note(objects)
    if note is None:
        names = [name for name in objects.list_dir("") if not name.startswith("__init_claim.") and name != LOCKS]
        if names:
            text = f"{root} is not empty: `{names[0]}` is in it"
            raise BadRequest(text, hint="copy to a directory that is missing or empty")
        return None
    if (note.source, note.state) != (str(source), state):
        what = f"all of {note.source}" if note.state == WHOLE else f"{note.state} of {note.source}"
        hint = f"repeat that copy, or remove what is in {root}"
        raise AlreadyInitialized(f"{root} holds an incomplete copy of {what}", uri=str(root), hint=hint)
    return note
