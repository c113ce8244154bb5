"""Which provider computes vectors, and how it is asked: by explicit values, then the environment, then defaults."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NoReturn
from urllib.parse import urlsplit

from omnigraph_compiler.diagnostics import clip, did_you_mean
from omnigraph_sql.errors import BadRequest, Configuration

MOCK = "mock"
DEFAULT_PROVIDER = "openai-compatible"
PROVIDER_VARIABLE = "OMNIGRAPH_EMBED_PROVIDER"
MODEL_VARIABLE = "OMNIGRAPH_EMBED_MODEL"
BASE_URL_VARIABLE = "OMNIGRAPH_EMBED_BASE_URL"
TIMEOUT_VARIABLE = "OMNIGRAPH_EMBED_TIMEOUT_MS"
DEADLINE_VARIABLE = "OMNIGRAPH_EMBED_DEADLINE_MS"
ATTEMPTS_VARIABLE = "OMNIGRAPH_EMBED_RETRY_ATTEMPTS"
BACKOFF_VARIABLE = "OMNIGRAPH_EMBED_RETRY_BACKOFF_MS"
MOCK_VARIABLE = "OMNIGRAPH_EMBEDDINGS_MOCK"

_ON = ("1", "true", "yes", "on")
_OFF = ("", "0", "false", "no", "off")
_EMBED = ("auto", "off")


@dataclass(frozen=True)
class _Defaults:
    model: str
    base_url: str | None = None
    keys: tuple[str, ...] = ()
    """Variables that may hold the key, the first one that is set wins."""


_PROVIDERS = {
    DEFAULT_PROVIDER: _Defaults(
        "openai/text-embedding-3-large", "https://openrouter.ai/api/v1", ("OPENROUTER_API_KEY", "OPENAI_API_KEY")
    ),
    "openai": _Defaults("text-embedding-3-large", "https://api.openai.com/v1", ("OPENAI_API_KEY",)),
    "gemini": _Defaults("gemini-embedding-2", "https://generativelanguage.googleapis.com/v1beta", ("GEMINI_API_KEY",)),
    MOCK: _Defaults("mock"),
}


@dataclass(frozen=True)
class Settings:
    """A provider and how it is asked. The key is never shown."""

    provider: str
    model: str
    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    timeout_ms: int = 30_000
    """Of one request."""
    deadline_ms: int = 60_000
    """Of a request with all its repetitions and the pauses between them; 0 means none."""
    attempts: int = 4
    backoff_ms: int = 200
    """The pause before the second attempt; it doubles before each further one."""

    @property
    def key_variables(self) -> tuple[str, ...]:
        """The environment variables this provider's key is read from."""
        return _PROVIDERS[self.provider].keys


def is_configured(provider: str | None = None, *, environ: Mapping[str, str] | None = None) -> bool:
    """Whether somebody chose a provider: by argument, by `OMNIGRAPH_EMBED_PROVIDER` or by asking for the mock.

    A key alone is no choice: it may be there for another program, and texts leave the machine only when that was wanted.
    """
    variables = os.environ if environ is None else environ
    return provider is not None or bool(_text(variables, PROVIDER_VARIABLE)) or _wants_mock(variables)


def is_enabled(embed: str | None, *, configured: bool) -> bool:
    """Whether a write computes missing vectors: what `embed` (auto or off) says, else whether a provider is configured."""
    if embed is None:
        return configured
    if embed not in _EMBED:
        raise BadRequest(f"`{clip(embed)}` is no way of embedding", hint=f"use {' or '.join(_EMBED)}")
    return embed == "auto"


