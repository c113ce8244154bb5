"""Source files: given as a `Path`, or as a text that can only be a path."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from omnigraph_sql.errors import BadRequest
from omnigraph_sql.source_files import read_source

_LONGEST: Final = 4096
_FILE_LIKE: Final = re.compile(r"[^{}\[\]\"\r\n\0]*(?:\.[A-Za-z]\w*|/[^{}\[\]\"\r\n\0]*)")


def is_path(text: str, suffixes: tuple[str, ...] = ()) -> bool:
    """True if a text looks like a file path, with one of the suffixes if there are any; no source text does."""
    stripped = text.strip()
    if not stripped or len(stripped) > _LONGEST or stripped.startswith(("//", "#")) or not _FILE_LIKE.fullmatch(stripped):
        return False
    return not suffixes or stripped.lower().endswith(suffixes)


def source_text(value: object, suffix: str, what: str) -> str:
    """Return the text of a schema or of queries, given as text or as a file with this suffix. Raises `BadRequest`."""
    if isinstance(value, str) and not is_path(value, (suffix,)):
        return value
    if not isinstance(value, str | os.PathLike):
        text = f"{what} is a value of the type {type(value).__name__}"
        raise BadRequest(text, hint=f"give its text, or the path of a {suffix} file")
    path = Path(value.strip() if isinstance(value, str) else value)
    return read_source(path)


def refuse_path(text: object, suffix: str, what: str) -> None:
    """Raise if a statement is the path of a file."""
    if isinstance(text, os.PathLike) or (isinstance(text, str) and is_path(text, (suffix,))):
        try:
            path = os.fspath(text)
        except Exception:  # a class of the caller may raise anything
            path = type(text).__name__
        raise BadRequest(f"`{path}` is a path, not {what}", hint=f"give the text of the file: Path({path!r}).read_text()")
