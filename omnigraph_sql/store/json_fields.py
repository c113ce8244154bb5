"""Validation of the members of untrusted JSON objects: one function per kind of member.

Every function raises `ValueError` with what is wrong; the reader of a document decides what follows.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, TypeVar

from omnigraph_sql import ulid
from omnigraph_sql.manifest.refs import is_branch_name
from omnigraph_sql.manifest.texts import readable_text
from omnigraph_sql.table_keys import TableKey

T = TypeVar("T")
MOST: Final = (1 << 63) - 1
"""The greatest number that a column of the manifest takes."""
_LONGEST_KEY: Final = 1024
_KEY: Final = re.compile(r"(?:node|edge|table|view|schema):.+")
_FORK: Final = re.compile(r"(?P<branch>.+)\.[0-9A-Z]{10}")


def parse(text: str) -> Any:
    """A JSON value. What is nested without end, and numbers that are none, are no JSON."""
    try:
        return json.loads(text, parse_constant=_no_number)
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is no number")


class Fields:
    """The members of one object."""

    def __init__(self, entry: object, what: str) -> None:
        if not isinstance(entry, dict):
            raise ValueError(f"{what} is no object")
        self._entry: Mapping[str, Any] = entry
        self._what = what

    def read(self, name: str, kind: Callable[[Any], T]) -> T:
        """A member that must be there."""
        if name not in self._entry:
            raise ValueError(f"{self._what} lacks `{name}`")
        try:
            return kind(self._entry[name])
        except ValueError as error:
            raise ValueError(f"`{name}` of {self._what} {error}") from None

    def get(self, name: str, kind: Callable[[Any], T], default: T) -> T:
        """A member that may be missing."""
        return self.read(name, kind) if name in self._entry else default


# Kinds of members ----------------------------------------------------------------------------------------------------


def text(value: Any) -> str:
    """Any text that is UTF-8."""
    if not isinstance(value, str):
        raise ValueError("is no text")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise ValueError("is not UTF-8") from None
    return value


def kept_text(value: Any) -> str:
    """A text of a user; one that an earlier release let in is made readable."""
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        raise ValueError("is no text")
    return readable_text(value)


def ulid_text(value: Any) -> str:
    """An id that this engine made."""
    if not isinstance(value, str) or not ulid.is_ulid(value):
        raise ValueError("is no id")
    return value


def short_text(value: Any) -> str:
    """A text of printable ASCII characters, such as the id of a transaction."""
    if not isinstance(value, str) or not re.fullmatch(r"[ -~]{0,200}", value):
        raise ValueError("is no short text")
    return value


def branch_name(value: Any) -> str:
    """A branch of the graph: it becomes part of a path."""
    if not isinstance(value, str) or not is_branch_name(value):
        raise ValueError("is no branch")
    return value


def table_branch(value: Any) -> str:
    """A branch of a table: a graph branch with the end of an operation's id, unless another program made it."""
    if not isinstance(value, str) or not is_table_branch(value):
        raise ValueError("is no branch of a table")
    return value


def is_table_branch(name: str) -> bool:
    """True if a text is well-formed as the name of a branch of a table."""
    made = _FORK.fullmatch(name)
    return is_branch_name(name if made is None else made["branch"])


def table_key(value: Any) -> TableKey:
    """The key of a type, relational table, view or schema in the manifest."""
    if not isinstance(value, str) or len(value) > _LONGEST_KEY or not _KEY.fullmatch(value) or not value.isprintable():
        raise ValueError("is no key of a table")
    return TableKey(value)


def whole(value: Any, *, least: int = 0, most: int = MOST) -> int:
    """A number without fractions."""
    if type(value) is not int or not least <= value <= most:
        raise ValueError(f"is no whole number from {least}")
    return value


def flag(value: Any) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise ValueError("is neither true nor false")
    return value


def seconds(value: Any) -> float:
    """A moment."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e12 or not math.isfinite(value):
        raise ValueError("is no time")
    return float(value)


def one_of(words: Collection[str]) -> Callable[[Any], str]:
    """One of a few words."""

    def kind(value: Any) -> str:
        if not isinstance(value, str) or value not in words:
            raise ValueError(f"is none of {', '.join(sorted(words))}")
        return value

    return kind


def optional(kind: Callable[[Any], T]) -> Callable[[Any], T | None]:
    """Something, or null."""
    return lambda value: None if value is None else kind(value)


def listed(kind: Callable[[Any], T]) -> Callable[[Any], tuple[T, ...]]:
    """A list."""

    def read(value: Any) -> tuple[T, ...]:
        if not isinstance(value, list):
            raise ValueError("is no list")
        return tuple(kind(element) for element in value)

    return read


def pair(first: Callable[[Any], T], second: Callable[[Any], Any]) -> Callable[[Any], tuple[T, Any]]:
    """A list of two."""

    def read(value: Any) -> tuple[T, Any]:
        if not isinstance(value, list) or len(value) != 2:
            raise ValueError("is no pair")
        return first(value[0]), second(value[1])

    return read


def distinct(keys: Collection[str], what: str) -> None:
    """Raise if something is named twice."""
    if len(set(keys)) != len(keys):
        raise ValueError(f"{what} are named twice")
