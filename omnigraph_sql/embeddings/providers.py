"""How each provider wants to be asked, and how its answers are read. Nothing here talks to anybody."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NoReturn, Protocol
from urllib.parse import quote

import numpy as np
import numpy.typing as npt

from omnigraph_sql.embeddings.settings import Settings
from omnigraph_sql.embeddings.vectors import UnusableVector, normalised, numbers

Role = Literal["query", "document"]
"""What a text is for: to search with, or to be found."""
Components = npt.NDArray[np.float64]


class MalformedAnswer(Exception):
    """An answer that is not what the provider promises."""


@dataclass(frozen=True)
class Request:
    """One POST of a JSON document. The headers hold the key and are not shown."""

    url: str
    document: Mapping[str, Any]
    headers: Mapping[str, str] = field(repr=False)


class Dialect(Protocol):
    """The requests and answers of one provider."""

    texts_per_request: ClassVar[int]

    def request(self, settings: Settings, texts: Sequence[str], dimension: int, role: Role) -> Request:
        """What to send."""

    def components(self, answer: Any, count: int, dimension: int) -> Components:
        """The vectors of an answer in the order of the texts; raises `MalformedAnswer` or `UnusableVector`."""


class OpenAi:
    """OpenAI and everything that speaks like it."""

    texts_per_request: ClassVar[int] = 64

    def request(self, settings: Settings, texts: Sequence[str], dimension: int, role: Role) -> Request:  # noqa: ARG002
        """All texts at once; the role makes no difference."""
        return Request(
            f"{settings.base_url}/embeddings",
            {"model": settings.model, "input": list(texts), "dimensions": dimension},
            {"Authorization": f"Bearer {settings.api_key}"},
        )

    def components(self, answer: Any, count: int, dimension: int) -> Components:
        """Each entry says by its `index` which text it belongs to."""
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
    """Google's Gemini API: one text per request, and it wants to know what the text is for."""

    texts_per_request: ClassVar[int] = 1
    _TASKS: ClassVar[Mapping[Role, str]] = {"query": "RETRIEVAL_QUERY", "document": "RETRIEVAL_DOCUMENT"}

    def request(self, settings: Settings, texts: Sequence[str], dimension: int, role: Role) -> Request:
        """The one text."""
        (text,) = texts
        model = settings.model.removeprefix("models/")
        return Request(
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
        """The one vector."""
        embedding = answer.get("embedding") if isinstance(answer, dict) else None
        if not isinstance(embedding, dict):
            _malformed("has no object `embedding`")
        return numbers(embedding.get("values"), dimension)[np.newaxis]


DIALECTS: Mapping[str, Dialect] = {"openai-compatible": OpenAi(), "openai": OpenAi(), "gemini": Gemini()}


def read_answer(dialect: Dialect, body: bytes, count: int, dimension: int) -> npt.NDArray[np.float32]:
    """The vectors in the body of an answer, of length 1; raises `MalformedAnswer`."""
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        _malformed("is not JSON")
    try:
        return normalised(dialect.components(answer, count, dimension), dimension)
    except UnusableVector as error:
        _malformed(f"has a vector that {error}")


def complaint(body: bytes) -> str | None:
    """What a provider says about a request it refuses, if it says it in JSON."""
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
