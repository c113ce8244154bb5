"""Integrity of new files: their lengths are those that the write states.

On a full disk Lance can lose the last part of a data file without an error, and a version that refers to such a file can
never be read. So the lengths of all files are verified before a commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from omnigraph_sql.errors import Storage

_NEWEST_NAME: Final = (1 << 64) - 1


def new_fragments(operation: Any) -> Iterator[Any]:
    """The fragments that an operation adds to its dataset."""
    for name in ("fragments", "new_fragments"):
        yield from getattr(operation, name, ())
    for group in getattr(operation, "groups", ()):
        yield from group.new_fragments


def staged_files(transaction: Any, place: str) -> Iterator[str]:
    """Return the files of an uncommitted write: its rows, and its deletion files."""
    operation = transaction.operation
    for fragment in new_fragments(operation):
        yield from (f"{place}/data/{file.path}" for file in fragment.files)
    for fragment in getattr(operation, "updated_fragments", ()):
        deleted = fragment.deletion_file
        # The deletion file of an earlier write names an earlier version.
        if deleted is not None and deleted.read_version == transaction.read_version:
            yield f"{place}/{deleted.path(fragment.id)}"


def require_complete(fragments: Iterable[Any], place: Path) -> None:
    """Raise when a data file of new fragments is shorter than it should be."""
    for fragment in fragments:
        for file in fragment.files:
            path = place / "data" / file.path
            if file.file_size_bytes and path.stat().st_size != file.file_size_bytes:
                text = f"{path} was written in part only: the disk is full, or a limit of file sizes is reached"
                raise Storage(text, storage_class="permanent", hint="free some space and try again")


def retract_torn(dataset: Any, place: Path) -> None:
    """Delete the newest version of a dataset if its files are incomplete. No version builds on an unreadable one."""
    version = int(dataset.version)
    try:
        require_complete(new_fragments(dataset.read_transaction(version).operation), place)
    except Storage:
        version_file(place, version).unlink()
        raise


def version_file(place: Path, version: int) -> Path:
    """The name of the manifest file of a version of a dataset; the newest one sorts first."""
    return place / version_name(version)


def version_name(version: int) -> str:
    """The path of that file within the dataset."""
    return f"_versions/{_NEWEST_NAME - version:020}.manifest"


def version_of(name: str) -> int:
    """Return the version of a manifest file, from its name without the directory."""
    return _NEWEST_NAME - int(name.removesuffix(".manifest"))
