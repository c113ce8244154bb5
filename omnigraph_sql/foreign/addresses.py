"""Addresses of sources, and their redaction for messages."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote

_POSTGRES = ("postgresql://", "postgres://")
_HIDDEN = "***"
# Up to the last `@`: a password may contain one that should have been encoded. Rather too much is hidden than too little.
_PASSWORD = re.compile(r"(://[^:@]*:)(.*)(@)", re.DOTALL)
_PARAMETER = re.compile(r"([\w-]*(?:pass|secret|token|key)[\w-]*=)([^&]+)()", re.IGNORECASE)


def is_postgres(source: object) -> bool:
    """True if a source is the address of a Postgres database."""
    return isinstance(source, str) and source.startswith(_POSTGRES)


@dataclass(frozen=True, repr=False)
class Address:
    """The address of a database. Only `uri` and `secrets` contain its secrets."""

    uri: str
    shown: str
    secrets: tuple[str, ...]

    def __repr__(self) -> str:
        return f"Address({self.shown!r})"

    def redacted(self, text: str) -> str:
        """Return a text, for example of a driver, with the address and its secrets masked."""
        text = text.replace(self.uri, self.shown)
        for secret in self.secrets:
            text = text.replace(secret, _HIDDEN)
        return text


def address(uri: str) -> Address:
    """Parse an address, and separate its secrets.

    >>> address("postgresql://ann:s3cret@db:5432/shop?sslpassword=x&sslmode=require").shown
    'postgresql://ann:***@db:5432/shop?sslpassword=***&sslmode=require'
    """
    secrets: list[str] = []

    def mask(match: re.Match[str]) -> str:
        secrets.append(match[2])
        return f"{match[1]}{_HIDDEN}{match[3]}"

    shown = _PARAMETER.sub(mask, _PASSWORD.sub(mask, uri))
    spellings = {text for secret in secrets for text in (secret, unquote(secret)) if text}
    return Address(uri, shown, tuple(sorted(spellings, key=len, reverse=True)))
