"""Roots of graphs: a local directory, or a prefix of an S3 bucket.

Settings of a bucket come from the environment and are read once, when an address is resolved, so that every part of one open
graph works with the same ones.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias
from urllib.parse import unquote, urlsplit

from omnigraph_sql.errors import BadRequest, Configuration

ENDPOINTS: Final = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
"""The variables that name another endpoint than Amazon's; the first one wins."""
_DEFAULT_REGION: Final = "us-east-1"
_BUCKET: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._\-]{1,254}")
# What libraries read in different ways inside an address: escapes, queries, and what object stores advise against.
_UNSAFE: Final = re.compile(r"[%?#\\*{}^\[\]\"<>|`~\x00-\x1f\x7f]")
_YES: Final = ("1", "true", "yes", "on")
# Retry transient failures of the store for some seconds, and report a wrong setting soon.
RETRIES: Final = 6
RETRY_SECONDS: Final = 60


@dataclass(frozen=True, kw_only=True)
class S3Settings:
    """How a bucket is reached. Without keys, the role of the machine or container is used."""

    region: str = _DEFAULT_REGION
    access_key_id: str | None = None
    secret_access_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)
    endpoint: str | None = None
    path_style: bool = True
    allow_http: bool = False

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> S3Settings:
        """The settings the environment asks for; an empty variable counts as unset."""
        settings = cls(
            region=environment.get("AWS_REGION") or _DEFAULT_REGION,
            access_key_id=environment.get("AWS_ACCESS_KEY_ID") or None,
            secret_access_key=environment.get("AWS_SECRET_ACCESS_KEY") or None,
            session_token=environment.get("AWS_SESSION_TOKEN") or None,
            endpoint=next((environment[name].rstrip("/") for name in ENDPOINTS if environment.get(name)), None),
            path_style=environment.get("AWS_S3_FORCE_PATH_STYLE", "").lower() in ("", *_YES),
            allow_http=environment.get("AWS_ALLOW_HTTP", "").lower() in _YES,
        )
        settings._check()
        return settings

    def _check(self) -> None:
        if (self.access_key_id is None) != (self.secret_access_key is None):
            missing = "AWS_ACCESS_KEY_ID" if self.access_key_id is None else "AWS_SECRET_ACCESS_KEY"
            text = f"only one half of the S3 credentials is set: {missing} is missing"
            raise Configuration(text, what=missing, hint=f"set {missing}, or unset the other one to use the machine's role")
        if self.endpoint is None:
            return
        scheme = urlsplit(self.endpoint).scheme
        if scheme not in ("http", "https"):
            text = f"the S3 endpoint `{self.endpoint}` is no address"
            raise Configuration(text, what=ENDPOINTS[1], hint="write it as https://HOST[:PORT]")
        if scheme == "http" and not self.allow_http:
            text = f"the S3 endpoint `{self.endpoint}` is not encrypted"
            raise Configuration(text, what="AWS_ALLOW_HTTP", hint="use https, or set AWS_ALLOW_HTTP=true")


@dataclass(frozen=True)
class LocalRoot:
    """A directory."""

    path: Path

    def __str__(self) -> str:
        return str(self.path)

    def uri(self, name: str) -> str:
        """The address of something in it, as Lance takes it."""
        return str(self.path / name)

    @property
    def is_shared(self) -> bool:
        """True if machines of the same name may work on it."""
        return False

    @property
    def storage_options(self) -> dict[str, str] | None:
        """The storage options of Lance."""
        return None


@dataclass(frozen=True)
class S3Root:
    """Everything under a prefix of a bucket."""

    bucket: str
    prefix: str
    settings: S3Settings = field(repr=False)

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.prefix}".rstrip("/")

    def uri(self, name: str) -> str:
        """The address of something in it, as Lance takes it."""
        return f"{self}/{name}"

    @property
    def is_shared(self) -> bool:
        """True if machines of the same name may work on it."""
        return True

    @property
    def storage_options(self) -> dict[str, str] | None:
        """The storage options of Lance."""
        settings = self.settings
        options = {
            "aws_region": settings.region,
            "aws_access_key_id": settings.access_key_id,
            "aws_secret_access_key": settings.secret_access_key,
            "aws_session_token": settings.session_token,
            "aws_endpoint": self.endpoint,
            "aws_virtual_hosted_style_request": "false" if settings.path_style else "true",
            "allow_http": "true" if settings.allow_http else "false",
            "client_max_retries": str(RETRIES),
            "client_retry_timeout": str(RETRY_SECONDS),
        }
        return {name: value for name, value in options.items() if value is not None}

    @property
    def endpoint(self) -> str | None:
        """The endpoint; where the bucket is a part of the host name, with it."""
        endpoint = self.settings.endpoint
        if endpoint is None or self.settings.path_style:
            return endpoint
        scheme, _, host = endpoint.partition("://")
        return f"{scheme}://{self.bucket}.{host}"


Root: TypeAlias = LocalRoot | S3Root


def resolve_root(uri: str | os.PathLike[str]) -> Root:
    """The root of a graph address. Symbolic links of existing ancestors of a directory are resolved."""
    text = os.fspath(uri)
    try:
        address = urlsplit(text) if "://" in text else urlsplit("")
    except ValueError as error:
        hint = "give a directory or s3://BUCKET/PREFIX"
        raise BadRequest(f"`{text}` is no address: {error}", hint=hint) from None
    scheme = address.scheme.lower()
    match scheme:
        case "http" | "https":
            raise BadRequest(
                f"{text} is a server, not a graph",
                hint="give the directory or s3://BUCKET/PREFIX of a graph; servers cannot be asked yet",
            )
        case "s3":
            return _s3_root(text)
        case "file":
            text = unquote(address.path)
        case "":
            pass
        case _:
            raise BadRequest(
                f"graphs on `{scheme}://` are not supported", hint="use a local directory or s3://BUCKET/PREFIX"
            )
    if not text:
        raise BadRequest("the address of the graph is empty", hint="give a directory or s3://BUCKET/PREFIX")
    try:
        return LocalRoot(Path(os.path.realpath(os.path.abspath(os.path.expanduser(text)))))
    except (OSError, ValueError) as error:  # the working directory was removed; a NUL in an escaped file:// address
        reason = getattr(error, "strerror", None) or str(error)
        message = f"the directory `{text}` cannot be looked up: {reason}"
        raise BadRequest(message, hint="change to a directory that exists, or give an absolute path") from None


def _s3_root(text: str) -> S3Root:
    bucket, _, rest = text.partition("://")[2].partition("/")
    if not _BUCKET.fullmatch(bucket):
        raise BadRequest(f"`{text}` names no bucket", hint="write s3://BUCKET/PREFIX")
    prefix = rest.strip("/")
    if _UNSAFE.search(prefix) or any(segment in ("", ".", "..") for segment in prefix.split("/") if prefix):
        hint = "use letters, digits, `-`, `_`, `.`, `=` and blanks in the segments of the prefix; no `.`, no `..`, no `//`"
        raise BadRequest(f"`{text}` is not a good address for a graph", hint=hint)
    return S3Root(bucket, prefix, S3Settings.from_environment(os.environ))
