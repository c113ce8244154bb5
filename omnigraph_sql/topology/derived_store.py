"""Storage of derived structures of table versions: in files if the handle may write, else in memory."""

from __future__ import annotations

import json
import threading
import weakref
from collections.abc import Mapping
from typing import Any

from omnigraph_sql.manifest.snapshot import Entry
from omnigraph_sql.storage.derived_files import Arrays, DerivedFile, DerivedFiles, Description

TableVersion = tuple[str, str | None, int, str]

VERSIONS = 4
"""The number of versions of a table whose files are kept; append-only versions are derived from earlier ones."""


def version_of(entry: Entry) -> TableVersion:
    """Return the identity of a physical table version; branches that share it share its derived structures."""
    return entry.path, entry.branch, entry.version, entry.transaction_uuid


def key_of(*parts: Any) -> str:
    """Return the text of a key."""
    return json.dumps(parts)


class DerivedStore:
    """Derived structures of one graph. A handle that may not write keeps them in memory only."""

    def __init__(self, files: DerivedFiles, *, saves: bool) -> None:
        self._files = files
        self._saves = saves
        self._alive: weakref.WeakValueDictionary[tuple[str, str], DerivedFile] = weakref.WeakValueDictionary()
        self._lock = threading.Lock()

    def get(self, kind: str, key: str) -> DerivedFile | None:
        """Return the structure stored under a key, or None."""
        with self._lock:
            alive = self._alive.get((kind, key))
        return alive or self._hold(kind, self._files.read(kind, key))

    def _hold(self, kind: str, file: DerivedFile | None) -> DerivedFile | None:
        if file is not None:
            with self._lock:
                self._alive[kind, file.key] = file
        return file

    def earlier(self, kind: str, table: str) -> list[Description]:
        """Return descriptions of the structures of other versions of a table. `get` loads their arrays."""
        with self._lock:
            alive = [Description(file.key, file.facts) for (of, _), file in self._alive.items() if of == kind]
        alive_keys = {file.key for file in alive}
        others = [file for file in self._files.listing(kind) if file.key not in alive_keys]
        return [file for file in (*alive, *others) if file.facts.get("table") == table]

    def put(self, kind: str, key: str, facts: Mapping[str, Any], arrays: Arrays) -> DerivedFile:
        """Store a structure. If it is written to a file, the result is mapped and uses little memory."""
        file = None
        if self._saves and self._files.write(kind, key, facts, arrays):
            file = self._files.read(kind, key)
            self._prune(kind, str(facts["table"]))
        if file is None:
            file = DerivedFile(key, dict(facts), arrays, mapped=False)
        self._hold(kind, file)
        return file

    def _prune(self, kind: str, table: str) -> None:
        files = [file for file in self._files.listing(kind) if file.facts.get("table") == table]
        for file in files[VERSIONS:]:
            self._files.forget(kind, file.key)


def nbytes(file: DerivedFile) -> int:
    """Return the memory of a structure in bytes; a mapped file counts as 0, since its pages can be dropped at any time."""
    return 0 if file.mapped else sum(values.nbytes for values in file.arrays.values())
