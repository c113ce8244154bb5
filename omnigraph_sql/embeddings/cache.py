"""The LRU cache of computed vectors."""

from __future__ import annotations

from omnigraph_sql.caches import LruCache
from omnigraph_sql.embeddings.vectors import Vectors

Key = tuple[str, str, str, int, bytes]
"""Provider, model, role, dimension and the SHA-256 of the text."""
DEFAULT_BYTES = 64 << 20
_OVERHEAD = 400
"""The approximate overhead of an entry, in bytes."""


class VectorCache:
    """The most recently used vectors, up to a number of bytes. Thread-safe."""

    def __init__(self, limit: int = DEFAULT_BYTES) -> None:
        self._entries: LruCache[Key, Vectors] = LruCache(limit, lambda vector: vector.nbytes + _OVERHEAD)

    def get(self, key: Key) -> Vectors | None:
        return self._entries.peek(key)

    def put(self, key: Key, vector: Vectors) -> None:
        # A row of a batch would keep the whole batch alive.
        copy = vector.copy()
        copy.flags.writeable = False
        self._entries.put(key, copy)
