"""Translation of errors of file systems, object stores and Lance. Only this module reads their texts.

Lance raises `OSError`, `ValueError`, `RuntimeError` and Arrow's errors alike for a full disk, a file that is gone or that
makes no sense, and a store that does not answer; only the text tells them apart.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pyarrow as pa

from omnigraph_sql.errors import NotFound, Storage

LANCE_ERRORS: Final = (OSError, ValueError, RuntimeError, pa.ArrowException)
RESTORE: Final = "restore the directory from a copy of the graph"
START_OVER: Final = "restore the graph from a copy, or take what it shows with `ogsql export` and load that into a new graph"
"""The hint for tables that another program has changed: they can be read, not written."""

_READ_ONLY: Final = (errno.EACCES, errno.EPERM, errno.EROFS)
_FULL: Final = (errno.ENOSPC, errno.EDQUOT)
_UNUSABLE: Final = (errno.ENAMETOOLONG, errno.ELOOP)
_OTHER_KIND: Final = (errno.EISDIR, errno.ENOTDIR, errno.EEXIST)
_IN_THE_WAY: Final = "something else stands in the place of a file or directory of the graph: move it away"

_OS_ERROR: Final = re.compile(r"\(os error (\d+)\)")
_MISSING: Final = re.compile(r"Not found: (?P<file>[^,\s]+)|(?P<plain>was not found)")
_LOST: Final = re.compile(r"Not found: (?P<file>[^,\s]+/(?:data|_deletions|_indices|_versions)/[^,\s]+)")
_SOURCE_PLACE: Final = re.compile(r",?\s*/?[\w./-]*\.rs:\d+:\d+")
_DAMAGE: Final = (
    "corrupt",
    "LanceError(IO)",
    "LanceError(Arrow)",
    "Encountered internal error",
    "magic",
    "decode",
    "protobuf",
    "out of range",
)
_DAMAGED: Final = " is damaged: "
_REQUEST: Final = "Error performing"
"""The text of every failed request to an object store, those of Lance included."""

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


@contextmanager
def translated_errors(path: str, hint: str = RESTORE) -> Iterator[None]:
    """Translate exceptions of Lance about a dataset into errors of the family. `hint` is the remedy for lost files."""
    try:
        yield
    except LANCE_ERRORS as error:
        raise storage_error(error, path, hint) from error


def storage_error(error: Exception, path: str, hint: str = RESTORE) -> Exception:
    """Translate an exception of Lance."""
    text = plain(error)
    code = error.errno if isinstance(error, OSError) and error.errno else _errno(text)
    if is_remote(error):
        return _remote(text, path)
    if code is not None:
        return translate(OSError(code, os.strerror(code)), path)
    missing = _MISSING.search(text)
    if missing is not None:
        named = missing["file"] or path
        return Storage(f"{path} lacks a file: {named} is gone", storage_class="not_found", hint=hint)
    if any(sign in text for sign in _DAMAGE):
        return Storage(f"{path}{_DAMAGED}{text}", storage_class="permanent", hint=hint)
    return Storage(
        f"{path}: {text}", storage_class="unknown", hint="try again; if it stays, look at the files of the dataset"
    )


def translate(error: Exception, path: str) -> Exception:
    """Translate an exception of the operating system, or of the client of an object store."""
    if is_remote(error):
        return _remote(plain(error), path)
    if isinstance(error, FileNotFoundError):
        return NotFound(f"{path} does not exist", what="object", name=path)
    number = error.errno if isinstance(error, OSError) else None
    reason = (error.strerror if isinstance(error, OSError) else None) or plain(error)
    if number in _FULL:
        return Storage(f"{path}: the disk is full", storage_class="permanent", hint="free some space and try again")
    if number == errno.EFBIG:
        hint = "raise the limit of the process (`ulimit -f`) and try again"
        return Storage(f"{path}: the file would be larger than is allowed", storage_class="permanent", hint=hint)
    if number in _UNUSABLE:
        hint = "choose another place, with shorter names and without links that lead in a circle"
        return Storage(f"{path} cannot be looked up: {reason}", storage_class="configuration", hint=hint)
    if number in _READ_ONLY:
        message = f"{path} cannot be read or written: {reason}"
        hint = "check the owner and mode of the directory; reading needs no right to write with read_only"
        return Storage(message, storage_class="configuration", hint=hint)
    if number in _OTHER_KIND:
        return Storage(f"{path}: {reason}", storage_class="permanent", hint=_IN_THE_WAY)
    return Storage(f"{path}: {reason}", storage_class="unknown", hint="look at the disk or the store, then try again")


def is_remote(error: Exception) -> bool:
    """True if a request to an object store failed for another reason than a missing object."""
    text = str(error)
    absent = "404 Not Found" in text and "NoSuchBucket" not in text
    return _REQUEST in text and not absent


def is_absence(error: Exception) -> bool:
    """True if Lance says that a dataset or a version of it does not exist.

    It raises the same class when a store does not answer, which must never pass for absence.
    """
    return not is_remote(error) and _errno(str(error)) is None and _MISSING.search(str(error)) is not None


def is_damage(error: NotFound | Storage) -> bool:
    """True if files are lost or make no sense, rather than that something keeps them from being read or written.

    That there is no graph any more is no damage of a part of it.
    """
    if isinstance(error, NotFound):
        return error.what != "graph"
    is_senseless = "is damaged" in error.message or error.hint == _IN_THE_WAY
    return error.storage_class == "not_found" or (error.storage_class == "permanent" and is_senseless)


def lost_file(error: BaseException) -> str | None:
    """Return the missing file of a table, from the text of an error."""
    match = _LOST.search(str(error))
    return None if match is None or _REQUEST in str(error) else match["file"]


def is_conflict(error: Exception) -> bool:
    """True for a commit conflict. A path in another error may contain the same words."""
    text = str(error)
    if _errno(text) is not None or is_absence(error):
        return False
    return "conflict" in text.lower() or "Incompatible transaction" in text


def plain(error: Exception) -> str:
    """Return the text of an error on one line, without references to Lance's source code."""
    return " ".join(_SOURCE_PLACE.sub("", str(error)).split()) or type(error).__name__


def _remote(text: str, path: str) -> Storage:
    for signs, storage_class, meaning, hint in _REMOTE:
        if any(sign in text for sign in signs):
            return Storage(f"{path}: {meaning}", storage_class=storage_class, hint=hint)
    return Storage(f"{path}: {text[:400]}", storage_class="unknown", hint="look at the store, then try again")


def _errno(text: str) -> int | None:
    match = _OS_ERROR.search(text)
    return int(match[1]) if match else None
