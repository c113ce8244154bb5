"""What is asked of a store about the files that Lance wrote to it: whether they are whole, and whether they will stay."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol

from omnigraph_sql.storage import durability, wholeness
from omnigraph_sql.storage.wholeness import version_name


class DatasetFiles(Protocol):
    """The files of the datasets under a root; a dataset is named by its path, with its branch if it is on one."""

    def require_whole(self, name: str, fragments: Iterable[Any]) -> None:
        """Raise when a data file of new fragments is shorter than it should be."""

    def retract_torn(self, name: str, dataset: Any) -> None:
        """Take back the newest version of a dataset if its files are not whole."""

    def flush_version(self, name: str, dataset: Any, calls: Counter[str]) -> None:
        """Flush what the version of a dataset added, if that is asked for; counts under `fsync`."""

    def flush_objects(self, names: Iterable[str], calls: Counter[str]) -> None:
        """Flush objects that Lance wrote beside a version, if that is asked for."""

    def is_newest(self, name: str, version: int) -> bool:
        """Whether names alone show that no version of a dataset came after this one; False where looking costs a request."""


class LocalFiles:
    """Files in a directory: a full disk may cut them short, and the operating system writes them when it likes."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def require_whole(self, name: str, fragments: Iterable[Any]) -> None:
        wholeness.require_whole(fragments, self._root / name)

    def retract_torn(self, name: str, dataset: Any) -> None:
        wholeness.retract_torn(dataset, self._root / name)

    def flush_version(self, name: str, dataset: Any, calls: Counter[str]) -> None:
        durability.flush_version(dataset, int(dataset.version), self._root / name, self._root, calls)

    def flush_objects(self, names: Iterable[str], calls: Counter[str]) -> None:
        durability.flush_files((self._root / name for name in names), self._root, calls)

    def is_newest(self, name: str, version: int) -> bool:
        # Versions follow one another without a gap, and the file of one appears in the moment it lands.
        place = f"{self._root}/{name}"
        is_last = not os.path.exists(f"{place}/{version_name(version + 1)}")
        return is_last and os.path.exists(f"{place}/{version_name(version)}")


class AcknowledgedFiles:
    """Objects of a store that answers a write only when the object is there as a whole, and kept: nothing is left to do."""

    def require_whole(self, name: str, fragments: Iterable[Any]) -> None:
        pass

    def retract_torn(self, name: str, dataset: Any) -> None:
        pass

    def flush_version(self, name: str, dataset: Any, calls: Counter[str]) -> None:
        pass

    def flush_objects(self, names: Iterable[str], calls: Counter[str]) -> None:
        pass

    def is_newest(self, name: str, version: int) -> bool:  # noqa: ARG002 (of the protocol)
        return False
