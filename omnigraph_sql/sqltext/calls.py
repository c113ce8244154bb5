"""Function calls in SQL texts that need a check of one argument before the call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final

from omnigraph_sql.sqltext.duckdb_tokens import SqlToken, tokens_of

COUNTED: Final = {
    "lpad": 1,
    "rpad": 1,
    "array_repeat": 1,
    "list_repeat": 1,
    "array_resize": 1,
    "list_resize": 1,
}
"""Functions of DataFusion whose result size is given by an argument, and the position of that argument."""
_MULTIPLYING: Final = frozenset(("array_repeat", "list_repeat", "array_resize", "list_resize"))
"""Those that repeat the result of another one: their sizes multiply."""
MOST_MULTIPLIED: Final = 8


def multiplied(text: str) -> int:
    """Return the largest number of sizes that multiply in a statement, up to a small maximum.

    >>> multiplied("select array_repeat(array_repeat(1, 2), 3), lpad(a, 5)")
    2
    """
    if "_re" not in text.lower():
        return 1
    tokens = tokens_of(text)
    calls = sum(
        name.lower() in _MULTIPLYING
        for token, after in pairwise(tokens)
        if after.text == "(" and (name := token.name) is not None
    )
    return max(1, min(calls, MOST_MULTIPLIED))


def wrapped_arguments(text: str, functions: Mapping[str, int], wrapper: str) -> str:
    """Return a statement with one argument of each call of the given functions wrapped in a call of another function.

    >>> wrapped_arguments("select lpad(a, length(b, 1) + 2, ' ')", {"lpad": 1}, "f")
    "select lpad(a,f( length(b, 1) + 2), ' ')"
    """
    folded = text.lower()
    if not any(name in folded for name in functions):
        return text
    tokens = tokens_of(text)
    inserted: list[tuple[int, str]] = []
    open_calls: list[tuple[int | None, int]] = []
    for place, token in enumerate(tokens):
        if token.text in ("(", "[", "{"):
            open_calls.append((_argument(tokens, place, functions), 0))
        elif token.text in (")", "]", "}") and open_calls:
            wanted, at = open_calls.pop()
            if wanted is not None and at == wanted and wanted > 0:
                inserted.append((token.start, ")"))
        elif token.text == "," and open_calls:
            wanted, at = open_calls[-1]
            open_calls[-1] = wanted, at + 1
            if wanted is not None and at == wanted:
                inserted.append((token.start, ")"))
            elif wanted is not None and at + 1 == wanted:
                inserted.append((token.end, f"{wrapper}("))
    return _with_insertions(text, inserted)


def unwrapped_name(name: str, wrapper: str) -> str:
    """Return the column name that an engine derives from an expression, without the wrapper.

    >>> unwrapped_name("lpad(a,f(length(b) + Int64(1)),Utf8(' '))", "f")
    "lpad(a,length(b) + Int64(1),Utf8(' '))"
    """
    opening = f"{wrapper}("
    while (at := name.find(opening)) >= 0:
        depth, end = 1, at + len(opening)
        while end < len(name) and depth:
            depth += {"(": 1, ")": -1}.get(name[end], 0)
            end += 1
        inside = name[at + len(opening) : end - (depth == 0)]
        name = f"{name[:at]}{inside}{name[end:]}"
    return name


def _argument(tokens: Sequence[SqlToken], place: int, functions: Mapping[str, int]) -> int | None:
    """Return the position of the argument to wrap for the call whose bracket is at a place; None for other calls."""
    name = tokens[place - 1].name if place and tokens[place].text == "(" else None
    return None if name is None else functions.get(name.lower())


def _with_insertions(text: str, inserted: Sequence[tuple[int, str]]) -> str:
    pieces, last = [], 0
    for at, what in inserted:
        pieces += [text[last:at], what]
        last = at
    return "".join([*pieces, text[last:]])
