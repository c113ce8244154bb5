"""The embedding client of one open graph."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from omnigraph_sql.embeddings.client import Client, Embedder
from omnigraph_sql.embeddings.settings import is_configured, is_enabled, resolve


class Embeddings:
    """Finds out who computes vectors when that is first needed, and keeps to it.

    `embedder` is the name of a provider, an object of the caller's own, or None to leave it to the environment. Nothing is
    checked before a vector is needed, so that a graph without any needs no key.
    """

    def __init__(self, embedder: str | Embedder | None = None, *, environ: Mapping[str, str] | None = None) -> None:
        self._provider = embedder if isinstance(embedder, str) else None
        self._embedder = None if isinstance(embedder, str) else embedder
        self._environ = environ
        self._lock = threading.Lock()

    def is_on(self, embed: str | None = None) -> bool:
        """Whether a write computes the vectors it lacks. `embed` is auto, off, or None for what is configured."""
        configured = self._embedder is not None or is_configured(self._provider, environ=self._environ)
        return is_enabled(embed, configured=configured)

    def client(self) -> Embedder:
        """Who computes vectors; raises `Configuration` if nobody can."""
        with self._lock:
            if self._embedder is None:
                self._embedder = Client(resolve(self._provider, environ=self._environ))
            return self._embedder
