"""Derived state: Arrow files under `_derived/` that can be made anew from the tables at any time.

A file is mapped, not read, and carries the whole key of what it was made from; the name is only a hash of it. A file that is
missing, damaged or has another key does not count. Deleting all of them changes speed only.
"""

from __future__ import annotations

import os
import tempfile
import warnings
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa

from omnigraph_sql.storage.names import fnv1a64_hex
from omnigraph_sql.storage.objects import ObjectStore

__all__ = ["DerivedFiles", "read_arrow", "write_arrow"]

DIRECTORY: Final = "_derived"
_KEY: Final = b"omnigraph.key"


def read_arrow(path: Path, key: str) -> pa.Table | None:
    """The table of a file, mapped into memory; None unless it is whole and was written with this key."""
    try:
        reader = pa.ipc.open_file(pa.memory_map(str(path)))
        if (reader.schema.metadata or {}).get(_KEY) != key.encode():
            return None
        return reader.read_all()
    except (OSError, pa.ArrowInvalid):  # missing, empty, cut short, or no Arrow file at all
        return None


def write_arrow(path: Path, key: str, table: pa.Table) -> None:
    """Write a table with its key. A reader sees the whole file or none; of two writers the last one stays."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=".tmp-", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            schema = table.schema.with_metadata({_KEY: key.encode()})
            with pa.ipc.new_file(stream, schema) as writer:
                writer.write_table(table.replace_schema_metadata(schema.metadata))
            stream.flush()
            os.fsync(stream.fileno())  # or a power cut could leave a named file with holes in it
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


@dataclass(frozen=True)
class DerivedFiles:
    """The derived files of a graph root. A handle that may not write keeps none, but reads those that are there."""

    objects: ObjectStore
    may_write: bool

    def path(self, kind: str, key: str) -> Path:
        """Where the file of a key is, whether it exists or not."""
        return self.objects.path(f"{DIRECTORY}/{kind}/{fnv1a64_hex(key)}.arrow")

    def read(self, kind: str, key: str) -> pa.Table | None:
        """What was kept under a key."""
        return read_arrow(self.path(kind, key), key)

    def keep(self, kind: str, key: str, table: pa.Table) -> pa.Table:
        """Write a table if this handle may; what comes back is mapped from the file then."""
        if not self.may_write:
            return table
        path = self.path(kind, key)
        try:
            write_arrow(path, key, table)
        except OSError as error:  # a full disk is no reason to fail a query that has its answer
            warnings.warn(f"{path} could not be kept: {error.strerror or error}", RuntimeWarning, stacklevel=2)
            return table
        kept = read_arrow(path, key)
        return table if kept is None else kept
