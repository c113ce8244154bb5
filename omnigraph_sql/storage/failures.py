"""What the errors of file systems, of object stores and of Lance mean to a caller."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from omnigraph_sql.errors import NotFound, Storage

_READ_ONLY: Final = (errno.EACCES, errno.EPERM, errno.EROFS)
_FULL: Final = (errno.ENOSPC, errno.EDQUOT)
_REQUEST: Final = "Error performing"
"""What every failed request to an object store says, also when Lance made it."""
_ABSENT: Final = "was not found"

_REMOTE: Final = (
    (
        ("NoSuchBucket",),
        "configuration",
        "the bucket does not exist",
        "create the bucket, or check the address and AWS_ENDPOINT_URL",
    ),
    (
        ("169.254.169.254", "169.254.170.", "CredentialsNotLoaded", "no providers in chain"),
        "configuration",
        "there are no credentials",
        "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or run with a role",
    ),
    (
        ("InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken", "401 Unauthorized"),
        "configuration",
        "the store refused the credentials",
        "check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN",
    ),
    (
        ("AccessDenied", "403 Forbidden"),
        "configuration",
        "access was denied",
        "the credentials must allow to list the bucket and to get, put and delete objects",
    ),
    (
        ("PermanentRedirect", "AuthorizationHeaderMalformed", "301 Moved"),
        "configuration",
        "the bucket is in another region",
        "set AWS_REGION to the region of the bucket",
    ),
    (
        ("NotImplemented", "status code: 501"),
        "configuration",
        "the store lacks an operation that graphs need",
        "use a store with conditional writes (If-None-Match and If-Match)",
    ),
    (
        ("HTTP error", "timed out", "SlowDown", "RequestTimeout", "status code: 429", "status code: 5"),
        "transient",
        "the store cannot be reached or is overloaded",
        "check AWS_ENDPOINT_URL and the network, then try again",
    ),
)


def translate(error: Exception, path: str) -> Exception:
    """The error of our family for one of the operating system, of an object store or of Lance."""
    if is_remote(error):
        return _remote(str(error), path)
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return NotFound(f"{path} does not exist", what="object", name=path)
    number = error.errno if isinstance(error, OSError) else None
    reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
    if number in _FULL:
        return Storage(f"{path}: the disk is full", storage_class="permanent", hint="free some space and try again")
    if number in _READ_ONLY:
        message = f"{path} cannot be written: {reason}"
        return Storage(message, storage_class="configuration", hint="check the owner and mode of the directory")
    return Storage(f"{path}: {reason}", storage_class="unknown")


def is_remote(error: Exception) -> bool:
    """Whether a request to an object store failed, other than by finding nothing."""
    text = str(error)
    absent = "404 Not Found" in text and "NoSuchBucket" not in text
    return _REQUEST in text and not absent


@contextmanager
def remote_failures(path: str) -> Iterator[None]:
    """Around calls of Lance: requests that failed become errors of our family, everything else goes on as it is."""
    try:
        yield
    except (OSError, ValueError, RuntimeError) as error:
        if not is_remote(error):
            raise
        raise translate(error, path) from error


def is_absent(error: Exception) -> bool:
    """Whether Lance says that a dataset, a branch or a version is not there.

    It raises the same class when a store does not answer, which must never pass for absence.
    """
    return isinstance(error, ValueError) and _ABSENT in str(error) and not is_remote(error)


def _remote(text: str, path: str) -> Storage:
    for signs, storage_class, meaning, hint in _REMOTE:
        if any(sign in text for sign in signs):
            return Storage(f"{path}: {meaning}", storage_class=storage_class, hint=hint)
    return Storage(f"{path}: {text.splitlines()[0][:400]}", storage_class="unknown")