def resolve(
    provider: str | None = None,
    *,
    model: str | None = None,
    base_url: str | None = None,
    api_key: str | None = None,
    timeout_ms: int | None = None,
    deadline_ms: int | None = None,
    attempts: int | None = None,
    backoff_ms: int | None = None,
    environ: Mapping[str, str] | None = None,
) -> Settings:
    """The settings to use; what is not given comes from the environment, then from the provider's defaults.

    Raises `Configuration` for an unknown provider, a missing key or an unusable value. Numbers in the environment that make
    no sense are replaced by their defaults, with a warning.

    >>> resolve("openai", api_key="secret", environ={})
    Settings(provider='openai', model='text-embedding-3-large', base_url='https://api.openai.com/v1', timeout_ms=30000, ...
    """
    variables = os.environ if environ is None else environ
    chosen = _provider(provider, variables)
    defaults = _PROVIDERS[chosen]
    name = model or _text(variables, MODEL_VARIABLE) or defaults.model
    if defaults.base_url is None:
        return Settings(chosen, name)
    return Settings(
        provider=chosen,
        model=name,
        base_url=_checked_url(base_url or _text(variables, BASE_URL_VARIABLE) or defaults.base_url),
        api_key=_api_key(chosen, api_key, variables),
        timeout_ms=_number(TIMEOUT_VARIABLE, timeout_ms, variables, Settings.timeout_ms, least=1),
        deadline_ms=_number(DEADLINE_VARIABLE, deadline_ms, variables, Settings.deadline_ms, least=0),
        attempts=_number(ATTEMPTS_VARIABLE, attempts, variables, Settings.attempts, least=1),
        backoff_ms=_number(BACKOFF_VARIABLE, backoff_ms, variables, Settings.backoff_ms, least=0),
    )


def _provider(given: str | None, variables: Mapping[str, str]) -> str:
    explicit = given or _text(variables, PROVIDER_VARIABLE)
    if explicit and explicit not in _PROVIDERS:
        known = f"choose one of {', '.join(_PROVIDERS)}"
        hint = did_you_mean(explicit, _PROVIDERS) or known
        raise Configuration(f"`{clip(explicit)}` is not an embedding provider", what="embedding provider", hint=hint)
    if not _wants_mock(variables):
        if _text(variables, MOCK_VARIABLE).lower() not in _OFF:
            _warn(f"{MOCK_VARIABLE} is neither on ({', '.join(_ON)}) nor off; it counts as off")
        return explicit or DEFAULT_PROVIDER
    if explicit and explicit != MOCK:
        _warn(f"{MOCK_VARIABLE} is set: the mock computes vectors, not the configured provider {explicit}")
    return MOCK


def _wants_mock(variables: Mapping[str, str]) -> bool:
    return _text(variables, MOCK_VARIABLE).lower() in _ON


def _checked_url(url: str) -> str:
    """An address without anything that could be a secret: errors and logs show it."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        usable = False
    else:
        if parts.username is not None or parts.query or parts.fragment:
            _refuse_url("must not hold a user, a query or a fragment")
    if not usable or any(character.isspace() or not character.isprintable() for character in url):
        _refuse_url("is not an address that begins with https:// or http://")
    return url.rstrip("/")


def _refuse_url(text: str) -> NoReturn:
    hint = f"set {BASE_URL_VARIABLE} to an address such as https://api.openai.com/v1"
    raise Configuration(f"the base URL of the embedding provider {text}", what="embedding base URL", hint=hint)


def _api_key(provider: str, given: str | None, variables: Mapping[str, str]) -> str:
    names = _PROVIDERS[provider].keys
    key = (given or "").strip() or next(filter(None, (_text(variables, name) for name in names)), "")
    if not key:
        own = "; a server of your own that asks for none takes any text" if provider == DEFAULT_PROVIDER else ""
        hint = f"set {' or '.join(names)}{own}"
        raise Configuration(f"the embedding provider {provider} needs a key", what="embedding key", hint=hint)
    # What an HTTP header cannot hold would be refused further down, in a message that quotes it.
    if not (key.isascii() and key.isprintable()):
        text = f"the key of the embedding provider {provider} holds characters that are no part of a key"
        raise Configuration(text, what="embedding key", hint="copy it again, without line breaks")
    return key


def _number(variable: str, given: int | None, variables: Mapping[str, str], default: int, *, least: int) -> int:
    if given is not None:
        if given < least:
            text = f"{given} is too small for the embedding setting of {variable}; the least is {least}"
            raise Configuration(text, what=variable)
        return given
    text = _text(variables, variable)
    if not text:
        return default
    number = int(text) if re.fullmatch(r"[0-9]{1,9}", text) else -1
    if number >= least:
        return number
    _warn(f"{variable} is not a whole number of at least {least}; {default} is used")
    return default


def _text(variables: Mapping[str, str], name: str) -> str:
    return variables.get(name, "").strip()


def _warn(text: str) -> None:
    warnings.warn(text, stacklevel=4)
