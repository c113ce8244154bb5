"""Text and vector search indexes of the columns of table versions.

An index consists of derived files, each for a group of adjacent fragments, and of the positions of their rows in the version
of the table.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Hashable, Iterator
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph_sql.manifest.snapshot import Entry
from omnigraph_sql.search.fragment_groups import FragmentGroup, grouped, key_of, positions_of
from omnigraph_sql.search.search_forms import TEXT, VECTOR, SearchForm
from omnigraph_sql.storage.analysis import ANALYSER
from omnigraph_sql.storage.fragments import fragment_infos, stored_values
from omnigraph_sql.storage.handles import SnapshotHandle
from omnigraph_sql.storage.tables import TableStorage
from omnigraph_udfs.text import Part, TextIndex
from omnigraph_udfs.vector_index import VectorIndex, VectorPart

__all__ = ["Progress", "SearchCache", "terms", "words"]

T = TypeVar("T")
P = TypeVar("P")
Progress = Callable[[int, int], None]
"""A callback with the number of finished rows and of all rows."""


class SearchSource(Protocol):
    """A version of a table. Its indexes are freed together with it."""

    entry: Entry


def _silent(ready: int, rows: int) -> None:
    del ready, rows


class _ProgressCounter:
    """Counts finished rows and reports progress."""

    def __init__(self, rows: int, progress: Progress) -> None:
        self.read = 0
        self._ready = 0
        self._rows = rows
        self._progress = progress

    def finish(self, rows: int) -> None:
        self._ready += rows
        self._progress(self._ready, self._rows)

    def counted(self, values: Iterator[pa.Array]) -> Iterator[pa.Array]:
        for array in values:
            yield array
            self.read += len(array)
            self.finish(len(array))


class SearchCache:
    """Text and vector indexes of the columns of live table versions. Thread-safe."""

    def __init__(self, storage: TableStorage, *, saves: bool) -> None:
        self._storage = storage
        self._saves = saves
        self._indexes: weakref.WeakKeyDictionary[SearchSource, dict[Hashable, Any]] = weakref.WeakKeyDictionary()
        self._parts: weakref.WeakValueDictionary[str, Any] = weakref.WeakValueDictionary()
        self._lock = threading.Lock()
        self._building: dict[Hashable, threading.Lock] = {}
        self.made = 0
        """The number of requests; memory may grow with each of them."""

    def text(self, owner: SearchSource, column: str) -> TextIndex:
        """Return the text index of a column."""
        return self._get(owner, ("text", column), lambda: self._text(owner.entry, column))

    def vectors(self, owner: SearchSource, column: str) -> VectorIndex:
        """Return the vector index of a column."""
        return self._get(owner, ("vector", column), lambda: self._vectors(owner.entry, column))

    def nbytes_of(self, owner: Any) -> int:
        """Return the memory of the indexes of an owner in bytes, without mapped files."""
        with self._lock:
            return sum(_nbytes(index) for index in self._indexes.get(owner, {}).values())

    def prepare_text(self, entry: Entry, column: str, progress: Progress = _silent) -> int:
        """Build and store the files of text search on a column; return the number of rows read."""
        return self._groups(TEXT, entry, column, progress)[2]

    def prepare_vectors(self, entry: Entry, column: str, progress: Progress = _silent) -> int:
        """Build and store the files of vector search on a column; return the number of rows read."""
        return self._groups(VECTOR, entry, column, progress)[2]

    def _text(self, entry: Entry, column: str) -> TextIndex:
        groups, parts, _ = self._groups(TEXT, entry, column)
        placed = [Part(part, places) for part, places in zip(parts, positions_of(groups), strict=True)]
        return TextIndex(placed, size=entry.row_count)

    def _vectors(self, entry: Entry, column: str) -> VectorIndex:
        groups, parts, _ = self._groups(VECTOR, entry, column)
        placed = [VectorPart(part, places) for part, places in zip(parts, positions_of(groups), strict=True)]
        return VectorIndex(placed, size=entry.row_count)

    def _groups(
        self, form: SearchForm[P], entry: Entry, column: str, progress: Progress = _silent
    ) -> tuple[list[FragmentGroup], list[P], int]:
        handle = self._storage.open(entry)
        groups = grouped(fragment_infos(handle, column))
        counter = _ProgressCounter(sum(group.rows for group in groups), progress)
        parts = [self._part(form, handle, column, group, counter) for group in groups]
        return groups, parts, counter.read

    def _part(
        self, form: SearchForm[P], handle: SnapshotHandle, column: str, group: FragmentGroup, counter: _ProgressCounter
    ) -> P:
        key = key_of(group, form.name, handle.path)
        part = self._stored(form, key, group.rows)
        if part is not None:
            counter.finish(group.rows)
            return part
        pieces = []
        for subgroup, stored in self._pieces(form, handle.path, group):
            if stored is not None:
                counter.finish(subgroup.rows)
                pieces.append(stored)
            else:
                values = stored_values(handle, column, [fragment.id for fragment in subgroup.fragments])
                pieces.append(form.build(counter.counted(values), subgroup.rows))
        whole = form.combine(pieces)
        if self._saves and self._storage.derived.write(form.kind, key, {"table": handle.path}, form.write(whole)):
            part = self._stored(form, key, group.rows)  # mapped, so that it uses little memory
        if part is None:
            part = self._parts[key] = whole
        return part

    def _stored(self, form: SearchForm[P], key: str, rows: int) -> P | None:
        loaded: P | None = self._parts.get(key)
        if loaded is not None:
            return loaded
        file = self._storage.derived.read(form.kind, key)
        if file is None:
            return None
        try:
            part = form.read(file.arrays)
        except (KeyError, ValueError, IndexError):  # the content does not match the key: rebuild it
            return None
        if form.size(part) != rows:
            return None
        self._parts[key] = part
        return part

    def _pieces(self, form: SearchForm[P], path: str, group: FragmentGroup) -> Iterator[tuple[FragmentGroup, P | None]]:
        """Yield the pieces of a group: stored parts, and between them runs of fragments to read."""
        unread: list[Any] = []
        for fragments_, stored in self._descend(form, path, group):
            if stored is None:
                unread += fragments_
                continue
            if unread:
                yield FragmentGroup(tuple(unread)), None
                unread = []
            yield FragmentGroup(fragments_), stored
        if unread:
            yield FragmentGroup(tuple(unread)), None

    def _descend(self, form: SearchForm[P], path: str, group: FragmentGroup) -> Iterator[tuple[tuple[Any, ...], P | None]]:
        if not group.parts:
            yield group.fragments, None
            return
        for part in group.parts:
            stored = self._stored(form, key_of(part, form.name, path), part.rows)
            if stored is not None:
                yield part.fragments, stored
            else:
                yield from self._descend(form, path, part)

    def _get(self, owner: SearchSource, key: Hashable, make: Callable[[], T]) -> T:
        """Return an index of an owner. Different columns are built concurrently, each only once."""
        with self._lock:
            self.made += 1
            indexes = self._indexes.setdefault(owner, {})
            turn = self._building.setdefault((id(owner), key), threading.Lock())
        with turn:
            if key not in indexes:
                indexes[key] = make()
            index: T = indexes[key]
        with self._lock:
            self._building.pop((id(owner), key), None)
        return index


def _nbytes(value: Any) -> int:
    """Return the memory of all arrays in a nested structure that are not mapped."""
    if isinstance(value, np.ndarray):
        return 0 if _is_mapped(value) else value.nbytes
    if isinstance(value, list | tuple):
        return sum(map(_nbytes, value))
    return sum(map(_nbytes, vars(value).values())) if hasattr(value, "__dict__") else 0


def _is_mapped(array: npt.NDArray[Any]) -> bool:
    """Return True if the memory is an Arrow buffer, as of mapped files; built arrays own their memory."""
    base: Any = array
    while isinstance(base, np.ndarray) and base.base is not None:
        base = base.base
    return not isinstance(base, np.ndarray)


def terms(query: str) -> list[str]:
    """Return the tokens of a query text, for search and scores."""
    return list(ANALYSER.terms(query))


def words(query: str) -> list[str]:
    """Return the tokens of a query text, for fuzzy search."""
    return list(ANALYSER.words(query))
