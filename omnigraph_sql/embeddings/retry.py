"""Calls of a provider with retries, backoff and a deadline, and the errors of failed calls."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, TypeVar

from omnigraph_compiler.diagnostics import clip
from omnigraph_sql.embeddings.providers import MalformedAnswer, ProviderRequest, error_message
from omnigraph_sql.embeddings.settings import (
    ATTEMPTS_VARIABLE,
    BASE_URL_VARIABLE,
    DEADLINE_VARIABLE,
    MODEL_VARIABLE,
    EmbeddingSettings,
)
from omnigraph_sql.errors import EmbeddingFailed

if TYPE_CHECKING:
    from omnigraph_sql.embeddings.http import Answer, Transport

T = TypeVar("T")
_SHOWN = 200
_KEY_PIECE = 8
"""The length of a substring of the key that is masked in messages."""


@dataclass(frozen=True)
class _Failure:
    """The reason of a failed attempt; `text` completes a sentence about the provider."""

    text: str
    status: int | None = None
    passing: bool = False
    retry_after: float = 0.0
    hint: str | None = None


class Caller:
    """Calls one provider. Thread-safe; the first call imports the HTTP library."""

    def __init__(self, settings: EmbeddingSettings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._transport: Transport | None = None

    def call(self, request: ProviderRequest, read: Callable[[bytes], T], *, largest: int, stop: threading.Event) -> T:
        """Send a request and return the result of `read` for its response; raises `EmbeddingFailed`.

        Transient failures are retried within the limits of the settings. `stop` ends the backoff early, when another call
        of the same batch has failed.
        """
        settings = self._settings
        ends = time.monotonic() + settings.deadline_ms / 1000 if settings.deadline_ms else float("inf")
        attempt = 0
        while True:
            attempt += 1
            seconds = max(0.001, min(settings.timeout_ms / 1000, ends - time.monotonic()))
            outcome = self._attempt(request, read, seconds, largest)
            if not isinstance(outcome, _Failure):
                return outcome
            pause = max(settings.backoff_ms / 1000 * 2 ** (attempt - 1), outcome.retry_after)
            is_late = time.monotonic() + pause >= ends
            if not outcome.passing or attempt == settings.attempts or is_late or stop.wait(pause):
                raise self._error(outcome, attempt, is_late=outcome.passing and is_late)

    def close(self) -> None:
        """Close idle connections."""
        with self._lock:
            if self._transport is not None:
                self._transport.close()

    def _attempt(self, request: ProviderRequest, read: Callable[[bytes], T], seconds: float, largest: int) -> T | _Failure:
        from omnigraph_sql.embeddings.http import NoAnswer

        status = None
        try:
            answer = self._connected().post(request, seconds=seconds, largest=largest)
            status = answer.status
            return read(answer.body) if status == HTTPStatus.OK else self._refusal(answer)
        except NoAnswer as error:
            hint = f"check {BASE_URL_VARIABLE} and the network; it is {request.url}"
            return _Failure(str(error), passing=error.passing, hint=hint)
        except MalformedAnswer as error:
            hint = f"check that {request.url} is an embedding service of this kind"
            return _Failure(f"gave an answer that {error}", status=HTTPStatus.OK, hint=hint)

    def _connected(self) -> Transport:
        from omnigraph_sql.embeddings.http import Transport

        with self._lock:
            if self._transport is None:
                self._transport = Transport(str(self._settings.base_url))
            return self._transport

    def _refusal(self, answer: Answer) -> _Failure:
        status = answer.status
        message = error_message(answer.body)
        passing = status == HTTPStatus.TOO_MANY_REQUESTS or 500 <= status < 600
        text = f"answered {status}" + (f": {self._masked(message)}" if message else "")
        return _Failure(text, status, passing, answer.retry_after or 0.0, self._hint(status))

    def _hint(self, status: int) -> str | None:
        if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            return f"check the key in {' or '.join(self._settings.key_variables)}"
        if status == HTTPStatus.NOT_FOUND:
            return f"check {MODEL_VARIABLE}, which is {self._settings.model}, and {BASE_URL_VARIABLE}"
        if 300 <= status < 400:
            return f"it points to another address; set {BASE_URL_VARIABLE} to the final one"
        if status == HTTPStatus.TOO_MANY_REQUESTS:
            return f"try again later, or allow more time with {ATTEMPTS_VARIABLE} and {DEADLINE_VARIABLE}"
        return None

    def _masked(self, text: str) -> str:
        """Return the message of a provider on one line, with the key and parts of it masked."""
        key = self._settings.api_key or ""
        pieces = {key[at : at + _KEY_PIECE] for at in range(max(1, len(key) - _KEY_PIECE + 1))} - {""}
        words = ("***" if any(piece in word for piece in pieces) else word for word in re.split(r"\s+", text.strip()))
        return clip(" ".join(words), _SHOWN)

    def _error(self, failure: _Failure, attempts: int, *, is_late: bool) -> EmbeddingFailed:
        settings = self._settings
        text = f"the embedding provider {settings.provider} {failure.text}"
        if attempts > 1:
            text += f" (after {attempts} attempts)"
        hint = failure.hint
        if is_late and attempts < settings.attempts:
            text += f"; the deadline of {settings.deadline_ms / 1000:.3g} s allows no further attempt"
            hint = hint or f"allow more time with {DEADLINE_VARIABLE}"
        return EmbeddingFailed(
            text,
            provider=settings.provider,
            attempts=attempts,
            status=failure.status,
            retryable=failure.passing,
            hint=hint,
        )
