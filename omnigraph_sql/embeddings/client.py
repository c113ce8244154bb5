"""The embedding client: computes vectors of texts with a provider."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Protocol, get_args

import numpy as np

from omnigraph_sql import arguments
from omnigraph_sql.caches import LruCache
from omnigraph_sql.embeddings.mock import mock_vectors
from omnigraph_sql.embeddings.providers import DIALECTS, Role, read_answer
from omnigraph_sql.embeddings.retry import Caller
from omnigraph_sql.embeddings.settings import MOCK, EmbeddingSettings
from omnigraph_sql.embeddings.vectors import UnusableVector, Vectors, normalised
from omnigraph_sql.errors import BadRequest, EmbeddingFailed

REQUEST_BYTES = 256 << 10
"""The maximum size of the texts of one request, unless a single text is longer; providers also limit tokens."""
_CALLS_AT_ONCE = 4
_MOCK_TEXTS = 1024
_BYTES_PER_NUMBER = 40
_BYTES_BESIDES = 1 << 20
_LARGEST_DIMENSION = 1 << 16
_CACHE_BYTES = 64 << 20
_ENTRY_BYTES = 400
"""The approximate overhead of a cached vector, in bytes."""

Key = tuple[str, str, str, int, bytes]
"""Provider, model, role, dimension and the SHA-256 of the text."""


def role(name: str, value: Any) -> str:
    """Check a parameter that is the role of texts."""
    if not isinstance(value, str) or value not in get_args(Role):
        raise BadRequest(f"`{name}` is none of {', '.join(get_args(Role))}", hint="use one of them")
    return str(value)


class VectorCache:
    """The most recently used vectors, up to a number of bytes. Thread-safe."""

    def __init__(self, limit: int) -> None:
        self._entries: LruCache[Key, Vectors] = LruCache(limit, lambda vector: vector.nbytes + _ENTRY_BYTES)

    def get(self, key: Key) -> Vectors | None:
        return self._entries.peek(key)

    def put(self, key: Key, vector: Vectors) -> None:
        # A row of a batch would keep the whole batch alive.
        copy = vector.copy()
        copy.flags.writeable = False
        self._entries.put(key, copy)


class Embedder(Protocol):
    """Computes vectors. `init` and `connect` take the name of a provider, or any object of this shape.

    Example:
        >>> import numpy as np
        >>> class Letters:
        ...     provider, model = "letters", "count-1"
        ...
        ...     def embed(self, texts, *, dimension, role="document"):
        ...         return np.array([[text.count(chr(97 + n)) for n in range(dimension)] for text in texts], "float32")
        >>> schema = "node Note { text: String  vec: Vector(4) @embed(text) }"
        >>> notes = og.init("notes", schema, embedder=Letters())
        >>> notes.load('{"type": "Note", "data": {"text": "a bad dab"}}', mode="append").nodes
        {'Note': 1}
    """

    @property
    def provider(self) -> str:
        """The name of the service or library."""

    @property
    def model(self) -> str:
        """The name of the model, which the schema may record in `@embed`."""

    def embed(self, texts: Sequence[str], *, dimension: int, role: Role = "document") -> Vectors:
        """Compute one vector per text.

        Args:
            texts: the texts.
            dimension: the length of each vector.
            role: whether the texts are stored (`document`) or searched for (`query`).

        Returns:
            An array of 32-bit floats with one row per text.
        """


def embedder(name: str, value: Any) -> Any:
    """Check a parameter that is the name of a provider or an embedder."""
    return arguments.text(name, value) if isinstance(value, str) else embedder_object(name, value)


def embedder_object(name: str, value: Any) -> Any:
    """Check a parameter that is an embedder."""
    try:
        fits = callable(value.embed) and isinstance(value.provider, str) and isinstance(value.model, str)
    except Exception:
        fits = False
    if isinstance(value, type) or not fits:
        hint = "give the name of a provider, or an object with provider, model and embed(texts, dimension=, role=)"
        arguments.refuse(name, value, "an embedder", hint)
    return value


class Client:
    """Computes vectors with a provider. Thread-safe.

    >>> from omnigraph_sql.embeddings import Client, resolve
    >>> client = Client(resolve("mock"))
    >>> print(client.embed(["tides", "locks", "tides"], dimension=2))
    [[ 0.5666018   0.8239918 ]
     [ 0.85674137 -0.5157463 ]
     [ 0.5666018   0.8239918 ]]
    """

    @arguments.checked(
        settings=arguments.instance(EmbeddingSettings, "settings of a provider"), cache_bytes=arguments.whole(least=0)
    )
    def __init__(self, settings: EmbeddingSettings, *, cache_bytes: int = _CACHE_BYTES) -> None:
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

    @arguments.checked(
        texts=arguments.collection(arguments.content), dimension=arguments.whole(least=1, most=_LARGEST_DIMENSION), role=role
    )
    def embed(self, texts: Sequence[str], *, dimension: int, role: Role = "document") -> Vectors:
        """Return the vectors of the texts: float32, one row each, of length 1.

        Equal texts are sent once, and texts in the cache are not sent. The deadline of the settings applies to each request
        to the provider, of up to 64 texts, including its retries. Raises `EmbeddingFailed`.
        """
        keys = {text: self._key(text, dimension, role) for text in texts}
        vector_of = {text: vector for text, key in keys.items() if (vector := self._cache.get(key)) is not None}
        missing = [text for text in keys if text not in vector_of]
        batches = list(self._batches(missing))
        for batch, vectors in zip(batches, self._compute(batches, dimension, role), strict=True):
            for text, vector in zip(batch, vectors, strict=True):
                self._cache.put(keys[text], vector)
                vector_of[text] = vector
        return np.stack([vector_of[text] for text in texts]) if keys else np.empty((0, dimension), np.float32)

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
        limit = _MOCK_TEXTS if self.provider == MOCK else DIALECTS[self.provider].texts_per_request
        batch: list[str] = []
        size = 0
        for text in texts:
            length = len(text.encode())
            if batch and (len(batch) == limit or size + length > REQUEST_BYTES):
                yield batch
                batch, size = [], 0
            batch.append(text)
            size += length
        if batch:
            yield batch

    def _compute(self, batches: Sequence[Sequence[str]], dimension: int, role: Role) -> Iterator[Vectors]:
        stop = threading.Event()
        compute = partial(self._mock, dimension) if self.provider == MOCK else partial(self._request, dimension, role, stop)
        if self.provider == MOCK or len(batches) < 2:
            yield from map(compute, batches)
            return
        with ThreadPoolExecutor(min(_CALLS_AT_ONCE, len(batches))) as pool:
            try:
                yield from pool.map(compute, batches)
            except BaseException:
                stop.set()
                raise

    def _mock(self, dimension: int, texts: Sequence[str]) -> Vectors:
        try:
            return normalised(mock_vectors(texts, dimension), dimension)
        except UnusableVector as error:
            raise EmbeddingFailed(f"the mock made a vector that {error}", provider=MOCK, attempts=1) from None

    def _request(self, dimension: int, role: Role, stop: threading.Event, texts: Sequence[str]) -> Vectors:
        dialect = DIALECTS[self.provider]
        request = dialect.request(self._settings, texts, dimension, role)
        largest = len(texts) * dimension * _BYTES_PER_NUMBER + _BYTES_BESIDES
        return self._caller.call(
            request, lambda body: read_answer(dialect, body, len(texts), dimension), largest=largest, stop=stop
        )
