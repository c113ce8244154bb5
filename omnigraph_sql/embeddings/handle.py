"""The embedding client of one open graph."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from omnigraph_sql.arguments import checked, mapping, optional, text
from omnigraph_sql.embeddings.client import Client, Embedder, embedder
from omnigraph_sql.embeddings.settings import is_configured, is_enabled, resolve


class Embeddings:
    """Resolves the embedding provider on first use and caches it.

    `embedder` is the name of a provider, a custom embedder, or None to read the environment. Nothing is checked before the
    first vector is needed, so a graph without vectors needs no key.
    """

    @checked(embedder=optional(embedder), environ=optional(mapping))
    def __init__(self, embedder: str | Embedder | None = None, *, environ: Mapping[str, str] | None = None) -> None:
        self._provider = embedder if isinstance(embedder, str) else None
        self._embedder = None if isinstance(embedder, str) else embedder
        self.name = "<object>" if self._embedder is not None else self._provider
        """The name to pass to another process."""
        self._environ = environ
        self._lock = threading.Lock()

    @checked(embed=optional(text))
    def is_on(self, embed: str | None = None) -> bool:
        """Return True if a write computes missing vectors. `embed` is auto, off, or None for the configuration."""
        configured = self._embedder is not None or is_configured(self._provider, environ=self._environ)
        return is_enabled(embed, configured=configured)

    def client(self) -> Embedder:
        """Return the embedder; raises `Configuration` if no provider is configured."""
        with self._lock:
            if self._embedder is None:
                self._embedder = Client(resolve(self._provider, environ=self._environ))
            return self._embedder
