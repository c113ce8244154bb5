"""Asking a provider until it answers: attempts, pauses between them, one deadline over all, and what to say if it fails."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, TypeVar

from omnigraph_compiler.diagnostics import clip
from omnigraph_sql.embeddings.providers import MalformedAnswer, Request, complaint
from omnigraph_sql.embeddings.settings import (
    ATTEMPTS_VARIABLE,
    BASE_URL_VARIABLE,
    DEADLINE_VARIABLE,
    MODEL_VARIABLE,
    Settings,
)
from omnigraph_sql.errors import EmbeddingFailed

if TYPE_CHECKING:
    from omnigraph_sql.embeddings.http import Answer, Transport

T = TypeVar("T")
_SHOWN = 200
_TELLING = 8
"""This many characters of a key in a row give it away."""


@dataclass(frozen=True)
class _Failure:
    """Why an attempt failed, as the end of a sentence about the provider."""

    text: str
    status: int | None = None
    passing: bool = False
    retry_after: float = 0.0
    hint: str | None = None


class Caller:
    """Calls one provider. Safe to use from several threads; the HTTP library is loaded by the first call."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._transport: Transport | None = None

    def call(self, request: Request, read: Callable[[bytes], T], *, largest: int, stop: threading.Event) -> T:
        """What `read` makes of the answer to a request; raises `EmbeddingFailed`.

        Asks again after a passing failure as often and as long as the settings allow. `stop` ends the waiting early: some
        other call failed and nobody needs this one any more.
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
        """Close the connections that are kept open."""
        with self._lock:
            if self._transport is not None:
                self._transport.close()

    def _attempt(self, request: Request, read: Callable[[bytes], T], seconds: float, largest: int) -> T | _Failure:
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
        said = complaint(answer.body)
        passing = status == HTTPStatus.TOO_MANY_REQUESTS or 500 <= status < 600
        text = f"answered {status}" + (f": {self._harmless(said)}" if said else "")
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

    def _harmless(self, text: str) -> str:
        """What a provider says, on one line and without the key: some quote it, or parts of it."""
        key = self._settings.api_key or ""
        pieces = {key[at : at + _TELLING] for at in range(max(1, len(key) - _TELLING + 1))} - {""}
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
