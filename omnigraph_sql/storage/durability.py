"""Flushing of the files of a publish to disk, with `OMNIGRAPH_FSYNC=1`.

Lance does not flush its files, and the operating system delays their writing: a commit survives the death of the process,
but not necessarily a power failure. With the setting, the files that a new version of a dataset added, and the directories
that name them, are flushed before the caller continues.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from omnigraph_sql.storage.error_translation import translate
from omnigraph_sql.storage.integrity import new_fragments, version_file

FSYNC: Final = "OMNIGRAPH_FSYNC"


def flush_version(dataset: Any, version: int, place: Path, root: Path, calls: Counter[str]) -> None:
    """Flush what the version of a dataset added at `place`, a directory of the graph `root`."""
    if _is_on():
        _flush((place / name for name in _added(dataset, version, place)), root, calls)


def flush_files(files: Iterable[Path], root: Path, calls: Counter[str]) -> None:
    """Flush files of a graph that Lance wrote beside a version."""
    if _is_on():
        _flush(files, root, calls)


def flush_directory(directory: Path, root: Path, calls: Counter[str]) -> None:
    """Flush a directory and its parents, after a file whose content is on disk was renamed or linked into it."""
    if _is_on():
        _flush_directories([directory], root, calls)


def _is_on() -> bool:
    return os.environ.get(FSYNC) == "1"


def _added(dataset: Any, version: int, place: Path) -> Iterator[str]:
    """Return the names of the files that a version added: rows, deletions, indexes, transaction and manifest."""
    transaction = dataset.read_transaction(version)
    operation = transaction.operation
    for fragment in new_fragments(operation):
        for file in fragment.files:
            yield f"data/{file.path}"
            yield from _inside(place, f"data/{file.path.removesuffix('.lance')}")  # large blobs have files of their own
    for fragment in getattr(operation, "updated_fragments", ()):
        if fragment.deletion_file is not None:
            yield fragment.deletion_file.path(fragment.id)
    for index in getattr(operation, "new_indices", ()):
        yield from _inside(place, f"_indices/{index.uuid}")
    yield from _inside(place, f"_transactions/{transaction.read_version}-{transaction.uuid}.txn")
    yield str(version_file(place, version).relative_to(place))


def _inside(place: Path, name: str) -> Iterator[str]:
    """Yield a file, or the files of a directory; nothing if it does not exist."""
    if (place / name).is_dir():
        yield from (f"{name}/{child.name}" for child in (place / name).iterdir())
    elif (place / name).exists():
        yield name


def _flush(files: Iterable[Path], root: Path, calls: Counter[str]) -> None:
    parents: dict[Path, None] = {}
    for file in files:
        _sync(file, calls)
        parents[file.parent] = None
    _flush_directories(parents, root, calls)


def _flush_directories(directories: Iterable[Path], root: Path, calls: Counter[str]) -> None:
    """Flush directories of the graph and all above them up to its root, the deepest first."""
    all_directories: set[Path] = set()
    for directory in directories:
        ancestors = [directory, *directory.parents]
        all_directories.update(ancestors[: ancestors.index(root) + 1])
    for directory in sorted(all_directories, key=lambda path: (-len(path.parts), path)):
        _sync(directory, calls)


def _sync(path: Path, calls: Counter[str]) -> None:
    try:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise translate(error, str(path)) from error
    calls["fsync"] += 1
