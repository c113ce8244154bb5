"""Tokens of a DuckDB statement: names, values and parameters, with their positions.

Texts stay as they are but for a few tokens, so only what DuckDB itself takes for a token may be one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from omnigraph_compiler.deadline import check_deadline

_PIECE = re.compile(
    r"""
    (?P<space>\s+|--[^\n]*)
    |(?P<comment>/\*)
    |(?P<text>[eE]'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*')
    |(?P<name>"(?:[^"]|"")*")
    |(?P<dollar>\$(?:[^\W\d]\w*)?\$)
    |(?P<parameter>\$\w+|\?)
    |(?P<word>[^\W\d][\w$]*)
    |(?P<number>\d[\w.]*)
    |(?P<sign>.)
    """,
    re.VERBOSE | re.DOTALL,
)


_STRIDE = 1 << 12
"""The number of tokens between two checks of the time limit."""


@dataclass(frozen=True, slots=True)
class SqlToken:
    """A token of a statement."""

    kind: str
    text: str
    """The source text, quotes included."""
    start: int
    end: int

    @property
    def name(self) -> str | None:
        """The identifier without quotes; None for other tokens."""
        if self.kind == "word":
            return self.text
        return self.text[1:-1].replace('""', '"') if self.kind == "name" else None


def tokens_of(text: str, most: int | None = None) -> list[SqlToken]:
    """Return the tokens of a statement without white space and comments, up to a maximum number.

    >>> [token.text for token in tokens_of("f($a,$b) -- it's")]
    ['f', '(', '$a', ',', '$b', ')']
    >>> [token.text for token in tokens_of("'it''s' $q$ a 'b' $q$ /* one /* two */ */ end")]
    ["'it''s'", "$q$ a 'b' $q$", 'end']
    """
    tokens: list[SqlToken] = []
    stream = islice(_tokens(text), most)
    while stride := list(islice(stream, _STRIDE)):
        check_deadline()
        tokens += stride
    return tokens


def _tokens(text: str) -> Iterator[SqlToken]:
    at = 0
    while at < len(text):
        piece = _PIECE.match(text, at)
        assert piece is not None
        kind, end = str(piece.lastgroup), piece.end()
        if kind == "comment":
            at = _after_comment(text, at)
            continue
        if kind == "dollar":
            closing = text.find(piece[0], end)
            kind, end = "text", len(text) if closing < 0 else closing + len(piece[0])
        if kind != "space":
            yield SqlToken(kind, text[at:end], at, end)
        at = end


def _after_comment(text: str, at: int) -> int:
    """Return the end of a comment. Comments nest."""
    depth = 0
    for mark in re.compile(r"/\*|\*/").finditer(text, at):
        depth += 1 if mark[0] == "/*" else -1
        if depth == 0:
            return mark.end()
    return len(text)
