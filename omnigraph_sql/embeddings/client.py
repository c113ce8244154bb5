"""The embedding client: texts in, vectors out, whoever computes them."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Protocol

import numpy as np

from omnigraph_sql.embeddings.cache import DEFAULT_BYTES, Key, VectorCache
from omnigraph_sql.embeddings.calling import Caller
from omnigraph_sql.embeddings.mock import mock_vectors
from omnigraph_sql.embeddings.providers import DIALECTS, Role, read_answer
from omnigraph_sql.embeddings.settings import MOCK, Settings
from omnigraph_sql.embeddings.vectors import UnusableVector, Vectors, normalised
from omnigraph_sql.errors import BadRequest, EmbeddingFailed

REQUEST_BYTES = 256 << 10
"""Of all texts in one request, unless a single one is longer: providers limit the tokens of a request, too."""
_CALLS_AT_ONCE = 4
_MOCK_TEXTS = 1024
_BYTES_PER_NUMBER = 40
_BYTES_BESIDES = 1 << 20


class Embedder(Protocol):
    """Computes vectors. `Client` is one; `connect` also takes any other object of this shape."""

    @property
    def provider(self) -> str:
        """The name of whoever computes them."""

    @property
    def model(self) -> str:
        """The name of the model, which a schema may have recorded in `@embed`."""

    def embed(self, texts: Sequence[str], *, dimension: int, role: Role = "document") -> Vectors:
        """One row per text."""


class Client:
    """Computes vectors with a provider. Safe to use from several threads.

    >>> from omnigraph_sql.embeddings import Client, resolve
    >>> client = Client(resolve("mock"))
    >>> print(client.embed(["tides", "locks", "tides"], dimension=2))
    [[ 0.5666018   0.8239918 ]
     [ 0.85674137 -0.5157463 ]
     [ 0.5666018   0.8239918 ]]
    """

    def __init__(self, settings: Settings, *, cache_bytes: int = DEFAULT_BYTES) -> None:
        self._settings = settings
        self._cache = VectorCache(cache_bytes)
        self._caller = Caller(settings)

    def __repr__(self) -> str:
        return f"Client({self._settings!r})"

    @property
    def provider(self) -> str:
        """The provider's name."""
        return self._settings.provider

    @property
    def model(self) -> str:
        """The model's name."""
        return self._settings.model

    def embed(self, texts: Sequence[str], *, dimension: int, role: Role = "document") -> Vectors:
        """The vectors of the texts: float32, one row each, of length 1.

        Equal texts are asked for once, and those asked for lately not at all. The deadline of the settings holds for each
        request to the provider, of up to 64 texts, with its repetitions. Raises `EmbeddingFailed`.
        """
        keys = {text: self._key(text, dimension, role) for text in texts}
        found = {text: vector for text, key in keys.items() if (vector := self._cache.get(key)) is not None}
        missing = [text for text in keys if text not in found]
        batches = list(self._batches(missing))
        for batch, vectors in zip(batches, self._compute(batches, dimension, role), strict=True):
            for text, vector in zip(batch, vectors, strict=True):
                self._cache.put(keys[text], vector)
                found[text] = vector
        return np.stack([found[text] for text in texts]) if keys else np.empty((0, dimension), np.float32)

    def close(self) -> None:
        """Close the connections to the provider; the next call opens new ones."""
        self._caller.close()

    def _key(self, text: str, dimension: int, role: Role) -> Key:
        try:
            digest = hashlib.sha256(text.encode()).digest()
        except UnicodeEncodeError:
            raise BadRequest("a text to embed holds half of a surrogate pair, which is no character") from None
        return self.provider, self.model, role, dimension, digest

    def _batches(self, texts: Sequence[str]) -> Iterator[list[str]]:
        most = _MOCK_TEXTS if self.provider == MOCK else DIALECTS[self.provider].texts_per_request
        batch: list[str] = []
        size = 0
        for text in texts:
            length = len(text.encode())
            if batch and (len(batch) == most or size + length > REQUEST_BYTES):
                yield batch
                batch, size = [], 0
            batch.append(text)
            size += length
        if batch:
            yield batch

    def _compute(self, batches: Sequence[Sequence[str]], dimension: int, role: Role) -> Iterator[Vectors]:
        stop = threading.Event()
        compute = partial(self._mocked, dimension) if self.provider == MOCK else partial(self._asked, dimension, role, stop)
        if self.provider == MOCK or len(batches) < 2:
            yield from map(compute, batches)
            return
        with ThreadPoolExecutor(min(_CALLS_AT_ONCE, len(batches))) as pool:
            try:
                yield from pool.map(compute, batches)
            except BaseException:
                stop.set()
                raise

    def _mocked(self, dimension: int, texts: Sequence[str]) -> Vectors:
        try:
            return normalised(mock_vectors(texts, dimension), dimension)
        except UnusableVector as error:
            raise EmbeddingFailed(f"the mock made a vector that {error}", provider=MOCK, attempts=1) from None

    def _asked(self, dimension: int, role: Role, stop: threading.Event, texts: Sequence[str]) -> Vectors:
        dialect = DIALECTS[self.provider]
        request = dialect.request(self._settings, texts, dimension, role)
        largest = len(texts) * dimension * _BYTES_PER_NUMBER + _BYTES_BESIDES
        return self._caller.call(
            request, lambda body: read_answer(dialect, body, len(texts), dimension), largest=largest, stop=stop
        )
