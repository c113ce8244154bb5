"""Where structures of table versions are kept: in files that outlive the process, if the handle may write."""

from __future__ import annotations

import json
import threading
import weakref
from collections.abc import Iterator, Mapping
from typing import Any

from omnigraph_sql.manifest.snapshot import Entry
from omnigraph_sql.storage.derived import Arrays, DerivedFile, DerivedFiles

TableVersion = tuple[str, str | None, int, str]

VERSIONS = 4
"""Files of so many versions of a table stay; a later one is made from an earlier one while rows are only added."""


def version_of(entry: Entry) -> TableVersion:
    """What tells one physical version of a table from every other; branches that share it share what is kept."""
    return entry.path, entry.branch, entry.version, entry.transaction_uuid


def key_of(*parts: Any) -> str:
    """The text of a key."""
    return json.dumps(parts)


class Shelf:
    """Derived structures of one graph. A handle that may not write keeps them in memory only."""

    def __init__(self, files: DerivedFiles, *, saves: bool) -> None:
        self._files = files
        self._saves = saves
        self._alive: weakref.WeakValueDictionary[tuple[str, str], DerivedFile] = weakref.WeakValueDictionary()
        self._lock = threading.Lock()

    def get(self, kind: str, key: str) -> DerivedFile | None:
        """What was kept under a key."""
        with self._lock:
            found = self._alive.get((kind, key))
        return found or self._hold(kind, self._files.read(kind, key))

    def _hold(self, kind: str, file: DerivedFile | None) -> DerivedFile | None:
        if file is not None:
            with self._lock:
                self._alive[kind, file.key] = file
        return file

    def earlier(self, kind: str, table: str) -> Iterator[DerivedFile]:
        """What is kept about other versions of a table: it is in the facts under `table`."""
        with self._lock:
            alive = [each for (of, _), each in self._alive.items() if of == kind]
        known = {each.key for each in alive}
        for each in (*alive, *(each for each in self._files.listing(kind) if each.key not in known)):
            if each.facts.get("table") == table:
                yield each

    def put(self, kind: str, key: str, facts: Mapping[str, Any], arrays: Arrays) -> DerivedFile:
        """Keep something. If it could be written, what is returned is mapped, so that it takes little memory."""
        found = None
        if self._saves and self._files.write(kind, key, facts, arrays):
            found = self._files.read(kind, key)
            self._prune(kind, str(facts["table"]))
        if found is None:
            found = DerivedFile(key, dict(facts), arrays, mapped=False)
        self._hold(kind, found)
        return found

    def _prune(self, kind: str, table: str) -> None:
        files = [each for each in self._files.listing(kind) if each.facts.get("table") == table]
        for each in files[VERSIONS:]:
            self._files.forget(kind, each.key)


def nbytes(file: DerivedFile) -> int:
    """What a structure takes in memory; pages of a mapped file can be dropped at any time and count for nothing."""
    return 0 if file.mapped else sum(values.nbytes for values in file.arrays.values())
