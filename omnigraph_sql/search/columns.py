"""Text and vector columns of table versions, ready for search.

What is made from a column is kept as files beside the graph, one for some neighbouring fragments each. A version of a table
adds where their rows stand in it.
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
from omnigraph_sql.search.forms import TEXT, VECTOR, Form
from omnigraph_sql.search.groups import Group, grouped, key_of, positions_of
from omnigraph_sql.storage.analysis import ANALYSER
from omnigraph_sql.storage.fragments import fragments, stored_values
from omnigraph_sql.storage.handles import SnapshotHandle
from omnigraph_sql.storage.tables import TableStorage
from omnigraph_udfs.nearness import VectorIndex, VectorPart
from omnigraph_udfs.text import Part, TextIndex

__all__ = ["Progress", "SearchCache", "terms", "words"]

T = TypeVar("T")
P = TypeVar("P")
Progress = Callable[[int, int], None]
"""Called with the number of rows that are ready, and of all rows."""


class Owner(Protocol):
    """A version of a table. What is made for it goes when it goes."""

    entry: Entry


def _silent(ready: int, rows: int) -> None:
    del ready, rows


class _Watch:
    """Counts rows that are ready, and says so."""

    def __init__(self, rows: int, progress: Progress) -> None:
        self.read = 0
        self._ready = 0
        self._rows = rows
        self._progress = progress

    def found(self, rows: int) -> None:
        self._ready += rows
        self._progress(self._ready, self._rows)

    def reading(self, values: Iterator[pa.Array]) -> Iterator[pa.Array]:
        for array in values:
            yield array
            self.read += len(array)
            self.found(len(array))


class SearchCache:
    """Text and vector indexes of the columns of live table versions. Safe to use from several threads."""

    def __init__(self, storage: TableStorage, *, saves: bool) -> None:
        self._storage = storage
        self._saves = saves
        self._kept: weakref.WeakKeyDictionary[Owner, dict[Hashable, Any]] = weakref.WeakKeyDictionary()
        self._parts: weakref.WeakValueDictionary[str, Any] = weakref.WeakValueDictionary()
        self._lock = threading.Lock()
        self._building: dict[Hashable, threading.Lock] = {}
        self.made = 0
        """How often anything was asked for: what is kept may grow when it is used."""

    def text(self, owner: Owner, column: str) -> TextIndex:
        """The text index of a column."""
        return self._get(owner, ("text", column), lambda: self._text(owner.entry, column))

    def vectors(self, owner: Owner, column: str) -> VectorIndex:
        """The vectors of a column."""
        return self._get(owner, ("vector", column), lambda: self._vectors(owner.entry, column))

    def nbytes_of(self, owner: Any) -> int:
        """What is kept for an owner, in bytes; what is mapped from files is not counted."""
        with self._lock:
            return sum(_nbytes(each) for each in self._kept.get(owner, {}).values())

    def prepare_text(self, entry: Entry, column: str, progress: Progress = _silent) -> int:
        """Make and keep what text search on a column needs; returns how many rows had to be read."""
        return self._groups(TEXT, entry, column, progress)[2]

    def prepare_vectors(self, entry: Entry, column: str, progress: Progress = _silent) -> int:
        """Make and keep what ranking by a vector column needs; returns how many rows had to be read."""
        return self._groups(VECTOR, entry, column, progress)[2]

    def _text(self, entry: Entry, column: str) -> TextIndex:
        groups, parts, _ = self._groups(TEXT, entry, column)
        made = [Part(part, places) for part, places in zip(parts, positions_of(groups), strict=True)]
        return TextIndex(made, size=entry.row_count)

    def _vectors(self, entry: Entry, column: str) -> VectorIndex:
        groups, parts, _ = self._groups(VECTOR, entry, column)
        made = [VectorPart(part, places) for part, places in zip(parts, positions_of(groups), strict=True)]
        return VectorIndex(made, size=entry.row_count)

    def _groups(
        self, form: Form[P], entry: Entry, column: str, progress: Progress = _silent
    ) -> tuple[list[Group], list[P], int]:
        handle = self._storage.open_at(entry.path, entry.branch, entry.version, entry.transaction_uuid)
        groups = grouped(fragments(handle, column))
        watch = _Watch(sum(group.rows for group in groups), progress)
        parts = [self._part(form, handle, column, group, watch) for group in groups]
        return groups, parts, watch.read

    def _part(self, form: Form[P], handle: SnapshotHandle, column: str, group: Group, watch: _Watch) -> P:
        key = key_of(group, form.name, handle.path)
        found = self._known(form, key, group.rows)
        if found is not None:
            watch.found(group.rows)
            return found
        made = []
        for some, known in self._pieces(form, handle.path, group):
            if known is not None:
                watch.found(some.rows)
                made.append(known)
            else:
                values = stored_values(handle, column, [each.id for each in some.fragments])
                made.append(form.build(watch.reading(values), some.rows))
        whole = form.combine(made)
        if self._saves and self._storage.derived.write(form.kind, key, {"table": handle.path}, form.write(whole)):
            found = self._known(form, key, group.rows)  # mapped, so that it takes little memory
        if found is None:
            found = self._parts[key] = whole
        return found

    def _known(self, form: Form[P], key: str, rows: int) -> P | None:
        kept: P | None = self._parts.get(key)
        if kept is not None:
            return kept
        file = self._storage.derived.read(form.kind, key)
        if file is None:
            return None
        try:
            found = form.read(file.arrays)
        except (KeyError, ValueError, IndexError):  # the key fits, the content does not: made anew
            return None
        if form.size(found) != rows:
            return None
        self._parts[key] = found
        return found

    def _pieces(self, form: Form[P], path: str, group: Group) -> Iterator[tuple[Group, P | None]]:
        """What a group can be put together from: parts that are known, and between them runs of fragments to read."""
        unread: list[Any] = []
        for fragments_, known in self._descend(form, path, group):
            if known is None:
                unread += fragments_
                continue
            if unread:
                yield Group(tuple(unread)), None
                unread = []
            yield Group(fragments_), known
        if unread:
            yield Group(tuple(unread)), None

    def _descend(self, form: Form[P], path: str, group: Group) -> Iterator[tuple[tuple[Any, ...], P | None]]:
        if not group.parts:
            yield group.fragments, None
            return
        for part in group.parts:
            known = self._known(form, key_of(part, form.name, path), part.rows)
            if known is not None:
                yield part.fragments, known
            else:
                yield from self._descend(form, path, part)

    def _get(self, owner: Owner, key: Hashable, make: Callable[[], T]) -> T:
        """What is kept for an owner. Different columns are made at the same time, each of them once."""
        with self._lock:
            self.made += 1
            kept = self._kept.setdefault(owner, {})
            turn = self._building.setdefault((id(owner), key), threading.Lock())
        with turn:
            if key not in kept:
                kept[key] = make()
            found: T = kept[key]
        with self._lock:
            self._building.pop((id(owner), key), None)
        return found


def _nbytes(kept: Any) -> int:
    """Of all arrays in a structure of structures that own their memory."""
    if isinstance(kept, np.ndarray):
        return 0 if _is_mapped(kept) else kept.nbytes
    if isinstance(kept, list | tuple):
        return sum(map(_nbytes, kept))
    return sum(map(_nbytes, vars(kept).values())) if hasattr(kept, "__dict__") else 0


def _is_mapped(array: npt.NDArray[Any]) -> bool:
    """Whether the memory is that of an Arrow buffer: those of files are, whatever is built is NumPy's own."""
    base: Any = array
    while isinstance(base, np.ndarray) and base.base is not None:
        base = base.base
    return not isinstance(base, np.ndarray)


def terms(query: str) -> list[str]:
    """The tokens of a query text, for search and scores."""
    return list(ANALYSER.terms(query))


def words(query: str) -> list[str]:
    """The tokens of a query text, for fuzzy search."""
    return list(ANALYSER.words(query))
