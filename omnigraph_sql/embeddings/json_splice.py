"""Editing of members in the text of a JSON object that leaves all other text unchanged."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

_BLANK = re.compile(r"[ \t\r\n]*")
# Only the ends of values matter; integers stay strings because Python rejects very long ones.
_values = json.JSONDecoder(parse_int=str)


@dataclass(frozen=True)
class _Member:
    name: str
    start: int
    value: int
    end: int


def with_members(text: str, path: str, changes: Mapping[str, str | None]) -> str:
    """Replace, add or (None) remove members of the object at `path` in the text of a JSON object.

    `text` is a valid object in which no name occurs twice, and `path` names a member of it that is an object, too.

    >>> with_members('{"a": {"x": 1.00, "y": 2}}', "a", {"y": "3", "z": "[4]"})
    '{"a": {"x": 1.00, "y": 3, "z": [4]}}'
    >>> with_members('{"a":{"x":1.00,"y":2}}', "a", {"x": None})
    '{"a":{"y":2}}'
    """
    (inner,) = (member for member in _members(text, _skip(text, 0))[0] if member.name == path)
    return text[: inner.value] + _changed(text, inner.value, changes) + text[inner.end :]


def _changed(text: str, start: int, changes: Mapping[str, str | None]) -> str:
    members, end = _members(text, start)
    gap = " " if not members or text[members[0].value - 1] == " " else ""
    pieces: list[str] = []
    before = start + 1
    for member in members:
        new = changes.get(member.name, text[member.value : member.end])
        if new is not None:
            separator = text[before : member.start] if pieces or member is members[0] else text[start + 1 : members[0].start]
            pieces.append(separator + text[member.start : member.value] + new)
        before = member.end
    existing = {member.name for member in members}
    for name, value in changes.items():
        if value is not None and name not in existing:
            pieces.append((f",{gap}" if pieces else "") + f"{json.dumps(name)}:{gap}{value}")
    return "{" + "".join(pieces) + text[before:end]


def _members(text: str, start: int) -> tuple[list[_Member], int]:
    """Return the members of the object that begins at `start`, and the offset after its end."""
    members: list[_Member] = []
    at = _skip(text, start + 1)
    while text[at] != "}":
        if text[at] == ",":
            at = _skip(text, at + 1)
        name, after = _values.raw_decode(text, at)
        value = _skip(text, _skip(text, after) + 1)
        end = _values.raw_decode(text, value)[1]
        members.append(_Member(name, at, value, end))
        at = _skip(text, end)
    return members, at + 1


def _skip(text: str, at: int) -> int:
    blank = _BLANK.match(text, at)
    return at if blank is None else blank.end()
