"""What Lance's errors mean to a caller. The one place that reads their texts.

Lance raises `OSError`, `ValueError`, `RuntimeError` and Arrow's errors alike for a full disk, a file that is gone and a file
that makes no sense; only the text tells them apart.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pyarrow as pa

from omnigraph_sql.errors import Storage
from omnigraph_sql.storage.objects import translate

LANCE_ERRORS: Final = (OSError, ValueError, RuntimeError, pa.ArrowException)
RESTORE: Final = "restore the directory from a copy of the graph"

_OS_ERROR: Final = re.compile(r"\(os error (\d+)\)")
_MISSING: Final = re.compile(r"Not found: (?P<file>[^,\s]+)|(?P<plain>was not found)")
_SOURCE_PLACE: Final = re.compile(r",?\s*/?[\w./-]*\.rs:\d+:\d+")
_DAMAGE: Final = ("corrupt", "LanceError(IO)", "magic", "decode", "protobuf", "out of range")


@contextmanager
def guarded(path: str, hint: str = RESTORE) -> Iterator[None]:
    """Turn what Lance raises about a dataset into an error of our family. `hint` is the remedy for files that are lost."""
    try:
        yield
    except LANCE_ERRORS as error:
        raise fault(error, path, hint) from error


def fault(error: Exception, path: str, hint: str = RESTORE) -> Exception:
    """The error of our family that an error of Lance stands for."""
    text = plain(error)
    code = error.errno if isinstance(error, OSError) and error.errno else _errno(text)
    if code is not None:
        return translate(OSError(code, os.strerror(code)), path)
    missing = _MISSING.search(text)
    if missing is not None:
        named = missing["file"] or path
        return Storage(f"{path} lacks a file: {named} is gone", storage_class="not_found", hint=hint)
    if any(sign in text for sign in _DAMAGE):
        return Storage(f"{path} is damaged: {text}", storage_class="permanent", hint=hint)
    return Storage(
        f"{path}: {text}", storage_class="unknown", hint="try again; if it stays, look at the files of the dataset"
    )


def is_absence(error: Exception) -> bool:
    """Whether Lance says that a dataset or a version of it does not exist."""
    return _errno(str(error)) is None and _MISSING.search(str(error)) is not None


def plain(error: Exception) -> str:
    """The text of an error on one line, without the places in Lance's own source."""
    return " ".join(_SOURCE_PLACE.sub("", str(error)).split()) or type(error).__name__


def _errno(text: str) -> int | None:
    found = _OS_ERROR.search(text)
    return int(found[1]) if found else None
