"""Page tokens and cursors of changes: opaque texts, each of one kind, that belong to one request.

A page token goes on within an answer and is thrown away; a cursor is kept, and stands between two commits. None of them is
valid where another kind is expected, nor for another graph, branch, commit or filter.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from types import UnionType
from typing import Any, ClassVar, Final, TypeVar, get_args, get_type_hints

from omnigraph_sql.errors import CursorReason, CursorRejected

MOST_CHARACTERS: Final = 4096
_SUM_BYTES: Final = 8
_RESTART: Final = "start anew without it, or use the one that belongs to the request"


@dataclass(frozen=True)
class ChangePlace:
    """A place in the changes of a commit: so many of the rows that it wrote to a table come before it."""

    table_key: str
    row: int


@dataclass(frozen=True, kw_only=True)
class CommitPageToken:
    """The next page of the changes of a commit."""

    kind: ClassVar[str] = "page token of a commit"
    graph: str
    commit: str
    filter: str
    table_key: str
    row: int


@dataclass(frozen=True, kw_only=True)
class FeedCursor:
    """The place of a consumer in the history of a branch: just after a commit."""

    kind: ClassVar[str] = "cursor of a change feed"
    graph: str
    branch: str
    incarnation: str
    filter: str
    commit: str | None
    """None before the first commit."""
    version: int
    """The manifest version of the commit."""


@dataclass(frozen=True, kw_only=True)
class FeedPageToken:
    """The next page of a poll: its cursor, the head it goes up to, and the place in the commit after the cursor."""

    kind: ClassVar[str] = "page token of a change feed"
    graph: str
    branch: str
    incarnation: str
    filter: str
    commit: str | None
    version: int
    head: str
    table_key: str | None
    row: int


_KINDS: Final[Mapping[str, type[CommitPageToken | FeedCursor | FeedPageToken]]] = {
    "commit-page": CommitPageToken,
    "feed-cursor": FeedCursor,
    "feed-page": FeedPageToken,
}
_NAMES: Final = {class_: name for name, class_ in _KINDS.items()}
T = TypeVar("T", CommitPageToken, FeedCursor, FeedPageToken)


def rejected(text: str, reason: CursorReason) -> CursorRejected:
    """The error for a token that does not belong to a request."""
    return CursorRejected(text, reason=reason, hint=_RESTART)


def to_text(token: CommitPageToken | FeedCursor | FeedPageToken) -> str:
    """Return a token as a text of letters, digits, `-` and `_`."""
    content = json.dumps({"is": _NAMES[type(token)], **asdict(token)}, separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(_sum(content) + content).decode().rstrip("=")


def from_text(kind: type[T], text: str) -> T:
    """Return the token of a kind that a text is; `CursorRejected` for anything else.

    >>> token = FeedCursor(graph="g", branch="main", incarnation="g", filter="", commit="01A", version=3)
    >>> from_text(FeedCursor, to_text(token)) == token
    True
    >>> from_text(CommitPageToken, to_text(token))
    Traceback (most recent call last):
    omnigraph_sql.errors.CursorRejected: a cursor of a change feed stands where a page token of a commit is expected
    hint: start anew without it, or use the one that belongs to the request
    """
    entry = _entry(text)
    name = entry.pop("is", None)
    actual = _KINDS.get(name) if isinstance(name, str) else None
    if actual is None or not _has_types(actual, entry):
        raise rejected(f"the text is no {kind.kind}", "malformed")
    if actual is not kind:
        raise rejected(f"a {actual.kind} stands where a {kind.kind} is expected", "kind")
    return kind(**entry)


def _entry(text: str) -> dict[str, Any]:
    malformed = rejected("the text is no token of this release, or a part of it is missing", "malformed")
    if len(text) > MOST_CHARACTERS or not text.isascii():
        raise malformed
    try:
        data = base64.b64decode(text.strip() + "=" * (-len(text.strip()) % 4), altchars=b"-_", validate=True)
        content = data[_SUM_BYTES:]
        entry = json.loads(content) if _sum(content) == data[:_SUM_BYTES] else None
    except (ValueError, RecursionError):
        raise malformed from None
    if not isinstance(entry, dict):
        raise malformed
    return entry


def _has_types(kind: type, entry: dict[str, Any]) -> bool:
    hints = get_type_hints(kind)
    names = [field.name for field in fields(kind)]
    return entry.keys() == set(names) and all(_fits(hints[name], entry[name]) for name in names)


def _fits(hint: Any, value: Any) -> bool:
    kinds = get_args(hint) if isinstance(hint, UnionType) else (hint,)
    return type(value) in kinds and (not isinstance(value, int) or value >= 0)


def _sum(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=_SUM_BYTES).digest()
