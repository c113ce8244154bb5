"""Files of Lance in a store: whether they are complete, and making them durable."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from omnigraph_sql.storage import durability, integrity
from omnigraph_sql.storage.integrity import version_name

FileMark: TypeAlias = tuple[int, int, int]
"""Identifies the content of a file: its inode, modification time and size."""


class DatasetFiles(Protocol):
    """The files of the datasets under a root; a dataset is named by its path, with its branch if it is on one."""

    def require_whole(self, name: str, fragments: Iterable[Any]) -> None:
        """Raise when a data file of new fragments is shorter than it should be."""

    def retract_torn(self, name: str, dataset: Any) -> None:
        """Delete the newest version of a dataset if its files are incomplete."""

    def flush_version(self, name: str, dataset: Any, calls: Counter[str]) -> None:
        """Flush the files that a version of a dataset added, if `OMNIGRAPH_FSYNC` is set; counts under `fsync`."""

    def flush_objects(self, names: Iterable[str], calls: Counter[str]) -> None:
        """Flush objects that Lance wrote beside a version, if `OMNIGRAPH_FSYNC` is set."""

    def is_newest(self, name: str, version: int, mark: FileMark) -> bool:
        """True if the file of a version has this mark, and the version is the newest one of the dataset."""

    def mark_of(self, name: str, version: int, containing: str = "") -> FileMark | None:
        """Return the mark of the file of a version; None where that costs a request, or if the file lacks a text."""


class LocalFiles:
    """Files in a directory: a full disk may truncate them, and the operating system delays their writing."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def require_whole(self, name: str, fragments: Iterable[Any]) -> None:
        integrity.require_complete(fragments, self._root / name)

    def retract_torn(self, name: str, dataset: Any) -> None:
        integrity.retract_torn(dataset, self._root / name)

    def flush_version(self, name: str, dataset: Any, calls: Counter[str]) -> None:
        durability.flush_version(dataset, int(dataset.version), self._root / name, self._root, calls)

    def flush_objects(self, names: Iterable[str], calls: Counter[str]) -> None:
        durability.flush_files((self._root / name for name in names), self._root, calls)

    def is_newest(self, name: str, version: int, mark: FileMark) -> bool:
        # Version numbers have no gaps, and the file of a version appears at the moment of its commit.
        if os.path.exists(f"{self._root}/{name}/{version_name(version + 1)}"):
            return False
        return self.mark_of(name, version) == mark

    def mark_of(self, name: str, version: int, containing: str = "") -> FileMark | None:
        path = f"{self._root}/{name}/{version_name(version)}"
        try:
            status = os.stat(path)
            if containing and containing.encode() not in Path(path).read_bytes():
                return None
        except OSError:
            return None
        return (status.st_ino, status.st_mtime_ns, status.st_size)


class AcknowledgedFiles:
    """Objects of a store that acknowledges a write only when the object is complete and durable: nothing is left to do."""

    def require_whole(self, name: str, fragments: Iterable[Any]) -> None:
        pass

    def retract_torn(self, name: str, dataset: Any) -> None:
        pass

    def flush_version(self, name: str, dataset: Any, calls: Counter[str]) -> None:
        pass

    def flush_objects(self, names: Iterable[str], calls: Counter[str]) -> None:
        pass

    def is_newest(self, name: str, version: int, mark: FileMark) -> bool:  # noqa: ARG002 (of the protocol)
        return False

    def mark_of(self, name: str, version: int, containing: str = "") -> FileMark | None:  # noqa: ARG002 (of the protocol)
        return None
