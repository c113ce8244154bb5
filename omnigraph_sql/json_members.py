"""Strict reading of JSON objects: every member once, and no constants that JSON does not have."""

from __future__ import annotations

from typing import Any, NoReturn


class DuplicateMember(Exception):
    """A member occurs twice in one object. The text of the exception is its name."""


def unique_members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The `object_pairs_hook` of a decoder. Raises `DuplicateMember`."""
    members = dict(pairs)
    if len(members) < len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise DuplicateMember(name)
            seen.add(name)
    return members


def refuse_constant(name: str) -> NoReturn:
    """The `parse_constant` of a decoder: `NaN` and `Infinity` are no JSON."""
    raise ValueError(f"{name} is not a JSON value")
