"""A scanner that splits SQL and `.gq` into statements; it skips string literals and comments."""

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
_PLAIN_WORD = re.compile(
    r"(?P<word>help|exit|quit)(?:[ \t]+(?P<about>\\?[a-z?]\w*))?(?:\(\))?[ \t]*;?[ \t]*(?=\n|\r|\Z)", re.IGNORECASE
)
"""Words that, alone on a line, stand for a command: help and exit."""
_EXPLAIN = re.compile(r"\\explain[ \t]+(?:analyze\b)?")
_AFTER_GQ = re.compile(r"[ \t]*;")


@dataclass(frozen=True, slots=True)
class ShellToken:
    """A piece of a statement; `kind` is a group of the patterns above."""

    kind: str
    text: str
    start: int


@dataclass(frozen=True, slots=True)
class ShellStatement:
    """A statement without its terminator, and its position in the text, counted from 1."""

    kind: Kind
    text: str
    line: int = 1
    column: int = 1

    @property
    def placed(self) -> str:
        """The statement, padded with white space to its original position, so that errors name the right place."""
        return "\n" * (self.line - 1) + " " * (self.column - 1) + self.text


@dataclass(frozen=True, slots=True)
class StatementScanner:
    """The statements of a text, and the beginning of another one that is not complete."""

    complete: tuple[ShellStatement, ...]
    rest: ShellStatement | None


def split(text: str) -> StatementScanner:
    r"""Split a text into statements.

    >>> [(statement.kind, statement.text) for statement in split("select ';'; \\timing").complete]
    [('sql', "select ';'"), ('command', '\\timing')]
    >>> split("query q() { match { $p: Port }").rest.kind
    'gq'
    """
    complete: list[ShellStatement] = []
    at = _after_lead(text, 0)
    while at < len(text):
        line, column = text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
        if word := plain_word(text, at):
            command, end = word
            complete.append(ShellStatement("command", command, line, column))
            at = _after_lead(text, end)
            continue
        kind = kind_at(text, at)
        stop = _END[kind](text, at)
        if stop is None:
            return StatementScanner(tuple(complete), ShellStatement(kind, text[at:], line, column))
        end, after = stop
        if body := text[at:end].rstrip():
            complete.append(ShellStatement(kind, body, line, column))
        at = _after_lead(text, after)
    return StatementScanner(tuple(complete), None)


def plain_word(text: str, at: int = 0) -> tuple[str, int] | None:
    r"""The command that `help`, `exit` or `quit` stands for, and where its line ends.

    >>> plain_word("exit;"), plain_word("HELP set"), plain_word("quit the port")
    (('\\q', 5), ('\\? set', 8), None)
    """
    match = _PLAIN_WORD.match(text, at)
    if match is None or (match["about"] and match["word"].lower() != "help"):
        return None
    about = f" {match['about']}" if match["about"] else ""
    return (f"\\?{about}" if match["word"].lower() == "help" else "\\q"), match.end()


def is_complete(text: str) -> bool:
    """True if all statements of a text are complete."""
    return split(text).rest is None


def kind_at(text: str, at: int = 0) -> Kind:
    """The kind of the statement at a position."""
    if text.startswith("\\", at):
        return "command"
    return "gq" if _QUERY.match(text, at) else "sql"


def tokens(kind: Kind, text: str, at: int = 0) -> Iterator[ShellToken]:
    """The tokens of a text in one of the languages."""
    pattern = _GQ if kind == "gq" else _SQL
    while at < len(text):
        match = pattern.match(text, at)
        assert match is not None
        name, end = match.lastgroup or "symbol", match.end()
        if name == "block":
            closed = _comment_end(text, at)
            name, end = ("open_comment", len(text)) if closed is None else ("comment", closed)
        yield ShellToken(name, text[at:end], at)
        at = end


def _after_lead(text: str, at: int) -> int:
    match = _LEAD.match(text, at)
    assert match is not None
    return match.end()


def _comment_end(text: str, at: int) -> int | None:
    """Return the end of an SQL comment. Comments nest."""
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
    match = _COMMAND.match(text, at)
    assert match is not None
    line = match.group().rstrip()
    return at + len(line.removesuffix(";")), match.end()


_END = {"sql": _sql_end, "gq": _gq_end, "command": _command_end}
