"""Where statements end: a scanner of SQL and `.gq` that knows enough of both to pass over texts and comments."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["sql", "gq", "command"]

# What is never closed takes the rest of the text, as `open_…`. Quantifiers are possessive: it must do so in linear time.
_SQL = re.compile(
    r"""
    (?P<space>\s++)
  | (?P<comment>--[^\n]*+)
  | (?P<block>/\*)
  | (?P<string>[eE]'(?:[^'\\]++|''|\\.)*+' | '(?:[^']++|'')*+' | \$(?P<tag>(?:[A-Za-z_]\w*+)?)\$.*?\$(?P=tag)\$)
  | (?P<name>"(?:[^"]++|"")*+" | `[^`]*+`)
  | (?P<open_string>[eE]?'.*+ | \$(?:[A-Za-z_]\w*+)?\$.*+)
  | (?P<open_name>["`].*+)
  | (?P<variable>\$\w*+)
  | (?P<word>[^\W\d]\w*+)
  | (?P<number>\d[\w.]*+)
  | (?P<symbol>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_GQ = re.compile(
    r"""
    (?P<space>\s++)
  | (?P<comment>//[^\n]*+ | /\*(?:[^*]++|\*(?!/))*+\*/)
  | (?P<open_comment>/\*.*+)
  | (?P<string>"(?:[^"\\]++|\\.)*+")
  | (?P<open_string>".*+)
  | (?P<variable>\$\w*+)
  | (?P<word>[^\W\d]\w*+)
  | (?P<number>\d[\w.]*+)
  | (?P<symbol>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT_MARK = re.compile(r"/\*|\*/")
_LEAD = re.compile(r"(?:\s++|--[^\n]*+|//[^\n]*+|/\*.*?\*/)*+", re.DOTALL)
_QUERY = re.compile(r"query(?=\s+[A-Za-z_/]|\s*\Z)")
_COMMAND = re.compile(r"\\[^\n]*+")
_EXPLAIN = re.compile(r"\\explain[ \t]+(?:analyze\b)?")
_AFTER_GQ = re.compile(r"[ \t]*;")


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of a statement; `kind` is a group of the patterns above."""

    kind: str
    text: str
    start: int


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement without what ends it, and where it stands in its text, counted from 1."""

    kind: Kind
    text: str
    line: int = 1
    column: int = 1

    @property
    def placed(self) -> str:
        """The statement behind as much white space as there was text before it: errors then name its place there."""
        return "\n" * (self.line - 1) + " " * (self.column - 1) + self.text


@dataclass(frozen=True, slots=True)
class Pieces:
    """The statements of a text, and the beginning of another one that is not complete."""

    complete: tuple[Statement, ...]
    rest: Statement | None


def split(text: str) -> Pieces:
    r"""Take a text apart.

    >>> [(each.kind, each.text) for each in split("select ';'; \\timing").complete]
    [('sql', "select ';'"), ('command', '\\timing')]
    >>> split("query q() { match { $p: Port }").rest.kind
    'gq'
    """
    found: list[Statement] = []
    at = _after_lead(text, 0)
    while at < len(text):
        kind = kind_at(text, at)
        stop = _END[kind](text, at)
        line, column = text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
        if stop is None:
            return Pieces(tuple(found), Statement(kind, text[at:], line, column))
        end, after = stop
        if body := text[at:end].rstrip():
            found.append(Statement(kind, body, line, column))
        at = _after_lead(text, after)
    return Pieces(tuple(found), None)


def is_complete(text: str) -> bool:
    """Whether nothing more is needed to run everything in a text."""
    return split(text).rest is None


def kind_at(text: str, at: int = 0) -> Kind:
    """What kind of statement begins at a place."""
    if text.startswith("\\", at):
        return "command"
    return "gq" if _QUERY.match(text, at) else "sql"


def tokens(kind: Kind, text: str, at: int = 0) -> Iterator[Token]:
    """The pieces of a text in one of the languages."""
    pattern = _GQ if kind == "gq" else _SQL
    while at < len(text):
        found = pattern.match(text, at)
        assert found is not None
        name, end = found.lastgroup or "symbol", found.end()
        if name == "block":
            closed = _comment_end(text, at)
            name, end = ("open_comment", len(text)) if closed is None else ("comment", closed)
        yield Token(name, text[at:end], at)
        at = end


def _after_lead(text: str, at: int) -> int:
    found = _LEAD.match(text, at)
    assert found is not None
    return found.end()


def _comment_end(text: str, at: int) -> int | None:
    """Where a comment of SQL ends: comments nest."""
    depth = 0
    for mark in _COMMENT_MARK.finditer(text, at):
        depth += 1 if mark.group() == "/*" else -1
        if depth == 0:
            return mark.end()
    return None


def _sql_end(text: str, at: int) -> tuple[int, int] | None:
    for token in tokens("sql", text, at):
        if token.text == ";":
            return token.start, token.start + 1
    return None


def _gq_end(text: str, at: int) -> tuple[int, int] | None:
    """Behind the brace that closes the query. A semicolon ends it, too: the way out where a brace is missing."""
    depth = 0
    for token in tokens("gq", text, at):
        if token.text == ";":
            return token.start, token.start + 1
        depth += {"{": 1, "}": -1}.get(token.text, 0)
        if token.text == "}" and depth <= 0:
            end = token.start + 1
            after = _AFTER_GQ.match(text, end)
            return end, end if after is None else after.end()
    return None


def _command_end(text: str, at: int) -> tuple[int, int] | None:
    """A command ends with its line, unless it has a statement for an argument."""
    if explain := _EXPLAIN.match(text, at):
        start = _after_lead(text, explain.end())
        if start < len(text) and not text.startswith("\\", start):
            return _END[kind_at(text, start)](text, start)
    found = _COMMAND.match(text, at)
    assert found is not None
    line = found.group().rstrip()
    return at + len(line.removesuffix(";")), found.end()


_END = {"sql": _sql_end, "gq": _gq_end, "command": _command_end}
