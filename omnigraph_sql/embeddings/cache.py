"""Vectors computed before, as many as fit."""

from __future__ import annotations

import threading
from collections import OrderedDict

from omnigraph_sql.embeddings.vectors import Vectors

Key = tuple[str, str, str, int, bytes]
"""Provider, model, role, dimension and the SHA-256 of the text."""
DEFAULT_BYTES = 64 << 20
_OVERHEAD = 400
"""Bytes of a key and of the bookkeeping of an entry, about."""


class VectorCache:
    """Keeps the vectors used last, up to a number of bytes. Safe to use from several threads."""

    def __init__(self, limit: int = DEFAULT_BYTES) -> None:
        self._limit = limit
        self._size = 0
        self._entries: OrderedDict[Key, Vectors] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Key) -> Vectors | None:
        with self._lock:
            found = self._entries.get(key)
            if found is not None:
                self._entries.move_to_end(key)
            return found

    def put(self, key: Key, vector: Vectors) -> None:
        # A row of a batch would keep the whole batch alive.
        kept = vector.copy()
        kept.flags.writeable = False
        with self._lock:
            self._size -= self._cost(self._entries.pop(key, None))
            self._entries[key] = kept
            self._size += self._cost(kept)
            while self._size > self._limit:
                _, oldest = self._entries.popitem(last=False)
                self._size -= self._cost(oldest)

    def _cost(self, vector: Vectors | None) -> int:
        return 0 if vector is None else vector.nbytes + _OVERHEAD
