"""The request and response formats of each provider, without any I/O."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NoReturn, Protocol
from urllib.parse import quote

import numpy as np
import numpy.typing as npt

from omnigraph_sql.embeddings.settings import EmbeddingSettings
from omnigraph_sql.embeddings.vectors import UnusableVector, normalised, numbers

Role = Literal["query", "document"]
"""The purpose of a text: a search query, or a stored document."""
Components = npt.NDArray[np.float64]


class MalformedAnswer(Exception):
    """A response that does not follow the format of the provider."""


@dataclass(frozen=True)
class ProviderRequest:
    """One POST of a JSON document. The headers contain the key and are not part of the repr."""

    url: str
    document: Mapping[str, Any]
    headers: Mapping[str, str] = field(repr=False)


class ProviderDialect(Protocol):
    """The request and response formats of one provider."""

    texts_per_request: ClassVar[int]

    def request(self, settings: EmbeddingSettings, texts: Sequence[str], dimension: int, role: Role) -> ProviderRequest:
        """Return the request for the texts."""

    def components(self, answer: Any, count: int, dimension: int) -> Components:
        """Return the vectors of a response in the order of the texts; raises `MalformedAnswer` or `UnusableVector`."""


class OpenAi:
    """OpenAI and compatible services."""

    texts_per_request: ClassVar[int] = 64

    def request(self, settings: EmbeddingSettings, texts: Sequence[str], dimension: int, role: Role) -> ProviderRequest:  # noqa: ARG002
        """Return a request for all texts; the role is ignored."""
        return ProviderRequest(
            f"{settings.base_url}/embeddings",
            {"model": settings.model, "input": list(texts), "dimensions": dimension},
            {"Authorization": f"Bearer {settings.api_key}"},
        )

    def components(self, answer: Any, count: int, dimension: int) -> Components:
        """Return the vectors, ordered by the `index` of each entry."""
        entries = answer.get("data") if isinstance(answer, dict) else None
        if not isinstance(entries, list):
            _malformed("has no array `data`")
        rows: dict[int, Components] = {}
        for entry in entries:
            index = entry.get("index") if isinstance(entry, dict) else None
            if type(index) is not int:
                _malformed("has an entry of `data` without an `index`")
            if not 0 <= index < count or index in rows:
                _malformed(f"has an entry with the `index` {index}, where each of 0 to {count - 1} is expected once")
            rows[index] = numbers(entry.get("embedding"), dimension)
        if len(rows) != count:
            _malformed(f"has vectors for {len(rows)} of {count} texts")
        return np.stack([rows[index] for index in range(count)])


class Gemini:
    """Google's Gemini API: one text per request, with a task type."""

    texts_per_request: ClassVar[int] = 1
    _TASKS: ClassVar[Mapping[Role, str]] = {"query": "RETRIEVAL_QUERY", "document": "RETRIEVAL_DOCUMENT"}

    def request(self, settings: EmbeddingSettings, texts: Sequence[str], dimension: int, role: Role) -> ProviderRequest:
        """Return a request for the single text."""
        (text,) = texts
        model = settings.model.removeprefix("models/")
        return ProviderRequest(
            f"{settings.base_url}/models/{quote(model, safe='')}:embedContent",
            {
                "model": f"models/{model}",
                "content": {"parts": [{"text": text}]},
                "taskType": self._TASKS[role],
                "outputDimensionality": dimension,
            },
            {"x-goog-api-key": settings.api_key or ""},
        )

    def components(self, answer: Any, count: int, dimension: int) -> Components:  # noqa: ARG002
        """Return the single vector."""
        embedding = answer.get("embedding") if isinstance(answer, dict) else None
        if not isinstance(embedding, dict):
            _malformed("has no object `embedding`")
        return numbers(embedding.get("values"), dimension)[np.newaxis]


DIALECTS: Mapping[str, ProviderDialect] = {"openai-compatible": OpenAi(), "openai": OpenAi(), "gemini": Gemini()}


def read_answer(dialect: ProviderDialect, body: bytes, count: int, dimension: int) -> npt.NDArray[np.float32]:
    """Return the normalised vectors of a response body; raises `MalformedAnswer`."""
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        _malformed("is not JSON")
    try:
        return normalised(dialect.components(answer, count, dimension), dimension)
    except UnusableVector as error:
        _malformed(f"has a vector that {error}")


def error_message(body: bytes) -> str | None:
    """Return the message of an error response, or None if it is not JSON."""
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return None
    for name in ("error", "message", "detail"):
        if isinstance(answer, dict):
            answer = answer.get(name, answer)
    return answer if isinstance(answer, str) else None


def _malformed(text: str) -> NoReturn:
    raise MalformedAnswer(text)
