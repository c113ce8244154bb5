"""Search structures of one column: built from the column, kept as long as what owns it."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from omnigraph_sql.storage.analysis import ANALYSER
from omnigraph_udfs.segments import build_segment
from omnigraph_udfs.text import Part, TextIndex
from omnigraph_udfs.vector import Vectors

T = TypeVar("T")


class SearchCache:
    """Text indexes and vector matrices of the columns of live table versions."""

    def __init__(self) -> None:
        self._kept: weakref.WeakKeyDictionary[Any, dict[tuple[str, str], Any]] = weakref.WeakKeyDictionary()
        self._lock = threading.RLock()

    def text(self, owner: Any, name: str, column: Callable[[], pa.Array]) -> TextIndex:
        """The text index of a column that belongs to `owner`."""
        return self._get(owner, ("text", name), lambda: _text_index(column()))

    def vectors(self, owner: Any, name: str, column: Callable[[], pa.Array]) -> Vectors:
        """The vectors of a column that belongs to `owner`."""
        return self._get(owner, ("vectors", name), lambda: Vectors.of(column()))

    def nbytes_of(self, owner: Any) -> int:
        """What is kept for an owner, in bytes."""
        with self._lock:
            return sum(_nbytes(each) for each in self._kept.get(owner, {}).values())

    def _get(self, owner: Any, key: tuple[str, str], make: Callable[[], T]) -> T:
        with self._lock:
            kept = self._kept.setdefault(owner, {})
            if key not in kept:
                kept[key] = make()
            found: T = kept[key]
            return found


def _text_index(column: pa.Array) -> TextIndex:
    segment = build_segment(column, ANALYSER)
    return TextIndex([Part(segment, np.arange(len(column)))], size=len(column))


def _nbytes(kept: Any) -> int:
    """Of all arrays in a structure of structures."""
    if isinstance(kept, np.ndarray):
        return kept.nbytes
    if isinstance(kept, list | tuple):
        return sum(map(_nbytes, kept))
    return sum(map(_nbytes, vars(kept).values())) if hasattr(kept, "__dict__") else 0


def terms(query: str) -> list[str]:
    """The tokens of a query text, for search and scores."""
    return list(ANALYSER.terms(query))


def words(query: str) -> list[str]:
    """The tokens of a query text, for fuzzy search."""
    return list(ANALYSER.words(query))
