"""Addresses of sources: what they are, and how they are shown to people and in messages without their secrets."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote

_POSTGRES = ("postgresql://", "postgres://")
_HIDDEN = "***"
# Up to the last `@`: a password may have one that should have been encoded. Too much may be hidden, never too little.
_PASSWORD = re.compile(r"(://[^:@]*:)(.*)(@)", re.DOTALL)
_PARAMETER = re.compile(r"([\w-]*(?:pass|secret|token|key)[\w-]*=)([^&]+)()", re.IGNORECASE)


def is_postgres(source: object) -> bool:
    """Whether a source is the address of a Postgres database."""
    return isinstance(source, str) and source.startswith(_POSTGRES)


@dataclass(frozen=True, repr=False)
class Address:
    """The address of a database. Only `uri` has its secrets."""

    uri: str
    shown: str
    secrets: tuple[str, ...]

    def __repr__(self) -> str:
        return f"Address({self.shown!r})"

    def redacted(self, text: str) -> str:
        """A text, maybe of a driver, in which the address and its secrets are hidden."""
        text = text.replace(self.uri, self.shown)
        for secret in self.secrets:
            text = text.replace(secret, _HIDDEN)
        return text


def address(uri: str) -> Address:
    """An address with its secrets told apart.

    >>> address("postgresql://ann:s3cret@db:5432/shop?sslpassword=x&sslmode=require").shown
    'postgresql://ann:***@db:5432/shop?sslpassword=***&sslmode=require'
    """
    secrets: list[str] = []

    def hidden(found: re.Match[str]) -> str:
        secrets.append(found[2])
        return f"{found[1]}{_HIDDEN}{found[3]}"

    shown = _PARAMETER.sub(hidden, _PASSWORD.sub(hidden, uri))
    spelled = {text for secret in secrets for text in (secret, unquote(secret)) if text}
    return Address(uri, shown, tuple(sorted(spelled, key=len, reverse=True)))
