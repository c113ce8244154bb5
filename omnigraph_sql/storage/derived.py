"""Files that hold what can be worked out again: arrays under a key, mapped into memory and never trusted without their key.

They are no part of a publish. Deleting all of them changes speed only, so a file that cannot be read is as good as none, and
one that cannot be written is not missed.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph_sql.storage import unfinished
from omnigraph_sql.storage.names import fnv1a64_hex

DIRECTORY: Final = "_derived"
_FORMAT: Final = "1"
_SUFFIX: Final = ".arrow"

Arrays = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class DerivedFile:
    """A file as it is found: what it was made for, what is known about its arrays, and the arrays, mapped."""

    key: str
    facts: dict[str, Any]
    arrays: Arrays
    mapped: bool = True


class DerivedFiles:
    """Files of one graph, by kind and key. Those of a graph on an object store are in a local cache directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.calls: Counter[str] = Counter()

    def read(self, kind: str, key: str) -> DerivedFile | None:
        """The file made for a key; None if it is missing, broken or was made for another one."""
        self.calls["map"] += 1
        found = _mapped(self._directory / kind / _name(key))
        return found if found is not None and found.key == key else None

    def listing(self, kind: str) -> list[DerivedFile]:
        """All files of a kind that can be read, the newest first. Arrays are mapped, so that this reads little."""
        self.calls["list"] += 1
        paths = []
        with suppress(OSError):
            paths = [path for path in (self._directory / kind).iterdir() if path.suffix == _SUFFIX]
        return [each for each in map(_mapped, sorted(paths, key=_changed_at, reverse=True)) if each is not None]

    def write(self, kind: str, key: str, facts: Mapping[str, Any], arrays: Arrays) -> bool:
        """Keep arrays under a key, whole or not at all. False if the directory cannot be written."""
        self.calls["write"] += 1
        path = self._directory / kind / _name(key)
        unfinished.discard(path.parent)
        try:
            with unfinished.new_file(path.parent) as (stream, temporary):
                _write(stream, key, facts, arrays)
                stream.flush()
                os.fsync(stream.fileno())
                os.replace(temporary, path)
        except OSError:
            return False
        return True

    def unneeded(self, is_needed: Callable[[str, str], bool]) -> list[tuple[Path, int]]:
        """Files with their sizes that are for nothing: `is_needed` is told kind and key. So are those without a key."""
        self.calls["list"] += 1
        found = []
        for path in sorted(self._directory.glob(f"*/*{_SUFFIX}")):
            file = _mapped(path)
            if file is None or not is_needed(path.parent.name, file.key):
                with suppress(OSError):  # somebody else removes it
                    found.append((path, path.stat().st_size))
        return found

    def discard(self, files: Iterable[Path]) -> None:
        """Remove files; an absent one is success. Whoever has one mapped keeps it."""
        self.calls["forget"] += 1
        for path in files:
            path.unlink(missing_ok=True)

    def forget(self, kind: str, key: str) -> None:
        """Forget a file; an absent one is success. Whoever has it mapped keeps it."""
        self.calls["forget"] += 1
        with suppress(OSError):
            (self._directory / kind / _name(key)).unlink()


def derived_directory(root: str | os.PathLike[str]) -> Path:
    """Where the derived files of a graph are: in its directory, or, for one on an object store, in a local cache."""
    text = os.fspath(root)
    if "://" not in text:
        return Path(text) / DIRECTORY
    given = os.environ.get("OMNIGRAPH_CACHE_DIR")
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "omnigraph" if not given else Path(given)
    return base / fnv1a64_hex(text.rstrip("/"))


def _name(key: str) -> str:
    return fnv1a64_hex(key) + _SUFFIX


def _changed_at(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _write(stream: Any, key: str, facts: Mapping[str, Any], arrays: Arrays) -> None:
    """One row, a list for each array: so arrays of any length fit in one Arrow table."""
    metadata = {"format": _FORMAT, "key": key, "facts": json.dumps(facts)}
    columns = []
    for values in arrays.values():
        ends = np.array([0, len(values)], np.int64)
        columns.append(pa.LargeListArray.from_arrays(ends, pa.array(values)))
    batch = pa.RecordBatch.from_arrays(columns, names=list(arrays))
    schema = batch.schema.with_metadata(metadata)
    with pa.ipc.new_file(stream, schema) as writer:
        writer.write_batch(batch.replace_schema_metadata(metadata))


def _mapped(path: Path) -> DerivedFile | None:
    try:
        reader = pa.ipc.open_file(pa.memory_map(str(path)))
        metadata = {name.decode(): value.decode() for name, value in (reader.schema.metadata or {}).items()}
        if metadata.get("format") != _FORMAT or reader.num_record_batches != 1:
            return None
        batch = reader.get_batch(0)
        arrays = {name: column.values.to_numpy() for name, column in zip(batch.schema.names, batch.columns, strict=True)}
        return DerivedFile(metadata["key"], json.loads(metadata["facts"]), arrays)
    except (OSError, pa.ArrowException, KeyError, ValueError, AttributeError):
        return None
