"""Proposals of help texts, made of the values, properties and sort keys around a position of a query."""

from __future__ import annotations

import re

Place = tuple[str, str]
"""The text before and after a position."""

_LONGEST = 60
_LITERAL = r'(?:"[^"\n]*"|[0-9][0-9.]*|(?:date|datetime)\("[^"\n]*"\)|true|false)'
_OPERAND = rf"(?:\$[a-z_]\w*(?:\.[a-z_]\w*)?|{_LITERAL})"
_ACCESS = r"\$[a-z_]\w*\.[a-z_]\w*"
_LAST_ACCESS = re.compile(r"(\$[a-z_]\w*(?:\.[a-z_]\w*)?)\s*(?:not|NOT)?\s*\Z")
_LAST_OPERAND = re.compile(rf"({_OPERAND})\s*(?:not)?\s*\Z", re.IGNORECASE)
_LIST = re.compile(rf"\s*[\[(]\s*({_LITERAL}(?:\s*,\s*{_LITERAL})*)\s*[\])]")
_ONE = re.compile(rf"\s*({_OPERAND})(?!\w)")
_EQUAL = re.compile(rf"({_ACCESS})\s*==?=?\s*({_OPERAND})")
_COMPARED = re.compile(rf"({_ACCESS})\s*(=|!=|<=?|>=?)\s*({_OPERAND})?")
_PAIR = re.compile(rf"(\$[a-z_]\w*)\s*:\s*[A-Z]\w*\s*\{{[^{{}}]*?([a-z_]\w*)\s*:\s*({_OPERAND})\s*\Z")
_KEY = re.compile(
    r"\s*(\$?[a-z_]\w*(?:\.[a-z_]\w*)?)(?!\s*\()(?:\s+(asc|desc)(?:ending)?)?(?:\s+nulls\s+\w+)?\s*", re.IGNORECASE
)


def last_access(place: Place, default: str = "$x.name") -> str:
    """Return the last property access before the position, or one in parentheses after it."""
    access = _LAST_ACCESS.search(place[0]) or re.match(rf"\s*\(\s*({_ACCESS})\s*\)", place[1])
    return access[1] if access is not None and "." in access[1] else default


def is_in_binding(place: Place) -> bool:
    """True if the position is in the braces of a binding, after a value."""
    return _PAIR.search(place[0]) is not None


def membership(place: Place) -> str:
    """Return the condition that the value before the position is one of the values after it."""
    operand, values, single = _LAST_OPERAND.search(place[0]), _LIST.match(place[1]), _ONE.match(place[1])
    left = operand[1] if operand is not None else "$x.name"
    if values is not None and len(values[1]) <= _LONGEST:
        return f"[{values[1]}] contains {left}"
    if single is not None:
        return f"{single[1]} contains {left}"
    return f"{_sample(place[1])} contains {left}"


def disjunction(place: Place) -> tuple[str, str]:
    """Return the condition that one of the two comparisons around the position holds, and the property they compare."""
    pair = _PAIR.search(place[0])
    if pair is not None:
        field, first = f"{pair[1]}.{pair[2]}", pair[3]
        other = _ONE.match(place[1])
        return f"{_list_literal(first, other[1] if other else None)} contains {field}", field
    before = [comparison for comparison in _COMPARED.finditer(place[0]) if comparison[3]]
    after = _EQUAL.match(place[1].lstrip().lstrip("("))
    if not before:
        return '["a", "b"] contains $x.name', "$x.name"
    field, first = before[-1][1], before[-1][3]
    second = after[2] if after is not None and after[1] == field else None
    return f"{_list_literal(first, second)} contains {field}", field


def _list_literal(first: str, second: str | None) -> str:
    if first.startswith("$"):
        return "$values"
    if second is None or second.startswith("$") or len(first) + len(second) > _LONGEST:
        return _sample(first)
    return f"[{first}, {second}]"


def _sample(value: str) -> str:
    """Return an example list with values of the same type."""
    return "[1, 2]" if value.lstrip("[( ")[:1].isdigit() else '["a", "b"]'


def type_of(variable: str, head: str) -> str:
    """Return the type to which a variable was bound before the position."""
    types = re.findall(rf"{re.escape(variable)}\s*:\s*([A-Z]\w*)", head)
    return types[-1] if types else "Type"


def sort_keys(place: Place) -> str | None:
    """Return the sort keys after the position in `.gq` syntax, or None if one of them has no such form."""
    rest, keys = place[1].lstrip().removeprefix("{"), []
    while key := _KEY.match(rest):
        keys.append(_sort_key(key[1], place[0]) + (f" {key[2].lower()}" if key[2] else ""))
        rest = rest[key.end() :]
        if not rest.startswith(","):
            break
        rest = rest[1:]
    is_complete = re.match(r"\s*(?:[};]|limit\b|offset\b|skip\b|\Z)", rest, re.IGNORECASE)
    text = ", ".join(keys)
    return text if keys and is_complete and len(text) <= 2 * _LONGEST else None


def _sort_key(word: str, head: str) -> str:
    if "." in word:
        return "$" + word.removeprefix("$")
    returned = head[head.rfind("return") :]
    if word.startswith("$") or re.search(rf"\bas\s+{word}\b", returned):
        return word
    access = re.search(rf"\$[a-z_]\w*\.{word}\b", returned)
    return word if access is None else access[0]
