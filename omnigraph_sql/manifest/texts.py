"""Texts that a graph keeps for ever: who wrote what and why, and what things are called.

A text that cannot be written as UTF-8 would be published and then stop everybody who reads it. So every text is checked
where it comes in, before anything is touched. Texts that an earlier release let in are read with replacement characters.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any, Final

from omnigraph_compiler.plain import plain_text
from omnigraph_sql.errors import BadRequest

MAX_TEXT: Final = 64 << 10
"""Bytes of a message, an actor, an idempotency key or a comment."""
MAX_NAME: Final = 200
"""Bytes of the name of a branch, schema, table, view or column."""
MAX_SQL: Final = 1 << 20
"""Bytes of the SQL of a view."""
_SYSTEM_PREFIX: Final = "omnigraph:"
_ANY_LENGTH: Final = 1 << 62
_CONTROL: Final = re.compile("[\x00-\x1f\x7f-\x9f]")
_LAYOUT: Final = "\t\n"
_ANY_LAYOUT: Final = "".join(map(chr, range(0xA0)))
_SQL_LAYOUT: Final = "\t\n\r\f"


def check_text(value: object, parameter: str, *, limit: int = MAX_TEXT, layout: str = _LAYOUT) -> str:
    """The value, if it is a text that can be kept; `BadRequest` names the parameter.

    `layout` are the control characters that it may have.

    >>> check_text("first load", "message")
    'first load'
    """
    if not isinstance(value, str):
        text = f"`{parameter}` is a text, not {_kind(value)}"
        raise BadRequest(text, hint=f"give `{parameter}` as a str")
    value = plain_text(value)
    try:
        size = len(value.encode("utf-8"))
    except UnicodeEncodeError as error:
        text = f"`{parameter}` is not UTF-8: the character {error.start + 1} is a lone surrogate"
        raise BadRequest(text, hint="decode the bytes with the encoding they were written in") from None
    if size > limit:
        text = f"`{parameter}` has {size} bytes, and at most {limit} are kept"
        raise BadRequest(text, hint="shorten it")
    for match in _CONTROL.finditer(value):
        if match[0] not in layout:
            text = f"`{parameter}` has the control character U+{ord(match[0]):04X} at character {match.start() + 1}"
            raise BadRequest(text, hint="leave it out; tabs and newlines are allowed" if layout else "leave it out")
    return value


def check_optional(value: object, parameter: str) -> str | None:
    """As `check_text`; None is allowed."""
    return None if value is None else check_text(value, parameter)


def check_actor(value: object) -> str | None:
    """As `check_optional`, for the name of who writes; those of the system are refused."""
    actor = check_optional(value, "actor")
    if actor is not None and actor.startswith(_SYSTEM_PREFIX):
        hint = f"names that begin with `{_SYSTEM_PREFIX}` are the system's"
        raise BadRequest(f"the actor `{actor}` is reserved", hint=hint)
    return actor


def check_name(value: object, parameter: str) -> str:
    """The value, if it is a text that is short enough for a name and has no control characters at all.

    >>> check_name("Person", "type")
    'Person'
    """
    return check_text(value, parameter, limit=MAX_NAME, layout="")


def check_sql(value: object, parameter: str) -> str:
    """The value, if it is a text that can be kept as SQL."""
    return check_text(value, parameter, limit=MAX_SQL, layout=_SQL_LAYOUT)


def check_source(value: object, parameter: str) -> str:
    """The value, if it is a text that can be kept as a schema; what it may say is for the compiler to judge."""
    return check_text(value, parameter, limit=_ANY_LENGTH, layout=_ANY_LAYOUT)


def _kind(value: object) -> str:
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeio' else 'a'} {name}"


# Texts that are there already ----------------------------------------------------------------------------------------


def readable_text(value: object, limit: int = MAX_TEXT) -> str:
    r"""A text that an earlier release let in, as one that can be kept: what is no UTF-8 is replaced, what is too long cut.

    >>> readable_text("caf\udce9"), readable_text(7)
    ('caf�', '7')
    """
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    # Surrogates that belong together are the character that they stand for.
    joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return joined.encode("utf-8")[:limit].decode("utf-8", "ignore")


def readable_commit(metadata: str | None) -> dict[str, Any]:
    """The commit of a head row, with texts that cannot be stored made readable."""
    entry = readable_object(metadata)
    texts = (
        "parent_commit_id",
        "merged_parent_commit_id",
        "actor_id",
        "operation_id",
        "message",
        "idempotency_key",
        "graph_id",
        "origin_commit_id",
    )
    intent: dict[str, Any] = dict.fromkeys(texts)
    intent |= {name: readable_text(entry[name]) for name in texts if entry.get(name) is not None}
    # A commit must have an id that stays the same however often the row is read.
    unreadable = f"unreadable-{hashlib.blake2b(repr(metadata).encode(), digest_size=8).hexdigest()}"
    intent["graph_commit_id"] = readable_text(entry["graph_commit_id"]) if entry.get("graph_commit_id") else unreadable
    intent["writer_kind"] = readable_text(entry.get("writer_kind") or "Unknown")
    created = entry.get("created_at")
    intent["created_at"] = created if type(created) is int and 0 <= created < 1 << 63 else 0
    return intent


def readable_definition(kind: str, metadata: str | None) -> dict[str, Any] | None:
    """The definition in the row of a view or schema; None where it was dropped."""
    if metadata is None:
        return None
    definition: dict[str, Any] = _readable(readable_object(metadata))
    if kind == "view":
        columns = definition.get("columns")
        definition["columns"] = [readable_text(column) for column in columns] if isinstance(columns, list) else []
        definition |= {name: readable_text(definition.get(name) or "", _ANY_LENGTH) for name in ("sql", "dialect")}
    for name in ("comment", "catalog"):
        if definition.get(name) is not None:
            definition[name] = readable_text(definition[name])
    return definition


def readable_evidence(metadata: str | None) -> str:
    """The transaction that made a version of a table, as its row says it."""
    transaction = readable_object(metadata).get("transaction_uuid")
    return readable_text(transaction) if isinstance(transaction, str) else ""


def _readable(value: Any) -> Any:
    """A JSON value with every text in it made readable."""
    match value:
        case str():
            return readable_text(value, _ANY_LENGTH)
        case list():
            return [_readable(member) for member in value]
        case dict():
            return {readable_text(key): _readable(member) for key, member in value.items()}
    return value


def readable_object(metadata: str | None) -> dict[str, Any]:
    """The JSON object in a row; an empty one if there is none."""
    try:
        entry = json.loads(metadata or "")
    except (ValueError, TypeError, RecursionError):
        return {}
    return entry if isinstance(entry, dict) else {}
