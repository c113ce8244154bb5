"""Settings of embedding providers: explicit values first, then the environment, then defaults."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, NoReturn
from urllib.parse import urlsplit

from omnigraph_compiler.diagnostics import clip, did_you_mean
from omnigraph_compiler.plain import plain_text
from omnigraph_sql.arguments import checked, flag, instance, mapping, optional, text, whole
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
_LEAST = {"timeout_ms": 1, "deadline_ms": 0, "attempts": 1, "backoff_ms": 0}


_LARGEST = 999_999_999
"""The largest number of attempts or milliseconds; the latter is more than eleven days."""
_NUMBER = optional(whole(most=_LARGEST))


def _variables(name: str, value: Any) -> Mapping[str, str]:
    variables = mapping(name, value)
    check = instance(str, "a text")  # values may be keys, which no message shows
    return {text(f"a name in {name}", key): check(f"{name}[{key!r}]", member) for key, member in variables.items()}


@dataclass(frozen=True)
class _Defaults:
    model: str
    base_url: str | None = None
    keys: tuple[str, ...] = ()
    """The variables that may contain the key; the first one that is set is used."""


_PROVIDERS = {
    DEFAULT_PROVIDER: _Defaults(
        "openai/text-embedding-3-large", "https://openrouter.ai/api/v1", ("OPENROUTER_API_KEY", "OPENAI_API_KEY")
    ),
    "openai": _Defaults("text-embedding-3-large", "https://api.openai.com/v1", ("OPENAI_API_KEY",)),
    "gemini": _Defaults("gemini-embedding-2", "https://generativelanguage.googleapis.com/v1beta", ("GEMINI_API_KEY",)),
    MOCK: _Defaults("mock"),
}


@dataclass(frozen=True)
class EmbeddingSettings:
    """A provider and the parameters of its calls. The key is never shown."""

    provider: str
    model: str
    _: KW_ONLY
    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    timeout_ms: int = 30_000
    """The timeout of one request."""
    deadline_ms: int = 60_000
    """The deadline of a request including its retries and backoff; 0 means none."""
    attempts: int = 4
    backoff_ms: int = 200
    """The backoff before the second attempt; it doubles before each further one."""

    def __post_init__(self) -> None:
        for name in ("provider", "model"):
            object.__setattr__(self, name, text(name, getattr(self, name)))
        for name in ("base_url", "api_key"):
            if isinstance(getattr(self, name), str):
                object.__setattr__(self, name, plain_text(getattr(self, name)))
        if self.provider not in _PROVIDERS:
            _refuse_provider(self.provider)
        for name, least in _LEAST.items():
            whole(least, _LARGEST)(name, getattr(self, name))
        if self.provider != MOCK:
            _checked_url(optional(text)("base_url", self.base_url) or "")
            _checked_key(self.provider, optional(instance(str, "a text"))("api_key", self.api_key) or "")

    @property
    def key_variables(self) -> tuple[str, ...]:
        """The environment variables that may contain the key of the provider."""
        return _PROVIDERS[self.provider].keys


@checked(provider=optional(text), environ=optional(_variables))
def is_configured(provider: str | None = None, *, environ: Mapping[str, str] | None = None) -> bool:
    """Return True if a provider is chosen: by argument, by `OMNIGRAPH_EMBED_PROVIDER` or by the variable of the mock.

    A key alone does not choose a provider: it may belong to another program, and texts are sent only by explicit choice.
    """
    variables = os.environ if environ is None else environ
    return provider is not None or bool(_text(variables, PROVIDER_VARIABLE)) or _wants_mock(variables)


@checked(embed=optional(text), configured=flag)
def is_enabled(embed: str | None, *, configured: bool) -> bool:
    """Return True if a write computes missing vectors: by `embed` (auto or off), else if a provider is configured."""
    if embed is None:
        return configured
    if embed not in _EMBED:
        raise BadRequest(f"`{clip(embed)}` is no way of embedding", hint=f"use {' or '.join(_EMBED)}")
    return embed == "auto"


@checked(
    provider=optional(text),
    model=optional(text),
    base_url=optional(text),
    api_key=optional(instance(str, "a text")),
    timeout_ms=_NUMBER,
    deadline_ms=_NUMBER,
    attempts=_NUMBER,
    backoff_ms=_NUMBER,
    environ=optional(_variables),
)
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
) -> EmbeddingSettings:
    """Return the settings to use; missing arguments come from the environment, then from the provider's defaults.

    Raises `Configuration` for an unknown provider, a missing key or an unusable value. Invalid numbers in the environment
    are replaced by their defaults, with a warning.

    >>> resolve("openai", api_key="secret", environ={})
    EmbeddingSettings(provider='openai', model='text-embedding-3-large', base_url='https://api.openai.com/v1', ...)
    """
    variables = os.environ if environ is None else environ
    chosen = _provider(provider, variables)
    defaults = _PROVIDERS[chosen]
    name = model or _text(variables, MODEL_VARIABLE) or defaults.model
    if defaults.base_url is None:
        return EmbeddingSettings(chosen, name)
    return EmbeddingSettings(
        provider=chosen,
        model=name,
        base_url=_checked_url(base_url or _text(variables, BASE_URL_VARIABLE) or defaults.base_url),
        api_key=_api_key(chosen, api_key, variables),
        timeout_ms=_number(TIMEOUT_VARIABLE, timeout_ms, variables, EmbeddingSettings.timeout_ms, least=1),
        deadline_ms=_number(DEADLINE_VARIABLE, deadline_ms, variables, EmbeddingSettings.deadline_ms, least=0),
        attempts=_number(ATTEMPTS_VARIABLE, attempts, variables, EmbeddingSettings.attempts, least=1),
        backoff_ms=_number(BACKOFF_VARIABLE, backoff_ms, variables, EmbeddingSettings.backoff_ms, least=0),
    )


def _provider(argument: str | None, variables: Mapping[str, str]) -> str:
    explicit = argument or _text(variables, PROVIDER_VARIABLE)
    if explicit and explicit not in _PROVIDERS:
        _refuse_provider(explicit)
    if not _wants_mock(variables):
        if _text(variables, MOCK_VARIABLE).lower() not in _OFF:
            _warn(f"{MOCK_VARIABLE} is neither on ({', '.join(_ON)}) nor off; it counts as off")
        return explicit or DEFAULT_PROVIDER
    if explicit and explicit != MOCK:
        _warn(f"{MOCK_VARIABLE} is set: the mock computes vectors, not the configured provider {explicit}")
    return MOCK


def _refuse_provider(name: str) -> NoReturn:
    hint = did_you_mean(name, _PROVIDERS) or f"choose one of {', '.join(_PROVIDERS)}"
    raise Configuration(f"`{clip(name)}` is not an embedding provider", what="embedding provider", hint=hint)


def _wants_mock(variables: Mapping[str, str]) -> bool:
    return _text(variables, MOCK_VARIABLE).lower() in _ON


def _checked_url(url: str) -> str:
    """Check that an address contains no secret, because errors and logs show it."""
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


def _api_key(provider: str, argument: str | None, variables: Mapping[str, str]) -> str:
    names = _PROVIDERS[provider].keys
    key = (argument or "").strip() or next(filter(None, (_text(variables, name) for name in names)), "")
    if not key:
        own = "; a server of your own that needs no key accepts any text" if provider == DEFAULT_PROVIDER else ""
        hint = f"set {' or '.join(names)}{own}"
        raise Configuration(f"the embedding provider {provider} needs a key", what="embedding key", hint=hint)
    return _checked_key(provider, key)


def _checked_key(provider: str, key: str) -> str:
    # The HTTP library would reject characters that a header cannot contain, in a message that quotes the key.
    if not (key.isascii() and key.isprintable()):
        text = f"the key of the embedding provider {provider} holds characters that are no part of a key"
        raise Configuration(text, what="embedding key", hint="copy it again, without line breaks")
    return key


def _number(variable: str, argument: int | None, variables: Mapping[str, str], default: int, *, least: int) -> int:
    if argument is not None:
        if argument < least:
            text = f"{argument} is too small for the embedding setting of {variable}; the least is {least}"
            raise Configuration(text, what=variable)
        return argument
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
